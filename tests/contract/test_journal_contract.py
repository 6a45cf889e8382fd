"""What the journal promises to the rooms above it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from tests.kit.journal_kit import STAMP, batch, event, open_journal, opened, texts, write

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal.envelope import (
    ERASED_PAYLOAD,
    GENESIS_DIGEST,
    Durability,
    Head,
    NewEvent,
    cursor_at,
    payload_hash,
)
from gloveport.server.journal import records
from gloveport.server.journal.errors import JournalError
from gloveport.server.journal.records import Append, ClientRequest, IndexUpdate, StreamAppend
from gloveport.server.journal.store import Journal
from gloveport.server.transports.source import EventSource


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    """An open, empty journal."""
    async with opened(tmp_path / "data") as found:
        yield found


async def refused(journal: Journal, append: Append) -> ErrorCode:
    """The code with which an append is refused."""
    with pytest.raises(JournalError) as caught:
        await journal.append(append)
    return caught.value.code


async def test_events_come_back_in_order_with_their_chain(journal: Journal) -> None:
    """Sequence numbers are gapless from 1, heads agree, the chain verifies."""
    first = await write(journal, "session/a", "one", "two")
    second = await write(journal, "session/a", "three")
    stored = await journal.read("session/a", 0)
    assert [found.seq for found in stored] == [1, 2, 3]
    assert stored == first.events + second.events
    assert await journal.head("session/a") == Head(1, 3, stored[-1].digest, 3)
    assert second.heads["session/a"].next_seq == 4
    report = await journal.verify("session/a")
    assert report.ok
    assert report.events == 3


async def test_unknown_stream_has_no_head(journal: Journal) -> None:
    """The hub tells an unknown stream from an empty one."""
    assert await journal.head("session/none") is None
    assert await journal.read("session/none", 0) == ()


async def test_serves_the_hub(journal: Journal) -> None:
    """The journal is an event source as it is."""
    source: EventSource = journal
    await write(journal, "daemon", "x")
    head = await source.head("daemon")
    assert head is not None
    assert head.seq == 1
    assert len(await source.read("daemon", 0, 10, 1000)) == 1


async def test_expected_seq_is_the_concurrency_check(journal: Journal) -> None:
    """Two who read the same end: one wins, the other is refused typed and leaves nothing."""
    await write(journal, "s", "one")
    outcomes = await asyncio.gather(
        journal.append(batch("s", 2, "left")), journal.append(batch("s", 2, "right")), return_exceptions=True
    )
    errors = [found for found in outcomes if isinstance(found, JournalError)]
    assert [found.code for found in errors] == [ErrorCode.CONFLICT]
    assert errors[0].data == {"stream": "s", "expected": 2, "actual": 3}
    assert len(await texts(journal, "s")) == 2


async def test_several_streams_in_one_transaction(journal: Journal) -> None:
    """An append over streams is all or nothing: one wrong position refuses every part."""
    both = (StreamAppend("session/a", 1, (event(),)), StreamAppend("workspace/w", 1, (event(), event())))
    done = await journal.append(Append(both, STAMP))
    assert {name: head.seq for name, head in done.heads.items()} == {"session/a": 1, "workspace/w": 2}
    wrong = (StreamAppend("session/a", 2, (event(),)), StreamAppend("workspace/w", 2, (event(),)))
    assert await refused(journal, Append(wrong, STAMP)) is ErrorCode.CONFLICT
    assert len(await texts(journal, "session/a")) == 1


async def test_many_sessions_append_at_once(journal: Journal) -> None:
    """Concurrent appends share commits and each gets its own answer."""

    async def session(name: str) -> None:
        for number in range(1, 21):
            done = await journal.append(batch(name, number, f"{name}-{number}"))
            assert done.events[0].seq == number

    async with anyio.create_task_group() as group:
        for index in range(8):
            group.start_soon(session, f"session/{index}")
    for index in range(8):
        assert (await journal.verify(f"session/{index}")).events == 20


async def test_refused_append_fails_alone(journal: Journal) -> None:
    """In one group commit a conflict harms nobody else."""
    outcomes = await asyncio.gather(
        *(journal.append(batch(f"s{number}", 1 if number != 3 else 9, "x")) for number in range(6)),
        return_exceptions=True,
    )
    assert [isinstance(found, JournalError) for found in outcomes] == [False, False, False, True, False, False]


async def test_retry_is_answered_not_repeated(journal: Journal) -> None:
    """The same client request gets the recorded answer; with other content it is refused."""
    request = ClientRequest("req-1", b'{"turn":"t1"}', "digest-a")
    await journal.append(batch("s", 1, "one", request=request))
    again = await journal.append(batch("s", 1, "one", request=ClientRequest("req-1", b"other", "digest-a")))
    assert again.answered == b'{"turn":"t1"}'
    assert again.events == ()
    assert again.heads["s"].seq == 1
    assert await journal.answered("req-1") == b'{"turn":"t1"}'
    assert await journal.answered("req-1", "digest-a") == b'{"turn":"t1"}'
    assert await journal.answered("req-2") is None
    with pytest.raises(JournalError) as caught:
        await journal.answered("req-1", "digest-b")
    assert caught.value.code is ErrorCode.CONFLICT
    other = batch("s", 2, "two", request=ClientRequest("req-1", b"", "digest-b"))
    assert await refused(journal, other) is ErrorCode.CONFLICT
    assert len(await texts(journal, "s")) == 1


async def test_same_request_twice_at_once(journal: Journal) -> None:
    """A retry that overtakes its first try still happens once."""
    made = [batch("s", 1, "one", request=ClientRequest("req", b"answer")) for _ in range(2)]
    done = await asyncio.gather(*(journal.append(one) for one in made))
    assert sorted(len(found.events) for found in done) == [0, 1]
    assert len(await texts(journal, "s")) == 1


async def test_answers_and_index_outlive_the_process(tmp_path: Path) -> None:
    """What was recorded with the events is there after a reopen, with them or not at all."""
    async with opened(tmp_path / "data") as journal:
        row = IndexUpdate("a", 5, title="T", state="idle", workspace="w")
        await journal.append(batch("s", 1, "x", request=ClientRequest("r", b"yes"), index=(row,)))
        bad = batch("s", 9, "x", request=ClientRequest("r2", b"no"), index=(IndexUpdate("b", 6),))
        assert await refused(journal, bad) is ErrorCode.CONFLICT
    async with opened(tmp_path / "data") as journal:
        assert await journal.answered("r") == b"yes"
        assert await journal.answered("r2") is None
        assert [found.session_id for found in await journal.sessions()] == ["a"]


async def test_session_index_lists_latest_first_in_pages(journal: Journal) -> None:
    """Lists come from the index, the session changed last first, with filters and pages."""
    for number in range(5):
        row = IndexUpdate(f"s{number}", number, title=f"t{number}", state="idle", workspace=f"w{number % 2}")
        await journal.append(Append((), STAMP, index=(row,)))
    await journal.append(Append((), STAMP, index=(IndexUpdate("s1", 99, state="running"),)))
    page = await journal.sessions(2)
    assert [found.session_id for found in page] == ["s1", "s4"]
    assert (page[0].title, page[0].state, page[0].updated_at) == ("t1", "running", 99)
    rest = await journal.sessions(10, before=page[-1].order)
    assert [found.session_id for found in rest] == ["s3", "s2", "s0"]
    assert [found.session_id for found in await journal.sessions(workspace="w0")] == ["s4", "s2", "s0"]
    assert [found.session_id for found in await journal.sessions(state="running")] == ["s1"]
    assert (await journal.session("s2")) is not None
    assert (await journal.session("none")) is None


async def test_streams_are_listed_by_prefix(journal: Journal) -> None:
    """Names come in order, by prefix, in pages."""
    for name in ("workspace/w", "session/b", "session/a", "daemon"):
        await write(journal, name, "x")
    assert await journal.streams("session/") == ("session/a", "session/b")
    assert await journal.streams(limit=2) == ("daemon", "session/a")
    assert await journal.streams(after="session/a") == ("session/b", "workspace/w")


async def test_read_budgets(journal: Journal) -> None:
    """Both budgets hold, and one event comes even when it is larger than the budget."""
    await write(journal, "s", *("y" * 1000 for _ in range(10)))
    assert [found.seq for found in await journal.read("s", 3, 2)] == [4, 5]
    assert len(await journal.read("s", 0, 100, 2600)) == 2
    assert len(await journal.read("s", 0, 100, 1)) == 1
    assert await journal.read("s", 10) == ()


async def test_relaxed_tail_is_told_as_not_durable(journal: Journal) -> None:
    """A relaxed append is readable at once, but durable only after the next full one or a sync."""
    await write(journal, "s", "one")
    done = await write(journal, "s", "two", "three", durability=Durability.RELAXED)
    assert done.durable_seq("s") == 1
    head = await journal.head("s")
    assert head is not None
    assert (head.seq, head.durable_seq) == (3, 1)
    done = await write(journal, "other", "x")
    head = await journal.head("s")
    assert head is not None
    assert head.durable_seq == 3
    await write(journal, "s", "four", durability=Durability.RELAXED)
    await journal.sync()
    head = await journal.head("s")
    assert head is not None
    assert head.durable_seq == 4


async def test_answered_retry_makes_nothing_durable(journal: Journal) -> None:
    """A full append that only found an old answer wrote nothing, so it must not vouch for the relaxed tail."""
    await journal.append(batch("s", 1, "one", request=ClientRequest("r", b"a")))
    await write(journal, "s", "two", durability=Durability.RELAXED)
    again = await journal.append(batch("s", 3, "x", request=ClientRequest("r", b"a")))
    assert again.answered == b"a"
    assert again.heads["s"].durable_seq == 1


async def test_new_epoch_goes_on_counting(journal: Journal) -> None:
    """Sequence numbers are never used twice, over all epochs; cursors of the old epoch still prove their past."""
    await write(journal, "s", "one")
    before = await journal.head("s")
    assert before is not None
    done = await journal.new_epoch("s", event("restored"), expected_next_seq=2, at=STAMP)
    assert [(found.epoch, found.seq) for found in done.events] == [(2, 2)]
    assert await journal.shares_past("s", before.cursor)
    assert (await journal.verify("s")).ok


async def test_cursor_of_another_past_is_known(journal: Journal) -> None:
    """Foreign, future and altered cursors lead to a snapshot, never to a silent hole."""
    done = await write(journal, "s", "one", "two")
    good = done.heads["s"].cursor
    assert await journal.shares_past("s", good)
    assert await journal.shares_past("s", cursor_at(1, 0, GENESIS_DIGEST))
    assert not await journal.shares_past("s", cursor_at(1, 3, good.digest))
    assert not await journal.shares_past("s", cursor_at(1, 1, good.digest))
    assert not await journal.shares_past("s", cursor_at(2, 2, good.digest))
    assert not await journal.shares_past("none", good)
    # The event at a cursor's place may belong to a later epoch than the one its holder knew.
    done = await journal.new_epoch("s", event("restored"), expected_next_seq=3, at=STAMP)
    assert not await journal.shares_past("s", cursor_at(1, 3, done.events[0].digest))


async def test_erase_keeps_the_proof_and_not_the_bytes(tmp_path: Path) -> None:
    """After erasing, the chain verifies and no file of the journal holds the secret any more."""
    secret = "sk-very-secret-value-0123456789"
    async with opened(tmp_path / "data") as journal:
        await write(journal, "s", "before", secret, "after")
        kept = payload_hash((await journal.read("s", 1, 1))[0].payload)
        assert await journal.erase("s", [2]) == 1
        assert await journal.erase("s", [2, 77]) == 0
        found = (await journal.read("s", 1, 1))[0]
        assert (found.payload, found.erased) == (ERASED_PAYLOAD, kept)
        report = await journal.verify("s")
        assert (report.ok, report.erased) == (True, (2,))
        for path in (tmp_path / "data").iterdir():
            assert secret.encode() not in path.read_bytes(), path.name


@pytest.mark.parametrize(
    ("append", "code"),
    [
        (Append((), STAMP), ErrorCode.INVALID_PARAMS),
        (Append((StreamAppend("s", 1, ()),), STAMP), ErrorCode.INVALID_PARAMS),
        (Append((StreamAppend("a b", 1, (event(),)),), STAMP), ErrorCode.INVALID_PARAMS),
        (Append((StreamAppend("a\nb", 1, (event(),)),), STAMP), ErrorCode.INVALID_PARAMS),
        (Append((StreamAppend("s", 1, (NewEvent("", 1, b""),)),), STAMP), ErrorCode.INVALID_PARAMS),
        (Append((StreamAppend("s", 1, (NewEvent("T", 0, b""),)),), STAMP), ErrorCode.INVALID_PARAMS),
        (Append((StreamAppend("s", 1, (event(),)),), -1), ErrorCode.INVALID_PARAMS),
        (Append((StreamAppend("s", 1, (event(),)),), 2**60), ErrorCode.INVALID_PARAMS),
        (Append((StreamAppend("s", 1, (event(),)), StreamAppend("s", 2, (event(),))), STAMP), ErrorCode.INVALID_PARAMS),
        (batch("s", 1, "x", index=(IndexUpdate("a", 1, title="\ud800"),)), ErrorCode.INVALID_PARAMS),
        (batch("s", 1, "x", index=(IndexUpdate("a", 1, title="t" * 5000),)), ErrorCode.LIMIT),
        (
            Append((StreamAppend("s", 1, (NewEvent("T", 1, b"x" * (records.PAYLOAD_BYTES_MAX + 1)),)),), STAMP),
            ErrorCode.LIMIT,
        ),
    ],
)
async def test_what_can_never_be_appended_is_refused_before_the_disk(
    journal: Journal, append: Append, code: ErrorCode
) -> None:
    """Limits and shapes are refused typed and leave nothing; the journal goes on."""
    assert await refused(journal, append) is code
    assert await journal.streams() == ()
    await write(journal, "s", "fine")


async def test_cancelled_append_is_whole_or_not_there(journal: Journal) -> None:
    """A waiter that is cancelled leaves no half transaction and blocks nobody."""
    for number in range(20):
        with anyio.move_on_after(0):
            await journal.append(batch(f"s{number}", 1, "a", "b", "c"))
        counts = len(await texts(journal, f"s{number}"))
        assert counts in (0, 3)
    task = asyncio.ensure_future(journal.append(batch("native", 1, "a", "b")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await write(journal, "after", "x")
    assert len(await texts(journal, "native")) in (0, 2)


async def test_closed_journal_refuses_typed(tmp_path: Path) -> None:
    """After close nothing is taken and nothing hangs; closing twice is harmless."""
    journal, _report = await open_journal(tmp_path / "data")
    await journal.close()
    await journal.close()
    assert await refused(journal, batch("s", 1, "x")) is ErrorCode.NOT_SAVED
    with pytest.raises(JournalError):
        await journal.read("s", 0)


async def test_files_are_for_this_user_alone(tmp_path: Path) -> None:
    """The data directory is 0700 and every file in it 0600."""
    async with opened(tmp_path / "data") as journal:
        await write(journal, "s", "x")
        assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
        for path in (tmp_path / "data").iterdir():
            assert path.stat().st_mode & 0o077 == 0, path.name


async def test_health_speaks_of_the_log_and_the_reserve(journal: Journal) -> None:
    """Health needs no query and says what doctor wants to know."""
    health = journal.health()
    assert health.accepting
    assert health.has_ballast
    assert not health.disk_full
    assert not health.wal_alarm
    assert journal.release_ballast()
    assert not journal.health().has_ballast
    assert not journal.release_ballast()
