"""A journal from before a right or a trust was taken back gives neither again, whichever files are put back with it."""

import json
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.kit.daemon import Daemon, running_daemon, trust

from gloveport.protocol.journal.envelope import NewEvent
from gloveport.protocol.journal.events import GrantIssued, GrantRevoked, encode_body
from gloveport.protocol.journal.events.base import EventBody
from gloveport.server.app.daemon import now_us
from gloveport.server.client.connect import Client
from gloveport.server.journal.records import Append, StreamAppend
from gloveport.server.journal.store import Journal

STREAM = "workspace/w"
JOURNAL = ("journal.db", "journal.db-wal", "journal.db-shm")
COUNTS = ("journal.generation", "journal.acknowledged")
AUDIT = ("audit.jsonl", "audit.jsonl.checkpoint")


@asynccontextmanager
async def opened(data: Path, away: Path | None = None) -> AsyncIterator[Journal]:
    """A journal, closed in good order."""
    data.mkdir(mode=0o700, exist_ok=True)
    journal, _ = await Journal.open(data, clock=now_us, ballast_bytes=0, away=away)
    try:
        yield journal
    finally:
        await journal.close()


async def write(journal: Journal, body: EventBody) -> None:
    """The next event."""
    head = await journal.head(STREAM)
    part = StreamAppend(STREAM, head.next_seq if head else 1, (NewEvent(type(body).__name__, 1, encode_body(body)),))
    await journal.append(Append((part,), now_us(), takes_back=isinstance(body, GrantRevoked)))


async def revoked_after_a_copy(data: Path, copy: Path, away: Path | None) -> None:
    """A right is given, the whole directory is copied while it is open, and the right is taken back."""
    async with opened(data, away) as journal:
        await write(journal, GrantIssued(grant_id="g", scope="workspace", sentence="run", grant={}))
        await journal.sync()
        shutil.copytree(data, copy)
        await write(journal, GrantRevoked(grant_id="g", reason="revoked by test"))
        marks = {file: file.read_bytes() for file in (away,) if file is not None}
    for file, content in marks.items():
        file.write_bytes(content)  # as it was when the daemon was killed
    shutil.rmtree(data)
    shutil.copytree(copy, data)


async def test_the_whole_directory_put_back_is_told_by_the_count_away_from_it(tmp_path: Path) -> None:
    """Nothing that it said of rights holds; what is said after that does, also at the next start."""
    data, away = tmp_path / "data", tmp_path / "share" / "mark"
    await revoked_after_a_copy(data, tmp_path / "copy", away)
    async with opened(data, away) as journal:
        assert (journal.report.restored, await journal.voided(STREAM)) == (True, 1)
        await write(journal, GrantIssued(grant_id="h", scope="workspace", sentence="run", grant={}))
    async with opened(data, away) as journal:
        assert (journal.report.restored, await journal.voided(STREAM)) == (False, 1)


async def test_without_that_count_the_right_is_back(tmp_path: Path) -> None:
    """The control: every file that could tell is as old as the journal."""
    await revoked_after_a_copy(tmp_path / "data", tmp_path / "copy", None)
    async with opened(tmp_path / "data") as journal:
        assert (journal.report.restored, await journal.voided(STREAM)) == (False, 0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder of the user's."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"name": "back", "steps": [{"text": "Done."}]}))
    with running_daemon(script) as running:
        yield running


async def level(client: Client, root: Path) -> str:
    """What holds for the folder."""
    known = (await client.call("workspace/list")).workspaces
    return next((one.trust_level for one in known if one.root == str(root)), "nothing")


async def lower_and_put_back(daemon: Daemon, root: Path, copy: Path, names: tuple[str, ...]) -> None:
    """Trust is given, the files are copied while the daemon runs, trust is taken back, and the copy put back."""
    async with daemon.client() as client:
        await trust(client, root, "trusted")
        copy.mkdir()
        for name in names:
            shutil.copy(daemon.home / name, copy / name)
        await trust(client, root, "untrusted")
    daemon.kill()
    for name in (*JOURNAL, *names):
        (daemon.home / name).unlink(missing_ok=True)
    for name in names:
        shutil.copy(copy / name, daemon.home / name)
    daemon.start()


@pytest.mark.parametrize("names", [JOURNAL, (*JOURNAL, *COUNTS)], ids=["journal", "journal and counts"])
async def test_trust_that_was_taken_back_does_not_return(
    daemon: Daemon, root: Path, tmp_path: Path, names: tuple[str, ...]
) -> None:
    """The count beside the journal tells, or the audit log does; the user is told and asked again."""
    await lower_and_put_back(daemon, root, tmp_path / "copy", names)
    async with daemon.client() as client:
        assert await level(client, root) == "nothing"
        told = (await client.call("daemon/status")).data.told
        assert any(str(root) in words and "put back" in words for words in told)
        await trust(client, root, "restricted")
    daemon.kill()
    daemon.start()
    async with daemon.client() as client:
        assert await level(client, root) == "restricted"


async def test_with_every_file_put_back_it_returns(daemon: Daemon, root: Path, tmp_path: Path) -> None:
    """The control, and the limit: who puts back every file of a folder that holds all of them is not noticed."""
    await lower_and_put_back(daemon, root, tmp_path / "copy", (*JOURNAL, *COUNTS, *AUDIT))
    async with daemon.client() as client:
        assert await level(client, root) == "trusted"
