"""A real daemon for tests.

Purpose: start the daemon as its own process in a home of its own, talk to it, kill it, start it again.
Invariant: nothing of the test's environment but PATH and the home reaches the daemon; only what was started here ends.
Must never: stand in for any part of the daemon.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from tests.kit.left_running import check_nothing_left, end_owner
from tests.kit.warm import WarmProcess, warm_program

import gloveport
from gloveport.protocol.errors import GloveportError
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.change import ChangeDecideParams, Selection
from gloveport.protocol.wire.place import TrustLevelName, WorkspaceTrustParams
from gloveport.protocol.wire.session import SessionInfo, SessionStartParams
from gloveport.protocol.wire.turn import ApprovalResolveParams, TurnQueueParams, TurnStartParams
from gloveport.server.client.connect import Client, connect
from gloveport.server.client.launch import probe
from gloveport.server.client.paths import Places, find_places

START_S = 60.0
PROGRAM = ("-P", "-m", "gloveport.server")
LOG_SHOWN = 4000
TURN_ENDS = ("completed", "failed", "cancelled")


def request_id() -> str:
    """A fresh id for a changing request."""
    return uuid.uuid4().hex


class Daemon:
    """One daemon's home; the process may be started, killed and started again.

    It is a fork of a process that has loaded the program (`tests/kit/warm.py`), unless it `loads_itself`: where a test
    is about how it does, or puts something before it.
    """

    def __init__(self, home: Path, *, loads_itself: bool = False) -> None:
        self.home = home
        self._loads_itself = loads_itself
        self.places: Places = find_places({"GLOVEPORT_HOME": str(home), "HOME": str(home)})
        self.process: subprocess.Popen[bytes] | WarmProcess | None = None

    def write_settings(self, text: str) -> None:
        """The user's settings; read at the next start."""
        (self.home / "config.toml").write_text(text)

    def use_script(self, script: Path) -> None:
        """Let a scripted model answer."""
        self.write_settings(f'[[models]]\nprovider = "scripted"\nmodel = "test"\nscript = "{script}"\n')

    def start(self, program: tuple[str, ...] = (), /, **environment: str) -> None:
        """Start it (or the program that is it, and more: a Python file) and wait until it answers."""
        names = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(self.home),
            "GLOVEPORT_HOME": str(self.home),
            "PYTHONPATH": os.pathsep.join(os.path.dirname(root) for root in gloveport.__path__),
            **environment,
        }
        with (self.home / "test.log").open("ab") as log:
            if self._loads_itself:
                command = self.command(program or PROGRAM)
                self.process = subprocess.Popen(command, env=names, stdout=log, stderr=log, cwd=self.home)
            else:
                words = (*program, "daemon")
                self.process = warm_program("daemon").start(words, names, self.home, log.fileno(), log.fileno())
        deadline = time.monotonic() + START_S
        while probe(self.places.socket) is None:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the daemon did not start: {self.log()[-2000:]}")
            time.sleep(0.02)

    def command(self, program: tuple[str, ...]) -> list[str]:
        """What is started; a test that looks on from outside puts something before it."""
        return [sys.executable, *program, "daemon"]

    def log(self) -> str:
        """What it said."""
        return (self.home / "test.log").read_text(errors="replace")

    def start_dying(self, moment: str) -> None:
        """Start it as one that dies at a boundary of its journal, such as `before ToolExecutionFinished 1`."""
        self.start((str(Path(__file__).with_name("dying_daemon.py")),), GLOVEPORT_TEST_DIES=moment)

    def wait_dead(self) -> None:
        """Return once it has died by itself; fails if it lives on."""
        process, self.process = self.process, None
        assert process is not None
        assert process.wait(timeout=START_S) == -signal.SIGKILL, self.log()[-2000:]

    def kill(self) -> None:
        """SIGKILL, as a crash."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        return self._end(signal.SIGTERM)

    def end(self) -> None:
        """End whatever serves this home, whoever started it. Raises AssertionError when a process of it stays."""
        self.kill()
        end_owner(self.places.data_dir)
        check_nothing_left(self.home)

    def _end(self, number: int) -> int:
        process, self.process = self.process, None
        if process is None:
            return 0
        process.send_signal(number)
        return process.wait(timeout=START_S)

    @asynccontextmanager
    async def client(self, name: str = "test", *, deciding: bool = True) -> AsyncIterator[Client]:
        """A connected client; a failure that leaves the block bears the end of the daemon's log."""
        token = self.places.token.read_text() if deciding else None
        try:
            async with connect(self.places.socket, token=token, client_name=name) as client:
                yield client
        except GloveportError as error:
            with suppress(OSError):
                error.add_note(f"the daemon's log ends: {self.log()[-LOG_SHOWN:]}")
            raise


@contextmanager
def running_daemon(script: Path | None = None, *, started: bool = True, loads_itself: bool = False) -> Iterator[Daemon]:
    """A daemon with a short home path, ended and removed afterwards."""
    home = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
    daemon = Daemon(home, loads_itself=loads_itself)
    try:
        if script is not None:
            daemon.use_script(script)
        if started:
            daemon.start()
        yield daemon
    finally:
        try:
            daemon.end()
        finally:
            shutil.rmtree(home, ignore_errors=True)


async def trust(client: Client, root: Path, level: TrustLevelName = "restricted") -> None:
    """Say how far a folder is trusted."""
    params = WorkspaceTrustParams(client_request_id=request_id(), root=str(root), trust_level=level)
    await client.call("workspace/trust", params)


async def start_session(client: Client, root: Path, **choice: str) -> SessionInfo:
    """Begin a session."""
    params = SessionStartParams(client_request_id=request_id(), root=str(root), **choice)
    return await client.call("session/start", params)


async def send(client: Client, session_id: str, text: str, *, queue: bool = False) -> str | None:
    """Send a message; the turn's id."""
    if queue:
        waits = TurnQueueParams(client_request_id=request_id(), session_id=session_id, text=text)
        return (await client.call("turn/queue", waits)).turn_id
    params = TurnStartParams(client_request_id=request_id(), session_id=session_id, text=text)
    return (await client.call("turn/start", params)).turn_id


async def allow_all(client: Client, session_id: str) -> int:
    """Allow every card that waits, by its first option; how many there were."""
    waiting = (await client.call("approval/list", SessionParams(session_id=session_id))).approvals
    for one in waiting:
        params = ApprovalResolveParams(
            client_request_id=request_id(),
            session_id=session_id,
            approval_id=one.approval_id,
            card_digest=one.card_digest,
            decision="allow",
        )
        await client.call("approval/resolve", params)
    return len(waiting)


async def accept_all(client: Client, session_id: str) -> tuple[str, ...]:
    """Accept every pending proposal; the paths."""
    changes = (await client.call("change/list", SessionParams(session_id=session_id))).changes
    chosen = tuple(Selection(change_id=change.change_id, digest=change.digest) for change in changes)
    params = ChangeDecideParams(client_request_id=request_id(), session_id=session_id, selections=chosen)
    return (await client.call("change/accept", params)).paths


async def run_turn(client: Client, session_id: str) -> str:
    """Follow a session, allowing what is asked, until the running turn has ended; the turn's state."""
    follow = client.follow(session_id)
    async for _ in follow:
        items = follow.view.items()
        turns = [item for item in items if item["kind"] == "turn"]
        if turns and turns[-1]["fields"]["state"] in TURN_ENDS:
            return str(turns[-1]["fields"]["state"])
        if any(item["kind"] == "approval" and item["fields"]["state"] == "pending" for item in items):
            await allow_all(client, session_id)
    raise AssertionError("the stream ended")
