"""A snapshot and what follows it are the whole log, at every place; what is not whole is never believed."""

import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import pytest
from tests.bench.bench_kernel import one_turn
from tests.kit.room import new_home
from tests.kit.simulation.driver import Simulation

from gloveport.protocol.journal.envelope import NewEvent
from gloveport.protocol.journal.events import EventBody, ModelResponseReceived, encode_body
from gloveport.protocol.wire.reducer import PAGE_ITEMS
from gloveport.server.engine.folding import Loaded, decode_stored, fold_decoded
from gloveport.server.engine.glance import take_glance
from gloveport.server.engine.keeping import FOLD, PART_ITEMS, VIEW, Beside, Keeper, make_form
from gloveport.server.journal.records import Append, StreamAppend
from gloveport.server.journal.schema import DATABASE_FILE
from gloveport.server.journal.store import Journal

STREAM = "session/s"
FORM = make_form()


@dataclass
class Log:
    """A journal with one history in it."""

    journal: Journal
    folder: Path

    def keeper(self, build: str = "b") -> Keeper:
        """Who keeps its snapshots."""
        return Keeper(self.journal, STREAM, build, FORM)

    async def append(self, bodies: list[EventBody]) -> None:
        """More events."""
        head = await self.journal.head(STREAM)
        news = tuple(NewEvent(type(body).__name__, body.version, encode_body(body)) for body in bodies)
        await self.journal.append(Append((StreamAppend(STREAM, head.next_seq if head else 1, news),), 1))

    async def fold(self, loaded: Loaded, keeper: Keeper, until: int = 1 << 40) -> Loaded:
        """Take in what follows, up to a seq."""
        while events := await self.journal.read(STREAM, loaded.seq, min(500, until - loaded.seq)):
            decoded = decode_stored(events)
            await keeper.bring(loaded.view, loaded.view.needed(op for step in decoded for op in step.ops))
            fold_decoded(loaded, decoded)
            if loaded.seq >= until:
                break
        return loaded

    async def whole(self) -> Loaded:
        """The fold of the whole log."""
        return await self.fold(Loaded(), self.keeper())

    async def resumed(self, build: str = "b") -> tuple[int, Loaded]:
        """Where the snapshot that is believed stands (0: there is none), and the session from there on."""
        keeper = self.keeper(build)
        loaded = await keeper.read() or Loaded()
        return loaded.seq, await self.fold(loaded, keeper)

    def change(self, statement: str, *values: object) -> int:
        """Change the file behind the journal's back; how many rows."""
        connection = sqlite3.connect(self.folder / DATABASE_FILE)
        try:
            with connection:
                return connection.execute(statement, values).rowcount
        finally:
            connection.close()


@asynccontextmanager
async def log_of(bodies: list[EventBody]) -> AsyncIterator[Log]:
    """A journal that holds these events."""
    with new_home() as home:
        journal, _ = await Journal.open(home.data, clock=time.time_ns, boot_id="test")
        log = Log(journal, home.data)
        try:
            await log.append(bodies)
            yield log
        finally:
            await journal.close()


def facts(loaded: Loaded) -> tuple[object, ...]:
    """Everything of a session as read, but the items."""
    place = (loaded.epoch, loaded.seq, loaded.digest)
    beside = (tuple(loaded.plans), loaded.refusals, loaded.faults, loaded.has_erased)
    return loaded.state, loaded.view.digest(), len(loaded.view), beside, place


def test_all_that_is_read_is_kept() -> None:
    """A field that reading a session gains is one that its snapshot has, or this says so."""
    place = {"state", "view", "epoch", "seq", "digest"}
    assert {field.name for field in fields(Loaded)} == place | {field.name for field in fields(Beside)}


async def test_what_a_log_contradicts_is_kept() -> None:
    """A session that is read-only for what its log says of itself is so from its snapshot too."""
    answered = ModelResponseReceived(
        turn_id="t9", goal_revision=1, request_id="t9.r1", text="x", calls=(), stop="end", text_digest="a" * 64
    )
    async with log_of([*turns(2), answered]) as log:
        whole = await log.whole()
        whole.has_erased = True
        assert whole.faults
        assert await log.keeper().write(whole)
        _, resumed = await log.resumed()
        assert facts(resumed) == facts(whole)


def history(seed: int) -> list[EventBody]:
    """A simulated session with crashes, stops, approvals, changes."""
    run = Simulation(seed, crash_rate=0.05).run(45)
    return [entry.body for entry in run.ledger.read() if entry.body is not None]


@cache
def turns(count: int) -> list[EventBody]:
    """A session of so many turns."""
    return [body for number in range(count) for body in one_turn(number)]


@pytest.mark.parametrize("seed", [3, 21, 77])
async def test_snapshot_and_tail_are_the_whole_log_at_every_seq(seed: int) -> None:
    """Written at each place by one that goes on, read by one that begins there."""
    bodies = history(seed)
    async with log_of(bodies) as log:
        whole = await log.whole()
        writer, loaded = log.keeper(), Loaded()
        for seq in range(1, len(bodies) + 1):
            loaded = await log.fold(loaded, writer, seq)
            assert await writer.write(loaded)
            at, resumed = await log.resumed()
            assert at == seq
            assert facts(resumed) == facts(whole)
            glance = await take_glance(log.journal, log.keeper(), STREAM, None)
            assert glance is not None
            assert (glance.view.digest(), glance.place.seq) == (whole.view.digest(), whole.seq)
        assert facts(loaded) == facts(whole)


ITEMS_OF_A_TURN = 5
LONG = PART_ITEMS // 4 + 10  # turns with four entries of history each


async def test_what_is_long_is_written_once() -> None:
    """History in parts, the view in pages: a later snapshot writes the ends and what changed."""
    async with log_of(turns(LONG)) as log:
        keeper, loaded = log.keeper(), Loaded()
        half = LONG * len(one_turn(0)) - 60
        await log.fold(loaded, keeper, half)
        assert await keeper.write(loaded)
        await log.fold(loaded, keeper)
        assert await keeper.write(loaded)
        kinds = [f"{FOLD}/history/0", f"{FOLD}/history/1", f"{VIEW}/0", f"{VIEW}/1", FOLD, VIEW]
        kept = await log.journal.snapshots(STREAM, kinds)
        assert [kept[kind].seq for kind in kinds] == [half, loaded.seq, loaded.seq, half, loaded.seq, loaded.seq]
        at, resumed = await log.resumed()
        assert at == loaded.seq
        assert facts(resumed) == facts(await log.whole())
        assert resumed.view.pages_held < len(resumed.view) // PAGE_ITEMS


def other_build(log: Log) -> None:
    """Nothing of the log: it is read as by another build."""


def flipped(log: Log) -> None:
    """A byte of the state."""
    assert log.change("UPDATE fold_snapshot SET state = state || x'20' WHERE kind = ?", FOLD) == 1


def no_part(log: Log) -> None:
    """A part of the history."""
    assert log.change("DELETE FROM fold_snapshot WHERE kind = ?", f"{FOLD}/history/0") == 1


def other_part(log: Log) -> None:
    """A whole part, of another place."""
    swap = "UPDATE fold_snapshot SET (state, checksum) = (SELECT state, checksum FROM fold_snapshot WHERE kind = ?)"
    assert log.change(swap + " WHERE kind = ?", f"{FOLD}/history/1", f"{FOLD}/history/0") == 1


def other_page(log: Log) -> None:
    """A whole page of the view, of another place."""
    swap = "UPDATE fold_snapshot SET (state, checksum) = (SELECT state, checksum FROM fold_snapshot WHERE kind = ?)"
    last = -(-LONG * ITEMS_OF_A_TURN // PAGE_ITEMS) - 1
    assert log.change(swap + " WHERE kind = ?", f"{VIEW}/{last - 1}", f"{VIEW}/{last}") == 1


def no_view(log: Log) -> None:
    """The view's root."""
    assert log.change("DELETE FROM fold_snapshot WHERE kind = ?", VIEW) == 1


def other_past(log: Log) -> None:
    """The event of the snapshot is another one than it was."""
    assert log.change("UPDATE fold_snapshot SET digest = zeroblob(32)") > 3


def other_place(log: Log) -> None:
    """The view of one place beside the state of another, each whole by itself."""
    assert log.change("UPDATE fold_snapshot SET seq = 7, digest = (SELECT digest FROM event WHERE seq = 7)"
                      " WHERE kind = ?", FOLD) == 1  # fmt: skip


@pytest.mark.parametrize(
    "damage", [other_build, flipped, no_part, other_part, other_page, no_view, other_past, other_place]
)
async def test_what_is_not_whole_is_not_believed(damage: Callable[[Log], None]) -> None:
    """Then the log is folded anew, to the same session, and the next snapshot is a whole one."""
    async with log_of(turns(LONG)) as log:
        whole, keeper = await log.whole(), log.keeper()
        assert await keeper.write(await log.whole())
        assert (await log.resumed())[0] == whole.seq
        damage(log)
        build = "other" if damage is other_build else "b"
        at, resumed = await log.resumed(build)
        assert at == 0
        assert facts(resumed) == facts(whole)
        anew = log.keeper(build)
        assert await anew.read() is None
        assert await anew.write(resumed)
        assert (await log.resumed(build))[0] == whole.seq


async def test_a_page_that_is_gone_is_found_out_when_it_is_wanted() -> None:
    """An old page is read only when it is asked for; that it is not there forgets the snapshots."""
    async with log_of(turns(LONG)) as log:
        keeper = log.keeper()
        assert await keeper.write(await log.whole())
        reader = log.keeper()
        loaded = await reader.read()
        assert loaded is not None
        log.change("DELETE FROM fold_snapshot WHERE kind = ?", f"{VIEW}/0")
        with pytest.raises(ValueError, match="page 0"):
            await reader.items(loaded.view, 0, 1)
        assert (await log.resumed())[0] == 0
        assert reader.seq == 0


async def test_a_snapshot_of_a_log_that_went_another_way_is_not_written() -> None:
    """What is known here but not there is no snapshot of there."""
    async with log_of(turns(3)) as log:
        keeper, loaded = log.keeper(), await log.whole()
        loaded.digest = "a" * 64
        assert not await keeper.write(loaded)
        assert (await log.resumed())[0] == 0
        assert keeper.seq == 0
