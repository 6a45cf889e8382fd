"""What left the recorded daemon, and when: its words to clients, and its effects on the world.

Purpose: read the client protocol out of recorded socket calls; tie every effect to the event that is its intent.
Invariant: a promise counts from the call that sent its last byte.
Must never: take an error for an acknowledgement.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kit.power.replay import Step
from tests.kit.power.strace import Call

from gloveport.protocol.journal.envelope import decode_cursor
from gloveport.server.workspace.plan import Plan


@dataclass(frozen=True, slots=True)
class Told:
    """A cursor that a client was given; `durable` when it was called so."""

    at: int
    stream: str
    cursor: str
    durable: bool

    @property
    def seq(self) -> int:
        """Up to which event."""
        return decode_cursor(self.cursor).seq

    @property
    def digest(self) -> str:
        """The beginning of that event's digest."""
        return decode_cursor(self.cursor).digest


@dataclass(frozen=True, slots=True)
class Answered:
    """A changing request that was answered with a result."""

    at: int
    request_id: str
    method: str
    result: Mapping[str, Any]
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Effect:
    """The first trace of an effect, and where its intent stands in the journal."""

    at: int
    stream: str
    seq: int
    what: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event of the whole recording."""

    stream: str
    epoch: int
    seq: int
    type: str
    digest: str
    payload: Mapping[str, Any]


@dataclass(slots=True)
class _Talk:
    """One connection."""

    heard: bytes = b""
    said: bytes = b""
    asked: dict[int | str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    subscriptions: dict[str, str] = field(default_factory=dict)


def read_promises(calls: Iterable[Call]) -> tuple[list[Told], list[Answered]]:
    """All cursors and answers, in order."""
    talks: dict[str, _Talk] = {}
    told: list[Told] = []
    answered: list[Answered] = []
    for call in calls:
        name = call.descriptor(0).path
        if not name.startswith("socket:"):
            continue
        talk = talks.setdefault(name, _Talk())
        data = b"".join(call.strings)[: call.result or 0]
        if call.name.startswith("recv"):
            bodies, talk.heard = _frames(talk.heard + data)
            for body in bodies:
                if "id" in body and "method" in body:
                    talk.asked[body["id"]] = (str(body["method"]), body.get("params") or {})
            continue
        bodies, talk.said = _frames(talk.said + data)
        for body in bodies:
            _take(call.ended, body, talk, told, answered)
    return told, answered


def _take(at: int, body: Mapping[str, Any], talk: _Talk, told: list[Told], answered: list[Answered]) -> None:
    params = body.get("params")
    if body.get("method") == "session/events" and isinstance(params, dict):
        stream = f"session/{talk.subscriptions[params['subscriptionId']]}"
        told.append(Told(at, stream, params["last"], durable=False))
        if params.get("durable"):
            told.append(Told(at, stream, params["durable"], durable=True))
    asked = talk.asked.pop(body["id"], None) if body.get("id") is not None and "result" in body else None
    if asked is None:
        return
    method, given = asked
    result = body["result"] or {}
    if method == "session/subscribe":
        talk.subscriptions[result["subscriptionId"]] = given["sessionId"]
    if "clientRequestId" in given:
        answered.append(Answered(at, given["clientRequestId"], method, result, given))


def _frames(data: bytes) -> tuple[list[dict[str, Any]], bytes]:
    found: list[dict[str, Any]] = []
    while True:
        head, mark, rest = data.partition(b"\r\n\r\n")
        if not mark:
            return found, data
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-l"))
        if len(rest) < length:
            return found, data
        found.append(json.loads(rest[:length]))
        data = rest[length:]


def read_events(home: Path) -> list[Recorded]:
    """Every event of a journal that nobody has open."""
    with closing(sqlite3.connect(home / "journal.db")) as connection:
        rows = connection.execute("SELECT stream, epoch, seq, type, digest, payload FROM event ORDER BY stream, seq")
        return [Recorded(s, e, n, t, bytes(d).hex(), json.loads(p)) for s, e, n, t, d, p in rows]


def read_requests(home: Path) -> set[str]:
    """Ids of the requests that a journal knows."""
    with closing(sqlite3.connect(home / "journal.db")) as connection:
        return {row[0] for row in connection.execute("SELECT id FROM request")}


def find_effects(steps: list[Step], events: list[Recorded], home: str, project: str) -> list[Effect]:
    """The first step of every effect that an event was the intent of."""
    return sorted(
        (*_applies(steps, events, project), *_runs(steps, events, home), *_edits(steps, events, home)),
        key=lambda effect: effect.at,
    )


def _applies(steps: list[Step], events: list[Recorded], project: str) -> Iterator[Effect]:
    for event in events:
        if event.type != "ChangeApplyStarted":
            continue
        plan = Plan.from_json(event.payload["plan"])
        staged = {plan.staged(index) for index, step in enumerate(plan.steps) if step.side == "root"}
        for step in steps:
            names = {Path(step.path).name, Path(step.source).name}
            if step.path.startswith(project + "/") and names & staged:
                yield Effect(step.at, event.stream, event.seq, "apply")
                break


def _runs(steps: list[Step], events: list[Recorded], home: str) -> Iterator[Effect]:
    for event in events:
        if event.type == "ToolExecutionStarted" and str(event.payload["executor"]).startswith("sandbox:"):
            mark = f"/{event.payload['call_id']}"
            for step in steps:
                if step.path.startswith(f"{home}/runs/") and mark in step.path:
                    yield Effect(step.at, event.stream, event.seq, "run")
                    break


def _edits(steps: list[Step], events: list[Recorded], home: str) -> Iterator[Effect]:
    taken: set[int] = set()
    for event in events:
        if event.type != "ToolExecutionStarted" or not event.payload["fingerprint"]:
            continue
        worktree = f"{home}/sessions/{event.stream.removeprefix('session/')}/worktree"
        for print_ in event.payload["fingerprint"]:
            wanted = "unlink" if print_["result_hash"] is None else "rename"
            for step in steps:
                fits = step.verb == wanted and step.path == f"{worktree}/{print_['path']}" and step.at not in taken
                if fits and (wanted == "unlink" or step.source.endswith(".gloveport-write")):
                    taken.add(step.at)
                    yield Effect(step.at, event.stream, event.seq, "edit")
                    break
