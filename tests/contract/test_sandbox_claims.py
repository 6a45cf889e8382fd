"""Each claim of a rung that starts processes, tried; and shown to bite where it is not claimed.

Purpose: what `probe()` says holds is what holds here.
"""

import secrets
import socket
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
import pytest_asyncio
from tests.kit.sandboxes import ENGINE_RUNGS, PROJECT, REMOTE_RUNGS, Rig, list_host_processes, open_rig, rungs_of

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.jail.requests import BoundPlan
from gloveport.sandbox.contract import Claim, ResultKind, SandboxError
from gloveport.sandbox.doctor.examine import PROBES, examine
from gloveport.sandbox.doctor.findings import Verdict
from gloveport.sandbox.interpreter import find_interpreter
from gloveport.sandbox.profile import Access, Limits, Mount

pytestmark = pytest.mark.asyncio(loop_scope="module")
MIB = 1024 * 1024


BY_EITHER_WAY = frozenset({"test_doctor_agrees_with_the_claims"})
"""It tries every claim once."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The rungs of each test."""
    if "opened" in metafunc.fixturenames:
        metafunc.parametrize("opened", rungs_of(metafunc, BY_EITHER_WAY), indirect=True, scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    async with open_rig(request.param) as rig:
        yield rig


@pytest.fixture
def rig(opened: Rig) -> Rig:
    opened.empty_project()
    return opened


def agrees(rig: Rig, claim: Claim, held: bool) -> bool:
    """Seen to hold where claimed, seen not to hold where it is not: the trial itself is shown to bite."""
    return held == (claim in rig.availability.holds)


async def test_files_outside_the_view(rig: Rig, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("untouched")
    report = await rig.look({"reads": [str(outside)], "writes": [str(outside)]})
    hidden = report["reads"][str(outside)] != "done" and outside.read_text() == "untouched"
    assert agrees(rig, Claim.FILESYSTEM_VIEW, hidden)


async def test_temporary_files_stay_inside(rig: Rig) -> None:
    canary = Path(tempfile.gettempdir(), f"gp-{secrets.token_hex(8)}")
    try:
        report = await rig.look({"writes": [str(canary)]})
        assert report["writes"][str(canary)] == "done"
        assert agrees(rig, Claim.PRIVATE_TMP, not canary.exists())
    finally:
        canary.unlink(missing_ok=True)


async def test_temporary_files_are_bounded(rig: Rig) -> None:
    if Claim.TMP_QUOTA in rig.availability.holds:
        source = "open('/tmp/big', 'wb').write(bytes(9 << 20))"
        result = await rig.python(source, limits=Limits(wall_s=60.0, tmp_bytes_max=8 * MIB))
        assert b"No space left" in result.output


async def test_c01_network_outside_is_closed_and_loopback_inside_works(rig: Rig) -> None:
    """C01: loopback, ::1 and unix sockets work inside with the outside network off."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        report = await rig.look({"host_ports": [port]})
    assert agrees(rig, Claim.NO_NETWORK, report["connect_host"][port] != "done")
    assert (report["loopback"], report["loopback_6"], report["unix"]) == ("done", "done", "done")
    if Claim.NO_NETWORK in rig.availability.holds:
        assert report["connect_outside"] in ("ENETUNREACH", "EHOSTUNREACH")


async def test_calls_are_filtered(rig: Rig) -> None:
    report = await rig.look()
    assert agrees(rig, Claim.SYSCALL_FILTER, report["status"]["Seccomp"] == "2")
    if Claim.SYSCALL_FILTER in rig.availability.holds:
        assert "done" not in report["calls"].values(), report["calls"]
    if Claim.NO_NEW_NAMESPACES in rig.availability.holds:
        assert report["calls"]["clone_user_namespace"] == "EPERM"


async def test_debuggers_work_for_builds_and_not_for_small_tools(rig: Rig) -> None:
    source = "import ctypes; print(ctypes.CDLL(None, use_errno=True).ptrace(0, 0, 0, 0))"
    if Claim.SYSCALL_FILTER in rig.availability.holds:
        assert (await rig.python(source, tool_kind="build")).output == b"0\n"
        assert (await rig.python(source, tool_kind="small")).output == b"-1\n"


async def test_rights_are_dropped(rig: Rig) -> None:
    status = (await rig.look())["status"]
    source = "import ctypes; print(ctypes.CDLL(None).prctl(39, 0, 0, 0, 0))"  # PR_GET_NO_NEW_PRIVS
    assert (await rig.python(source)).output == b"1\n"
    if Claim.NO_CAPABILITIES in rig.availability.holds:
        assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0


async def test_only_three_pipes_are_open(rig: Rig) -> None:
    assert Claim.ONLY_PIPES in rig.availability.holds
    descriptors = (await rig.look())["descriptors"]
    assert set(descriptors) == {"0", "1", "2"}
    assert all(target.startswith("pipe:") for target in descriptors.values())


async def test_c11_memory_limit_is_an_oom_not_a_failure(rig: Rig) -> None:
    """C11: a kill for memory is told as that, with the limit."""
    source = "input()\nb = []\nwhile True: b.append(bytearray(4 << 20))"  # the input comes when somebody listens
    result = await rig.python(source, b"\n", limits=Limits(wall_s=60.0, memory_bytes_max=64 * MIB))
    assert result.kind is ResultKind.OOM
    assert str(64 * MIB) in result.evidence


async def test_memory_that_processes_share_is_counted_once(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no control group holds the limit and the tree is sampled; what each has for itself passes the limit."""
    if rig.name not in ("process", "bubblewrap"):
        return
    monkeypatch.setattr(rig.backend, "_groups", None)
    source = (
        "import os, time\nb = bytearray(b'x') * (48 << 20)\npids = []\n"
        "for _ in range(3):\n    pids.append(os.fork())\n    if not pids[-1]:\n"
        "        {touch}\n        time.sleep({seconds}); os._exit(0)\n"
        "for pid in pids: os.waitpid(pid, 0)\nprint('fine')"
    )
    limits = Limits(wall_s=60.0, memory_bytes_max=112 * MIB)
    shared = await rig.python(source.format(touch="pass", seconds=1), limits=limits)
    assert shared.kind is ResultKind.OK, shared
    own = await rig.python(source.format(touch="b[::4096] = b'y' * len(b[::4096])", seconds=20), limits=limits)
    assert own.kind is ResultKind.OOM, own


async def test_process_limit(rig: Rig) -> None:
    source = (
        "import os, time\n"
        "n = 0\n"
        "try:\n"
        "    while n < 500:\n"
        "        if os.fork() == 0: time.sleep(60)\n"
        "        n += 1\n"
        "except OSError: pass\n"
        "print(n, flush=True); time.sleep(0.2 if n <= 20 else 15)\n"
        "os.kill(0, 9)"
    )
    result = await rig.python(source, limits=Limits(wall_s=60.0, processes_max=20))
    forked = int(result.output.split()[0]) if result.output else 0
    if Claim.PROCESS_LIMIT not in rig.availability.holds:
        assert forked < 500  # declared: a bound, but not this one
        return
    assert forked <= 20 or (result.kind is ResultKind.KILLED and "processes" in result.evidence)


@pytest.mark.parametrize(("mib", "files"), [(2, 200), (1024, 9)], ids=["too much", "with room"])
async def test_a_folder_that_is_filled_ends_its_run_within_the_run(rig: Rig, mib: int, files: int) -> None:
    """On a machine elsewhere too, where it is looked at over there; with room enough it does what it likes."""
    script = f"trap '' TERM; for n in $(seq {files}); do head -c 262144 /dev/zero >$n; sleep 0.1; done; echo all"
    lease = await rig.lease(bounds=(BoundPlan(str(rig.project), "the project", mib << 20, 1_000_000),))
    result = await (await rig.start_raw(lease, ("sh", "-c", script))).result()
    made = len(list(rig.project.iterdir()))
    await lease.release()
    if mib == 2:
        assert (result.kind, b"all" in result.output) == (ResultKind.KILLED, False), result
        assert "the project has grown to more than" in result.evidence
        assert 8 <= made < files
    else:
        assert (result.kind, made) == (ResultKind.OK, files), result


async def test_cpu_limit_counts_the_tree(rig: Rig) -> None:
    source = "import os\nos.fork()\nwhile True: pass"
    result = await rig.python(source, limits=Limits(wall_s=60.0, cpu_s=1))
    assert result.kind is ResultKind.TIMEOUT
    assert "CPU" in result.evidence


async def test_file_size_limit(rig: Rig) -> None:
    source = "open('big', 'wb').write(bytes(3 << 20))"
    await rig.python(source, limits=Limits(wall_s=60.0, file_bytes_max=MIB))
    assert (rig.project / "big").stat().st_size <= MIB


@pytest.mark.parametrize(
    "escape",
    [
        "trap '' TERM; sleep 60 & sleep 60",
        "setsid sleep 60 & sleep 60",
        "nohup sleep 60 >/dev/null 2>&1 & sleep 60",
        "sleep 60 | sleep 60",
        "(setsid sleep 60 & sleep 60 &) ; sleep 60",
    ],
)
async def test_c03_stop_leaves_no_process(rig: Rig, escape: str) -> None:
    """C03: the whole tree is dead, whatever sessions it made."""
    marker = f"gp{secrets.token_hex(6)}"
    lease = await rig.lease()
    # A shell keeps its words in its command line; each sleeper is one, so that the marker shows it.
    script = "echo ready; " + escape.replace("sleep 60", f"sh -c 'sleep 60; : {marker}'".replace("'", '"'))
    execution = await rig.start_raw(lease, ("sh", "-c", script))
    async for _chunk in execution.output():
        break
    with anyio.fail_after(50):
        await execution.stop()
    assert list_host_processes(marker) == []
    assert (await execution.result()).kind is ResultKind.KILLED
    await lease.release()


async def test_c03_what_a_command_leaves_behind_does_not_live_on(rig: Rig) -> None:
    """C03: a daemonised child that holds no pipe is found too; the result is not delayed by it."""
    marker = f"gp{secrets.token_hex(6)}"
    script = "setsid sh -c 'sleep 60; :' $0 >/dev/null 2>&1 </dev/null & exit 0"
    lease = await rig.lease()
    with anyio.fail_after(50):
        result = await (await rig.start_raw(lease, ("sh", "-c", script, marker))).result()
    assert result.kind is ResultKind.OK
    assert list_host_processes(marker) == []
    await lease.release()


async def test_c06_files_made_inside_belong_to_the_user(rig: Rig) -> None:
    """C06: outputs have the user's own ids."""
    await rig.run("write", "made.txt", "x")
    mine = rig.project.stat()
    made = (rig.project / "made.txt").stat()
    assert (made.st_uid, made.st_gid) == (mine.st_uid, mine.st_gid)


REACH_FOR = (
    "import ctypes, os, sys\n"
    "marker, *pids = sys.stdin.read().split()\n"
    "for pid in filter(str.isdigit, os.listdir('/proc')):\n"
    "    try: pids += [pid] * (marker.encode() in open(f'/proc/{pid}/cmdline', 'rb').read())\n"
    "    except OSError: pass\n"
    "libc = ctypes.CDLL(None)\n"
    "for pid in map(int, pids):\n"
    "    if libc.ptrace(0x4206, pid, 0, 0) == 0: print('traced', flush=True)\n"
    "    try: open(f'/proc/{pid}/mem', 'rb'); print('opened', flush=True)\n"
    "    except OSError: pass\n"
    "    for signal in (lambda: os.kill(pid, 15), lambda: os.killpg(pid, 15)):\n"
    "        try: signal(); print('signalled', flush=True)\n"
    "        except OSError: pass\n"
)


async def test_two_runs_can_neither_signal_nor_trace_each_other(rig: Rig) -> None:
    """Of two sessions, at the same time; by the numbers that the machine gives them and by those that show inside."""
    marker = f"gp{secrets.token_hex(6)}"
    interpreter = find_interpreter()
    lease = await rig.lease(mounts=interpreter.mounts)
    waiting = f"import time; print('ready', flush=True); time.sleep(60)  # {marker}"
    execution = await rig.start_raw(lease, (interpreter.path, "-I", "-S", "-B", "-c", waiting))
    async for _chunk in execution.output():
        break
    pids = " ".join(str(pid) for pid in list_host_processes(marker))
    said = (await rig.python(REACH_FOR, f"{marker} {pids}".encode())).output
    with anyio.move_on_after(0.3):
        await execution.result()
    untouched = not execution.is_over() and said == b""  # type: ignore[attr-defined]  # - every rung here has it
    await execution.stop()
    await lease.release()
    assert agrees(rig, Claim.RUNS_APART, untouched), said


async def test_a_run_may_signal_and_trace_its_own(rig: Rig) -> None:
    """Test runners end their workers, debuggers attach to their children."""
    source = (
        "import ctypes, os, signal, time\n"
        "pid = os.fork()\n"
        "if pid == 0: time.sleep(60)\n"
        "print(ctypes.CDLL(None).ptrace(0x4206, pid, 0, 0), open(f'/proc/{pid}/environ', 'rb').read(1) != b'')\n"
        "os.kill(pid, signal.SIGKILL); print(os.waitpid(pid, 0)[1] & 127)\n"
    )
    assert (await rig.python(source)).output == b"0 True\n9\n"


async def test_read_only_mount_is_read_only(rig: Rig, tmp_path: Path) -> None:
    if Claim.FILESYSTEM_VIEW not in rig.availability.holds:
        return
    mount = Mount(str(tmp_path), "/mnt/ro", Access.READ_ONLY)
    paths = ["/mnt/ro/x", "/usr/x", "/etc/x", "/x"]
    report = await rig.look({"writes": [*paths, f"/dev/{rig.folder.name}"]}, mounts=(mount,))
    assert {report["writes"][path] for path in paths} == {"EROFS"}
    # An engine's /dev is memory of the container's own; elsewhere it is read-only too.
    assert rig.name in (*ENGINE_RUNGS, *REMOTE_RUNGS) or report["writes"][f"/dev/{rig.folder.name}"] == "EROFS"
    assert not Path("/dev", rig.folder.name).exists()


async def test_project_is_at_its_own_path(rig: Rig) -> None:
    if Claim.FILESYSTEM_VIEW in rig.availability.holds:
        result = await rig.python("import os; print(os.getcwd())")
        assert result.output.decode().strip() == PROJECT


async def test_link_planted_by_one_run_bends_no_later_mount(rig: Rig, tmp_path: Path) -> None:
    if Claim.FILESYSTEM_VIEW not in rig.availability.holds:
        return
    (rig.project / "sub").symlink_to(tmp_path)
    inner = Mount(str(tmp_path), f"{PROJECT}/sub/made", Access.READ_ONLY)
    with pytest.raises(SandboxError) as caught:
        await rig.lease(mounts=(inner,))
    assert caught.value.code is ErrorCode.SANDBOX_REFUSED
    assert list(tmp_path.iterdir()) == []


async def test_c04_missing_mount_target_makes_nothing_on_the_host(rig: Rig, tmp_path: Path) -> None:
    """C04: no empty mount folders are left in a project."""
    if Claim.FILESYSTEM_VIEW in rig.availability.holds:
        with pytest.raises(SandboxError):
            await rig.lease(mounts=(Mount(str(tmp_path), f"{PROJECT}/not/there", Access.READ_ONLY),))
        assert list(rig.project.iterdir()) == []


async def test_doctor_agrees_with_the_claims(rig: Rig) -> None:
    findings = await examine(rig.backend)
    assert tuple(finding.name for finding in findings) == PROBES
    for finding in findings:
        assert finding.verdict is not Verdict.DOES_NOT_HOLD, finding
        assert finding.evidence
        assert bool(finding.fix) == (finding.verdict is Verdict.NOT_CLAIMED)
    verdicts = {finding.name: finding.verdict for finding in findings}
    strong = rig.name != "process"
    assert (verdicts["network_closed"] is Verdict.HOLDS) == strong
    assert (verdicts["mounts_isolated"] is Verdict.HOLDS) == strong


async def test_c01_this_environment_runs_its_own_tests_inside(rig: Rig) -> None:
    """pytest with a server on loopback, the job this product exists for. C01: it passes with the network off."""
    (rig.project / "test_inside.py").write_text(
        "import http.server, socket, threading, urllib.request\n"
        "def test_server(tmp_path):\n"
        "    server = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n"
        "    threading.Thread(target=server.handle_request).start()\n"
        "    with urllib.request.urlopen(f'http://127.0.0.1:{server.server_port}/') as reply:\n"
        "        assert reply.status == 200\n"
        "    server.server_close()\n"
        "def test_wrong():\n"
        "    assert 1 == 2\n"
    )
    interpreter = find_interpreter(packages=True)
    argv = (interpreter.path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_inside.py")
    lease = await rig.lease(mounts=interpreter.mounts)
    result = await (await rig.start_raw(lease, argv)).result()
    await lease.release()
    assert result.kind is ResultKind.FAILED
    assert result.exit_code == 1
    assert b"1 failed, 1 passed" in result.output
