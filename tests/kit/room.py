"""The engine's room in this process, with everything in it real.

Purpose: journal, audit, blobs, workspace, policy, commands and a scripted model around the real engine, so that a test
    may stop it at any point and begin anew on the same data.
Invariant: only the sandbox starts no process (the memory rung); its runs outlive a room, as real ones outlive a daemon.
Must never: stand in for any part of the engine.
"""

import asyncio
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import anyio

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.envelope import StoredEvent
from gloveport.protocol.journal.events.steering import SteeringKind
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.change import ChangeDecideParams, ChangeInfo, ChangeUndoParams, Selection
from gloveport.protocol.wire.place import SandboxDoctorResult, SandboxInfo, TrustLevelName, WorkspaceTrustParams
from gloveport.protocol.wire.session import SessionExportParams, SessionStartParams
from gloveport.protocol.wire.turn import (
    ApprovalResolveParams,
    TurnCancelParams,
    TurnInterruptParams,
    TurnQueueParams,
    TurnStartParams,
    TurnSteerParams,
)
from gloveport.sandbox.backends.memory import MemorySandbox
from gloveport.sandbox.backends.memory_run import Stage
from gloveport.sandbox.contract import Availability, Sandbox, SandboxError
from gloveport.server.app.daemon import new_id, now_us
from gloveport.server.app.projections import projections_of
from gloveport.server.app.resources import ModelShelf, WorkspaceShelf, load_rules
from gloveport.server.audit.log import AUDIT_FILE, AuditLog
from gloveport.server.commands.buffers import BufferTable
from gloveport.server.commands.house import Facts, House, Rungs
from gloveport.server.commands.port import Commands
from gloveport.server.commands.trust import Trust, adopt_trust, void_rights
from gloveport.server.engine.actor import Actor
from gloveport.server.engine.bookkeeping import Bookkeeper
from gloveport.server.engine.retention import Folders, Retention
from gloveport.server.engine.room import Room
from gloveport.server.engine.sessions import Sessions
from gloveport.server.engine.way_out import WaysOut
from gloveport.server.journal.blobs import BlobStore
from gloveport.server.journal.schema import DATABASE_FILE
from gloveport.server.journal.store import Journal
from gloveport.server.recovery.recover import recover
from gloveport.server.secrets.detect import Redactor
from gloveport.server.session.state import Phase, SessionState
from gloveport.server.settings import SETTINGS_FILE, ModelChoice, Settings
from gloveport.server.tools.registry import builtin_toolbox
from gloveport.server.transports.hub import Hub
from gloveport.server.transports.lsp.uris import uri_path
from gloveport.server.transports.port import Caller
from gloveport.server.turn.effects import Effect

WAIT_S = 60.0
SECRET = "correct-horse-battery-staple"
KEY_LINES = ("-----BEGIN " + "PRIVATE KEY-----\n", f"{'MIIEvQIBADANBgkqh' * 3}\n", f"{'kiG9w0BAQEFAASCB' * 3}\n",
             "-----END " + "PRIVATE KEY-----\n")  # fmt: skip
PYTHON = "the-python"
ME = Caller("c1", "test", deciding=True)


class Ladder:
    """Two memory rungs, a stronger and a weaker name, of which the tests' programs are the same."""

    def __init__(self) -> None:
        self.go, self.began = anyio.Event(), anyio.Event()
        self.starts: Counter[str] = Counter()
        programs = {"hold": self._hold, "alembic": self._hold, "stubborn": self._stubborn}
        programs |= {PYTHON: self._pytest, "leak": self._leak}
        self._backends: dict[str, Sandbox] = {"memory": MemorySandbox(programs)}
        self.report = b""
        self.trials, self.wait_at, self.trial = 0, 0, anyio.Event()
        self.report_exit = 0
        self.images: dict[str, str] = {}

    async def _hold(self, stage: Stage) -> int:
        """Say that it began, and wait until it is let go."""
        self.starts["hold"] += 1
        stage.write(b"began\n")
        self.began.set()
        await self.go.wait()
        stage.write(b"went on\n")
        return 0

    async def _stubborn(self, stage: Stage) -> int:
        """Say that it began, and do not end before it is let go, whatever it is told."""
        self.began.set()
        while not self.go.is_set():
            with suppress(asyncio.CancelledError):
                await self.go.wait()
        return 0

    async def _leak(self, stage: Stage) -> int:
        """Print a secret in pieces that each look harmless."""
        begin, *middle, end = KEY_LINES
        for piece in ("key=", SECRET[:9], SECRET[9:], " end\n", begin, *middle, end):
            stage.write(piece.encode())
            await anyio.sleep(0.03)  # longer than output is held to be written together
        return 0

    async def _pytest(self, stage: Stage) -> int:
        """Print what the test wants as a report, with the marker of this call."""
        self.starts["tests"] += 1
        stage.write(self.report.replace(b"MARKER", stage.argv[3].encode()))
        return self.report_exit

    def backend(self, name: str) -> Sandbox:
        """The rung of this name."""
        if name not in self._backends:
            raise SandboxError(ErrorCode.SANDBOX_UNAVAILABLE, f"there is no sandbox {name!r}")
        return self._backends[name]

    async def availability(self, name: str) -> Availability:
        """As probed; the call with the number `wait_at` waits for `trial`."""
        self.trials += 1
        if self.trials == self.wait_at:
            await self.trial.wait()
        return await self.backend(name).probe()

    async def describe(self, name: str) -> SandboxInfo:
        """As the wire shows it."""
        backend, found = self.backend(name), await self.availability(name)
        return SandboxInfo(
            name=name,
            available=found.ok,
            reason="",
            fix="",
            strength=int(backend.strength),
            statement=backend.statement,
            holds=(),
            does_not_hold=(),
            trust_levels=("trusted",),
        )

    async def faults(self, names: Collection[str]) -> dict[str, str]:
        """Every rung works."""
        return {}

    async def find_image(self, name: str, reference: str) -> str:
        """As if an engine had those of `images`."""
        return self.images.get(reference, "")

    async def doctor(self, name: str) -> SandboxDoctorResult:
        """Nothing to probe."""
        return SandboxDoctorResult(sandbox=name, probes=())


class Told:
    """Publishes to the hub, and wakes who waits for something to happen."""

    def __init__(self) -> None:
        self.hub: Hub | None = None
        self.news = anyio.Event()
        self.events: list[StoredEvent] = []

    def publish(self, stream: str, events: Sequence[StoredEvent], durable_seq: int) -> None:
        """Tell."""
        self.events += events
        if self.hub is not None:
            self.hub.publish(stream, events, durable_seq)
        self.news.set()
        self.news = anyio.Event()

    def end(self, stream: str, reason: str) -> None:
        """Tell that it is gone."""
        if self.hub is not None:
            self.hub.end(stream, reason)


class Kit:
    """One running room over a home that outlives it."""

    def __init__(self, home: "Home", house: House, told: Told, journal: Journal) -> None:
        self.home, self.house, self.told, self.journal = home, house, told, journal
        self.commands = Commands(house)

    @property
    def sessions(self) -> Sessions:
        """All sessions."""
        return self.house.sessions

    async def call(self, method: str, params: Any, caller: Caller = ME) -> Any:
        """One request of a client."""
        with anyio.fail_after(WAIT_S):
            return await self.commands.call(method, params, caller)

    async def refused(self, method: str, params: Any) -> GloveportError:
        """The error with which a request is refused; it says what to do."""
        try:
            await self.call(method, params)
        except GloveportError as error:
            return error
        raise AssertionError(f"{method} was not refused")

    async def trust(self, level: TrustLevelName) -> None:
        """Say how far the folder is trusted."""
        root = str(self.home.root)
        params = WorkspaceTrustParams(client_request_id=new_id("r"), root=root, trust_level=level)
        await self.call("workspace/trust", params)

    async def begin(self, level: TrustLevelName | None = "trusted") -> str:
        """A session in the home's folder; its id."""
        if level is not None:
            await self.trust(level)
        started = SessionStartParams(client_request_id=new_id("r"), root=str(self.home.root))
        return str((await self.call("session/start", started)).session_id)

    async def send(self, session_id: str, text: str = "go", *, queue: bool = False) -> Any:
        """A message."""
        if queue:
            waits = TurnQueueParams(client_request_id=new_id("r"), session_id=session_id, text=text)
            return await self.call("turn/queue", waits)
        params = TurnStartParams(client_request_id=new_id("r"), session_id=session_id, text=text)
        return await self.call("turn/start", params)

    async def allowed(self) -> str:
        """A session in whose turn the first call was asked about and allowed; its id."""
        session_id = await self.begin()
        await self.send(session_id)
        await self.answer(session_id, await self.waiting(session_id))
        return session_id

    async def held(self) -> str:
        """A session whose allowed program has begun and goes on when `ladder.go` is set; its id."""
        session_id = await self.allowed()
        await self.home.ladder.began.wait()
        return session_id

    async def steer(self, session_id: str, text: str, kind: SteeringKind | None = None) -> Any:
        """Say something to the running turn."""
        params = TurnSteerParams(
            client_request_id=new_id("r"),
            session_id=session_id,
            expected_turn_id=self.turn_id(session_id),
            text=text,
            kind=kind,
        )
        return await self.call("turn/steer", params)

    async def interrupt(self, session_id: str, text: str) -> Any:
        """Stop the running turn for this."""
        params = TurnInterruptParams(
            client_request_id=new_id("r"), session_id=session_id, expected_turn_id=self.turn_id(session_id), text=text
        )
        return await self.call("turn/interrupt", params)

    def turn_id(self, session_id: str) -> str:
        """The turn that runs."""
        turn = self.actor(session_id).state.turn
        assert turn is not None
        return turn.turn_id

    async def cancel(self, session_id: str) -> Any:
        """Press stop."""
        return await self.call("turn/cancel", TurnCancelParams(client_request_id=new_id("r"), session_id=session_id))

    def actor(self, session_id: str) -> Actor:
        """The loaded session."""
        actor = self.sessions.loaded(session_id)
        assert actor is not None
        return actor

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return once something holds; looked at after each event."""
        with anyio.fail_after(WAIT_S):
            while not holds():
                await self.told.news.wait()

    async def until_state(self, session_id: str, holds: Callable[[SessionState], bool]) -> SessionState:
        """The state in which something holds."""
        await self.until(lambda: holds(self.actor(session_id).state))
        return self.actor(session_id).state

    async def idle(self, session_id: str) -> list[str]:
        """Wait for the end of the turn; the kinds of all events."""
        await self.until_state(session_id, lambda state: state.phase is Phase.IDLE)
        return await self.kinds(session_id)

    async def waiting(self, session_id: str) -> Any:
        """The card that waits."""
        await self.until_state(session_id, lambda state: bool(state.approvals))
        return (await self.call("approval/list", SessionParams(session_id=session_id))).approvals[0]

    async def answer_all(self, session_id: str) -> None:
        """Allow every card that waits together with the next one, once."""
        await self.waiting(session_id)
        for card in (await self.call("approval/list", SessionParams(session_id=session_id))).approvals:
            await self.answer(session_id, card)

    async def answer(
        self, session_id: str, card: Any, decision: Literal["allow", "deny"] = "allow", scope: str = "", **more: Any
    ) -> Any:
        """Answer a card; `scope` chooses the first option of it."""
        options = [option["scope"] for option in card.card["options"]]
        params = ApprovalResolveParams(
            client_request_id=new_id("r"),
            session_id=session_id,
            approval_id=card.approval_id,
            card_digest=card.card_digest,
            decision=decision,
            option=options.index(scope) if scope else 0,
            **more,
        )
        return await self.call("approval/resolve", params)

    async def events(self, session_id: str, *, redacted: bool = False) -> list[dict[str, Any]]:
        """All events as exported, page by page."""
        found: list[dict[str, Any]] = []
        after: int | None = 0
        while after is not None:
            params = SessionExportParams(session_id=session_id, after_seq=after, limit=50, redacted=redacted)
            page = await self.call("session/export", params)
            found += page.events
            after = page.next_seq
        return found

    async def kinds(self, session_id: str) -> list[str]:
        """The types of all events."""
        return [event["type"] for event in await self.events(session_id)]

    async def bodies(self, session_id: str, kind: str) -> list[Any]:
        """The payloads of all events of a type."""
        return [event["payload"] for event in await self.events(session_id) if event["type"] == kind]

    async def ends(self, session_id: str) -> list[str]:
        """The outcomes of all calls, in order; each call has exactly one."""
        events = await self.events(session_id)
        ended = [event["payload"] for event in events if event["type"] == "ToolExecutionFinished"]
        proposed = [event["payload"]["call_id"] for event in events if event["type"] == "ToolCallProposed"]
        assert Counter(one["call_id"] for one in ended) == Counter(proposed), "one end for each call"
        return [one["outcome"] for one in ended]

    async def changes(self, session_id: str) -> dict[str, ChangeInfo]:
        """The pending proposals by path."""
        listed = await self.call("change/list", SessionParams(session_id=session_id))
        return {change.path: change for change in listed.changes}

    def decision(self, session_id: str, *changes: ChangeInfo, hunks: tuple[int, ...] = ()) -> ChangeDecideParams:
        """What decides on these proposals, or on hunks of one."""
        return ChangeDecideParams(
            client_request_id=new_id("r"),
            session_id=session_id,
            selections=tuple(
                Selection(
                    change_id=change.change_id,
                    digest=change.digest,
                    hunk_digests=tuple(change.hunks[at].digest for at in hunks) or None,
                )
                for change in changes
            ),
        )

    async def undo(self, session_id: str, apply_id: str | None = None) -> Any:
        """Take a decision back."""
        params = ChangeUndoParams(client_request_id=new_id("r"), session_id=session_id, apply_id=apply_id)
        return await self.call("change/undo", params)


class Home:
    """What outlives a room: the user's folder, the data, the sandbox's runs, the model's script."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data, self.root = folder, folder / "data", folder / "root"
        self.script = folder / "script.json"
        self.ladder = Ladder()
        self.models: tuple[ModelChoice, ...] = ()
        """Models before the scripted ones."""
        self.now_us: Callable[[], int] = now_us
        self.sleep: Callable[[float], Awaitable[None]] = anyio.sleep
        self.root.mkdir()

    def write(self, **files: str) -> None:
        """Files of the user; `__` in a name stands for a dot."""
        for name, text in files.items():
            (self.root / name.replace("__", ".")).write_text(text)

    def play(self, *steps: dict[str, Any], lookup: str | None = None) -> None:
        """What the model says: the steps whose conditions hold first; asked again from the next room on.

        `lookup` is what it says later of a request that it took.
        """
        self.script.write_text(json.dumps({"name": "test", "steps": list(steps), "lookup": lookup}))

    def worktree(self, session_id: str) -> Path:
        """The agent's copy."""
        return self.data / "sessions" / session_id / "worktree"

    @asynccontextmanager
    async def room(self) -> AsyncIterator[Kit]:
        """A room; leaving it is the death of a daemon: its tasks end where they are."""
        async with AsyncExitStack() as stack:
            journal, _ = await Journal.open(self.data, clock=now_us, boot_id="test")
            stack.push_async_callback(journal.close)
            audit = await AuditLog.open(self.data / AUDIT_FILE, clock=now_us, boot_id="test")
            stack.push_async_callback(audit.close)
            models = await stack.enter_async_context(AsyncExitStack())
            tasks = await stack.enter_async_context(anyio.create_task_group())
            kit = await self._kit(models, journal, audit, await BlobStore.open(self.data), tasks)
            try:
                yield kit
            finally:
                tasks.cancel_scope.cancel()

    async def _kit(self, stack: AsyncExitStack, journal: Journal, audit: AuditLog, blobs: BlobStore, tasks: Any) -> Kit:
        models = ModelShelf(lambda: settings, self.now_us)
        stack.push_async_callback(models.close)
        settings = Settings(
            (*self.models, *(ModelChoice("scripted", name, script=self.script) for name in ("test", "other"))),
            "unset",
            dict.fromkeys(("trusted", "restricted", "untrusted", "unset"), "memory"),
        )
        told, redactor, buffers = Told(), Redactor([SECRET]), BufferTable(uri_path)
        shelf = WorkspaceShelf(self.data / "sessions", (self.data,))
        room = Room(
            journal=journal,
            blobs=blobs,
            publisher=told,
            auditor=Bookkeeper(audit, redactor.redact),
            providers=models,
            sandboxes=self.ladder,
            rules=load_rules(self.folder),
            toolbox=builtin_toolbox(),
            redactor=redactor,
            tasks=tasks,
            now_us=self.now_us,
            sleep=self.sleep,
            new_id=new_id,
            create_workspace=shelf.create,
            keep_workspace=shelf.keep,
            open_workspace=shelf.open,
            python=PYTHON,
            read_only_roots=(),
            editors=buffers,
            ways=WaysOut(self.data, self.now_us),
        )
        trust = Trust(journal, "unset", now_us, room.rights, room.auditor)
        await trust.load()

        async def take_up(actor: Actor) -> tuple[Effect, ...]:
            await void_rights(actor)
            await adopt_trust(actor, trust, settings)
            return await recover(actor)

        sessions = Sessions(room, take_up)
        told.hub = Hub(journal, projections_of(sessions))
        house = House(
            sessions=sessions,
            settings=lambda: settings,
            trust=trust,
            check_fit=shelf.check_fit,
            rungs=Rungs(
                ("memory",), self.ladder.describe, self.ladder.doctor, self.ladder.find_image, self.ladder.faults
            ),
            audit=audit,
            facts=Facts(
                os.getpid(),
                "0",
                1,
                0,
                self.data,
                self.data / DATABASE_FILE,
                self.data / AUDIT_FILE,
                self.data / SETTINGS_FILE,
            ),
            buffers=buffers,
            model_label=models.label,
            clients=lambda: 1,
            stop=lambda: None,
            retention=Retention(
                sessions, lambda: settings.retention, Folders(shelf.there, shelf.sizes, shelf.remove, shelf.left)
            ),
        )
        return Kit(self, house, told, journal)


@contextmanager
def new_home() -> Iterator[Home]:
    """A home in memory where there is one."""
    memory = "/dev/shm"  # what dies here is a room, never the power
    folder = tempfile.mkdtemp(prefix="gp-", dir=memory if os.access(memory, os.W_OK) else None)
    try:
        yield Home(Path(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """A call of the model."""
    return {"name": tool, "arguments": arguments}


def run(*argv: str) -> dict[str, Any]:
    """A command of the model."""
    return call("run_command", argv=list(argv))


async def swallow(awaited: Awaitable[Any]) -> None:
    """Wait for something whose refusal is looked at elsewhere."""
    with suppress(GloveportError):
        await awaited
