"""Eight sessions at once on one pool of waiting containers: none takes the others' share, none waits for ever."""

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from tests.kit.sandboxes import Rig, open_rig

from gloveport.sandbox.backends.docker import DockerSandbox
from gloveport.sandbox.backends.pool import Idle, PoolBooks
from gloveport.sandbox.contract import Command, ResultKind
from gloveport.sandbox.profile import Access, Mount
from gloveport.sandbox.runner import rundir

SESSIONS = 8
STARTS = 4
GREEDY = 6
"""Of so many kinds is what the greedy session asks for, again and again."""


def test_a_greedy_session_leaves_each_other_its_share() -> None:
    """Simulated: one session asks for six kinds in each round; the seven others find theirs waiting each time."""
    books, hits, made = PoolBooks(SESSIONS), Counter[str](), 0
    for turn in range(50):
        now = float(turn)
        asks = [("greedy", f"kind-{number}") for number in range(GREEDY)]
        asks += [(f"calm-{number}", "kind") for number in range(SESSIONS - 1)]
        for session, key in asks:
            hits[session] += books.take(session, key, now + 1.0, now) is not None
            if books.wants(session, key, now):
                made += 1
                books.put(Idle(f"c{made}", key, session, now + 1000.0), now)
        held = Counter(idle.session for idle in books._idle)
        assert sum(held.values()) <= SESSIONS
        if turn > 0:
            assert held["greedy"] <= 1, "more than its share while others ask"
    calm = [hits[f"calm-{number}"] for number in range(SESSIONS - 1)]
    assert min(calm) >= 48, calm
    assert max(calm) - min(calm) <= 1


async def session(rig: Rig, number: int, warm: Counter[int]) -> None:
    """One session's starts, one after the other, each counted where it found a container waiting."""
    project = rig.folder / f"project-{number}"
    project.mkdir()
    mount = Mount(str(project), f"/home/user/{number}", Access.READ_WRITE)
    profile = replace(rig.profile(), mounts=(mount,), working_dir=mount.target)
    assert isinstance(rig.backend, DockerSandbox)
    await rig.backend.prewarm(profile)
    for turn in range(STARTS):
        lease = await rig.backend.prepare(profile, f"lease-{number}-{turn}")
        execution = await lease.start(Command(("sh", "-c", "echo $$ > made"), f"run-{number}-{turn}"))
        plan = rundir.read_request(execution.folder).engine
        warm[number] += plan is not None and plan.execute != ""
        assert (await execution.result()).kind is ResultKind.OK
        await lease.release()
        await rig.backend._warm.settle()


@pytest.mark.engine
async def test_eight_sessions_find_containers_waiting_alike(tmp_path: Path) -> None:
    """With real containers: each finds its own, none is left out, and nothing stays."""
    warm: Counter[int] = Counter()
    async with open_rig("docker") as rig:
        assert rig.engine is not None
        rig.engine = replace(rig.engine, warm=SESSIONS)
        usual, rig.backend = rig.backend, rig.open()
        try:
            assert (await rig.backend.probe()).ok
            await asyncio.gather(*(session(rig, number, warm) for number in range(SESSIONS)))
        finally:
            await rig.backend.close()
            backend, rig.backend = rig.backend, usual
        assert isinstance(backend, DockerSandbox)
        assert backend._engine.list_ours(backend._owner()) == ()
    counts = [warm[number] for number in range(SESSIONS)]
    assert min(counts) >= 1, counts
    assert max(counts) - min(counts) <= 2, counts
