"""Hands in a container: the same answers, by the same programs, with the same one way out."""

from pathlib import Path

import pytest
from tests.kit.engines import shared_engine
from tests.kit.hands import hand_table
from tests.kit.mail_server import MESSAGE, mail_server, ways_of

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
