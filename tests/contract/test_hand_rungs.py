"""Hands in a container: the same answers, by the same programs, with the same one way out."""

from pathlib import Path

import pytest
from tests.kit.engines import shared_engine
from tests.kit.hands import hand_table
from tests.kit.mail_server import MESSAGE, mail_server, ways_of
from tests.kit.sandboxes import open_rig

from gloveport.sandbox.contract import ResultKind
from gloveport.sandbox.profile import Limits

FILES = {"a.csv": b"region,amount\nnorth,3\n"}


@pytest.mark.engine
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
async def test_what_the_breaker_ends_in_a_container_leaves_a_dump() -> None:
    """Memory by the kernel's own books, above the soft limit and below the hard one."""
    grow = "import time\nb = bytearray(80 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\ntime.sleep(50)"
    async with open_rig("docker") as rig:
        limits = Limits(wall_s=60.0, memory_bytes_max=90 << 20)
        grown = await rig.python(grow, tool_kind="small", limits=limits)
    assert (grown.kind, "soft limit" in grown.evidence) == (ResultKind.OOM, True), grown
    assert "maps:" in grown.dump
    assert "python" in grown.dump
