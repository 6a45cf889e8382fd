"""The place of one life: a home, a project, a witness and a daemon that is killed again and again.

Purpose: start the counted daemon with an aim, tell how it ended, and end what is left.
Invariant: everything of a life lies below one folder; the witness and the notes lie outside the daemon's home.
Must never: signal a process that neither it nor its daemon started.
"""

import json
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio
from tests.kit.proof.progress import AIM, FAULT, NOTES, SYSCALL, Aim
from tests.kit.proof.starting import Child, Nursery, search_path, start_cold, tracer
from tests.kit.proof.workload import WITNESS, Job, make_project, script_of

from gloveport.protocol.errors import GloveportError
from gloveport.sandbox.runner import rundir, tree
from gloveport.server.client.connect import Client, connect
from gloveport.server.client.paths import Places, find_places

START_S: Final = 60.0


class DaemonGoneError(Exception):
    """The daemon died while something was asked of it."""


@dataclass(frozen=True, slots=True)
class Death:
    """How a daemon ended; `killed`: by its aim."""

    killed: bool
    code: int


@dataclass
class House:
    """One life's folder and its daemon."""

    folder: Path
    job: Job
    nursery: Nursery | None = None
    fault: str = ""
    starts: int = 0
    process: Child | None = field(default=None, repr=False)

    @property
    def home(self) -> Path:
        """The daemon's home: settings and data."""
        return self.folder / "home"

    @property
    def root(self) -> Path:
        """The user's folder."""
        return self.folder / "project"

    @property
    def witness(self) -> Path:
        """Where commands say that they ran."""
        return self.folder / WITNESS

    @property
    def gates(self) -> Path:
        """Commands wait until their gate is there."""
        return self.folder / "gates"

    @property
    def notes(self) -> Path:
        """Points that the daemon of the last start passed."""
        return self.folder / f"notes-{self.starts}"

    @property
    def trace(self) -> Path:
        """System calls of the daemon of the last start, when it was traced."""
        return self.folder / f"trace-{self.starts}"

    @property
    def temporary(self) -> Path:
        """The daemon's folder for temporary files."""
        return self.folder / "tmp"

    @property
    def places(self) -> Places:
        """Where its daemon is."""
        return find_places({"GLOVEPORT_HOME": str(self.home), "HOME": str(self.home)})

    def prepare(self) -> None:
        """Make the project, the settings and the script."""
        make_project(self.root, self.witness)
        for folder in (self.home, self.gates, self.temporary):
            folder.mkdir(mode=0o700)
        script = self.folder / "script.json"
        script.write_text(json.dumps(script_of(self.job, self.witness, self.gates)))
        settings = f'[[models]]\nprovider = "scripted"\nmodel = "proof"\nscript = "{script}"\n'
        (self.home / "config.toml").write_text(f'{settings}[sandbox]\ntrusted = "process"\n')

    def start(self, aim: Aim | None) -> None:
        """Start the counted daemon: forked where there is a nursery, under a tracer for an aim at a system call."""
        self.starts += 1
        names = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(self.home),
            "GLOVEPORT_HOME": str(self.home),
            "TMPDIR": str(self.temporary),
            "PYTHONPATH": search_path(),
            "PYDANTIC_DISABLE_PLUGINS": "__all__",  # as the product's own entry does
            NOTES: str(self.notes),
            FAULT: self.fault,
        }
        log = self.folder / "daemon.log"
        if aim is not None and aim.label == SYSCALL:
            self.process = start_cold(names, self.home, log, tracer(aim.n, self.trace))
            return
        if aim is not None:
            names[AIM] = aim.encode()
        if self.nursery is None:
            self.process = start_cold(names, self.home, log)
        else:
            self.process = self.nursery.start(names, self.home, log)

    @property
    def alive(self) -> bool:
        """Whether the daemon still runs."""
        return self.process is not None and self.process.poll() is None

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """A client that may decide, as soon as the daemon answers. Raises DaemonGoneError."""
        async with AsyncExitStack() as stack:
            with anyio.fail_after(START_S):
                while (client := await self._try_connect(stack)) is None:
                    if not self.alive:
                        raise DaemonGoneError
                    await anyio.sleep(0.01)
            yield client

    async def _try_connect(self, stack: AsyncExitStack) -> Client | None:
        try:
            token = self.places.token.read_text()
            client = await stack.enter_async_context(connect(self.places.socket, token=token, client_name="proof"))
        except (GloveportError, OSError):
            return None
        return client if client.server.deciding else None  # the token was still that of the daemon before

    def lose_runs(self) -> None:
        """SIGKILL for the supervisor of each run that has not ended: what became of it nobody knows then."""
        for folder in self.home.glob("runs/*/*"):
            status = rundir.read_status(folder)
            if status is not None and rundir.read_exit(folder) is None:
                with suppress(OSError):
                    tree.send_signal(status.supervisor_pid, status.supervisor_start_ticks, signal.SIGKILL)

    async def wait_death(self) -> Death:
        """How the daemon ended, once it has."""
        with anyio.fail_after(START_S):
            while self.alive:
                await anyio.sleep(0.002)
        code = (self.process.code or 0) if self.process is not None else 0
        return Death(code in (-signal.SIGKILL, 128 + signal.SIGKILL), code)

    async def end(self, number: int = signal.SIGTERM) -> Death:
        """Signal the daemon and wait for its end."""
        if self.process is not None and self.alive:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
        return await self.wait_death()


def new_folder() -> Path:
    """A fresh folder with a short path, as a socket's path is short."""
    return Path(tempfile.mkdtemp(prefix="gpp-", dir="/tmp"))
