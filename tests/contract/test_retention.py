"""Sessions that end for good: deleted whole, by the user or by the user's limits, and never by anything else."""

import os
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from tests.kit.journal_kit import STAMP, batch, open_journal, opened, texts, write

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal.events.base import blobs_of
from gloveport.protocol.journal.events.tool import ToolExecutionFinished
from gloveport.server.journal import burial
from gloveport.server.journal.blobs import BlobStore
from gloveport.server.journal.errors import JournalError
from gloveport.server.journal.records import Append, IndexUpdate, Removal
from gloveport.server.journal.store import Journal

SECRET = "what the deleted session said"


async def delete(journal: Journal, name: str) -> None:
    """Bury a session's stream with an event that says so, and nothing more."""
    head = await journal.head("daemon")
    part = batch("daemon", head.next_seq if head else 1, "deleted")
    await journal.append(replace(part, removed=(Removal(f"session/{name}", name),)))


async def fill(journal: Journal, name: str, count: int = 30) -> None:
    """A session with a row in the index and a kept fold."""
    words = (f"{SECRET} {name} {number}" for number in range(count))
    done = await write(journal, f"session/{name}", *words)
    await journal.append(Append((), STAMP, index=(IndexUpdate(name, 1, title=name),)))
    await journal.put_snapshot(f"session/{name}", count, done.events[-1].digest, "fold", SECRET.encode())


def holders(directory: Path, words: str) -> list[str]:
    """Files that hold some words."""
    return [path.name for path in directory.iterdir() if path.is_file() and words.encode() in path.read_bytes()]


async def test_a_deleted_session_is_gone_from_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown at once, in no list, its bytes overwritten; its neighbour is as it was."""
    monkeypatch.setattr(burial, "PURGE_EVENTS", 7)
    directory = tmp_path / "data"
    async with opened(directory) as journal:
        for name in ("gone", "kept"):
            await fill(journal, name)
        await journal.set_aside("session/gone", 25, "damaged")
        await delete(journal, "gone")
        assert await journal.head("session/gone") is None
        assert await texts(journal, "session/gone") == []
        assert [row.session_id for row in await journal.sessions()] == ["kept"]
        assert await journal.streams("session/") == ("session/kept",)
        assert await journal.unlisted("session/") == ()
        assert (await journal.is_deleted("session/gone"), await journal.last_seq("session/gone")) == (True, 24)
        assert await journal.untold_loss("session/gone") is None
        calls = 0
        while await journal.purge():
            calls += 1
        assert calls >= 5
        assert holders(directory, f"{SECRET} gone") == []
        assert holders(directory, f"{SECRET} kept")
        assert len(await texts(journal, "session/kept")) == 30
        assert await journal.snapshot("session/kept", "fold") is not None
        assert (await journal.verify("session/kept")).ok


async def test_a_deleted_stream_takes_nothing_any_more(tmp_path: Path) -> None:
    """Its name is never used again, also after everything of it was purged; an append is refused alone."""
    async with opened(tmp_path / "data") as journal:
        await fill(journal, "gone")
        await delete(journal, "gone")
        for _ in range(2):
            with pytest.raises(JournalError) as caught:
                await journal.append(batch("session/gone", 1, "late"))
            assert caught.value.code is ErrorCode.SESSION_UNKNOWN
            while await journal.purge():
                pass
        await write(journal, "session/other", "fine")


async def test_a_deletion_is_durable_and_finished_after_a_crash(tmp_path: Path) -> None:
    """Killed right after the answer: unknown, no loss is told, and the rest of its rows goes at the next start."""
    source, directory = tmp_path / "source", tmp_path / "data"
    journal, _report = await open_journal(source)
    for name in ("gone", "kept"):
        await fill(journal, name)
    await delete(journal, "gone")
    shutil.copytree(source, directory)
    await journal.close()
    async with opened(directory, boot_id="boot-2") as again:
        assert again.report.other_boot
        assert (again.report.untold, again.report.quarantined) == ((), ())
        assert await again.streams("session/") == ("session/kept",)
        while await again.purge():
            pass
        assert holders(directory, f"{SECRET} gone") == []
        assert len(await texts(again, "session/kept")) == 30


async def test_salvage_brings_no_deleted_session_back(tmp_path: Path) -> None:
    """A damaged page after a deletion that was not finished: the deleted rows stay gone."""
    directory = tmp_path / "data"
    async with opened(directory) as journal:
        for name in ("gone", "kept"):
            await fill(journal, name, 300)
        await delete(journal, "gone")
    path = directory / "journal.db"
    data = bytearray(path.read_bytes())
    place = data.index(f"{SECRET} kept 250".encode()) // 4096 * 4096
    data[place : place + 4096] = bytes(4096)
    path.write_bytes(data)
    async with opened(directory) as journal:
        if journal.report.salvaged is None:
            with pytest.raises(JournalError):
                await texts(journal, "session/kept")
            await journal.reopen()
        assert journal.report.salvaged is not None
        assert await journal.streams("session/") == ("session/kept",)
        assert await journal.is_deleted("session/gone")


async def test_the_file_shrinks_when_a_large_session_goes(tmp_path: Path) -> None:
    """Space is given back to the disk, not only to the next session."""
    path = tmp_path / "data" / "journal.db"
    async with opened(tmp_path / "data") as journal:
        await fill(journal, "kept")
        for number in range(20):
            await journal.append(batch("session/gone", number + 1, "g" * 200_000))
        while await journal.purge():
            pass
        before = path.stat().st_size
        await delete(journal, "gone")
        while await journal.purge():
            pass
        assert path.stat().st_size < before / 4


async def test_sizes_come_from_an_index(tmp_path: Path) -> None:
    """They follow appends, erasing and quarantine, and agree with a count of the rows."""
    directory = tmp_path / "data"
    async with opened(directory) as journal:
        await write(journal, "session/a", "one", "two" * 100, "three")
        await write(journal, "session/b", "x")
        await journal.erase("session/a", [2])
        await journal.set_aside("session/a", 3, "damaged")
        sizes = await journal.sizes("session/")
    connection = sqlite3.connect(directory / "journal.db")
    counted = connection.execute(
        "SELECT stream, count(*), sum(length(payload) + 200) FROM event GROUP BY stream ORDER BY stream DESC"
    ).fetchall()
    connection.close()
    assert sorted((one.stream, one.events, one.size_bytes) for one in sizes) == sorted(counted)


async def test_blobs_go_with_the_last_stream_that_refers_to_them(tmp_path: Path) -> None:
    """One that two sessions share stays with the second; one that nobody refers to stays for its time of grace."""
    directory = tmp_path / "data"
    async with opened(directory) as journal:
        store = await BlobStore.open(directory)
        shared, own, orphan, young = [await store.put(name) for name in (b"shared", b"own", b"orphan", b"young")]
        for name, uses in (("a", (shared, own)), ("b", (shared,))):
            part = batch(f"session/{name}", 1, "x").streams[0]
            await journal.append(Append((replace(part, blobs=tuple(ref.digest for ref in uses)),), STAMP))
        for ref in (shared, own, orphan):
            os.utime(directory / "blobs" / ref.digest[:2] / ref.digest, ns=(1, 1))
        assert await store.sweep(journal.unused_blobs, 1_000) == orphan.size_bytes
        await delete(journal, "a")
        assert await store.sweep(journal.unused_blobs, 1_000) == own.size_bytes
        assert [await store.has(ref.digest) for ref in (shared, own, orphan, young)] == [True, False, False, True]
        assert store.used_bytes == shared.size_bytes + young.size_bytes
        # A body that is put again is about to be referred to.
        await delete(journal, "b")
        await store.put(b"shared")
        assert await store.sweep(journal.unused_blobs, 1_000) == 0


def test_every_field_that_names_a_blob_is_known_by_its_name() -> None:
    """What an event refers to is kept as long as its stream."""
    names = [name for name in ToolExecutionFinished.model_fields if name.endswith("_blob")]
    assert names == ["output_blob"]
    values = {**dict.fromkeys(ToolExecutionFinished.model_fields), "output_blob": "a" * 64}
    assert blobs_of(ToolExecutionFinished.model_construct(**values)) == ("a" * 64,)
    assert blobs_of(ToolExecutionFinished.model_construct(**{**values, "output_blob": None})) == ()
