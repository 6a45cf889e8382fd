"""Every sandbox backend with one vocabulary of commands.

Purpose: the contract suite says what a command does; the rig says it in each backend's words.
Invariant: a rig's folders lie in one temporary folder; what it started is over when it is closed.
"""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from tests.kit.amount import THOROUGH
from tests.kit.engines import require_gvisor, shared_engine
from tests.kit.remotes import remote_machine
from tests.kit.require import require

from gloveport.sandbox.backends.docker import DockerSandbox
from gloveport.sandbox.backends.docker_choice import EngineChoice
from gloveport.sandbox.backends.names import REMOTE_NAMES
from gloveport.sandbox.backends.remote_choice import RemoteChoice
from gloveport.sandbox.backends.select import open_backend
from gloveport.sandbox.contract import Availability, Command, Execution, Lease, Result, ResultKind, Sandbox
from gloveport.sandbox.doctor import inside
from gloveport.sandbox.interpreter import find_interpreter
from gloveport.sandbox.profile import Access, Limits, Mount, Profile

RUNGS: Final = ("process", "bubblewrap", "docker", "gvisor", "remote-ssh", "remote-tls")
"""Every rung that starts processes."""
BACKENDS: Final = ("memory", *RUNGS, "docker-warm")
"""The warm one executes in containers that wait."""
ENGINE_RUNGS: Final = ("docker", "gvisor")
REMOTE_RUNGS: Final = REMOTE_NAMES
"""Their code runs in a container of another machine's engine, reached by a real sshd or by mutual TLS."""
SAME_CONTAINER: Final = "remote-tls"
"""It asks for the same container as `remote-ssh`, as `tests/security/test_escapes.py` shows; the way there differs."""
LIMITS: Final = Limits(wall_s=60.0)
PROJECT: Final = "/home/user/project"
_SHELL: Final[Mapping[str, Callable[..., tuple[str, ...]]]] = {
    "true": lambda: ("true",),
    "exit": lambda code: ("sh", "-c", f"exit {code}"),
    "echo": lambda *words: ("echo", *words),
    "cat": lambda *names: ("cat", *names),
    "sleep": lambda seconds: ("sleep", seconds),
    "say": lambda word, seconds: ("sh", "-c", f"echo {word}; exec sleep {seconds}"),
    "env": lambda: ("env",),
    "write": lambda path, text: ("sh", "-c", 'printf %s "$2" >"$1"', "sh", path, text),
    "flood": lambda count: ("sh", "-c", f"head -c {count} /dev/zero | tr '\\0' x; echo; echo end"),
}


def on_rungs(*rungs: str) -> list[Any]:
    """These rungs as parameters of a test; one that needs an engine is marked, so that `make test-engines` tries it."""
    return [pytest.param(rung, marks=[pytest.mark.engine] * needs_engine(rung)) for rung in rungs]


def needs_engine(rung: str) -> bool:
    """Whether an engine of containers is started for it."""
    return rung in REMOTE_RUNGS or rung.partition("-")[0] in ENGINE_RUNGS


def rungs_of(metafunc: pytest.Metafunc, by_either_way: frozenset[str]) -> list[Any]:
    """The rungs that a test is tried on: by certificates too where it is named, and by `make thorough` always."""
    wanted = THOROUGH or metafunc.function.__name__ in by_either_way
    return on_rungs(*(rung for rung in RUNGS if wanted or rung != SAME_CONTAINER))


@dataclass
class Rig:
    """One backend and its folders."""

    name: str
    folder: Path
    hidden: tuple[Path, ...] = ()
    engine: EngineChoice | None = None
    remotes: Mapping[str, RemoteChoice] = field(default_factory=dict)
    backend: Sandbox = field(init=False)
    availability: Availability = field(init=False)
    _runs: int = 0

    def __post_init__(self) -> None:
        self.project.mkdir(exist_ok=True)
        self.backend = self.open()

    @property
    def project(self) -> Path:
        """The folder that is mounted writable at `PROJECT`."""
        return self.folder / "project"

    @property
    def runs_dir(self) -> Path:
        """Where run folders lie."""
        return self.folder / "runs"

    @property
    def environment(self) -> dict[str, str]:
        """What another program needs to open the same backend by its name alone."""
        if self.name in self.remotes:
            return {"GLOVEPORT_TEST_REMOTE": json.dumps(asdict(self.remotes[self.name]))}
        return {} if self.engine is None else {"DOCKER_HOST": self.engine.host}

    def open(self, runs_dir: Path | None = None, exposed: Iterable[Path] = ()) -> Sandbox:
        """Another backend on the same run folders (or a copy), as a daemon after a restart has."""
        folder = runs_dir or self.runs_dir
        return open_backend(
            self.name, folder, hidden=self.hidden, exposed=exposed, engine=self.engine, remotes=self.remotes
        )

    def empty_project(self) -> None:
        """Begin with nothing in the project again."""
        shutil.rmtree(self.project)
        self.project.mkdir()

    def words(self, name: str, *arguments: str) -> tuple[str, ...]:
        """The command in this backend's words."""
        return (name, *arguments) if self.name == "memory" else _SHELL[name](*arguments)

    def profile(self, *, mounts: Iterable[Mount] = (), **changes: Any) -> Profile:
        """A profile with the project mounted; `changes` replace its fields."""
        mine = Mount(str(self.project), PROJECT, Access.READ_WRITE)
        profile = Profile("test", "build", (mine, *mounts), PROJECT, LIMITS, grace_s=0.3)
        return replace(profile, **changes)

    async def lease(self, **changes: Any) -> Lease:
        """A lease of a profile."""
        self._runs += 1
        lease = await self.backend.prepare(self.profile(**changes), f"lease-{self._runs}")
        if isinstance(self.backend, DockerSandbox) and self.engine is not None and self.engine.warm:
            await self.backend.prewarm(self.profile(**changes))
        return lease

    async def start(self, lease: Lease, *words: str, stdin: bytes = b"") -> Execution:
        """Start a command of the vocabulary."""
        return await self.start_raw(lease, self.words(*words), stdin)

    async def start_raw(self, lease: Lease, argv: tuple[str, ...], stdin: bytes = b"") -> Execution:
        """Start a command given in full."""
        self._runs += 1
        return await lease.start(Command(argv, f"run-{self._runs}", stdin))

    async def run(self, *words: str, stdin: bytes = b"", **changes: Any) -> Result:
        """Run a command of the vocabulary in a lease of its own."""
        lease = await self.lease(**changes)
        try:
            return await (await self.start(lease, *words, stdin=stdin)).result()
        finally:
            await lease.release()

    async def run_into_wall(self) -> Result:
        """A run that says `one` and meets its wall limit: the shortest within which this machine came as far."""
        result = await self.run("say", "one", "60", limits=Limits(wall_s=0.4))
        for wall_s in (2.0, 10.0, 40.0):
            if result.output:
                break
            result = await self.run("say", "one", "60", limits=Limits(wall_s=wall_s))
        return result

    async def python(self, source: str, stdin: bytes = b"", **changes: Any) -> Result:
        """Run a Python program on this interpreter, its standard library alone."""
        interpreter = find_interpreter()
        changes["mounts"] = (*interpreter.mounts, *changes.get("mounts", ()))
        lease = await self.lease(**changes)
        try:
            argv = (interpreter.path, "-I", "-S", "-B", "-c", source)
            return await (await self.start_raw(lease, argv, stdin)).result()
        finally:
            await lease.release()

    async def look(self, request: Mapping[str, list[str]] | None = None, **changes: Any) -> dict[str, Any]:
        """The doctor's inner program's report."""
        source = Path(inside.__file__).read_text(encoding="utf-8")
        result = await self.python(source, json.dumps(request or {}).encode(), **changes)
        assert result.kind is ResultKind.OK, (result.evidence, result.output[-2000:])
        report: dict[str, Any] = json.loads(result.output)
        return report


@contextlib.asynccontextmanager
async def open_rig(name: str, hidden: Iterable[str] = (), *, image: str = "") -> AsyncIterator[Rig]:
    """A rig in a short folder of its own; `hidden` names are below it. Skips where the rung does not work.

    `image` is one of the shared engine; without it a container shows the machine's programs.
    """
    folder = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
    try:
        if name == "gvisor":
            require_gvisor()
        variant = ""
        if name not in REMOTE_RUNGS:
            name, _, variant = name.partition("-")
        engine, remotes = None, {}
        if name in REMOTE_RUNGS:
            remotes = {name: remote_machine().choose(name.removeprefix("remote-"))}
        if name in ENGINE_RUNGS:
            engine = replace(shared_engine().choice, image=image, warm=2 if variant == "warm" else 0)
        rig = Rig(name, folder, tuple(folder / part for part in hidden), engine, remotes)
        rig.availability = await rig.backend.probe()
        require(rig.availability.ok, f"the {name} sandbox does not work here: {rig.availability.reason}")
        try:
            yield rig
        finally:
            await rig.backend.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def list_host_processes(marker: str) -> list[int]:
    """Processes of this machine whose command line holds the marker; the marker is a test's own random word."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/cmdline", "rb") as file:
                if marker.encode() in file.read():
                    found.append(int(entry))
    return found


async def wait_gone(marker: str) -> None:
    """Wait until no process bears the marker: a killed one takes a moment to vanish."""
    while list_host_processes(marker):
        await anyio.sleep(0.01)


@contextlib.contextmanager
def bystander(environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process of this machine that has nothing to do with a run."""
    with subprocess.Popen(["sleep", "60"], env={"PATH": os.environ["PATH"], **environment}) as process:
        try:
            yield process
        finally:
            process.kill()
