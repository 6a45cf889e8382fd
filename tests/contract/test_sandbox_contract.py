"""What every sandbox backend promises, whatever it isolates.

Purpose: one suite over memory, every rung, and containers that wait.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
import pytest_asyncio
from tests.kit.sandboxes import BACKENDS, PROJECT, Rig, on_rungs, open_rig

from gloveport.protocol.errors import ErrorCode
from gloveport.sandbox.contract import Claim, Command, ResultKind, SandboxError
from gloveport.sandbox.profile import Limits

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(params=on_rungs(*BACKENDS), scope="module", loop_scope="module")
async def opened(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    async with open_rig(request.param) as rig:
        yield rig


@pytest.fixture
def rig(opened: Rig) -> Rig:
    opened.empty_project()
    return opened


async def test_every_claim_is_held_or_declared_not_held(rig: Rig) -> None:
    declared = {claim for claim, words in rig.availability.does_not_hold if words}
    assert not declared & rig.availability.holds
    assert declared | rig.availability.holds == set(Claim)


async def test_output_streams_before_the_end(rig: Rig) -> None:
    lease = await rig.lease()
    execution = await rig.start(lease, "say", "first", "30")
    with anyio.fail_after(60):
        assert await anext(aiter(execution.output())) == b"first\n"
    await execution.stop()
    await lease.release()


async def test_late_reader_gets_everything(rig: Rig) -> None:
    lease = await rig.lease()
    execution = await rig.start(lease, "echo", "one", "two")
    result = await execution.result()
    assert result.kind is ResultKind.OK
    assert b"".join([chunk async for chunk in execution.output()]) == b"one two\n" == result.output
    await lease.release()


async def test_stdin_arrives_whole(rig: Rig) -> None:
    body = bytes(range(256)) * 1500
    result = await rig.run("cat", stdin=body)
    assert result.output == body


@pytest.mark.parametrize("code", [1, 137, 143, 255])
async def test_exit_code_alone_is_a_failure_of_the_program(rig: Rig, code: int) -> None:
    result = await rig.run("exit", str(code))
    assert (result.kind, result.exit_code) == (ResultKind.FAILED, code)


async def test_unknown_program_fails_with_words(rig: Rig) -> None:
    lease = await rig.lease()
    result = await (await lease.start(Command(("no-such-program-here",), "missing"))).result()
    await lease.release()
    assert result.kind is ResultKind.FAILED, result.evidence
    assert "no-such-program-here" in result.output.decode() + result.evidence


async def test_c08_wall_limit_keeps_partial_output(rig: Rig) -> None:
    """C08: on a timeout the output so far is kept, and the end says so."""
    result = await rig.run_into_wall()
    assert result.kind is ResultKind.TIMEOUT
    assert result.output == b"one\n"
    assert "wall limit" in result.evidence


async def test_c08_idle_limit_is_not_the_wall_limit(rig: Rig) -> None:
    """C08: idle and total limits are separate."""
    result = await rig.run("say", "one", "30", limits=Limits(wall_s=20.0, idle_s=0.3))
    assert result.kind is ResultKind.TIMEOUT
    assert "idle limit" in result.evidence


async def test_c12_flood_keeps_head_and_tail(rig: Rig) -> None:
    """C12: output is bounded, head and tail, with its true size."""
    result = await rig.run("flood", "3000000", limits=Limits(wall_s=20.0, output_bytes_max=4096))
    assert result.truncated
    assert result.output_bytes_total == 3_000_005
    assert len(result.output) == 4096
    assert result.output.endswith(b"x\nend\n")


async def test_stop_ends_the_run_and_is_idempotent(rig: Rig) -> None:
    lease = await rig.lease()
    execution = await rig.start(lease, "sleep", "60")
    with anyio.fail_after(50):
        await execution.stop()
        await execution.stop()
    result = await execution.result()
    assert result.kind is ResultKind.KILLED
    assert result.evidence == "stopped on request"
    await lease.release()


async def test_written_files_are_collected(rig: Rig) -> None:
    lease = await rig.lease()
    await (await rig.start(lease, "write", "out.txt", "hello")).result()
    assert await lease.collect(("*.txt",)) == {f"{PROJECT}/out.txt": b"hello"}
    assert (rig.project / "out.txt").read_bytes() == b"hello"
    await lease.release()


async def test_collect_takes_plain_files_only(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (rig.project / "plain.txt").write_text("plain")
    (rig.project / "link.txt").symlink_to(tmp_path / "secret.txt")
    (rig.project / "twice.txt").write_text("twice")
    (rig.project / "twice.bin").hardlink_to(rig.project / "twice.txt")
    (rig.project / "folder").symlink_to(tmp_path)
    lease = await rig.lease()
    assert set(await lease.collect(("**/*.txt", "*.txt"))) == {f"{PROJECT}/plain.txt"}
    with pytest.raises(SandboxError):
        await lease.collect(("../*.txt",))
    await lease.release()


async def test_collect_waits_for_the_end(rig: Rig) -> None:
    lease = await rig.lease()
    execution = await rig.start(lease, "sleep", "60")
    with pytest.raises(SandboxError) as caught:
        await lease.collect(("*",))
    assert caught.value.code is ErrorCode.SANDBOX_REFUSED
    await execution.stop()
    assert await lease.collect(("*",)) == {}
    await lease.release()


async def test_run_id_is_used_once(rig: Rig) -> None:
    lease = await rig.lease()
    await (await lease.start(Command(rig.words("true"), "same"))).result()
    with pytest.raises(SandboxError) as caught:
        await lease.start(Command(rig.words("true"), "same"))
    assert caught.value.code is ErrorCode.SANDBOX_REFUSED
    await lease.release()


@pytest.mark.parametrize("run_id", ["", "..", "a/b", ".hidden", "x" * 200, "nul\0"])
async def test_run_id_is_no_path(rig: Rig, run_id: str) -> None:
    lease = await rig.lease()
    with pytest.raises(SandboxError):
        await lease.start(Command(rig.words("true"), run_id))
    await lease.release()


async def test_release_stops_what_runs_and_forgets_it(rig: Rig) -> None:
    lease = await rig.lease()
    execution = await rig.start(lease, "sleep", "60")
    await lease.release()
    await lease.release()
    assert (await execution.result()).kind is ResultKind.KILLED
    assert await rig.backend.attach(execution.run_id) is None
    with pytest.raises(SandboxError):
        await rig.start(lease, "true")


async def test_attach_finds_a_run_and_forget_drops_it(rig: Rig) -> None:
    lease = await rig.lease()
    execution = await rig.start(lease, "say", "here", "60")
    found = await rig.backend.attach(execution.run_id)
    assert found is not None
    with pytest.raises(SandboxError):
        await rig.backend.forget(execution.run_id)
    await found.stop()
    await rig.backend.forget(execution.run_id)
    assert await rig.backend.attach(execution.run_id) is None
    assert await rig.backend.attach("never-was") is None


async def test_environment_is_the_profiles(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOVEPORT_CANARY", "leaked")
    result = await rig.run("env", environment={"GIVEN": "yes"})
    names = {line.split("=")[0] for line in result.output.decode().splitlines()}
    assert "GIVEN" in names
    assert names <= {"GIVEN", "PATH", "LANG", "HOME", "TMPDIR", "PWD", "SHLVL", "_", "GLOVEPORT_RUN"}


async def test_security_context_names_values_in_force(rig: Rig) -> None:
    lease = await rig.lease(limits=Limits(wall_s=7.0), environment={"SECRET": "value-of-a-secret"})
    context = lease.security_context
    assert context["sandbox"] == rig.name
    assert context["environment_names"] == ["SECRET"]
    assert "value-of-a-secret" not in repr(context)
    assert context["limits"]["wall_s"] == 7.0  # type: ignore[index] # - JSON-ready by contract
    await lease.release()


async def test_two_runs_do_not_disturb_each_other(rig: Rig) -> None:
    lease = await rig.lease()
    slow = await rig.start(lease, "say", "slow", "60")
    with anyio.fail_after(60):
        assert await anext(aiter(slow.output())) == b"slow\n"
    assert (await rig.run("exit", "9")).exit_code == 9
    found = await rig.backend.attach(slow.run_id)
    assert found is not None
    await slow.stop()
    assert (await slow.result()).output == b"slow\n"
    await lease.release()


async def test_c04_nothing_is_left_in_the_run_folders(rig: Rig) -> None:
    """C04: no leftovers of runs that were released."""
    for _ in range(5):
        await rig.run("true")
    left = [path for path in rig.runs_dir.rglob("*") if path.is_file()] if rig.runs_dir.exists() else []
    assert left == []
