"""A daemon on a disk of one megabyte: it serves, stops typed when the disk is full, and loses nothing (D02, D04)."""

import asyncio
import ctypes
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.crash.test_journal_disk_full import tiny_disk
from tests.kit.command_line import Cli, lines_of
from tests.kit.daemon import Daemon, run_turn, send, start_session, trust

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.place import DaemonTold
from gloveport.server.client.connect import Client

DISK_BYTES = 1024 * 1024
ROOM_BYTES = 32 * 1024 * 1024
WAIT_S = 60.0
SETTINGS = "# mine\n"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon whose home is a small disk; its script lies elsewhere."""
    place = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
    script = tmp_path / "script.json"
    long = {"when": {"user_contains": "long"}, "text": "More than the disk holds. " * 38_000}
    script.write_text(json.dumps({"name": "tiny", "steps": [long, {"text": "An answer of some length. " * 400}]}))
    with tiny_disk(place, DISK_BYTES) as home:
        made = Daemon(home)
        made.use_script(script)
        try:
            yield made
        finally:
            made.kill()
    shutil.rmtree(place, ignore_errors=True)


async def items_of(client: Client, session_id: str) -> list[dict[str, Any]]:
    """What a client that comes now is shown."""
    follow = client.follow(session_id)
    async with asyncio.timeout(WAIT_S):
        async for update in follow:
            if update.caught_up:
                return follow.view.items()
    raise AssertionError("the stream ended")


async def talk_until_full(client: Client, sessions: list[str]) -> int:
    """Turns in two sessions at once until the disk refuses; how many ended well."""
    count = 0
    while True:
        outcomes = await asyncio.gather(*(one_turn(client, one) for one in sessions))
        count += outcomes.count("completed")
        if not {"told", "refused"}.isdisjoint(outcomes):
            return count


async def one_turn(client: Client, session_id: str) -> str:
    """How a turn ended: by its end event, or by what the daemon tells everybody when no event can be written."""
    notices = client.notices()
    try:
        await send(client, session_id, "go")
    except GloveportError as error:
        if error.code not in (ErrorCode.DATA_FULL, ErrorCode.NOT_SAVED) or not error.hint:
            raise
        return "refused"
    turn = asyncio.ensure_future(run_turn(client, session_id))
    while True:
        told = asyncio.ensure_future(stopped_words(notices))
        await asyncio.wait([turn, told], return_when=asyncio.FIRST_COMPLETED)
        if turn.done():
            told.cancel()
            return turn.result()
        assert "Not saved" in told.result()
        try:
            await client.call("session/show", SessionParams(session_id=session_id))
        except GloveportError as error:
            if error.code not in (ErrorCode.DATA_FULL, ErrorCode.NOT_SAVED):
                raise
            turn.cancel()
            return "told"


async def stopped_words(notices: AsyncIterator[DaemonTold]) -> str:
    """What is told when nothing can be saved."""
    async for notice in notices:
        if not notice.accepting:
            return notice.words
    raise AssertionError("the daemon went away")


async def test_d04_a_disk_of_one_megabyte_fills_and_is_freed(daemon: Daemon, tmp_path: Path) -> None:
    """Two sessions fill it during their turns; after a kill and with room again everything acknowledged is there."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("a\n")
    settings = (daemon.home / "config.toml").read_bytes()
    daemon.start()
    async with daemon.client() as client:
        await trust(client, root)
        sessions = [(await start_session(client, root)).session_id for _ in range(2)]
        async with asyncio.timeout(60):
            assert await talk_until_full(client, sessions) >= 2
        told = (await client.call("daemon/status")).data.told
        assert any("nearly full" in words or "Nothing can be saved" in words for words in told)
    daemon.kill()
    assert ctypes.CDLL(None).mount(b"x", os.fsencode(daemon.home), b"tmpfs", 32, b"size=%d" % ROOM_BYTES) == 0
    daemon.start()
    async with daemon.client() as client:
        listed = [one.session_id for one in (await client.call("session/list")).sessions]
        assert sorted(listed) == sorted(sessions)
        for session_id in sessions:
            items = await items_of(client, session_id)
            answers = [one["fields"] for one in items if one["kind"] == "message.assistant"]
            assert len(answers) >= 1
            await run_turn(client, session_id)  # what broke off goes on by itself
            await send(client, session_id, "go on")
            assert await run_turn(client, session_id) == "completed"
        assert (await client.call("audit/verify")).ok
    assert (daemon.home / "config.toml").read_bytes() == settings


@pytest.mark.parametrize("manner", ["words", "json"])
def test_d02_a_command_says_at_once_that_its_turn_is_not_saved(daemon: Daemon, tmp_path: Path, manner: str) -> None:
    """The disk fills in the middle of an answer, and no end can be written: the command says so, and ends."""
    root = tmp_path / "project"
    root.mkdir()
    daemon.start()
    cli = Cli(daemon)
    options = ["--json"] if manner == "json" else []
    done = cli("run", "a long answer", "--root", str(root), "--trust", "trusted", *options, code=1)
    assert "Free" in done.stderr
    if manner == "words":
        assert "Not saved. Nothing can be saved now" in done.stdout
        return
    lines = lines_of(done)
    assert {"type": "daemon/told", "accepting": False} in [
        {key: line.get(key) for key in ("type", "accepting")} for line in lines
    ]
    assert (lines[-1]["type"], lines[-1]["exitCode"]) == ("result", 1)
    assert lines[-1]["result"] in (ErrorCode.DATA_FULL, ErrorCode.NOT_SAVED)
