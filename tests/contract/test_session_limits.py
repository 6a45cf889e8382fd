"""Deleting a session in a working room, and the limits that the user may set."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.kit.room import Home, Kit, call, new_home, run

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import SessionId, session_stream
from gloveport.protocol.journal.envelope import NewEvent
from gloveport.protocol.wire.base import Empty, SessionParams
from gloveport.protocol.wire.session import SessionDeleteParams, SessionListParams
from gloveport.server.engine import retention
from gloveport.server.journal.records import Append, IndexUpdate, StreamAppend
from gloveport.server.journal.store import Journal
from gloveport.server.settings import RetentionLimits

DONE = {"text": "Done."}
DAY_US = 24 * 3600 * 1_000_000


@pytest.fixture
def home() -> Iterator[Home]:
    """An empty home."""
    with new_home() as made:
        yield made


def ask(session_id: str, *, even_undecided: bool = False) -> SessionDeleteParams:
    """The request to delete."""
    return SessionDeleteParams(
        client_request_id=f"delete-{session_id}", session_id=session_id, even_undecided=even_undecided
    )


async def listed(kit: Kit) -> list[str]:
    """The sessions that a client is shown."""
    return [one.session_id for one in (await kit.call("session/list", SessionListParams())).sessions]


def keep(kit: Kit, limits: RetentionLimits) -> None:
    """Let the user have set limits."""
    kit.house.retention._limits = lambda: limits


async def talked(kit: Kit) -> str:
    """A session with one answered message."""
    session_id = await kit.begin()
    await kit.send(session_id)
    await kit.idle(session_id)
    return session_id


async def test_deleted_whole_and_answered_again(home: Home) -> None:
    """Log, worktree and row are gone; the daemon's own stream and the audit say so; a retry gets the same answer."""
    home.play(DONE)
    async with home.room() as kit:
        gone, kept = await talked(kit), await talked(kit)
        assert home.worktree(gone).exists()
        actor = kit.actor(gone)
        done = await kit.call("session/delete", ask(gone))
        assert done.events == actor.cursor.seq > 3
        assert await kit.call("session/delete", ask(gone)) == done
        assert await listed(kit) == [kept]
        assert not home.worktree(gone).parent.exists()
        assert home.worktree(kept).exists()
        assert (await kit.refused("session/show", SessionParams(session_id=gone))).code is ErrorCode.SESSION_UNKNOWN
        with pytest.raises(GloveportError):  # whoever still holds it can write nothing
            await actor.record(())
        (event,) = await kit.journal.read("daemon", 0)
        assert event.type == "SessionDeleted"
        assert [line["action"] for line in kit.house.audit.export()][-1] == "session_delete"
        await kit.house.retention.look()
    async with home.room() as kit:
        assert await listed(kit) == [kept]
        assert await kit.journal.last_seq(session_stream(actor.session_id)) == done.events


async def test_not_while_something_happens(home: Home) -> None:
    """A turn that waits for its user keeps its session; stopped, it may go."""
    home.play({"when": {"turn": 0}, "calls": [run("echo", "a")]}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.waiting(session)
        assert (await kit.refused("session/delete", ask(session))).code is ErrorCode.TURN_BUSY
        await kit.cancel(session)
        await kit.idle(session)
        await kit.call("session/delete", ask(session))
        assert await listed(kit) == []


async def test_what_a_newer_version_left_open_can_be_deleted(home: Home) -> None:
    """Read-only with a card that waits: no stop can end it here, and nothing goes on."""
    home.play({"when": {"turn": 0}, "calls": [run("echo", "a")]}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.waiting(session)
    async with home.room() as kit:
        stream = session_stream(SessionId(session))
        event = NewEvent("FromTheFuture", 9, b"{}")
        await kit.journal.append(Append((StreamAppend(stream, await kit.journal.last_seq(stream) + 1, (event,)),), 1))
    async with home.room() as kit:
        assert (await kit.sessions.open(session)).state.turn is not None
        await kit.call("session/delete", ask(session))
        assert await listed(kit) == []


async def test_proposals_that_wait_are_not_lost_unasked(home: Home) -> None:
    """Neither by a plain deletion nor by any limit; only when the user says that it is known."""
    home.play({"when": {"turn": 0}, "calls": [call("write_file", path="new.txt", content="new\n")]}, DONE)
    async with home.room() as kit:
        session = await talked(kit)
        assert kit.actor(session).state.changes
        assert (await kit.refused("session/delete", ask(session))).code is ErrorCode.CHANGE_CONFLICT
        keep(kit, RetentionLimits(bytes_max=1))
        await kit.house.retention.look()
        assert await listed(kit) == [session]
        again = ask(session, even_undecided=True).model_copy(update={"client_request_id": "another"})
        await kit.call("session/delete", again)
        assert await listed(kit) == []


async def test_without_a_limit_nothing_is_deleted(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """However old and however large; with one, the oldest go and the newest stay."""
    monkeypatch.setattr(retention, "KEPT_NEWEST", 1)
    home.play(DONE)
    async with home.room() as kit:
        first, second, third = [await talked(kit) for _ in range(3)]
        later = kit.sessions.room.now_us() + 90 * DAY_US
        object.__setattr__(kit.sessions.room, "now_us", lambda: later)
        await kit.house.retention.look()
        assert await listed(kit) == [third, second, first]
        keep(kit, RetentionLimits(days=91))
        await kit.house.retention.look()
        assert await listed(kit) == [third, second, first]
        copies = await kit.house.retention._folders.sizes()
        keep(kit, RetentionLimits(bytes_max=await kit.house.retention.used_bytes(copies) - 1))
        await kit.house.retention.look()
        assert await listed(kit) == [third, second]
        keep(kit, RetentionLimits(days=89))
        await kit.house.retention.look()
        assert await listed(kit) == [third]


async def test_the_copies_of_folders_count(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are most of what a session takes; what is deleted for the limit gives them back."""
    monkeypatch.setattr(retention, "KEPT_NEWEST", 1)
    home.play(DONE)
    megabyte = 1 << 20
    async with home.room() as kit:
        first, second, third = [await talked(kit) for _ in range(3)]
        for name in (first, second):
            (home.worktree(name) / "made.bin").write_bytes(b"x" * megabyte)
        keep(kit, RetentionLimits(bytes_max=megabyte * 3 // 2))
        await kit.house.retention.look()
        assert await listed(kit) == [third, second]
        assert not home.worktree(first).exists()


async def test_a_crash_after_the_deletion_is_finished(home: Home) -> None:
    """The worktree that was left is removed by the next start, and only that of a deleted session."""
    home.play(DONE)
    async with home.room() as kit:
        gone, kept = await talked(kit), await talked(kit)

        async def die(name: str) -> None:
            raise KeyError("the daemon ends here")

        object.__setattr__(kit.house.retention._folders, "remove", die)
        with pytest.raises(KeyError):
            await kit.house.retention.delete(gone, "test", "user")
        assert home.worktree(gone).exists()
    async with home.room() as kit:
        assert await listed(kit) == [kept]
        await kit.house.retention.look()
        assert not home.worktree(gone).parent.exists()
        assert home.worktree(kept).exists()


async def test_the_status_tells_what_is_the_matter(home: Home) -> None:
    """Nothing while all is well; a size beyond the one to tell, and a reader that holds the log, in words."""
    home.play(DONE)
    async with home.room() as kit:
        await talked(kit)
        data = (await kit.call("daemon/status", Empty())).data
        assert (data.sessions, data.accepting, data.told) == (1, True, ())
        assert data.events_bytes > 1_000
        settings = kit.house.settings()
        object.__setattr__(kit.house, "settings", lambda: replace(settings, retention=RetentionLimits(told_bytes=10)))
        kit.journal._writer.checkpoints.stuck = 99
        told = (await kit.call("daemon/status", Empty())).data.told
        assert len(told) == 2
        assert "have journal.db open" in told[0]
        assert "gloveport delete" in told[1]


async def test_500_sessions_are_listed_without_reading_a_log(home: Home) -> None:
    """The list is the index's alone: it is the same when the logs cannot be read."""
    home.play(DONE)
    async with home.room() as kit:
        session = await talked(kit)
        row = await kit.journal.session(session)
        assert row is not None
        for number in range(499):
            update = IndexUpdate(f"s{number}", number, title=f"t{number}", state="idle", workspace="/w")
            await kit.journal.append(Append((), 1, index=(update,)))
        reads: list[str] = []
        real = Journal.read

        async def counted(self: Journal, stream: str, *args: int) -> object:
            reads.append(stream)
            return await real(self, stream, *args)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Journal, "read", counted)
            page = await kit.call("session/list", SessionListParams(limit=500))
        assert len(page.sessions) == 500
        assert reads == []
