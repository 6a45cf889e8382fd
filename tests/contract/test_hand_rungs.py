"""Hands in a container: the same answers, by the same programs, with the same one way out."""

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
from tests.kit.engines import shared_engine
from tests.kit.hands import hand_table
from tests.kit.mail_server import MESSAGE, mail_server, ways_of
from tests.kit.sandboxes import open_rig

from gloveport.protocol.jail.requests import BreakerPlan
from gloveport.sandbox.backends import docker
from gloveport.sandbox.contract import ResultKind
from gloveport.sandbox.monitor.thresholds import plan_breaker
from gloveport.sandbox.profile import Limits, Profile
from gloveport.server.hands.table import HANDS
from gloveport.server.tools import handwork, safe_command

FILES = {"a.csv": b"region,amount\nnorth,3\n"}


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hands that may take much longer: what they answer is looked at here, and a busy machine is slow."""
    longer = MappingProxyType({name: replace(hand, wall_s=20 * hand.wall_s) for name, hand in HANDS.items()})
    for module in (handwork, safe_command):
        monkeypatch.setattr(module, "HANDS", longer)


@pytest.mark.engine
@pytest.mark.usefixtures("patient")
async def test_hands_work_in_a_container(tmp_path: Path) -> None:
    engine = shared_engine().choice
    async with mail_server() as server:
        ways = ways_of(tmp_path, server)
        async with hand_table(tmp_path, FILES, rung="docker", ways=ways, engine=engine) as table:
            read = await table.use("read_document", path="a.csv")
            drawn = await table.use("plot", path="a.png", series=[{"values": [1, 2]}])
            seen = await table.use("look_with", argv=["wc", "-l", "a.csv"])
            sent = await table.use("send_email", **MESSAGE, attachments=["a.png"])
    assert read.text.splitlines()[-1] == '["north", "3"]', read
    assert drawn.outcome == "ok", drawn
    assert seen.text.startswith("2 a.csv"), seen
    assert sent.outcome == "ok", sent
    assert len(server.messages) == 1


@pytest.mark.engine
async def test_what_the_breaker_ends_in_a_container_leaves_a_dump(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory by the kernel's own books, above the soft limit and below the hard one; a processor that is kept busy."""

    def early(profile: Profile) -> BreakerPlan:
        return replace(plan_breaker(profile), cpu_share=0.05, cpu_window_s=1.0)  # what a busy machine gives, too

    grow = "import time\nb = bytearray(80 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\ntime.sleep(50)"
    async with open_rig("docker") as rig:
        limits = Limits(wall_s=60.0, memory_bytes_max=90 << 20)
        grown = await rig.python(grow, tool_kind="small", limits=limits)
        monkeypatch.setattr(docker, "plan_breaker", early)
        spun = await rig.python("while True: pass", tool_kind="small", limits=Limits(wall_s=60.0))
    assert (grown.kind, "soft limit" in grown.evidence) == (ResultKind.OOM, True), grown
    assert (spun.kind, "% of a core" in spun.evidence) == (ResultKind.KILLED, True), spun
    for ended in (grown, spun):
        assert "maps:" in ended.dump
        assert "python" in ended.dump
