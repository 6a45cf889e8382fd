"""A run of the bubblewrap rung under root has a user id that nothing else on the machine has."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.contract.test_sandbox_claims import REACH_FOR
from tests.kit.require import require
from tests.kit.sandboxes import Rig, list_host_processes, open_rig

from gloveport.protocol.jail.requests import BLOB_FD_FIRST, RunRequest
from gloveport.sandbox.backends.bubblewrap import BubblewrapSandbox
from gloveport.sandbox.backends.entering import Entering
from gloveport.sandbox.contract import Claim, Command, Execution, Lease
from gloveport.sandbox.doctor.trials import find_users
from gloveport.sandbox.interpreter import find_interpreter
from gloveport.sandbox.profile import Profile
from gloveport.sandbox.runner import users

Edit = Callable[[RunRequest], RunRequest]
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
    "users.LOCK_FILE, users.COUNT, users.TRIES_MAX = sys.argv[1], 1, 1\n"
    "try: print(users.take_user().uid, flush=True)\nexcept OSError as error: print(error.errno, flush=True)\n"
    "sys.stdin.read()"
)


def test_an_id_is_one_processes_until_it_dies(tmp_path: Path) -> None:
    """Also when it is killed: the kernel holds the lock."""
    require(os.geteuid() == 0, "user ids are root's to give")

    def take() -> "subprocess.Popen[str]":
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        argv = [sys.executable, "-c", TAKE, str(tmp_path / "lock")]
        return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def answer(process: "subprocess.Popen[str]") -> int:
        assert process.stdout is not None
        return int(process.stdout.readline())

    with take() as first:
        assert answer(first) == users.FIRST
        with take() as second:
            assert answer(second) == 11  # EAGAIN
        first.send_signal(signal.SIGKILL)
        first.wait()
    with take() as third:
        assert answer(third) == users.FIRST
