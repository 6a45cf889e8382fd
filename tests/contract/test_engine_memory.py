"""The verdict of a container that was killed at its memory limit, whatever its engine says of it."""

import secrets
import select
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
import pytest_asyncio
from tests.kit.deaf_engine import EVENT, FLAG, PROCESS, deaf_engine
from tests.kit.require import require
from tests.kit.sandboxes import Rig, open_rig

from gloveport.protocol.jail.requests import CgroupPlan
from gloveport.sandbox.backends import cgroups
from gloveport.sandbox.backends.docker_choice import EngineChoice
from gloveport.sandbox.contract import Claim, Result, ResultKind
from gloveport.sandbox.profile import Limits
from gloveport.sandbox.runner import engine_memory
from gloveport.sandbox.runner.engine_api import EngineSocket
from gloveport.sandbox.runner.engine_memory import MemoryEar
from gloveport.sandbox.runner.groups import remove_groups

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.engine]
LIMITS = Limits(wall_s=60.0, memory_bytes_max=24 * 1024 * 1024, processes_max=16)
EATER = ("tail", "/dev/zero")
TRIALS = 4
KILLED_BY_ITSELF = ("sh", "-c", "kill -KILL $$")


@pytest_asyncio.fixture(params=["docker", "gvisor", "docker-warm"], scope="module", loop_scope="module")
async def rig(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    async with open_rig(request.param) as opened:
        yield opened


async def end_of(rig: Rig, argv: tuple[str, ...], front: Path, *blanked: tuple[bytes, bytes]) -> Result:
    """How a run ends in an engine that keeps these words to itself, after a trial in one that says everything."""
    assert rig.engine is not None
    with deaf_engine(rig.engine.host, front, *blanked) as host:
        choice = EngineChoice(host, rig.engine.image, rig.engine.runtime, rig.engine.warm)
        deaf = Rig(rig.name, rig.folder, (), choice)
        deaf._runs = rig._runs + 1000
        try:
            deaf.backend._ready = rig.backend._ready  # type: ignore[attr-defined]  # - the trial itself needs the words
            lease = await deaf.lease(limits=LIMITS)
            try:
                return await (await deaf.start_raw(lease, argv)).result()
            finally:
                await lease.release()
                rig._runs = deaf._runs
        finally:
            await deaf.backend.close()


@pytest.mark.parametrize(
    "blanked", [(), (FLAG,), (FLAG, EVENT), (FLAG, PROCESS)], ids=["none", "flag", "both", "group"]
)
async def test_c11_a_kill_at_the_limit_is_told_by_whoever_saw_it(
    rig: Rig, tmp_path: Path, blanked: tuple[tuple[bytes, bytes], ...]
) -> None:
    """The engine's flag, the kernel's word in the container's group, or the engine's event: one is enough.

    On a busy machine a container may be gone before anybody listens in its group: then nobody knows, and says so.
    """
    for trial in range(TRIALS):
        result = await end_of(rig, EATER, tmp_path / f"front-{trial}", *blanked)
        if result.kind is ResultKind.OOM:
            break
    assert result.kind is ResultKind.OOM, result.evidence
    assert str(LIMITS.memory_bytes_max) in result.evidence


async def test_c11_a_kill_that_nobody_explains_is_not_called_one_for_memory(rig: Rig, tmp_path: Path) -> None:
    result = await end_of(rig, EATER, tmp_path / "front", FLAG, EVENT, PROCESS)
    assert (result.kind, result.exit_code) == (ResultKind.FAILED, 137)
    assert "the engine does not say why" in result.evidence


async def test_a_kill_by_a_signal_of_its_own_is_no_memory_kill(rig: Rig, tmp_path: Path) -> None:
    result = await end_of(rig, KILLED_BY_ITSELF, tmp_path / "front")
    assert (result.kind, result.exit_code) == (ResultKind.FAILED, 137)


async def test_the_trial_of_the_limit_waits_until_somebody_listens(tmp_path: Path) -> None:
    """A busy engine says late which process the container is, and nothing of the kill: the kernel's word is enough."""
    require(cgroups.find_version() is not None, "needs control groups that can be read here")
    async with open_rig("docker") as rig:
        assert rig.engine is not None
        with deaf_engine(rig.engine.host, tmp_path / "front", FLAG, EVENT, late_s=0.5) as host:
            backend = Rig("docker", tmp_path, (), EngineChoice(host, rig.engine.image)).backend
            found = await backend.probe()
            await backend.close()
    assert found.ok, found.reason
    assert Claim.MEMORY_CAP in found.holds, found.does_not_hold


async def test_a_process_that_is_not_the_containers_is_never_followed(tmp_path: Path) -> None:
    """An engine elsewhere names process numbers of its machine; here they are somebody else's."""
    (tmp_path / "memory").mkdir()
    assert engine_memory._open_group(tmp_path, 1, "ab" * 32) is None
    assert engine_memory._open_group(tmp_path, 0, "ab" * 32) is None


async def test_a_group_of_the_second_version_is_read_by_its_open_file(tmp_path: Path) -> None:
    """No machine of the tests has one for containers: the file alone is real."""
    events = tmp_path / "memory.events"
    events.write_text("low 0\nhigh 0\nmax 3\noom 1\noom_kill 0\n")
    group = engine_memory._SecondGroup(tmp_path)
    assert (group.count(), group.wakes) == (0, select.POLLPRI)
    events.write_text("low 0\nhigh 0\nmax 3\noom 1\noom_kill 2\n")
    assert group.count() == 2
    events.write_text("")
    assert group.count() == 2
    group.close()


@pytest.mark.parametrize(("eats", "kills"), [(True, 1), (False, 0)])
async def test_the_kernels_word_is_kept_when_the_group_is_gone(eats: bool, kills: int) -> None:
    """An engine removes a container's group at its end, often before anybody looks."""
    parent = cgroups.ROOT / "memory"
    require(cgroups.find_version() == 1, "needs control groups of version 1 that can be made here")
    folder = parent / f"{cgroups.PREFIX}test-{secrets.token_hex(6)}"
    folder.mkdir()
    try:
        (folder / "memory.limit_in_bytes").write_text(str(16 * 1024 * 1024))
        group = engine_memory._FirstGroup(folder)
        join = f"echo $$ > {folder}/cgroup.procs; exec " + (" ".join(EATER) if eats else "true")
        await anyio.run_process(["sh", "-c", join], check=False)
    finally:
        remove_groups(CgroupPlan(1, (str(folder),), (), "", ""))
    with anyio.move_on_after(30.0 if kills else 1.0):
        while group.count() == 0:
            await anyio.sleep(0.01)
    group.close()
    assert group._kills == kills


async def test_an_engine_that_is_away_says_nothing(tmp_path: Path) -> None:
    ear = MemoryEar(EngineSocket(str(tmp_path / "none")), "c")
    ear.listen()
    ear.find_group()
    ear.follow(select.poll())
    assert ear.count_kills(wait=True) == 0
    ear.close()
