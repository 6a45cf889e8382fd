"""A database that was put back from a copy: a new epoch, and clients that saw more begin anew."""

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.daemon import Daemon, run_turn, running_daemon, send, start_session, trust

from gloveport.protocol.journal.envelope import decode_cursor
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.session import SubscribeParams
from gloveport.server.client.connect import Client

WAIT_S = 90.0


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon whose model just talks."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"name": "restore", "steps": [{"text": "An answer."}]}))
    with running_daemon(script) as running:
        yield running


async def cursor_of(client: Client, session_id: str) -> str:
    """Where the session stands."""
    return (await client.call("session/show", SessionParams(session_id=session_id))).cursor


async def talk(client: Client, session_id: str) -> None:
    """One more turn."""
    await send(client, session_id, "go")
    assert await run_turn(client, session_id) == "completed"


async def test_a_restored_copy_changes_the_epoch_and_old_cursors_begin_anew(daemon: Daemon, tmp_path: Path) -> None:
    """The cursor from after the copy gets a snapshot, never a silent hole; the one from before it is replayed."""
    root = tmp_path / "project"
    root.mkdir()
    async with daemon.client() as client:
        await trust(client, root)
        session_id = (await start_session(client, root)).session_id
        await talk(client, session_id)
        before = await cursor_of(client, session_id)
    daemon.stop()
    shutil.copyfile(daemon.home / "journal.db", tmp_path / "copy")
    daemon.start()
    async with daemon.client() as client:
        await talk(client, session_id)
        after = await cursor_of(client, session_id)
        assert decode_cursor(after).epoch == 1
    daemon.stop()
    shutil.copyfile(tmp_path / "copy", daemon.home / "journal.db")
    daemon.start()
    async with daemon.client() as client:
        async with asyncio.timeout(WAIT_S):
            asked = SubscribeParams(session_id=session_id, after=after)
            assert (await client.call("session/subscribe", asked)).mode == "snapshot"
            asked = SubscribeParams(session_id=session_id, after=before)
            assert (await client.call("session/subscribe", asked)).mode == "replay"
            await talk(client, session_id)
            now = decode_cursor(await cursor_of(client, session_id))
        assert (now.epoch, now.seq > decode_cursor(before).seq) == (2, True)
        report = await client.call("audit/verify")
        assert report.ok
    # The same place in both epochs is another event, and a cursor says which.
    daemon.kill()
    daemon.start()
    async with daemon.client() as client:
        asked = SubscribeParams(session_id=session_id, after=after)
        assert (await client.call("session/subscribe", asked)).mode == "snapshot"
