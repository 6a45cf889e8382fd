"""A real daemon on a disk that refuses, then heals: what must hold.

Purpose: work with a daemon while chosen system calls fail, let the fault go, go on, start anew, and say what broke.
Invariant: every refusal is typed; what was answered or called durable is there; no effect without its intent; the
user's files are whole old or whole new ones.
Must never: take a hang for a refusal: what waits is asked again when the fault is gone.
"""

import asyncio
import hashlib
import json
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kit.daemon import Daemon, allow_all, request_id, start_session, trust
from tests.kit.disk.refusal import Refusal, paths_of, refusing
from tests.kit.power import workload
from tests.kit.power.disk import Disk
from tests.kit.power.promises import read_events, read_requests
from tests.kit.power.record import FaultyDaemon, World
from tests.kit.power.recording import kind_of, read_tree
from tests.kit.power.replay import Replayer, Step
from tests.kit.power.strace import Call, TraceError, parse
from tests.kit.power.trial import broken_chains, stored_events
from tests.kit.proof.oracles import check_gone

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.envelope import decode_cursor
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.change import ChangeDecideParams, Selection
from gloveport.protocol.wire.session import SessionEraseParams, SessionRenameParams
from gloveport.protocol.wire.turn import TurnQueueParams
from gloveport.server.client.connect import Client
from gloveport.server.client.follow import Follow, Update
from gloveport.server.commands.session import MARK_CHARACTERS
from gloveport.server.journal.lease import read_owner
from gloveport.server.workspace.plan import Plan

STALLED_S = 4.0
"""Under the fault, once a call has met it: what stands still for so long waits for the fault to go."""
PATIENCE_S = 60.0
WAIT_S = 240.0
SAID = ("turn", "message.user")
DONE = ("completed", "failed", "cancelled")
UNDER_THE_FAULT, AFTERWARDS = "I clean up.", "I run it."
"""What the model said in the first turn, and is erased."""


@dataclass(slots=True)
class Memory:
    """What clients were told."""

    requests: list[tuple[str, str]] = field(default_factory=list)
    durable: set[str] = field(default_factory=set)
    refusals: list[str] = field(default_factory=list)
    erased: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Found:
    """What a trial found. `hits` are the calls that failed, as (call, kind of file)."""

    refusal: Refusal
    problems: tuple[str, ...]
    hits: Counter[tuple[str, str]]
    refusals: tuple[str, ...]
    healed: str


class Trial:
    """One refusal against one daemon in a world of its own."""

    def __init__(self, refusal: Refusal, faults: tuple[str, ...] = ()) -> None:
        self.refusal = refusal
        self.world = World()
        self.traces = Path(tempfile.mkdtemp(prefix="gpt-", dir="/tmp"))
        self.daemon = FaultyDaemon(self.world.home, faults) if faults else Daemon(self.world.home)
        self.memory = Memory()
        self.problems: list[str] = []
        self.session_id = ""
        self.healed = "restart"
        self._patience_s = PATIENCE_S
        self.disk = Disk(str(self.world.folder))
        workload.write_project(self.world.project)
        self.daemon.use_script(workload.write_script(self.world.model))
        self.before = read_tree(self.world.project)

    def run(self) -> Found:
        """All of it."""
        try:
            asyncio.run(asyncio.wait_for(self._run(), WAIT_S))
        except (AssertionError, GloveportError, TimeoutError, OSError, TraceError) as error:
            self.problems.append(f"{type(error).__name__}: {str(error)[-1500:]}")
        finally:
            self.daemon.kill()
        hits = self._judged()
        shutil.rmtree(self.traces)
        self.world.remove()
        return Found(self.refusal, tuple(self.problems), hits, tuple(self.memory.refusals), self.healed)

    async def _run(self) -> None:
        self.daemon.start()
        async with self.daemon.client() as client:
            await trust(client, self.world.project)
            self.session_id = (await start_session(client, self.world.project)).session_id
        self.disk.load(self.world.folder)
        owner = read_owner(self.world.home)
        assert owner is not None
        aimed = paths_of(self.refusal.place, self.world.home, self.world.project, self.session_id)
        self._patience_s = STALLED_S
        with refusing(owner.pid, self.refusal, aimed, self.traces / "trace"):
            await self._afternoon()
        self._patience_s = PATIENCE_S
        if await self._heals():
            self.healed = "by itself"
        self.daemon.stop()
        self.daemon.start()
        await self._after_restart()
        self.daemon.stop()

    # Under the fault

    async def _afternoon(self) -> None:
        """A turn and a decision, as far as they go."""
        async with self.daemon.client() as client:
            if await self._try(client, "turn/queue", self._say("first")) is not None:
                await self._turn(client)
            await self._accept(client)
            await self._erase(client, UNDER_THE_FAULT)

    async def _erase(self, client: Client, text: str) -> bool:
        """Take out what the model said; whether that was answered."""
        params = SessionEraseParams(
            client_request_id=request_id(),
            session_id=self.session_id,
            text=text,
            typed=self.session_id[-MARK_CHARACTERS:],
        )
        if await self._try(client, "session/erase", params) is None:
            return False
        self.memory.erased.append(text)
        return True

    async def _turn(self, client: Client) -> str:
        """Follow until the turn has ended, or nothing has come for a while; its state."""
        state = "unknown"
        follow = client.follow(self.session_id)
        try:
            while True:
                update = await self._next(follow)
                if update.durable:
                    self.memory.durable.add(update.durable)
                items = follow.view.items()
                turns = [item["fields"]["state"] for item in items if item["kind"] == "turn"]
                state = turns[-1] if turns else state
                nothing_said = update.caught_up and not any(item["kind"] in SAID for item in items)
                if state in DONE or nothing_said:
                    return state
                if any(item["kind"] == "approval" and item["fields"]["state"] == "pending" for item in items):
                    await allow_all(client, self.session_id)
        except TimeoutError:
            return state
        except GloveportError as error:
            self._refused("follow", error)
            return state

    async def _next(self, follow: Follow) -> Update:
        """The next that comes. Raises `TimeoutError` when nothing does for a while (for long, if none was met yet)."""
        coming, waited_s = asyncio.ensure_future(anext(follow)), 0.0
        while not (await asyncio.wait({coming}, timeout=self._patience_s))[0]:
            waited_s += self._patience_s
            if waited_s >= PATIENCE_S or self._is_met():
                coming.cancel()
                await asyncio.wait({coming})
                raise TimeoutError
        return coming.result()

    def _is_met(self) -> bool:
        trace = self.traces / "trace"
        return trace.exists() and b"INJECTED" in trace.read_bytes()

    async def _accept(self, client: Client) -> bool:
        try:
            changes = (await client.call("change/list", SessionParams(session_id=self.session_id))).changes
        except GloveportError as error:
            self._refused("change/list", error)
            return False
        chosen = tuple(Selection(change_id=change.change_id, digest=change.digest) for change in changes)
        if not chosen:
            return True
        params = ChangeDecideParams(client_request_id=request_id(), session_id=self.session_id, selections=chosen)
        return await self._try(client, "change/accept", params) is not None

    def _say(self, text: str) -> TurnQueueParams:
        return TurnQueueParams(client_request_id=request_id(), session_id=self.session_id, text=text)

    async def _try(self, client: Client, method: Any, params: Any) -> Any:
        """Ask; a refusal must be typed."""
        try:
            answer = await client.call(method, params)
        except GloveportError as error:
            self._refused(method, error)
            return None
        self.memory.requests.append((method, params.client_request_id))
        return answer

    def _refused(self, method: str, error: GloveportError) -> None:
        self.memory.refusals.append(f"{method}: {error.code}")
        if error.code in (ErrorCode.INTERNAL, ErrorCode.UNREACHABLE):
            self.problems.append(f"{method} was refused as {error.code}: {error.message}")

    # When the fault is gone

    async def _heals(self) -> bool:
        """Whether the same daemon works again; where it does not, it says so, typed."""
        async with self.daemon.client() as client:
            title = SessionRenameParams(client_request_id=request_id(), session_id=self.session_id, title="healed")
            if await self._try(client, "session/rename", title) is None:
                return False
            await self._turn(client)
            if await self._try(client, "turn/queue", self._say("after")) is None:
                return False
            return await self._turn(client) == "completed"

    async def _after_restart(self) -> None:
        async with self.daemon.client() as client:
            await client.call("daemon/status")
            await self._turn(client)
            if await self._try(client, "turn/queue", self._say("after")) is None:
                self.problems.append(f"after a restart: {self.memory.refusals[-1]}")
            elif (state := await self._turn(client)) != "completed":
                self.problems.append(f"after a restart a turn ended as {state}")
            if not await self._accept(client):
                self.problems.append(f"after a restart: {self.memory.refusals[-1]}")
            if not await self._erase(client, AFTERWARDS):
                self.problems.append(f"after a restart: {self.memory.refusals[-1]}")
            report = await client.call("audit/verify")
            if not report.ok:
                self.problems.append(f"audit: {report.words}")

    # Afterwards

    def _judged(self) -> Counter[tuple[str, str]]:
        log = self.daemon.log() if (self.world.home / "test.log").exists() else ""
        if "Traceback" in log:
            at = log.index("Traceback")
            self.problems.append(f"traceback: {log[max(0, at - 300) : at + 3000]}")
        if not (self.world.home / "journal.db").exists():
            return Counter()
        self.problems += [f"chain: {words}" for words in broken_chains(self.daemon)]
        self.problems += [words for text in self.memory.erased for words in check_gone(self.world.home, text)]
        self._judge_promises()
        self._judge_files()
        calls = self._calls()
        self._judge_effects(calls)
        return Counter((call.name, self._kind(call)) for call in calls if "INJECTED" in call.result_words)

    def _judge_promises(self) -> None:
        known = read_requests(self.world.home)
        self.problems += [f"answered and forgotten: {m}" for m, one in self.memory.requests if one not in known]
        held = {e.seq: e for e in stored_events(self.world.home).get(f"session/{self.session_id}", [])}
        for text in sorted(self.memory.durable):
            cursor = decode_cursor(text)
            if cursor.seq and (cursor.seq not in held or not held[cursor.seq].digest.startswith(cursor.digest)):
                self.problems.append(f"told as durable and gone: {cursor.seq}")

    def _judge_files(self) -> None:
        """Each file is as before, or as the last plan that was carried out has it; what was told as other may be so."""
        wanted: dict[str, str | None] = {n: hashlib.sha256(data).hexdigest() for n, data in self.before.items()}
        told: set[str] = set()
        plans: dict[str, Plan] = {}
        for event in read_events(self.world.home):
            if event.type == "ChangeApplyStarted":
                plans[event.payload["apply_id"]] = Plan.from_json(event.payload["plan"])
            elif event.type == "ChangeApplied":
                for step in plans[event.payload["apply_id"]].steps:
                    if step.side == "root":
                        wanted[step.path] = None if step.after is None else step.after.digest
            elif event.type == "ChangeUnsettled" and not event.payload["waits"]:
                ends = {step.path: step.after for step in plans[event.payload["apply_id"]].steps}
                for row in event.payload["states"]:
                    after = ends.get(row["path"])
                    if row["holds"] == "after":
                        wanted[row["path"]] = None if after is None else after.digest
                    elif row["holds"] != "before":
                        told.add(row["path"])
        found = {name: hashlib.sha256(data).hexdigest() for name, data in read_tree(self.world.project).items()}
        self.problems += [
            f"the user's {name} is not as it should be: {found.get(name)}"
            for name in sorted(found.keys() | wanted.keys())
            if found.get(name) != wanted.get(name) and name not in told
        ]

    def _calls(self) -> list[Call]:
        trace = self.traces / "trace"
        if not trace.exists():
            return []
        with trace.open(encoding="ascii", errors="replace") as lines:
            return [call for call in parse(lines) if isinstance(call, Call)]

    def _judge_effects(self, calls: list[Call]) -> None:
        """What was begun under the fault had its intent in the journal."""
        replayer = Replayer(self.disk, str(self.world.home))
        replayer.run(calls)
        begun = _begun(replayer.steps, self.world, self.session_id)
        intended: Counter[str] = Counter()
        for event in read_events(self.world.home):
            if event.type == "ToolExecutionStarted":
                intended[f"run {event.payload['call_id']}"] += 1
                intended.update(f"edit {one['path']}" for one in event.payload["fingerprint"])
            elif event.type == "ChangeApplyStarted":
                plan = Plan.from_json(event.payload["plan"])
                intended.update(f"apply {plan.staged(index)}" for index in range(len(plan.steps)))
        # What takes an apply back has staged names of its own, and the apply's intent.
        going_back = any(what.startswith("apply ") and intended[what] for what in begun)
        self.problems += [
            f"begun without an intent: {what}"
            for what, count in begun.items()
            if count > intended[what] and not (going_back and what.startswith("apply "))
        ]

    def _kind(self, call: Call) -> str:
        named = [os_path for os_path in _paths(call) if os_path.startswith(f"{self.world.folder}/")]
        return kind_of(named[-1].removeprefix(f"{self.world.folder}/")) if named else "other"


def _paths(call: Call) -> list[str]:
    found: list[str] = []
    for index, _ in enumerate(call.words):
        try:
            found.append(call.descriptor(index).path)
        except TraceError:
            continue
    return [*found, *(text.decode("utf-8", "replace") for text in call.strings[:2] if len(text) < 4096)]


def _begun(steps: list[Step], world: World, session_id: str) -> Counter[str]:
    """Effects that left a trace: runs by their call, edits by their path, applies by their staged names (once each)."""
    begun: Counter[str] = Counter()
    worktree = f"{world.home}/sessions/{session_id}/worktree/"
    runs = f"{world.home}/runs/bubblewrap/"
    for step in steps:
        if step.path.startswith(runs) and step.verb == "mkdir" and "trial-" not in step.path:
            begun[f"run {step.path.removeprefix(runs)}"] = 1
        elif step.path.startswith(worktree) and step.source.endswith(".gloveport-write"):
            begun[f"edit {step.path.removeprefix(worktree)}"] += 1
        elif step.path.startswith(f"{world.project}/") and "/.gloveport-" in step.path and step.verb == "make":
            begun[f"apply {Path(step.path).name}"] = 1
    return begun


def as_json(found: Found) -> str:
    """A finding in one line."""
    hits = {f"{call} {kind}": count for (call, kind), count in found.hits.items()}
    shown = {"refusal": found.refusal.words, "hits": hits, "refusals": found.refusals, "healed": found.healed}
    return json.dumps(shown)
