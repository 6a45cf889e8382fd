"""One data directory and many who want it; data that lies elsewhere; a database that another program holds."""

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.daemon import Daemon, running_daemon, start_session, trust
from tests.kit.journal_first import EVENTS, STREAMS, write_first
from tests.kit.journal_kit import opened

import gloveport
from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.client.launch import probe

STARTS = 8
WAIT_S = 60.0


@pytest.fixture
def home() -> Iterator[Path]:
    """A short path for a home."""
    folder = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def start(home: Path) -> "subprocess.Popen[bytes]":
    """A daemon that may or may not get the directory."""
    names = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "GLOVEPORT_HOME": str(home),
        "PYTHONPATH": os.pathsep.join(os.path.dirname(root) for root in gloveport.__path__),
    }
    command = [sys.executable, "-P", "-m", "gloveport.server", "daemon"]
    return subprocess.Popen(command, env=names, cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


async def test_d05_eight_start_at_once_on_data_to_be_migrated(home: Path) -> None:
    """One serves, the others end with a code and say who has it; the data is migrated once and whole."""
    write_first(home)
    processes = [start(home) for _ in range(STARTS)]
    try:
        losers = []
        while len(losers) < STARTS - 1:
            losers = [one for one in processes if one.poll() is not None]
            await asyncio.sleep(0.05)
        (winner,) = (one for one in processes if one.poll() is None)
        for one in losers:
            _out, said = await asyncio.to_thread(one.communicate)
            assert one.returncode not in (0, None)
            assert b"belongs to" in said
            assert b"Traceback" not in said
        daemon = Daemon(home)
        while probe(daemon.places.socket) is None:
            assert winner.poll() is None
            await asyncio.sleep(0.05)
        async with daemon.client() as client:
            assert (await client.call("daemon/status")).pid == winner.pid
    finally:
        for one in processes:
            one.terminate()
            one.communicate(timeout=WAIT_S)
    assert [path.name for path in home.glob("*.backup*")] == ["journal.db.v1.backup"]
    async with opened(home) as journal:
        for stream in STREAMS:
            report = await journal.verify(stream)
            assert report.ok
            assert report.events >= EVENTS


async def test_d05_a_database_that_is_held_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    """Another program's transaction that ends costs time; one that does not end is told typed, and nothing stops."""
    project = tmp_path / "project"
    project.mkdir()
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"name": "held", "steps": [{"text": "An answer."}]}))
    with running_daemon(script) as daemon:
        async with daemon.client() as client:
            await trust(client, project)
            await start_session(client, project)
            other = sqlite3.connect(daemon.home / "journal.db", isolation_level=None, check_same_thread=False)
            other.execute("BEGIN IMMEDIATE")
            waiting = asyncio.create_task(start_session(client, project))
            done, _pending = await asyncio.wait([waiting], timeout=1.0)
            assert not done
            other.execute("ROLLBACK")
            await waiting
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(GloveportError) as caught:
                await start_session(client, project)
            assert caught.value.code is ErrorCode.NOT_SAVED
            assert "another process holds the database" in caught.value.message
            other.close()
            await start_session(client, project)
            assert (await client.call("daemon/status")).data.accepting


async def test_d12_older_data_elsewhere_is_named(home: Path) -> None:
    """A daemon that begins anew says that it found older data and where; one that has data of its own does not."""
    older = home / ".local" / "state" / "gloveport"
    older.parent.mkdir(parents=True)
    write_first(older)
    (home / "new").mkdir(mode=0o700)
    daemon = Daemon(home / "new")
    try:
        for found in (True, False):
            daemon.start(HOME=str(home))
            async with daemon.client() as client:
                told = (await client.call("daemon/status")).data.told
                assert [str(older) in words for words in told] == ([True] if found else [])
            daemon.stop()
        assert f"found older data at {older}" in daemon.log()
    finally:
        daemon.kill()
