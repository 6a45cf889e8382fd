"""A real daemon whose files were damaged or taken away: told, typed, and as little lost as can be."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.daemon import Daemon, run_turn, running_daemon, send, start_session, trust
from tests.kit.journal_kit import opened

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.envelope import NewEvent
from gloveport.protocol.wire.base import SessionParams
from gloveport.server.client.connect import Client
from gloveport.server.journal.records import Append, StreamAppend

WAIT_S = 40.0


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon whose model just talks."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"name": "damage", "steps": [{"text": "An answer."}]}))
    with running_daemon(script) as running:
        yield running


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder to work in."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("a\n")
    return folder


async def talk(client: Client, root: Path, turns: int = 1) -> str:
    """A session with so many answered messages."""
    await trust(client, root)
    session_id = (await start_session(client, root)).session_id
    for _ in range(turns):
        await send(client, session_id, "go")
        assert await run_turn(client, session_id) == "completed"
    return session_id


async def items_of(client: Client, session_id: str) -> list[dict[str, Any]]:
    """What a client that comes now is shown."""
    follow = client.follow(session_id)
    async with asyncio.timeout(WAIT_S):
        async for update in follow:
            if update.caught_up:
                return follow.view.items()
    raise AssertionError("the stream ended")


async def test_a_damaged_log_is_told_in_the_session_and_by_the_audit(daemon: Daemon, root: Path) -> None:
    """One flipped bit takes acknowledged events away; the session says how many, and so does audit/verify."""
    async with daemon.client() as client:
        session_id = await talk(client, root, 3)
        before = len(await items_of(client, session_id))
    daemon.kill()
    log = daemon.home / "journal.db-wal"
    data = bytearray(log.read_bytes())
    data[int(len(data) * 0.8)] ^= 1
    log.write_bytes(data)
    daemon.start()
    async with daemon.client() as client:
        items = await items_of(client, session_id)
        assert len(items) <= before
        (told,) = (item["fields"]["text"] for item in items if item["kind"] == "recovery")
        assert "are gone" in told
        report = await client.call("audit/verify")
        assert f"session/{session_id} lost" in report.words
        await send(client, session_id, "go on")
        assert await run_turn(client, session_id) == "completed"
    daemon.kill()
    daemon.start()
    async with daemon.client() as client:  # told once
        assert (await client.call("audit/verify")).words.count("lost") == report.words.count("lost")


async def test_a_removed_journal_stops_the_work_and_comes_back(daemon: Daemon, root: Path) -> None:
    """Nothing is accepted into files without a name; after a restart everything acknowledged is there."""
    async with daemon.client() as client:
        session_id = await talk(client, root)
        before = await items_of(client, session_id)
        for path in daemon.home.glob("journal.db*"):
            path.unlink()
        for _ in range(2):
            with pytest.raises(GloveportError) as caught:
                await send(client, session_id, "again")
            assert caught.value.code is ErrorCode.NOT_SAVED
            assert "journal.db" in caught.value.message
    daemon.stop()
    daemon.start()
    async with daemon.client() as client:
        assert (await items_of(client, session_id))[: len(before)] == before
        assert (await client.call("audit/verify")).ok


async def test_a_removed_audit_log_stops_the_work_and_is_told(daemon: Daemon, root: Path) -> None:
    """audit/verify and audit/export answer typed."""
    async with daemon.client() as client:
        await talk(client, root)
        (daemon.home / "audit.jsonl").unlink()
        report = await client.call("audit/verify")
        assert not report.ok
        assert "audit.jsonl" in report.words or "cannot be read" in report.words
    daemon.stop()
    daemon.start()


async def test_removed_lock_and_socket_let_no_second_daemon_in(daemon: Daemon) -> None:
    """Another process that is asked to serve the same data refuses and leaves everything as it is."""
    for path in (daemon.home / "daemon.lock", daemon.places.socket):
        path.unlink()
    process = daemon.process
    assert process is not None
    command = [sys.executable, "-P", "-m", "gloveport.server", "daemon"]
    names = {"HOME": str(daemon.home), "GLOVEPORT_HOME": str(daemon.home), "PYTHONPATH": ":".join(sys.path)}
    second = subprocess.run(command, env=names, capture_output=True, timeout=WAIT_S, check=False, cwd=daemon.home)
    assert second.returncode != 0
    assert b"belongs to" in second.stderr
    assert not daemon.places.socket.exists()
    assert process.poll() is None


async def test_an_event_that_cannot_be_read_is_named(daemon: Daemon, root: Path) -> None:
    """Its session is refused with stream and number; the others are not touched."""
    async with daemon.client() as client:
        bad, good = await talk(client, root), await talk(client, root)
    daemon.stop()
    async with opened(daemon.home) as journal:
        head = await journal.head(f"session/{bad}")
        assert head is not None
        part = StreamAppend(f"session/{bad}", head.next_seq, (NewEvent("TurnStarted", 1, b'{"turn_id":7}'),))
        await journal.append(Append((part,), 1))
    daemon.start()
    async with daemon.client() as client:
        with pytest.raises(GloveportError) as caught:
            await client.call("session/show", SessionParams(session_id=bad))
        assert caught.value.code is ErrorCode.CORRUPT
        assert f"event {head.next_seq} of session/{bad}" in caught.value.message
        await send(client, good, "go on")
        assert await run_turn(client, good) == "completed"
