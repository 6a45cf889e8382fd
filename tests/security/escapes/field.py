"""Where attempts are made and judged: canaries outside, one run inside, and a look from outside afterwards.

Purpose: run an attempt on any backend, or on none, and say whether it got out.
Invariant: what the program says counts only as the random word that it cannot know otherwise, or that it was told to
say when a call that should be refused was not; everything else is seen from outside.
"""

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO
from xml.sax import make_parser
from xml.sax.handler import ContentHandler, feature_external_ges

from gloveport.sandbox.contract import Command, Execution, Lease, Result, Sandbox, SandboxError
from gloveport.sandbox.interpreter import find_interpreter
from gloveport.sandbox.profile import Access, Limits, Mount, Profile

from .catalogue import Attempt

PROJECT = "/home/user/project"
WALL_S = 25.0
LINGER_S = 30
CROWD_SLACK = 12
DISK_BYTES = 16 << 20
FILES = 3_000
ARTIFACT_BYTES = 32 << 20
ROOMY = {"wall_s": 4 * WALL_S, "open_files_max": 4096, "output_bytes_max": 64 << 20}
USUAL = {"wall_s": WALL_S, "memory_bytes_max": 512 << 20, "processes_max": 64}
OPTIONS = ("-I", "-S", "-B", "-c")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether the attempt got out; `absent` is why it could not even be tried outside; `words` what was seen."""

    escaped: bool
    absent: str = ""
    words: str = ""


@dataclass
class Field:
    """Canaries in one folder. `reset` before each attempt; `close` at the end."""

    folder: Path
    secret: str = field(default_factory=lambda: f"secret-{secrets.token_hex(12)}")
    word: str = field(default_factory=lambda: f"escaped-{secrets.token_hex(12)}")
    marker: str = ""
    listeners: list[socket.socket] = field(default_factory=list)
    bystander: "subprocess.Popen[bytes] | None" = None
    leak: int = -1
    crowd: int = 0

    def __post_init__(self) -> None:
        self.bystander_word = f"bystander-{secrets.token_hex(8)}"
        self.abstract = f"gp-{secrets.token_hex(8)}"
        for name in ("project", "outside", "home/.ssh", "data", "runs"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.ports = {"tcp": self._listen(socket.AF_INET, ("127.0.0.1", 0)), "tcp6": 0, "udp": 0}
        with contextlib.suppress(OSError):
            self.ports["tcp6"] = self._listen(socket.AF_INET6, ("::1", 0))
        self.ports["udp"] = self._listen(socket.AF_INET, ("127.0.0.1", 0), socket.SOCK_DGRAM)
        for address in (self.unix, self.engine, str(self.data / "daemon.sock"), f"\0{self.abstract}"):
            self._listen(socket.AF_UNIX, address)

    @property
    def project(self) -> Path:
        """What is mounted writable."""
        return self.folder / "project"

    @property
    def data(self) -> Path:
        """What stands for the daemon's data."""
        return self.folder / "data"

    @property
    def unix(self) -> str:
        """A socket of the user's."""
        return str(self.folder / "plain.sock")

    @property
    def engine(self) -> str:
        """What stands for a container engine's socket."""
        return str(self.folder / "docker.sock")

    def _listen(self, family: int, address: Any, kind: int = socket.SOCK_STREAM) -> int:
        listener = socket.socket(family, kind)
        self.listeners.append(listener)
        listener.bind(address)
        if kind == socket.SOCK_STREAM:
            listener.listen(8)
        listener.setblocking(False)
        found = listener.getsockname()
        return int(found[1]) if isinstance(found, tuple) else 0

    def reset(self) -> None:
        """Everything as before the first attempt."""
        self.marker, self.crowd = f"gp{secrets.token_hex(8)}", 0
        shutil.rmtree(self.project, ignore_errors=True)
        self.project.mkdir()
        shutil.rmtree(self.folder / "outside", ignore_errors=True)
        (self.folder / "outside").mkdir()
        for name in ("outside/secret", "home/.ssh/id_ed25519", "data/token", "data/journal.db", "data/audit.jsonl"):
            (self.folder / name).write_text(self.secret)
        self.was_reached()
        if self.bystander is None or self.bystander.poll() is not None:
            words = [sys.executable, *OPTIONS, f"import time; time.sleep(900)  # {self.bystander_word}"]
            environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "API_KEY": self.secret}
            self.bystander = subprocess.Popen(words, env=environment, start_new_session=True)
        if self.leak >= 0:
            os.close(self.leak)
        self.leak = os.open(self.folder / "outside/secret", os.O_RDWR)
        os.set_inheritable(self.leak, True)

    def close(self) -> None:
        """Let go of everything."""
        for listener in self.listeners:
            listener.close()
        if self.bystander is not None:
            self.bystander.kill()
            self.bystander.wait()
        if self.leak >= 0:
            os.close(self.leak)

    def context(self, project: str, *, bare: bool) -> dict[str, Any]:
        """What the program is told."""
        assert self.bystander is not None
        return {
            "bare": bare, "word": self.word, "marker": self.marker, "project": project, "abstract": self.abstract,
            "secret_file": str(self.folder / "outside/secret"), "outside": str(self.folder / "outside"),
            "home": str(self.folder / "home"), "data": str(self.data), "runs": str(self.folder / "runs"),
            "unix": self.unix, "engine": self.engine, "bystander": self.bystander.pid,
            "bystander_word": self.bystander_word, "linger_s": LINGER_S, **self.ports,
        }  # fmt: skip

    def was_reached(self) -> bool:
        """Whether anybody came to any listener since the last look."""
        reached = False
        for listener in self.listeners:
            with contextlib.suppress(BlockingIOError):
                while True:
                    if listener.type == socket.SOCK_DGRAM:
                        listener.recv(512)
                    else:
                        listener.accept()[0].close()
                    reached = True
        return reached

    def snapshot(self) -> Mapping[str, bytes]:
        """Every file outside that must stay as it is."""
        roots = (self.folder / "outside", self.data, self.folder / "home")
        found = {str(path): b"" for root in roots for path in root.rglob("*")}
        return found | {path: Path(path).read_bytes() for path in found if Path(path).is_file()}

    def processes(self) -> list[int]:
        """Processes of this machine that bear the marker."""
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) != os.getpid():
                with contextlib.suppress(OSError), open(f"/proc/{entry}/cmdline", "rb") as file:
                    if self.marker.encode() in file.read():
                        found.append(int(entry))
        return found

    async def count_crowd(self) -> None:
        """Note the most processes that were there at once; runs until it is cancelled."""
        while True:
            self.crowd = max(self.crowd, len(self.processes()))
            await asyncio.sleep(0.05)

    def on_host(self) -> list[Path]:
        """Files of the machine that bear the marker as their name."""
        own = Path("/tmp", self.marker)
        return [*self.folder.rglob(self.marker), *([own] if own.exists() else [])]


def profile_of(
    attempt: Attempt, field: Field, *, lifted: bool = False, covers: bool = True, first: bool = False
) -> Profile:
    """The jail of an attempt."""
    limits = Limits(**(ROOMY if lifted else {**USUAL, **attempt.limits}))
    mounts = [*find_interpreter().mounts, Mount(str(field.project), PROJECT, Access.READ_WRITE)]
    if attempt.mounted and not first:
        mounts.append(Mount(str(field.folder / "home"), f"{PROJECT}/{attempt.mounted}", Access.READ_ONLY))
    covered = (f"{PROJECT}/{attempt.covered}",) if attempt.covered and covers else ()
    return Profile("escape", attempt.kind, tuple(mounts), PROJECT, limits, grace_s=0.2, covered=covered)


def furnish(attempt: Attempt, field: Field) -> None:
    """What lies in the project before the first run."""
    if attempt.covered:
        path = field.project / attempt.covered
        path.parent.mkdir(parents=True)
        path.write_text(field.secret)
    if attempt.mounted:
        (field.project / attempt.mounted).mkdir(parents=True)
    if attempt.hard_link_before:
        (field.project / attempt.artifact).hardlink_to(field.folder / "outside/secret")


async def try_on(
    backend: Sandbox, attempt: Attempt, field: Field, *, lifted: bool = False, covers: bool = True
) -> Outcome:
    """Make the attempt in a jail of this backend."""
    field.reset()
    furnish(attempt, field)
    before = field.snapshot()
    counting = asyncio.create_task(field.count_crowd()) if attempt.judge == "crowd" else None
    has_view = backend.name != "process"
    stdin = json.dumps(field.context(PROJECT if has_view else str(field.project), bare=not has_view)).encode()
    try:
        if attempt.first:
            await _run(
                backend, attempt, field, stdin, profile_of(attempt, field, covers=covers, first=True), first=True
            )
        lease = await backend.prepare(profile_of(attempt, field, lifted=lifted, covers=covers), field.marker)
        try:
            execution = await lease.start(_command(attempt, field, stdin))
            collected = await _collect_meanwhile(lease, execution) if attempt.collect_while_running else b""
            result = await execution.result()
            collected += await _collect(lease) if "collect" in attempt.judge or attempt.judge == "hangs" else b""
            seen = _look(attempt, field)
        finally:
            await lease.release()
    except SandboxError as error:
        changed = attempt.judge == "outside_changed" and field.snapshot() != before
        return Outcome(changed, words=f"refused: {error.message}")
    finally:
        if counting is not None:
            counting.cancel()
    return await _judge(attempt, field, before, result, collected, seen)


async def _run(
    backend: Sandbox, attempt: Attempt, field: Field, stdin: bytes, profile: Profile, *, first: bool
) -> Result:
    lease = await backend.prepare(profile, f"{field.marker}-first")
    try:
        return await (await lease.start(_command(attempt, field, stdin, first=first))).result()
    finally:
        await lease.release()


def _command(attempt: Attempt, field: Field, stdin: bytes, *, first: bool = False) -> Command:
    argv = (find_interpreter().path, *OPTIONS, attempt.source(field.marker, first=first))
    return Command(argv, f"run-{field.marker}{'-first' if first else ''}", stdin)


async def _collect_meanwhile(lease: Lease, execution: Execution) -> bytes:
    """Ask for the artifact again and again while the run swaps it."""
    async for chunk in execution.output():
        if b"swapping" in chunk:
            break
    found = b""
    for _ in range(50):
        found += await _collect(lease)
    await execution.stop()
    return found


async def _collect(lease: Lease) -> bytes:
    try:
        return b"".join((await lease.collect(("out.txt", "junit.xml", "out/*"))).values())
    except SandboxError:
        return b""


def _look(attempt: Attempt, field: Field) -> bool:
    """What has to be seen before the lease is released."""
    found = field.on_host()
    spooled = sum(path.stat().st_blocks * 512 for path in (field.folder / "runs").rglob("*") if path.is_file())
    for path in found:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
    if attempt.judge == "found_on_host":
        return bool(found)
    return attempt.judge == "spool" and spooled > 8 * attempt.limits["output_bytes_max"]


async def _judge(
    attempt: Attempt, field: Field, before: Mapping[str, bytes], result: Result, collected: bytes, seen: bool
) -> Outcome:
    words = f"{result.kind.value}: {result.evidence}; {result.output[-200:].decode('utf-8', 'replace')}"
    if result.output.startswith(b"absent here: "):
        return Outcome(False, absent=result.output.decode("utf-8", "replace").strip())
    escaped = await judge_outside(attempt, field, before, result.output, seen=seen)
    escaped |= attempt.judge == "collected" and field.secret.encode() in collected
    escaped |= attempt.judge == "collected_too_much" and len(collected) >= ARTIFACT_BYTES
    return Outcome(escaped, words=words)


async def judge_outside(
    attempt: Attempt, field: Field, before: Mapping[str, bytes], output: bytes, *, seen: bool = False
) -> bool:
    """Whether it got out, by everything that can be seen from outside once the run is over."""
    await asyncio.sleep(0.02)
    if attempt.judge in ("set_id_left", "big_file", "disk", "many_files"):
        return _judge_files(attempt, field)
    match attempt.judge:
        case "told":
            return field.secret.encode() in output
        case "said":
            return field.word.encode() in output
        case "outside_changed":
            return field.snapshot() != before
        case "reached":
            return field.was_reached()
        case "signalled":
            return field.bystander is not None and field.bystander.poll() is not None
        case "survives":
            return bool(field.processes())
        case "crowd":
            return field.crowd > attempt.limits["processes_max"] + CROWD_SLACK
        case _:
            return seen


def _judge_files(attempt: Attempt, field: Field) -> bool:
    """What lies in the project afterwards."""
    found = [path.stat() for path in field.project.rglob("*") if path.is_file() and not path.is_symlink()]
    if attempt.judge == "set_id_left":
        return any(one.st_mode & (stat.S_ISUID | stat.S_ISGID) for one in found)
    if attempt.judge == "big_file":
        return any(one.st_size > attempt.limits["file_bytes_max"] for one in found)
    if attempt.judge == "many_files":
        return len(found) > FILES
    return sum(one.st_size for one in found) > DISK_BYTES


async def try_bare(attempt: Attempt, field: Field) -> Outcome:
    """Make the attempt on this machine itself, without any rung; what it left is ended and removed."""
    field.reset()
    furnish(attempt, field)
    before = field.snapshot()
    output = field.folder / "bare.txt"
    context = json.dumps(field.context(str(field.project), bare=True)).encode()
    environment = {**os.environ, "GLOVEPORT_CANARY": field.secret}
    for first in (True, False) if attempt.first else (False,):
        argv = [sys.executable, *OPTIONS, attempt.source(field.marker, first=first)]
        with output.open("wb") as file, _stopping(field):
            process = _start_bare(argv, field, file, environment, context)
            if attempt.collect_while_running:
                escaped = await asyncio.to_thread(_read_until, attempt, field)
                process.kill()
                process.wait()
                return Outcome(escaped)
            await asyncio.to_thread(process.wait, WALL_S)
            said = output.read_bytes()
            if attempt.control == "naive":
                return Outcome(_read_naively(attempt, field))
            if attempt.control == "parsed":
                found = _parse_naively(field.project / attempt.artifact)
                return Outcome(field.secret in found or len(found) >= ARTIFACT_BYTES)
            escaped = await judge_outside(attempt, field, before, said)
    absent = said.decode("utf-8", "replace").strip() if said.startswith(b"absent here: ") else ""
    return Outcome(escaped, absent=absent, words=said[-300:].decode("utf-8", "replace"))


def _start_bare(
    argv: list[str], field: Field, output: BinaryIO, environment: Mapping[str, str], context: bytes
) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        argv, cwd=field.project, stdin=subprocess.PIPE, stdout=output, stderr=output, env=environment, close_fds=False
    )
    assert process.stdin is not None
    process.stdin.write(context)
    process.stdin.close()
    return process


@contextlib.contextmanager
def _stopping(field: Field) -> Iterator[None]:
    try:
        yield
    finally:
        for pid in field.processes():
            with contextlib.suppress(OSError):
                os.kill(pid, 9)


def _read_naively(attempt: Attempt, field: Field) -> bool:
    """As a collector would that trusts names: open, read, done."""
    path, found = field.project / attempt.artifact, bytearray()

    def read() -> None:
        with contextlib.suppress(OSError), path.open("rb") as file:
            while len(found) < ARTIFACT_BYTES and (chunk := file.read(1 << 20)):
                found.extend(chunk)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(1.0)
    if attempt.judge == "hangs":
        hung = reader.is_alive()
        if hung:
            os.close(os.open(path, os.O_WRONLY))
            reader.join()
        return hung
    reader.join()
    return field.secret.encode() in found or (attempt.judge == "collected_too_much" and len(found) >= ARTIFACT_BYTES)


def _parse_naively(path: Path) -> str:
    """A report's text for whoever parses it as XML and takes what its entities name."""
    pieces: list[str] = []
    handler = ContentHandler()
    handler.characters = pieces.append  # type: ignore[method-assign,assignment]  # - the one event that counts
    reader = make_parser()
    reader.setFeature(feature_external_ges, True)
    reader.setContentHandler(handler)
    reader.parse(str(path))
    return "".join(pieces)


def _read_until(attempt: Attempt, field: Field) -> bool:
    """Again and again, by name, while it is swapped: until the secret is read, or the reader waits for a pipe."""
    path = field.project / attempt.artifact
    if attempt.judge == "hangs":
        return _hangs_at_last(path, field.project / "bad")
    for _ in range(200_000):
        with contextlib.suppress(OSError):
            if field.secret in path.read_text():
                return True
    return False


def _hangs_at_last(path: Path, pipe: Path) -> bool:
    def read() -> None:
        for _ in range(200_000):
            with contextlib.suppress(OSError):
                path.read_bytes()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    for _ in range(100):
        reader.join(0.1)
        with contextlib.suppress(OSError):
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))  # succeeds only where somebody waits at the pipe
            return True
    return False
