"""The real daemon on what a power loss left, and what must hold then.

Purpose: build a state in the place of the recorded folder, let the daemon recover on it twice, go on working, and say
every promise that was broken.
Invariant: a trial says what is wrong in words; none is an exception of the daemon's alone.
Must never: help the daemon: it is given the folder and nothing else.
"""

import asyncio
import hashlib
import json
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from tests.kit.daemon import TURN_ENDS, Daemon, allow_all, run_turn, send
from tests.kit.power.promises import read_requests
from tests.kit.power.record import FaultyDaemon
from tests.kit.power.recording import Recording, Tree, read_tree
from tests.kit.power.states import Loss, State
from tests.kit.proof.oracles import check_calls, check_erased, check_gone, check_grants, check_labels
from tests.kit.proof.record import Record

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.ids import SessionId, session_stream
from gloveport.protocol.journal.envelope import ChainBreak, StoredEvent, verify_chain
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.session import SessionListParams, SubscribeParams
from gloveport.server.client.connect import Client

WAIT_S = 60.0
OTHER_BOOT_BYTES = b"0ther000-b007-4000-8000-000000000000"
SESSIONS = session_stream(SessionId(""))


@dataclass(slots=True)
class Seen:
    """What a daemon shows once nothing is under way."""

    items: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    changes: dict[str, set[tuple[str, str | None]]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """What a trial found: broken promises in words (none: all is well)."""

    loss: Loss
    problems: tuple[str, ...]
    restarts: int = 0


def try_loss(recording: Recording, loss: Loss) -> Found:
    """Build, recover, check, recover again, go on. One trial at a time: the paths are those of the recording."""
    build(recording, loss)
    daemon = FaultyDaemon(recording.world.home, ("other_boot",))
    problems = _gone(recording, loss)
    try:
        asyncio.run(asyncio.wait_for(_drive(daemon, recording, loss, problems), WAIT_S))
    except (AssertionError, GloveportError, TimeoutError, OSError, sqlite3.DatabaseError) as error:
        problems.append(f"{type(error).__name__}: {str(error)[-1500:]}")
    finally:
        daemon.kill()
    problems += [*_said(daemon), *_gone(recording, loss)]
    return Found(loss, tuple(problems))


def build(recording: Recording, loss: Loss) -> None:
    """Put the state where the recorded folder was."""
    world, boot = recording.world, recording.boot_id.encode()

    def rewritten(path: str, data: bytes) -> bytes:
        if path.endswith("-shm"):
            return hashlib.sha256(loss.words.encode()).digest() * 1024  # mapped memory: whatever the disk held
        return data.replace(boot, OTHER_BOOT_BYTES) if path.startswith("home/runs/") else data

    State(recording.disk, loss).build(world.folder, rewritten)
    (world.model / "never").write_text("the model may go on\n")


def _gone(recording: Recording, loss: Loss) -> list[str]:
    """What was answered as erased is on no part of the disk that the loss left, nor does it come back."""
    is_erased = any(one.method == "session/erase" and one.at <= loss.cut for one in recording.answered)
    return [*check_gone(recording.world.home)] if is_erased else []


async def _drive(daemon: Daemon, recording: Recording, loss: Loss, problems: list[str]) -> None:
    daemon.start()
    first = await _look(daemon, recording, loss, problems)
    daemon.kill()
    problems += check_journal(recording, loss)
    problems += check_files(recording, loss)
    daemon.start()
    second = await _look(daemon, recording, loss, problems)
    problems += _different(first, second)
    await _go_on(daemon, second, recording, problems)
    daemon.stop()
    problems += check_files(recording, loss)
    problems += [f"chain: {words}" for words in broken_chains(daemon)]


async def _look(daemon: Daemon, recording: Recording, loss: Loss, problems: list[str]) -> Seen:
    seen = Seen()
    async with daemon.client() as client:
        await client.call("daemon/status")
        for info in (await client.call("session/list", SessionListParams())).sessions:
            try:
                seen.items[info.session_id] = await _at_rest(client, info.session_id)
                listed = await client.call("change/list", SessionParams(session_id=info.session_id))
                seen.changes[info.session_id] = {(one.path, one.result_hash) for one in listed.changes}
            except GloveportError as error:
                seen.refused[info.session_id] = f"{error.code}: {error.message}"
        problems += [f"session refused: {words}" for words in seen.refused.values()]
        problems += await _strange_cursors(client, recording, loss, seen)
        report = await client.call("audit/verify")
        if not report.ok:
            problems.append(f"audit: {report.words}")
    return seen


async def _at_rest(client: Client, session_id: str) -> list[dict[str, Any]]:
    """The view once nothing runs, or a card waits."""
    async with asyncio.timeout(WAIT_S / 2):
        follow = client.follow(session_id)
        async for update in follow:
            items = follow.view.items()
            if update.caught_up and (_waits(items) or not _at_work(items)):
                await follow.aclose()
                return list(items)
    raise AssertionError(f"the stream of {session_id} ended")


def _at_work(items: list[dict[str, Any]]) -> bool:
    turns = [item for item in items if item["kind"] == "turn"]
    return bool(turns) and turns[-1]["fields"]["state"] not in TURN_ENDS


def _waits(items: list[dict[str, Any]]) -> bool:
    return any(item["kind"] == "approval" and item["fields"]["state"] == "pending" for item in items)


async def _strange_cursors(client: Client, recording: Recording, loss: Loss, seen: Seen) -> list[str]:
    """A client that was shown what is lost must be told to begin anew; one with a durable cursor never."""
    problems: list[str] = []
    last = {one.stream: one for one in recording.told if one.at <= loss.cut}
    for stream, one in last.items():
        session_id = stream.removeprefix("session/")
        if session_id not in seen.items:
            problems.append(f"{stream} was shown to a client and is gone")
            continue
        params = SubscribeParams(session_id=session_id, after=one.cursor)
        answer = await client.call("session/subscribe", params)
        kept = digest_at(recording, stream, one.seq).startswith(one.digest) if one.seq else True
        if answer.mode == "replay" and not kept:
            problems.append(f"{stream}: what a client was shown up to {one.seq} is lost, and it is not told")
    return problems


async def _go_on(daemon: Daemon, seen: Seen, recording: Recording, problems: list[str]) -> None:
    """The session works: what waits is answered, one more turn ends, and nothing strange is proposed."""
    legal = recording.proposals | {("after.txt", hashlib.sha256(b"after\n").hexdigest())}
    async with daemon.client() as client:
        for session_id, items in seen.items.items():
            try:
                if _waits(items):
                    await allow_all(client, session_id)
                    await run_turn(client, session_id)
                await send(client, session_id, "after")
                state = await run_turn(client, session_id)
                if state != "completed":
                    problems.append(f"the turn after the loss ended as {state}")
                listed = await client.call("change/list", SessionParams(session_id=session_id))
                strange = {(one.path, one.result_hash) for one in listed.changes} - legal
                problems += [
                    f"never proposed before the loss: {path} ({digest})" for path, digest in sorted(strange, key=str)
                ]
            except GloveportError as error:
                problems.append(f"going on: {error.code}: {error.message}")


def _different(first: Seen, second: Seen) -> list[str]:
    problems = []
    for session_id, items in first.items.items():
        # What is told of a recovery is told of each.
        before = {item["id"]: item for item in items if item["kind"] != "recovery"}
        after = {item["id"]: item for item in second.items.get(session_id, []) if item["kind"] != "recovery"}
        if before != after:
            changed = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
            shown = json.dumps([(before.get(name), after.get(name)) for name in changed[:2]])[:600]
            problems.append(f"the second restart shows something else: {shown}")
    return problems


def digest_at(recording: Recording, stream: str, seq: int) -> str:
    """The digest of an event that is stored now; "-" when there is none."""
    with closing(sqlite3.connect(f"file:{recording.world.home}/journal.db?mode=ro", uri=True)) as connection:
        row = connection.execute("SELECT digest FROM event WHERE stream=? AND seq=?", (stream, seq)).fetchone()
    return "-" if row is None else bytes(row[0]).hex()


def stored_events(daemon_home: Any) -> dict[str, list[StoredEvent]]:
    """Every event of a journal, stream by stream."""
    found: dict[str, list[StoredEvent]] = {}
    with closing(sqlite3.connect(daemon_home / "journal.db")) as connection:
        rows = connection.execute(
            "SELECT stream, epoch, seq, type, version, at, payload, digest, payload_hash FROM event"
            " ORDER BY stream, seq"
        )
        for s, e, n, t, v, a, p, d, h in rows:
            erased = None if h is None else bytes(h).hex()
            found.setdefault(s, []).append(StoredEvent(s, e, n, t, v, a, bytes(p), bytes(d).hex(), erased))
    return found


def broken_chains(daemon: Daemon) -> list[str]:
    """Chains that do not verify."""
    checked = ((stream, verify_chain(events)) for stream, events in stored_events(daemon.home).items())
    return [f"{stream} at {end.seq}: {end.reason}" for stream, end in checked if isinstance(end, ChainBreak)]


def check_journal(recording: Recording, loss: Loss) -> list[str]:
    """Everything promised as durable is there, no intent is missing, nothing is rewritten in its own epoch."""
    now = stored_events(recording.world.home)
    held = {(e.stream, e.seq): e for events in now.values() for e in events}
    problems = []
    for one in recording.told:
        if one.durable and one.at <= loss.cut and one.seq > 0:
            event = held.get((one.stream, one.seq))
            if event is None or not event.digest.startswith(one.digest):
                problems.append(f"told as durable and gone: {one.stream} {one.seq} (said at {one.at})")
                break
    known = read_requests(recording.world.home)
    for answer in recording.answered:
        if answer.at <= loss.cut and answer.request_id not in known:
            problems.append(f"answered and forgotten: {answer.method} (at {answer.at})")
    was = {(e.stream, e.seq): e for e in recording.events}
    for effect in recording.effects:
        event = held.get((effect.stream, effect.seq))
        if effect.at <= loss.cut and (event is None or event.digest != was[effect.stream, effect.seq].digest):
            problems.append(f"an effect without its intent: {effect.what} at {effect.at}, {effect.stream} {effect.seq}")
    problems += _rewritten(recording, loss, held)
    problems += check_rules(now)
    return problems


def _rewritten(recording: Recording, loss: Loss, held: dict[tuple[str, int], StoredEvent]) -> list[str]:
    """What a client was shown, and is another event now, must be so in another epoch."""
    shown: dict[str, int] = {}
    for one in recording.told:
        if one.at <= loss.cut:
            shown[one.stream] = max(one.seq, shown.get(one.stream, 0))
    return [
        f"{old.stream} {old.seq} was shown and is another event in the same epoch"
        for old in recording.events
        if old.seq <= shown.get(old.stream, 0)
        and (now := held.get((old.stream, old.seq))) is not None
        and now.digest != old.digest
        and now.epoch <= old.epoch
    ]


def check_rules(now: dict[str, list[StoredEvent]]) -> list[str]:
    """What holds of every record: one end for each call and card, no right used beyond what it says, labels that only
    rise."""
    problems = []
    for stream, events in now.items():
        if not stream.startswith(SESSIONS):
            continue
        record = Record({stream: tuple(events)}, {}, ())
        answered = Counter(body["approval_id"] for body in record.bodies("ApprovalResolved"))
        problems += [f"{stream}: {one} was resolved {times} times" for one, times in answered.items() if times > 1]
        for check in (check_calls, check_grants, check_labels, check_erased):
            problems += [f"{stream}: {words}" for words in check(record)]
    return problems


def check_files(recording: Recording, loss: Loss) -> list[str]:
    """The user's files are those after as many whole decisions as the journal says, no fewer than were answered."""
    tree = read_tree(recording.world.project)
    applied = sum(
        event.type == "ChangeApplied" and json.loads(event.payload)["action"] in ("accept", "undo")
        for events in stored_events(recording.world.home).values()
        for event in events
    )
    acknowledged = sum(0 <= at <= loss.cut for at, _ in recording.settled)
    if applied < acknowledged:
        return [f"{acknowledged} decisions were answered, {applied} are in the journal"]
    wanted = recording.settled[min(applied, len(recording.settled) - 1)][1]
    return _tree_problems(tree, wanted, applied)


def _tree_problems(tree: Tree, wanted: Tree, applied: int) -> list[str]:
    return [
        f"the user's {name} is not as after {applied} decisions: {str(tree.get(name))[:60]}"
        for name in sorted(tree.keys() | wanted.keys())
        if tree.get(name) != wanted.get(name)
    ]


def _said(daemon: Daemon) -> list[str]:
    log = daemon.log() if (daemon.home / "test.log").exists() else ""
    at = log.find("Traceback")
    return [f"traceback: {log[max(0, at - 300) :][:1800]}"] if at >= 0 else []
