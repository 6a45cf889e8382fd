"""Opening sessions of any length: from their snapshot, as a glance, and with old pages that come back when needed."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing

import anyio
import pytest
from tests.bench.bench_open import append_turns
from tests.kit.room import Home, Kit, new_home

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import SessionId, session_stream
from gloveport.protocol.journal.envelope import encode_cursor
from gloveport.protocol.wire.reducer import PAGE_ITEMS
from gloveport.protocol.wire.session import ItemListParams, SessionRenameParams
from gloveport.server.app.daemon import new_id
from gloveport.server.app.projections import projections_of
from gloveport.server.engine.actor import Actor
from gloveport.server.engine.folding import Loaded, fold_stored
from gloveport.server.engine.glance import Glance
from gloveport.server.engine.keeping import FOLD
from gloveport.server.journal.schema import DATABASE_FILE
from gloveport.server.journal.store import Journal
from gloveport.server.session.state import AssistantEntry

TURNS = 300


@pytest.fixture
def home() -> Iterator[Home]:
    """A home whose model has one answer."""
    with new_home() as made:
        made.play({"text": "Fine."})
        yield made


def change(home: Home, statement: str, *values: object) -> int:
    """Change the file while nobody has it open; how many rows."""
    with closing(sqlite3.connect(home.data / DATABASE_FILE)) as connection, connection:
        return connection.execute(statement, values).rowcount


async def long_session(home: Home, turns: int = TURNS) -> str:
    """A session of many turns that no daemon has read since they were written."""
    async with home.room() as kit:
        session = await kit.begin()
    journal, _ = await Journal.open(home.data, clock=time.time_ns, boot_id="test")
    await append_turns(journal, session, turns)
    await journal.close()
    return session


async def kept_session(home: Home, turns: int = TURNS) -> str:
    """The same, with a snapshot: it was opened once."""
    session = await long_session(home, turns)
    async with home.room() as kit:
        assert not (await kit.sessions.open(session)).state.read_only
        await until_kept(kit, session)
    return session


async def until_kept(kit: Kit, session: str) -> None:
    """Wait until the snapshot stands at the log's end."""
    actor = kit.actor(session)
    while actor._keeper.seq < actor._loaded.seq:
        await actor._keep()


async def fold_whole(kit: Kit, session: str) -> Loaded:
    """The whole log, read anew."""
    loaded, stream = Loaded(), session_stream(SessionId(session))
    while events := await kit.journal.read(stream, loaded.seq):
        fold_stored(loaded, events)
    return loaded


async def rename(kit: Kit, session: str, title: str) -> None:
    """A change of the view's very first item."""
    params = SessionRenameParams(client_request_id=new_id("r"), session_id=session, title=title)
    await kit.call("session/rename", params)


async def test_a_long_session_is_opened_from_its_snapshot(home: Home) -> None:
    """Its early events are not read again: that one of them cannot be read goes unseen, until the whole log is."""
    session = await kept_session(home)
    change(home, "UPDATE event SET payload = '{}' WHERE seq = 9")
    async with home.room() as kit:
        actor = await kit.sessions.open(session)
        assert len(actor.state.history) == 4 * TURNS
    change(home, "DELETE FROM fold_snapshot WHERE kind = ?", FOLD)
    async with home.room() as kit:  # a control: without the snapshot it is found, and what follows is set aside
        assert len((await kit.sessions.open(session)).state.history) < 4


async def test_work_goes_on_from_a_snapshot_as_from_the_log(home: Home) -> None:
    """Turns, and changes of what is long out of memory; then the fold of the whole log agrees."""
    session = await kept_session(home)
    for number in range(3):
        async with home.room() as kit:
            await rename(kit, session, f"Name {number}")
            await kit.send(session)
            await kit.idle(session)
            await rename(kit, session, f"Name {number} again")
            actor, whole = kit.actor(session), await fold_whole(kit, session)
            assert actor.view.pages_held < len(actor.view) // PAGE_ITEMS
            assert actor.state == whole.state
            assert actor.view.digest() == whole.view.digest()
            assert await actor.items(0, len(actor.view)) == whole.view.items()
            assert (await actor.item("session"))["title"] == f"Name {number} again"
            assert await actor.item("nothing") == {}


async def test_a_page_that_is_not_there_when_it_is_needed_costs_a_reading(home: Home) -> None:
    """The request that needed it is written, so it is answered, also when it is asked again; the log is read again."""
    session = await kept_session(home)
    change(home, "DELETE FROM fold_snapshot WHERE kind = 'view/0'")
    async with home.room() as kit:
        params = SessionRenameParams(client_request_id=new_id("r"), session_id=session, title="Lost page")
        answer = await kit.call("session/rename", params)
        assert kit.actor(session).stale
        assert await kit.call("session/rename", params) == answer
        assert (await kit.kinds(session)).count("SessionRenamed") == 1
        assert (await kit.sessions.open(session)).state.title == "Lost page"
        await rename(kit, session, "Found again")
        actor, whole = kit.actor(session), await fold_whole(kit, session)
        assert actor.view.digest() == whole.view.digest()
        assert actor.state == whole.state
        await until_kept(kit, session)
    async with home.room() as kit:
        assert (await kit.sessions.open(session)).state == whole.state


async def test_a_turn_begun_on_a_page_that_is_not_there_goes_on_by_itself(home: Home) -> None:
    """What is due after the request is found when the session is read again, whoever looks."""
    session = await kept_session(home)
    change(home, "DELETE FROM fold_snapshot WHERE kind = 'view/0'")
    async with home.room() as kit:
        actor = await kit.sessions.open(session)
        await kit.send(session)
        assert actor.stale
        while (now := kit.actor(session)) is actor:
            await anyio.sleep(0.01)
        await kit.idle(session)
        assert now.state.history[-1] == AssistantEntry("Fine.")


async def test_a_look_does_not_open_the_session(home: Home) -> None:
    """An idle session is shown from its view alone; what a client sees is what the opened session shows."""
    session = await kept_session(home)
    stream = session_stream(SessionId(session))
    async with home.room() as kit:
        projections = projections_of(kit.sessions)
        glanced = await projections.view(stream)
        assert kit.sessions.loaded(session) is None
        assert isinstance(await kit.sessions.look(session), Glance)
        first, seq = glanced.snapshot.items_before, glanced.cursor.seq
        assert first % PAGE_ITEMS == 0
        assert 0 < first < TURNS * 5
        digest = projections.digest(stream, seq, first)
        page = await kit.call("session/item/list", ItemListParams(session_id=session, before=200, limit=150))
        assert await projections.old_items(stream, ("session", "m299", "unheard"), first) == {"session"}
        assert kit.sessions.loaded(session) is None
        actor = await kit.sessions.open(session)
        assert isinstance(await kit.sessions.look(session), Actor)
        assert encode_cursor(actor.cursor) == encode_cursor(glanced.cursor)
        assert digest == actor.view_digest(seq, first) is not None
        assert [item.model_dump() for item in page.items] == await actor.items(50, 200)
        opened = await projections.view(stream)
        assert opened.snapshot == glanced.snapshot


async def test_a_glance_is_never_old(home: Home) -> None:
    """What was written since the snapshot, or since the last look, is in it."""
    session = await kept_session(home)
    stream = session_stream(SessionId(session))
    for turns in (3, 2):
        journal, _ = await Journal.open(home.data, clock=time.time_ns, boot_id="test")
        await append_turns(journal, session, turns)
        await journal.close()
        async with home.room() as kit:
            glance = await kit.sessions.look(session)
            assert isinstance(glance, Glance)
            assert await kit.sessions.look(session) is glance
            whole = await fold_whole(kit, session)
            assert glance.view_digest(whole.seq) == whole.view.digest()
            assert glance.view_digest(whole.seq - 1) is None
            head = await kit.journal.head(stream)
            assert head is not None
            assert glance.cursor == head.cursor


async def test_a_session_under_way_is_opened_for_a_look(home: Home) -> None:
    """A turn that was cut is looked after before anybody is shown anything."""
    session = await kept_session(home)
    journal, _ = await Journal.open(home.data, clock=time.time_ns, boot_id="test")
    await append_turns(journal, session, 1, under_way=True)
    await journal.close()
    async with home.room() as kit:
        assert isinstance(await kit.sessions.look(session), Actor)
        assert "ModelStreamInterrupted" in await kit.kinds(session)


async def test_a_session_without_a_snapshot_is_opened_and_gets_one(home: Home) -> None:
    """The first look reads the log; the second does not."""
    session = await long_session(home)
    async with home.room() as kit:
        assert isinstance(await kit.sessions.look(session), Actor)
        await until_kept(kit, session)
    async with home.room() as kit:
        assert isinstance(await kit.sessions.look(session), Glance)


async def test_nobody_knows_the_session(home: Home) -> None:
    """A look at nothing is refused as ever."""
    async with home.room() as kit:
        with pytest.raises(GloveportError) as told:
            await kit.sessions.look("session-none")
        assert told.value.code is ErrorCode.SESSION_UNKNOWN
