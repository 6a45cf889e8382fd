"""Runs of our own programs in a rung, with canaries outside.

Purpose: what each probe needs to judge: the look from inside, attempts to pass each limit, what is left, what is
collected, what is found again.
Invariant: a trial that cannot be made is words, never an exception; canaries and what a broken rung left are removed.
Must never: judge.
"""

import contextlib
import json
import os
import secrets
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import anyio

from gloveport.sandbox.contract import Command, Execution, Result, ResultKind, Sandbox, SandboxError
from gloveport.sandbox.doctor import inside
from gloveport.sandbox.egress.watch import Contact, ContactEnd
from gloveport.sandbox.egress.way import equip, open_way_out
from gloveport.sandbox.interpreter import find_interpreter
from gloveport.sandbox.profile import Access, Limits, Mount, Profile

LOOK_LIMITS: Final = Limits(wall_s=20.0, memory_bytes_max=256 * 1024 * 1024, processes_max=64)
HANG_LIMITS: Final = Limits(wall_s=0.5)
GRACE_S: Final = 0.2
TRIAL_S: Final = 25.0
"""A trial of several steps takes no longer than this."""
OUTSIDE_S: Final = 10.0
"""So long past its own limit of time a trial that a broken rung does not end is ended by its stop."""
HANG_OUTSIDE_S: Final = 5.0
BUSY_S: Final = 90.0
"""How long a busy machine may take to give a trial the processor time that ends it; it ends itself a little after."""
BYSTANDER_S: Final = 600
"""How long the canary process would last if nobody ended it."""
SHOWS_TRIES: Final = 100
SHOWS_PAUSE_S: Final = 0.02
INSIDE: Final = "/mnt/probe"
MIB: Final = 1024 * 1024
BOMB_MAX: Final = 12
BOMB_TRIES: Final = 60
MEMORY_MAX: Final = 64 * MIB
CPU_MAX_S: Final = 1
FILE_MAX: Final = MIB
OUTPUT_MAX: Final = 16 * 1024
TMP_MAX: Final = 4 * MIB
PASSED: Final = b"limit passed"
_OPTIONS: Final = ("-I", "-S", "-B", "-c")
# One that takes memory begins when its input ends: whoever is to see the kill listens by then.
_PROGRAMS: Final[Mapping[str, str]] = MappingProxyType({
    "bomb": (
        "import os, time\nmade = 0\nfor _ in range({tries}):\n    try: pid = os.fork()\n    except OSError: break\n"
        "    if pid == 0: time.sleep(8); os._exit(0)\n    made += 1\n"
        "if made > {most}: time.sleep(4)\nprint(made if made <= {most} else 'limit passed', flush=True)"
    ),
    "memory": (
        "import sys, time\nsys.stdin.read()\nb = bytearray({double})\n"
        "b[::4096] = b'x' * len(b[::4096])\ntime.sleep(4)\nprint('limit passed')"
    ),
    "cpu": "import os, time\nos.fork()\nwhile time.process_time() < 2.5: pass\nprint('limit passed', flush=True)",
    "file": "import os\nf = open('big', 'wb')\nf.write(bytes({double})); f.flush(); print('limit passed')",
    "tmp": "f = open('/tmp/{big}', 'wb')\nfor _ in range(8): f.write(bytes(1 << 20)); f.flush()\nprint('limit passed')",
    "flood": "import os\nfor _ in range(16): os.write(1, b'x' * 65536)",
    "leave": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        for fd in range(3): os.close(fd)\n        time.sleep(20)\n    os._exit(0)\nos.wait()"
    ),
    "artifacts": (
        "import os\nopen('plain.txt', 'w').write('plain')\nos.symlink({outside!r}, 'link.txt')\nos.mkfifo('pipe.txt')\n"
        "os.symlink(os.path.dirname({outside!r}), 'folder')\nopen('run-me', 'w').close(); os.chmod('run-me', 0o4755)"
    ),
    "ask": (
        "import json, socket, sys\nsaid = []\nfor port in json.load(sys.stdin):\n"
        "    with socket.create_connection(('127.0.0.1', 3128), 5) as link:\n"
        "        link.sendall(f'GET http://127.0.0.1:{{port}}/ HTTP/1.1\\r\\nHost: 127.0.0.1:{{port}}\\r\\n"
        "Connection: close\\r\\n\\r\\n'.encode())\n"
        "        link.settimeout(5); said.append(link.recv(64).split(b' ')[1].decode())\nprint(json.dumps(said))"
    ),
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Canaries:
    """What was placed outside: a file, a folder that is mounted, a repository, listening sockets, a secret word, and a
    process, which is known by `bystander_word` in its command line."""

    outside: Path
    mounted: Path
    hook: Path
    listener: socket.socket
    unix: socket.socket
    unix_path: Path
    secret: str
    bystander: "subprocess.Popen[bytes]"
    bystander_word: str


@dataclass(slots=True)
class Seen:
    """What the trials showed. A `Result` or report that could not be had is words."""

    look: Mapping[str, Any] | str = ""
    look_result: Result | None = None
    context: Mapping[str, object] = field(default_factory=dict)
    results: dict[str, Result | str] = field(default_factory=dict)
    reached: bool = False
    unix_reached: bool = False
    signalled: bool = False
    survivors: int = 0
    collected: Mapping[str, bytes] | str = ""
    set_id_left: bool = False
    asked: tuple[str, ...] | str = ""
    answered: int = 0
    refused_reached: bool = False
    users: frozenset[int] = frozenset()
    """Ids, as this machine knows them, of the users of one run's command."""
    found_again: str = ""
    """Empty when a run was found again and ended; else what was seen."""


@contextlib.contextmanager
def place_canaries(token: str) -> Iterator[Canaries]:
    """Folders, sockets and a word; gone afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="gloveport-doctor-") as folder,
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.socket(socket.AF_UNIX) as unix,
    ):
        listener.setblocking(False)
        outside, mounted, hook = Path(folder, "outside"), Path(folder, "mounted"), Path(folder, "repo/.git/hooks/x")
        mounted.mkdir()
        hook.parent.mkdir(parents=True)
        for path in (outside, hook):
            path.write_text("untouched", encoding="utf-8")
        (mounted / "link").symlink_to(folder)
        unix.bind(str(Path(folder, "daemon.sock")))
        unix.listen(4)
        unix.setblocking(False)
        word = f"{BYSTANDER_S}.{int(token, 16)}"
        bystander = subprocess.Popen(["sleep", word], stdin=subprocess.DEVNULL)
        path = Path(folder, "daemon.sock")
        try:
            yield Canaries(outside, mounted, hook, listener, unix, path, f"canary-{token}", bystander, word)
        finally:
            bystander.kill()
            bystander.wait()


class Trials:
    """All trials of one rung; `hidden` are the daemon's own token and socket, when there is a daemon."""

    def __init__(self, backend: Sandbox, canaries: Canaries, token: str, hidden: tuple[Path, ...]) -> None:
        self._backend, self._canaries, self._token, self._hidden = backend, canaries, token, hidden
        self.seen = Seen()

    async def look(self) -> None:
        """The inner program's report."""
        canaries = self._canaries
        through = [f"{INSIDE}/link/outside", str(canaries.hook), *(str(path) for path in self._hidden)]
        request = {
            "process": [str(canaries.bystander.pid), canaries.bystander_word],
            "host_ports": [str(canaries.listener.getsockname()[1])],
            "unix_sockets": [str(canaries.unix_path), f"{INSIDE}/link/daemon.sock", *map(str, self._hidden)],
            "reads": [str(canaries.outside), *through, "/proc/1/maps"],
            "writes": [str(canaries.outside), str(canaries.hook), f"{INSIDE}/link/made", f"/tmp/{canaries.secret}"],  # noqa: S108 - tried on purpose
        }
        source = Path(inside.__file__).read_text(encoding="utf-8")
        found = await self.run("look", source, LOOK_LIMITS, json.dumps(request).encode())
        self.seen.look = found if isinstance(found, str) else read_report(found)
        self.seen.look_result = None if isinstance(found, str) else found
        self.seen.reached, self.seen.unix_reached = was_reached(canaries.listener), was_reached(canaries.unix)
        self.seen.signalled = canaries.bystander.poll() is not None

    async def pass_limits(self) -> None:
        """One run for each limit, which tries to pass it."""
        wall = 15.0
        plans = {
            "hang": Limits(wall_s=HANG_LIMITS.wall_s),
            "bomb": Limits(wall_s=wall, processes_max=BOMB_MAX),
            "memory": Limits(wall_s=wall, memory_bytes_max=MEMORY_MAX),
            "cpu": Limits(wall_s=BUSY_S, cpu_s=CPU_MAX_S),
            "file": Limits(wall_s=wall, file_bytes_max=FILE_MAX),
            "tmp": Limits(wall_s=wall, tmp_bytes_max=TMP_MAX),
            "flood": Limits(wall_s=wall, output_bytes_max=OUTPUT_MAX),
        }
        doubled = {"memory": 2 * MEMORY_MAX, "file": 2 * FILE_MAX}
        for name, limits in plans.items():
            if name == "hang":
                self.seen.results[name] = await self.run(name, "", limits, argv=("sleep", "60"))
                continue
            big = f"{self._canaries.secret}-big"
            source = _PROGRAMS[name].format(tries=BOMB_TRIES, most=BOMB_MAX, double=doubled.get(name), big=big)
            self.seen.results[name] = await self.run(name, source, limits)
            Path(tempfile.gettempdir(), big).unlink(missing_ok=True)  # a rung without a folder of its own

    async def leave_something(self) -> None:
        """A run that leaves a process, and one that leaves artifacts which lead elsewhere."""
        marker = f"left-{self._token}"
        await self.run("leave", f"# {marker}\n{_PROGRAMS['leave']}", LOOK_LIMITS)
        self.seen.survivors = count_and_kill(marker)
        source = _PROGRAMS["artifacts"].format(outside=str(self._canaries.outside))

        async def collect(profile: Profile, run_id: str) -> None:
            lease = await self._backend.prepare(profile, run_id)
            try:
                await (await lease.start(Command(self._argv(source), run_id))).result()
                self.seen.collected = await lease.collect(("*.txt", "folder/*"))
            finally:
                await lease.release()

        try:
            with anyio.fail_after(TRIAL_S):
                await collect(self._profile(LOOK_LIMITS, "build"), f"doctor-artifacts-{self._token}")
        except SandboxError as error:
            self.seen.collected = error.message
        except TimeoutError:
            self.seen.collected = f"it took longer than {TRIAL_S:g} s"
        made = self._canaries.mounted / "run-me"
        self.seen.set_id_left = made.exists() and bool(made.stat().st_mode & 0o6000)

    async def ask_outside(self) -> None:
        """With a list of one place: that place, and another one."""
        with socket.create_server(("127.0.0.1", 0)) as other:
            other.setblocking(False)
            allowed, refused = (one.getsockname()[1] for one in (self._canaries.listener, other))
            egress = (f"127.0.0.1:{allowed} loopback",)
            try:
                with anyio.fail_after(TRIAL_S):
                    parent = self._canaries.outside.parent
                    async with open_way_out(parent, f"w{self._token}", egress, _Deaf()) as way:
                        profile = equip(self._profile(LOOK_LIMITS, "build", egress=egress), way)
                        result = await self._ask(profile, allowed, refused)
                self.seen.asked = tuple(json.loads(result.output)) if result.output else result.evidence
            except SandboxError as error:
                self.seen.asked = error.message
            except (TimeoutError, ValueError) as error:
                self.seen.asked = str(error) or f"it took longer than {TRIAL_S:g} s"
            self.seen.refused_reached = was_reached(other)

    async def _ask(self, profile: Profile, allowed: int, refused: int) -> Result:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._answer)
            run_id = f"doctor-ask-{self._token}"
            lease = await self._backend.prepare(profile, run_id)
            try:
                words = json.dumps([allowed, refused]).encode()
                argv = self._argv(_PROGRAMS["ask"].replace("{{", "{").replace("}}", "}"))
                result = await (await lease.start(Command(argv, run_id, words))).result()
            finally:
                await lease.release()
            tasks.cancel_scope.cancel()
        return result

    async def _answer(self) -> None:
        """Serve whoever comes to the allowed place."""
        while True:
            try:
                connection, _address = self._canaries.listener.accept()
            except BlockingIOError:
                await anyio.sleep(0.01)
                continue
            self.seen.answered += 1
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")

    async def find_again(self, reopen: Callable[[], Sandbox] | None) -> None:
        """Start a run, open the rung anew as a restarted daemon does, and look for it."""
        run_id, seconds = f"doctor-again-{self._token}", f"60.{int(self._token, 16)}"
        other: Sandbox | None = None
        try:
            lease = await self._backend.prepare(self._profile(LOOK_LIMITS, "build"), run_id)
            try:
                await lease.start(Command(("sleep", seconds), run_id))
                if not self._backend.host:
                    self.seen.users = await find_users(seconds)
                other = None if reopen is None else reopen()
                found = await (other or self._backend).attach(run_id)
                self.seen.found_again = "the run was not found" if found is None else await _end(found)
            finally:
                await lease.release()
                if other is not None:
                    await other.close()
        except SandboxError as error:
            self.seen.found_again = error.message

    async def run(
        self, name: str, source: str, limits: Limits, stdin: bytes = b"", argv: tuple[str, ...] = ()
    ) -> Result | str:
        """One run to its end, or words about why there is none."""
        run_id = f"doctor-{name}-{self._token}"
        kind = "small" if name == "look" else "build"
        try:
            lease = await self._backend.prepare(self._profile(limits, kind), run_id)
            self.seen.context = lease.security_context
            try:
                execution = await lease.start(Command(argv or self._argv(source), run_id, stdin))
                with anyio.move_on_after(HANG_OUTSIDE_S if name == "hang" else limits.wall_s + OUTSIDE_S):
                    return await execution.result()
                await execution.stop()
                return "It had to be ended from outside: the rung did not."
            finally:
                await lease.release()
        except SandboxError as error:
            return error.message

    def _argv(self, source: str) -> tuple[str, ...]:
        return (find_interpreter().path, *_OPTIONS, source)

    def _profile(self, limits: Limits, kind: str, egress: tuple[str, ...] = ()) -> Profile:
        mounts = (*find_interpreter().mounts, Mount(str(self._canaries.mounted), INSIDE, Access.READ_WRITE))
        return Profile("doctor", kind, mounts, INSIDE, limits, egress=egress, grace_s=GRACE_S)


async def find_users(word: str) -> frozenset[int]:
    """Ids of the users of all processes that bear this word among their arguments; it is waited for a moment."""
    for _ in range(SHOWS_TRIES):
        users = set()
        for entry in os.scandir("/proc"):
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and word.encode() in Path(entry.path, "cmdline").read_bytes().split(b"\0"):
                    users.add(entry.stat().st_uid)
        if users:
            return frozenset(users)
        await anyio.sleep(SHOWS_PAUSE_S)
    return frozenset()


class _Deaf:
    """Nobody is told of what the doctor asks for."""

    async def decided(self, contact: Contact) -> None:
        """Nothing."""

    async def ended(self, end: ContactEnd) -> None:
        """Nothing."""


async def _end(execution: Execution) -> str:
    await execution.stop()
    kind = (await execution.result()).kind
    return "" if kind is ResultKind.KILLED else f"the run ended as {kind}"


def read_report(result: Result) -> Mapping[str, Any] | str:
    """The inner program's report, or words why there is none."""
    try:
        report = json.loads(result.output)
    except ValueError:
        report = None
    if result.kind is ResultKind.OK and isinstance(report, dict):
        return report
    return f"The probe did not run: {result.output[-300:].decode('utf-8', 'replace') or result.evidence}"


def was_reached(listener: socket.socket) -> bool:
    """Whether anybody connected since the last look."""
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def count_and_kill(marker: str) -> int:
    """Processes of this machine that bear the marker, which is ours alone; each is ended."""
    found = 0
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            held = Path(f"/proc/{entry}/cmdline").read_bytes()
            if marker.encode() in held:
                found += 1
                os.kill(int(entry), 9)
    return found


def make_token() -> str:
    """A word that names this examination's runs and canaries."""
    return secrets.token_hex(8)
