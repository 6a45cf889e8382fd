"""The walls of the bubblewrap rung one by one: each holds, and with that one wall away the attack goes through.

Purpose: Landlock by every ABI, the filter that names what it refuses, mounts, set-id bits, targets below mounts.
"""

import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.kit.require import require
from tests.kit.sandboxes import PROJECT, Rig, open_rig

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.jail.requests import BreakerPlan
from gloveport.sandbox.backends import bubblewrap
from gloveport.sandbox.backends.bubblewrap import BubblewrapSandbox
from gloveport.sandbox.backends.entry import Assembly, is_known_here
from gloveport.sandbox.backends.landlock import ABI_MAX, DEVICES, READ, WRITE, PathRule, add_rules, find_abi
from gloveport.sandbox.backends.process import ProcessSandbox
from gloveport.sandbox.contract import Claim, ResultKind, SandboxError
from gloveport.sandbox.monitor.levels import Level, level_of
from gloveport.sandbox.monitor.thresholds import plan_breaker
from gloveport.sandbox.profile import Access, Limits, Mount, Profile
from gloveport.sandbox.runner.watching import REPORTS_MAX

ABIS = range(1, ABI_MAX + 1)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    """A bubblewrap rung."""
    async with open_rig("bubblewrap") as opened:
        yield opened


def require_landlock(abi: int) -> None:
    """A processor and a kernel that can do this ABI."""
    require(is_known_here() and find_abi() >= abi, f"Landlock of ABI {abi} is not to be had here (found {find_abi()})")


def enter(folder: Path, abi: int, script: str) -> str:
    """Run a script on this machine behind the entry program, writes allowed in `folder` alone; ABI 0 is none."""
    assembly = Assembly()
    assembly.call("close_range", 3, 0xFFFFFFFF, 0, on_failure="lost")
    if abi:
        rules = [PathRule("/", READ), PathRule("/dev", DEVICES), PathRule(str(folder), WRITE)]
        add_rules(assembly, abi, rules, "lost")
    argv = assembly.place_addresses([b"sh", b"-c", script.encode()])
    assembly.call("execve", assembly.place_text(b"/bin/sh"), argv, assembly.place_addresses([]), on_failure="lost")
    assembly.label("lost")
    assembly.end(b"lost\n", 126)
    program = folder / "enter"
    program.write_bytes(assembly.build())
    program.chmod(0o755)
    # No new privileges, which Landlock asks for from everybody but root.
    argv_bare = ["setpriv", "--no-new-privs", str(program)]
    return subprocess.run(argv_bare, capture_output=True, text=True, timeout=100, check=False).stdout.strip()


@pytest.mark.parametrize("abi", ABIS)
def test_writes_beyond_the_rules_are_refused_by_every_abi(abi: int, tmp_path: Path) -> None:
    """And without Landlock, or for what an older ABI does not know yet, they go through."""
    require_landlock(abi)
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    outside.joinpath("kept").write_text("kept")
    script = f"echo x >{inside}/made && echo written; echo y >{outside}/made && echo escaped; cat {outside}/kept"
    assert enter(inside, abi, script).split() == ["written", "kept"]
    assert not (outside / "made").exists()
    assert "escaped" in enter(inside, 0, script)
    truncate = f"python3 -c 'import os; os.truncate(\"{outside}/kept\", 0)' 2>/dev/null && echo escaped; true"
    move = f'mkdir {inside}/a {inside}/b; touch {inside}/a/x; python3 -c \'import os; os.rename("{inside}/a/x",'
    move += f' "{inside}/b/x")\' 2>/dev/null && echo moved; true'
    assert (enter(inside, abi, truncate) == "escaped") == (abi < 3)
    assert (enter(inside, abi, move) == "moved") == (abi >= 2)


@pytest.mark.parametrize("abi", [5, 6])
def test_a_signal_to_a_process_outside_is_refused_from_abi_6_on(abi: int, tmp_path: Path) -> None:
    """On the machine itself, where no pid namespace stands before it."""
    require_landlock(abi)
    with subprocess.Popen(["sleep", "60"]) as bystander:
        said = enter(tmp_path, abi, f"kill -0 {bystander.pid} 2>/dev/null && echo reached; true")
        bystander.kill()
    assert said == ("reached" if abi < 6 else "")


@pytest.mark.parametrize("abi", [0, *ABIS])
async def test_a_jail_works_with_every_abi_and_says_what_it_has(abi: int, rig: Rig) -> None:
    """Builds move files between folders with all of them; below ABI 2 the claim is not made."""
    require_landlock(abi)
    usual, rig.backend = rig.backend, BubblewrapSandbox(rig.runs_dir, landlock_abi_max=abi)
    try:
        found = await rig.backend.probe()
        assert (Claim.LANDLOCK in found.holds) == (abi >= 2)
        source = (
            "import os, subprocess, sys, multiprocessing as m\n"
            "os.makedirs('a'); os.makedirs('b'); open('a/x', 'w').write('1'); os.rename('a/x', 'b/x')\n"
            "os.link('b/x', 'a/y'); os.symlink('x', 'b/z'); os.truncate('b/x', 0); os.mkfifo('a/f')\n"
            "open('/dev/null', 'w').write('x'); open('/tmp/t', 'w').write('x'); os.openpty()\n"
            "open('/proc/self/comm', 'w').write('named')\n"
            "q = m.SimpleQueue(); q.put(1); print('fine')\n"
        )
        result = await rig.python(source)
        assert (result.kind, result.output) == (ResultKind.OK, b"fine\n")
        context = (await rig.lease()).security_context
        assert context["landlock"] == (abi if abi >= 2 else 0)
    finally:
        await rig.backend.close()
        rig.backend = usual


WORKS = (
    "import os, socket, subprocess, sys, tempfile\n"
    "os.makedirs('a'); os.makedirs('b'); open('a/x', 'w').write('1'); os.rename('a/x', 'b/x')\n"
    "os.link('b/x', 'a/y'); os.symlink('x', 'b/z'); os.mkfifo('a/f'); open('/dev/null', 'w').write('x')\n"
    "tempfile.TemporaryFile(); os.openpty(); open('/dev/fd/1', 'w').close()\n"
    "subprocess.run(['true'], stdout=subprocess.DEVNULL, check=True)\n"
    "for name, act in (('written', lambda p: open(p + '/made', 'w')), ('cut', lambda p: os.truncate(p + '/kept', 0)),\n"
    "                  ('removed', lambda p: os.unlink(p + '/kept'))):\n"
    "    try: act(sys.stdin.readline().strip()); print(name)\n"
    "    except OSError as error: print(error.errno)\n"
)


@pytest.mark.parametrize("abi", [0, *ABIS])
async def test_on_the_process_rung_nothing_is_written_but_where_it_works(
    abi: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every ABI, and below the second, which would keep builds from moving files, the claim is not made."""
    require(find_abi() >= abi, f"Landlock of ABI {abi} is not to be had here")
    monkeypatch.setattr("gloveport.sandbox.backends.process._TEMPORARY", ())  # where this test's folders lie
    async with open_rig("process") as rig:
        usual, rig.backend = rig.backend, ProcessSandbox(rig.runs_dir, landlock_abi_max=abi)
        try:
            found = await rig.backend.probe()
            assert (Claim.LANDLOCK in found.holds) == (abi >= 2)
            assert Claim.RUNS_APART not in found.holds or abi >= 6
            outside = rig.folder / "outside"
            outside.mkdir()
            (outside / "kept").write_text("kept")
            said = (await rig.python(WORKS, f"{outside}\n".encode() * 3)).output.decode().split()
            if abi < 2:
                assert said == ["written", "cut", "removed"]
            else:
                assert said == ["13", "cut" if abi < 3 else "13", "13"]
                assert [path.name for path in outside.iterdir()] == ["kept"]
        finally:
            await rig.backend.close()
            rig.backend = usual


TRIED = (
    "import os, sys\n"
    "for path in ('/dev/full', '/dev/null', '/dev/urandom', '/dev/shm', *sys.stdin.read().split()):\n"
    "    how = os.O_TMPFILE | os.O_RDWR if path == '/dev/shm' else os.O_WRONLY\n"
    "    try: os.close(os.open(path, how)); print('written')\n"
    "    except OSError as error: print(error.errno)\n"
)


@pytest.mark.parametrize("abi", [0, ABI_MAX])
async def test_on_the_process_rung_only_plain_devices_are_written(abi: int) -> None:
    """No disk, though root may write each, and below /proc nothing of the machine's; without Landlock, all of them."""
    require(find_abi() >= abi and os.geteuid() == 0, "needs root, and Landlock")
    device = Path(f"/dev/gloveport-test-{os.getpid()}")
    try:
        device.touch()
    except OSError:
        require(False, "nothing can be made in /dev here")
    try:
        async with open_rig("process") as rig:
            usual, rig.backend = rig.backend, ProcessSandbox(rig.runs_dir, landlock_abi_max=abi)
            try:
                await rig.backend.probe()
                said = await rig.python(TRIED, f"{device} /proc/{os.getpid()}/oom_score_adj".encode())
                assert said.output.decode().split() == ["written"] * 4 + (["13"] if abi else ["written"]) * 2
            finally:
                await rig.backend.close()
                rig.backend = usual
    finally:
        device.unlink()


async def test_on_the_process_rung_what_landlock_does_not_bound_is_told() -> None:
    """Rights and times of a file elsewhere are changed, as the rung says in its own words."""
    async with open_rig("process") as rig:
        outside = rig.folder / "outside"
        outside.touch()
        changed = await rig.python(f"import os; os.chmod('{outside}', 0o640); os.utime('{outside}', (1, 1))")
        assert changed.kind is ResultKind.OK
        assert (stat.S_IMODE(outside.stat().st_mode), outside.stat().st_mtime) == (0o640, 1)
        words = dict(rig.availability.does_not_hold)[Claim.FILESYSTEM_VIEW]
        lease = await rig.lease()
        for told in (words, *([str(lease.security_context["writes"])] if find_abi() >= 2 else [])):
            assert "rights, owner, times" in told
        await lease.release()


async def test_on_the_process_rung_what_is_copied_on_write_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rung has no layers: its source is for reading alone, where the kernel can hold that."""
    monkeypatch.setattr("gloveport.sandbox.backends.process._TEMPORARY", ())
    async with open_rig("process") as rig:
        require(Claim.LANDLOCK in rig.availability.holds, "no Landlock here")
        source, layer = rig.folder / "source", rig.folder / "layer"
        for folder in (source, layer / "upper", layer / "work"):
            folder.mkdir(parents=True)
        written = f"open('{source}/made', 'w')"
        copied = Mount(str(source), "/mnt/m", Access.COPY_ON_WRITE, str(layer))
        assert (await rig.python(written, mounts=(copied,))).kind is ResultKind.FAILED
        assert not (source / "made").exists()
        shared = Mount(str(source), "/mnt/m", Access.READ_WRITE)
        assert (await rig.python(written, mounts=(shared,))).kind is ResultKind.OK


DENIED = (
    "import ctypes, socket, sys\n"
    "libc = ctypes.CDLL(None, use_errno=True)\n"
    "for family in (40, 38):\n"
    "    try: socket.socket(family, socket.SOCK_SEQPACKET)\n"
    "    except OSError as error: print(error.errno)\n"
    "print(libc.mount(b'none', b'/mnt/somewhere', b'tmpfs', 0, 0), ctypes.get_errno())\n"
    "for _ in range(3): libc.unshare(0x10000000)\n"
    "sys.exit(int(sys.stdin.read()))\n"
)
NAMES = (("socket(vsock)", 1), ("socket(alg)", 1), ("mount /mnt/somewhere", 1), ("unshare", 3))


@pytest.mark.parametrize(("kind", "code", "ends"), [("build", 1, "failed"), ("small", 1, "policy"), ("small", 0, "ok")])
async def test_refused_calls_are_named(rig: Rig, kind: str, code: int, ends: str) -> None:
    """First one first, with the errors that the filter alone gives; only a small hand's failure is put down to it."""
    require(Claim.NAMED_DENIALS in rig.availability.holds, "no filter can report here")
    result = await rig.python(DENIED, str(code).encode(), tool_kind=kind)
    assert (result.output.split(), result.kind.value) == ([b"97", b"97", b"-1", b"1"], ends), result
    assert result.denied == NAMES
    assert ("socket(vsock)" in result.evidence) == (ends == "policy")


FLOOD = (
    "import socket\n"
    "last = None\n"
    "for _ in range(20_500):\n"
    "    try: socket.socket(40, socket.SOCK_STREAM); print('got one'); break\n"
    "    except OSError as error: last = error.errno\n"
    "print(last)\n"
)


REACHES = """
import os, socket, sys
for path in ("/etc/hosts", "/usr/x", "here", "/tmp/a", "/var/tmp/b", "/dev/null", "../up", "sub/../../over"):
    try: open(path, "a").close()
    except OSError: pass
open("/etc/hosts").close()
for family, address in ((socket.AF_INET, ("192.0.2.1", 443)), (socket.AF_INET, ("127.0.0.1", 9)),
                        (socket.AF_INET6, ("2001:db8::1", 80)), (socket.AF_INET6, ("::1", 9))):
    try: socket.socket(family).connect(address)
    except OSError: pass
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize("kind", ["build", "small"])
async def test_c01_what_a_program_reaches_for_outside_is_named(rig: Rig, kind: str) -> None:
    """Places and files to write that the jail does not give; what it gives is not, and a good end stays one."""
    require(Claim.NAMED_DENIALS in rig.availability.holds, "no filter reports here")
    wanted = ["write /etc/hosts", "write /usr/x", "write /home/user/up", "write /home/user/over",
              "connect 192.0.2.1:443", "connect [2001:db8::1]:80"]  # fmt: skip
    failed = await rig.python(REACHES.replace("int(sys.argv[1])", "3"), tool_kind=kind)
    assert [words for words, _times in failed.denied] == wanted
    assert failed.kind is (ResultKind.POLICY if kind == "small" else ResultKind.FAILED)
    assert level_of(failed) is Level.DENIED
    good = await rig.python(REACHES.replace("int(sys.argv[1])", "0"), tool_kind=kind)
    assert good.kind is ResultKind.OK


async def test_a_flood_of_refusals_is_refused_to_the_end_and_costs_the_supervisor_a_bounded_part(rig: Rig) -> None:
    """After so many the listener is let go: the kernel refuses by itself (ENOSYS), and nothing goes through."""
    require(Claim.NAMED_DENIALS in rig.availability.holds, "no filter can report here")
    result = await rig.python(FLOOD, tool_kind="build", limits=Limits(wall_s=100.0))
    assert (result.kind, result.output) == (ResultKind.OK, b"38\n"), result
    assert result.denied == (("socket(vsock)", REPORTS_MAX),)


LISTENER = r"""
import asyncio, ctypes, struct, sys, tempfile
from pathlib import Path
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
program = struct.pack("<HBBI", 6, 0, 0, 0x7fff0000)
body = ctypes.create_string_buffer(program)
described = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", 1, ctypes.addressof(body)))
if sys.argv[1] == "taken":
    assert libc.syscall(ctypes.c_long(317), 1, 8, ctypes.byref(described)) >= 0
from gloveport.sandbox.backends.select import open_backend
async def main():
    with tempfile.TemporaryDirectory(prefix="gp-") as folder:
        backend = open_backend("bubblewrap", Path(folder))
        found = await backend.probe()
        print(found.ok, *sorted(claim.value for claim in found.holds))
        await backend.close()
asyncio.run(main())
"""


@pytest.mark.parametrize("state", ["taken", "free"])
def test_where_no_filter_may_report_the_jail_works_and_says_so(state: str) -> None:
    """A container runtime that listens itself leaves no second listener to us."""
    require(is_known_here(), "no entry program for this processor")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    argv = [sys.executable, "-c", LISTENER, state]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, env=environment)
    words = done.stdout.split()
    assert words[:1] == ["True"], done
    assert "seccomp" in words
    assert "landlock" in words
    assert ("named_denials" in words) == (state == "free")


async def test_every_mount_is_nosuid_and_only_devices_are_devices(rig: Rig, tmp_path: Path) -> None:
    """As the kernel lists them from inside; on this machine's own root such a mount is found."""
    mount = Mount(str(tmp_path), "/mnt/ro", Access.READ_ONLY)
    result = await rig.python("print(open('/proc/self/mountinfo').read())", mounts=(mount,))
    rows = [line.split() for line in result.output.decode().splitlines() if line.strip()]
    options = {row[4]: row[5].split(",") for row in rows}
    assert PROJECT in options
    assert [target for target, found in options.items() if "nosuid" not in found] == []
    assert [target for target, found in options.items() if "nodev" not in found and not target.startswith("/dev")] == []
    bare = Path("/proc/self/mountinfo").read_text().splitlines()
    assert any("nosuid" not in row.split()[5].split(",") for row in bare)


SET_ID = (
    "import os, ctypes\n"
    "for name, mode in (('a', 0o4755), ('b', 0o2755), ('d', 0o4111)):\n"
    "    open(name, 'w').close(); os.chmod(name, mode)\n"
    "os.close(os.open('c', os.O_CREAT | os.O_WRONLY, 0o4755))\n"
    "print(*(oct(os.stat(name).st_mode & 0o7000) for name in 'abcd'))\n"
)


@pytest.mark.parametrize("reports", [True, False])
async def test_set_id_bits_do_not_outlive_the_run(rig: Rig, reports: bool) -> None:
    """Inside they are there, as a test of the user's may expect; outside, when the run has ended, none is."""
    backend = rig.backend
    assert isinstance(backend, BubblewrapSandbox)
    if not reports:
        backend._entering = backend._entering.__class__()
    result = await rig.python(SET_ID, tool_kind="build")
    assert result.output.split() == [b"0o4000", b"0o2000", b"0o4000", b"0o4000"]
    modes = {name: (rig.project / name).stat().st_mode for name in "abcd"}
    assert not any(mode & (stat.S_ISUID | stat.S_ISGID) for mode in modes.values()), modes
    assert stat.S_IMODE(modes["d"]) == 0o111
    assert result.alarms == ("set-id bits were taken from 4 files",)
    async with open_rig("process") as other:
        await other.python(SET_ID)
        assert (other.project / "a").stat().st_mode & stat.S_ISUID


async def test_no_mount_below_what_a_living_run_can_write(rig: Rig, tmp_path: Path) -> None:
    """Between our look at a target and the mount, a run could put a link there; so such a start waits for its end."""
    (rig.project / "sub").mkdir()
    (rig.project / "kept.pem").write_text("x")
    inner = Mount(str(tmp_path), f"{PROJECT}/sub", Access.READ_ONLY)
    first = await rig.lease()
    running = await rig.start(first, "sleep", "60")
    for changes in ({"mounts": (inner,)}, {"covered": (f"{PROJECT}/kept.pem",)}):
        lease = await rig.lease(**changes)
        with pytest.raises(SandboxError) as caught:
            await rig.start(lease, "true")
        assert caught.value.code is ErrorCode.SANDBOX_REFUSED
    plain = await rig.lease()
    assert (await (await rig.start(plain, "true")).result()).kind is ResultKind.OK
    await running.stop()
    assert (await rig.run("true", mounts=(inner,))).kind is ResultKind.OK
    await first.release()


async def test_what_the_breaker_ends_leaves_a_dump(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Soft signal, dump, kill: a small hand that spins, that grows, that opens without end; a build only alarms."""

    def early(profile: Profile) -> BreakerPlan:
        return replace(plan_breaker(profile), cpu_share=0.02, cpu_window_s=1.0)  # what a busy machine gives, too

    with monkeypatch.context() as patched:
        patched.setattr(bubblewrap, "plan_breaker", early)
        spin = await rig.python("while True: pass", tool_kind="small", limits=Limits(wall_s=60.0))
    assert (spin.kind, "2 % of a core" in spin.evidence) == (ResultKind.KILLED, True), spin
    assert "maps:" in spin.dump
    assert "python" in spin.dump
    grow = "import time\nb = bytearray(90 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\ntime.sleep(60)"
    limits = Limits(wall_s=60.0, memory_bytes_max=100 << 20)
    grown = await rig.python(grow, tool_kind="small", limits=limits)
    assert (grown.kind, "soft limit" in grown.evidence) == (ResultKind.OOM, True), grown
    assert "maps:" in grown.dump
    opens = "import os\nwhile True:\n    try: os.open('/nothing', 0)\n    except OSError: pass"
    opened = await rig.python(opens, tool_kind="small", limits=Limits(wall_s=60.0))
    assert (opened.kind, "openat" in opened.evidence) == (ResultKind.POLICY, True), opened
    monkeypatch.setattr(bubblewrap, "plan_breaker", lambda one: replace(plan_breaker(one), calls_per_s_max=50))
    starts = "import os\nfor i in range(1600):\n    try: os.execve('/nothing', ['x'], {})\n    except OSError: pass\n"
    build = await rig.python(starts + "import time; time.sleep(0.3); print('done')", tool_kind="build")
    assert (build.kind, build.output) == (ResultKind.OK, b"done\n")
    assert len(build.alarms) == 1
    assert "execve" in build.alarms[0]
