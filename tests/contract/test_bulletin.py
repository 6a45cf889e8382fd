"""What the daemon tells every client: that the journal stopped, that it accepts again."""

from pathlib import Path

import anyio
import pytest
from tests.kit.journal_kit import batch, opened, write
from tests.kit.memory_backend import MemoryBackend, run_daemon
from tests.kit.raw_client import raw_client

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.wire.place import DaemonTold
from gloveport.server.client.connect import connect
from gloveport.server.commands.standing import notice_of
from gloveport.server.journal.errors import JournalError
from gloveport.server.journal.store import Journal
from gloveport.server.transports.bulletin import NOTICES_MAX, Bulletin

STOPPED = DaemonTold(accepting=False, words="Not saved.")
AGAIN = DaemonTold(accepting=True, words="Saved again.")


async def fill(journal: Journal) -> JournalError:
    """Append until SQLite itself refuses."""
    door = journal._writing()  # the real refusal needs the real connection
    await door.run(lambda connection: connection.execute("PRAGMA max_page_count=1").fetchone())
    for seq in range(1, 100):
        try:
            await journal.append(batch("s", seq, "f" * 20_000))
        except JournalError as error:
            return error
    raise AssertionError("the journal took everything")


async def test_d02_a_stop_is_told_before_the_refusal_and_the_opening_after_it(tmp_path: Path) -> None:
    """Once for each: the words name the cause and what to do."""
    async with opened(tmp_path / "data") as journal:
        told: list[DaemonTold] = []
        journal.watch(lambda: told.append(notice_of(journal.health())))
        error = await fill(journal)
        assert error.code is ErrorCode.DATA_FULL
        assert [one.accepting for one in told] == [False]
        assert "Nothing can be saved now" in told[0].words
        assert "Free space" in told[0].words
        with pytest.raises(JournalError):
            await write(journal, "t", "x")
        await journal.reopen()
        assert [one.accepting for one in told] == [False, True]
        assert "saved again" in told[1].words
        await journal.reopen()
        assert len(told) == 2


async def test_each_client_hears_it_in_its_own_language() -> None:
    """A client of ours, one that came while it stood, and an editor that knows LSP alone."""
    async with run_daemon() as daemon, connect(daemon.socket) as early:
        heard = early.notices()
        async with raw_client(daemon.socket) as editor:
            daemon.bulletin.post(STOPPED)
            assert await anext(heard) == STOPPED
            shown = await editor.recv()
            assert (shown["method"], shown["params"]) == ("window/showMessage", {"type": 1, "message": STOPPED.words})
            async with connect(daemon.socket) as late:
                waiting = late.notices()
                assert await anext(waiting) == STOPPED
                daemon.bulletin.post(AGAIN)
                assert await anext(waiting) == await anext(heard) == AGAIN
            assert (await editor.recv())["params"] == {"type": 3, "message": AGAIN.words}


async def test_who_does_not_read_is_told_the_newest() -> None:
    """Nothing grows with a slow reader, and the last word is how it stands."""
    bulletin, taken = Bulletin(), list[DaemonTold]()
    go, got = anyio.Event(), anyio.Event()

    async def tell(notice: DaemonTold) -> None:
        taken.append(notice)
        got.set()
        await go.wait()

    async with anyio.create_task_group() as tasks:
        bulletin.post(STOPPED)
        tasks.start_soon(bulletin.run, tell)
        await got.wait()
        for number in range(100):
            bulletin.post(DaemonTold(accepting=bool(number % 2), words=str(number)))
        go.set()
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert [one.words for one in taken] == [STOPPED.words, *map(str, range(100 - NOTICES_MAX, 100))]


async def test_a_follower_outlasts_a_journal_that_cannot_be_read() -> None:
    """Its connection stays, and it goes on from its place when the journal accepts again."""
    backend = MemoryBackend()
    backend.open_session("s")
    async with run_daemon(backend) as daemon, connect(daemon.socket) as client, client.follow("s") as follow:
        await anext(follow)
        assert (await anext(follow)).in_sync
        backend.journal.refused = refused = anyio.Event()
        backend.hub.pause(paused=True)
        backend.tell_text("s", "x" * 3_000_000, "y")  # more than is kept beside the journal
        await refused.wait()
        backend.journal.refused = None
        backend.hub.pause(paused=False)
        while not (await anext(follow)).in_sync:
            pass
        assert follow.view.digest() == backend.views["session/s"].digest()
