"""A real daemon whose files were damaged or taken away: told, typed, and as little lost as can be."""

import asyncio
import json
import sqlite3
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
from gloveport.server.client.connect import Client
from gloveport.server.journal.records import Append, StreamAppend

WAIT_S = 90.0


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


async def test_d01_an_event_that_cannot_be_read_is_set_aside_and_told(daemon: Daemon, root: Path) -> None:
    """A bad record followed by a good one: the session opens before it, says so once, goes on; others are untouched."""
    async with daemon.client() as client:
        bad, good = await talk(client, root), await talk(client, root)
        before = await items_of(client, bad)
    daemon.stop()
    async with opened(daemon.home) as journal:
        head = await journal.head(f"session/{bad}")
        assert head is not None
        news = (NewEvent("TurnStarted", 1, b'{"turn_id":7}'), NewEvent("SessionRenamed", 1, b'{"title":"later"}'))
        await journal.append(Append((StreamAppend(f"session/{bad}", head.next_seq, news),), 1))
    daemon.start()
    async with daemon.client() as client:
        items = await items_of(client, bad)
        assert items[: len(before)] == before
        (told,) = (item["fields"]["text"] for item in items[len(before) :] if item["kind"] == "recovery")
        assert f"2 recorded events of this session from number {head.next_seq} on" in told
        assert f"event {head.next_seq} of session/{bad} (TurnStarted) cannot be read" in told
        report = await client.call("audit/verify")
        assert report.ok
        assert f"session/{bad} lost 2 events" in report.words
        for session_id in (bad, good):
            await send(client, session_id, "go on")
            assert await run_turn(client, session_id) == "completed"
        items = await items_of(client, bad)
    daemon.kill()
    daemon.start()
    async with daemon.client() as client:  # told once, and nothing else is missing
        assert await items_of(client, bad) == items
        assert (await client.call("audit/verify")).words.count("lost") == 1
    daemon.stop()
    async with opened(daemon.home) as journal:
        assert (await journal.verify(f"session/{bad}")).ok
        assert journal.report.untold == ()


async def test_d01_a_choice_of_trust_that_cannot_be_read_holds_no_more(daemon: Daemon, root: Path) -> None:
    """What the user said last of a folder is damaged: the daemon serves, and the folder is one nobody spoke of."""
    async with daemon.client() as client:
        await talk(client, root)
        assert len((await client.call("workspace/list")).workspaces) == 1
    daemon.stop()
    async with opened(daemon.home) as journal:
        (stream,) = await journal.streams("workspace/")
        head = await journal.head(stream)
        assert head is not None
        bad = NewEvent("WorkspaceTrusted", 1, b'{"level":')
        await journal.append(Append((StreamAppend(stream, head.next_seq, (bad,)),), 1))
    daemon.start()
    async with daemon.client() as client:
        assert (await client.call("workspace/list")).workspaces == ()
        await talk(client, root)
        assert len((await client.call("workspace/list")).workspaces) == 1


async def test_a_choice_of_trust_of_a_newer_version_ends_the_one_before_it(daemon: Daemon, root: Path) -> None:
    """What a newer daemon wrote may have taken the folder's trust back: nothing older is believed beside it."""
    async with daemon.client() as client:
        await trust(client, root, "trusted")
    daemon.stop()
    async with opened(daemon.home) as journal:
        (stream,) = await journal.streams("workspace/")
        newer = NewEvent("WorkspaceTrusted", 99, b'{"given":"nothing"}')
        await journal.append(Append((StreamAppend(stream, 2, (newer,)),), 1))
    daemon.start()
    async with daemon.client() as client:
        assert (await client.call("workspace/list")).workspaces == ()
        await talk(client, root)
        (said,) = (await client.call("workspace/list")).workspaces
        assert said.trust_level == "restricted"


async def test_d04_the_list_of_sessions_comes_back_from_the_logs(daemon: Daemon, root: Path) -> None:
    """Transcripts are there and the list is gone: the list is made again, in its order."""
    async with daemon.client() as client:
        for _ in range(3):
            await talk(client, root)
        before = (await client.call("session/list")).sessions
        assert len(before) == 3
    daemon.stop()
    connection = sqlite3.connect(daemon.home / "journal.db")
    connection.execute("DELETE FROM session_index WHERE session_id <> ?", (before[1].session_id,))
    connection.execute("DROP INDEX session_index_position")
    connection.commit()
    connection.close()
    daemon.start()
    async with daemon.client() as client:
        after = (await client.call("session/list")).sessions
        told = [(one.session_id, one.title, one.root, one.phase, one.updated_at) for one in after]
        order = [before[0], before[2], before[1]]  # rows that are made again come last into the index
        assert told == [(one.session_id, one.title, one.root, one.phase, one.updated_at) for one in order]
    daemon.stop()
    connection = sqlite3.connect(daemon.home / "journal.db")
    connection.execute("DROP TABLE session_index")
    connection.close()
    daemon.start()
    async with daemon.client() as client:
        assert len((await client.call("session/list")).sessions) == 3
