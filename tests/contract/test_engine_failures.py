"""What goes wrong around the engine: a journal that refuses, tools that break, requests that cannot be recorded."""

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from tests.kit.room import KEY_LINES, ME, SECRET, Home, Kit, call, new_home, run, swallow

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.base import Empty, SessionParams
from gloveport.protocol.wire.policy import PolicyShowParams
from gloveport.protocol.wire.session import (
    ItemListParams,
    SessionExportParams,
    SessionListParams,
    SessionRenameParams,
    SessionStartParams,
)
from gloveport.protocol.wire.views import TranscriptParams, UsageShowParams
from gloveport.sandbox.contract import SandboxError
from gloveport.server.app.daemon import new_id
from gloveport.server.engine import perform
from gloveport.server.engine import sessions as sessions_module
from gloveport.server.engine.actor import Actor
from gloveport.server.journal.schema import DATABASE_FILE
from gloveport.server.session.state import Phase
from gloveport.server.tools.files import ReadFile
from gloveport.server.turn.effects import ApplyChanges, Effect

PAGES_USUAL = 0xFFFFFFFE
DONE = {"text": "Done."}
OWN = {"sessions", "contents"}
"""Where copies of the user's own files lie."""


@pytest.fixture
def home() -> Iterator[Home]:
    """An empty home."""
    with new_home() as made:
        yield made


async def set_pages(kit: Kit, pages: int) -> None:
    """How many pages the database may have; SQLite itself refuses more (and takes what it has for the least)."""
    door = kit.journal._writing()  # the real refusal needs the real connection
    await door.run(lambda connection: connection.execute(f"PRAGMA max_page_count={pages}").fetchone())


def rename(session_id: str, title: str = "t") -> SessionRenameParams:
    """A small change."""
    return SessionRenameParams(client_request_id=new_id("r"), session_id=session_id, title=title)


async def rename_until_refused(kit: Kit, session_id: str) -> GloveportError:
    """Small changes until the journal refuses one."""
    for number in range(200):
        try:
            await kit.call("session/rename", rename(session_id, f"{number:0200d}"))
        except GloveportError as error:
            return error
    raise AssertionError("the journal took everything")


async def test_a_full_journal_stops_a_running_turn_and_loses_nothing(home: Home) -> None:
    """The refusal is typed; the program runs on and is found again; it runs once; the audit agrees."""
    home.play({"when": {"turn": 0}, "calls": [run("hold")]}, DONE)
    async with home.room() as kit:
        session = await kit.held()
        await set_pages(kit, 1)
        assert (await rename_until_refused(kit, session)).code in (ErrorCode.DATA_FULL, ErrorCode.NOT_SAVED)
        assert kit.actor(session).stale
        home.ladder.go.set()
        first, second = await kit.sessions.open(session), await kit.sessions.open(session)
        assert first is second
        assert not first.stale
        await kit.idle(session)
        assert await kit.ends(session) == ["ok"]
        assert home.ladder.starts["hold"] == 1
        assert (await kit.call("audit/verify", Empty())).ok


async def test_a_stopped_journal_that_does_not_open_is_told_by_the_status(home: Home) -> None:
    """The status answers without what it cannot know; every other question is answered, or refused with words."""
    home.play(DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await set_pages(kit, 1)
        refused = await rename_until_refused(kit, session)
        database, away = home.data / DATABASE_FILE, home.folder / "away.db"
        database.rename(away)
        database.mkdir()
        asked = {
            "session/show": SessionParams(session_id=session),
            "session/list": SessionListParams(),
            "session/item/list": ItemListParams(session_id=session, before=1),
            "session/export": SessionExportParams(session_id=session),
            "session/transcript": TranscriptParams(session_id=session),
            "usage/show": UsageShowParams(session_id=session),
            "approval/list": SessionParams(session_id=session),
            "change/list": SessionParams(session_id=session),
            "session/rename": rename(session),
        }
        for method, params in asked.items():
            error = await kit.refused(method, params)
            assert error.code in (ErrorCode.DATA_FULL, ErrorCode.NOT_SAVED), (method, error)
            assert error.hint
        data = (await kit.call("daemon/status", Empty())).data
        assert (data.sessions, data.events_bytes, data.accepting) == (None, None, False)
        assert any("Nothing can be saved now" in words for words in data.told), refused
        await kit.call("policy/show", PolicyShowParams())
        for method in ("model/list", "sandbox/list", "audit/verify", "workspace/list"):
            await kit.call(method, Empty())
        database.rmdir()
        away.rename(database)
        await kit.call("session/rename", rename(session))
        data = (await kit.call("daemon/status", Empty())).data
        assert (data.sessions, data.accepting) == (1, True)


async def test_a_running_session_is_no_answer_while_nothing_can_be_saved(home: Home) -> None:
    """The journal stopped under another session: whoever asks makes the daemon look again, or is refused with words."""
    home.play({"when": {"turn": 0}, "calls": [run("hold")]}, DONE)
    async with home.room() as kit:
        session, other = await kit.begin(), await kit.begin()
        await kit.send(session)
        await kit.answer(session, await kit.waiting(session))
        await home.ladder.began.wait()
        await set_pages(kit, 1)
        await rename_until_refused(kit, other)
        assert not kit.actor(session).stale
        database, away = home.data / DATABASE_FILE, home.folder / "away.db"
        database.rename(away)
        database.mkdir()
        refused = await kit.refused("session/show", SessionParams(session_id=session))
        assert refused.code in (ErrorCode.DATA_FULL, ErrorCode.NOT_SAVED)
        database.rmdir()
        away.rename(database)
        assert (await kit.call("session/show", SessionParams(session_id=session))).turn_id is not None
        assert kit.journal.health().accepting
        home.ladder.go.set()
        await kit.idle(session)
        assert await kit.ends(session) == ["ok"]


async def test_a_session_nobody_looks_at_goes_on_after_a_refusal(home: Home) -> None:
    """The journal refuses what a running program prints; its followers see the end all the same."""
    home.play({"when": {"turn": 0}, "calls": [run("hold")]}, DONE)
    async with home.room() as kit:
        session = await kit.held()
        await set_pages(kit, 1)
        await rename_until_refused(kit, session)
        home.ladder.go.set()
        await kit.until(lambda: "TurnCompleted" in {event.type for event in kit.told.events})
        assert await kit.ends(session) == ["ok"]


async def test_a_refusal_after_any_event_of_a_turn(home: Home) -> None:
    """The journal is full after the n-th event, for every n: whoever looks next finds a session that goes on, each
    call has one end, the edit is there once."""
    home.write(a__txt="one\n")
    edit = call("edit_file", path="a.txt", old="one\n", new="one\nmore\n")
    home.play({"when": {"turn": 0}, "text": "Now.", "calls": [edit, call("read_file", path="a.txt")]}, DONE)
    async with home.room() as kit:
        tried = 0
        for at in range(1, 60):
            session = await kit.begin("trusted" if at == 1 else None)
            seen = len(kit.told.events)
            await kit.send(session)
            await kit.until(
                lambda at=at, seen=seen, session=session: (
                    len(kit.told.events) - seen >= at or kit.actor(session).state.phase is Phase.IDLE
                )
            )
            if kit.actor(session).state.phase is Phase.IDLE:
                break
            await set_pages(kit, 1)
            with anyio.fail_after(60):
                actor = await kit.sessions.open(session)
                await actor.wait_quiet()
                actor = await kit.sessions.open(session)
            await kit.until(lambda actor=actor: actor.state.phase is Phase.IDLE)
            await kit.ends(session)
            text = (home.worktree(session) / "a.txt").read_text()
            assert text in ("one\n", "one\nmore\n")
            await set_pages(kit, PAGES_USUAL)
            tried += 1
        assert tried >= 5


async def test_a_successor_waits_for_what_is_under_way(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session could not be saved while a decision is being written: it is read again after the writing has ended,
    through the same door of the worktree, and finds it done."""
    home.write(a__txt="one\n")
    home.play({"when": {"turn": 0}, "calls": [call("edit_file", path="a.txt", old="one", new="two")]}, DONE)
    there, go_on, real = anyio.Event(), anyio.Event(), perform.apply_changes

    async def slowly(actor: Actor, effect: ApplyChanges) -> tuple[Effect, ...]:
        with anyio.CancelScope(shield=True):  # as a write in a thread: what was begun is finished
            there.set()
            await go_on.wait()
            return await real(actor, effect)

    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.idle(session)
        params, first = kit.decision(session, *(await kit.changes(session)).values()), kit.actor(session)
        monkeypatch.setattr(perform, "apply_changes", slowly)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(swallow, kit.commands.call("change/accept", params, ME))
            await there.wait()
            first.poison()
            tasks.start_soon(kit.sessions.open, session)
            await anyio.wait_all_tasks_blocked()
            waited = kit.actor(session) is first
            go_on.set()
        second = kit.actor(session)
        assert waited
        assert second is not first
        assert second.opened_workspace is first.opened_workspace
        assert (home.root / "a.txt").read_text() == "two\n"
        assert await kit.call("change/accept", params)
        kinds = await kit.kinds(session)
        assert (kinds.count("ChangeApplied"), kinds.count("ChangeRefused")) == (1, 0)


async def test_a_stopped_journal_is_opened_again_by_whoever_comes(home: Home) -> None:
    """Also by a new session, also by many at once; sessions that were idle lose nothing."""
    home.play(DONE)
    async with home.room() as kit:
        session, other = await kit.begin(), await kit.begin(None)
        await set_pages(kit, 1)
        await rename_until_refused(kit, session)
        assert not kit.journal.health().accepting
        names: list[str] = []

        async def one() -> None:
            names.append(await kit.begin(None))

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(one)
            tasks.start_soon(kit.call, "session/rename", rename(other, "mine"))
            tasks.start_soon(kit.call, "session/rename", rename(session, "mine"))
        assert len(set(names)) == 4
        assert kit.actor(other).state.title == kit.actor(session).state.title == "mine"


async def test_what_a_tool_made_cannot_be_looked_at(home: Home) -> None:
    """The worktree is gone when the program ends: the call has an end that says so, and the turn is over."""
    home.play({"when": {"turn": 0}, "calls": [run("hold")]}, DONE)
    async with home.room() as kit:
        session = await kit.held()
        shutil.rmtree(home.worktree(session))
        home.worktree(session).write_text("no folder")
        home.ladder.go.set()
        await kit.idle(session)
        assert len(await kit.ends(session)) == 1


async def test_leftovers_that_cannot_be_removed_stop_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sandbox refuses to forget a run: the turn goes on."""
    home.play({"when": {"turn": 0}, "calls": [run("echo", "a"), run("echo", "a")]}, DONE)

    async def refuse(_run_id: str) -> None:
        raise SandboxError(ErrorCode.SANDBOX_REFUSED, "it goes on")

    monkeypatch.setattr(home.ladder.backend("memory"), "forget", refuse)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.answer(session, await kit.waiting(session), scope="session")
        await kit.idle(session)
        assert await kit.ends(session) == ["ok", "ok"]


async def test_a_fault_of_ours_is_an_outcome(
    home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A tool raises what it should not: the call ends unknown with a reference to the log; the next turn works."""
    home.write(a__txt="one\n")
    home.play({"when": {"turns_total": 0}, "calls": [call("read_file", path="a.txt")]}, DONE)

    async def fail(*_args: object) -> None:
        raise ZeroDivisionError("a fault")

    async with home.room() as kit:
        session = await kit.begin()
        with monkeypatch.context() as patch:
            patch.setattr(ReadFile, "perform", fail)
            await kit.send(session)
            await kit.idle(session)
        assert await kit.ends(session) == ["unknown"]
        ended = next(e["payload"] for e in await kit.events(session) if e["type"] == "ToolExecutionFinished")
        assert ended["evidence"].split("reference ")[1].split()[0] in caplog.text
        assert "a fault" not in ended["evidence"] + ended["text"]
        await kit.send(session, "again")
        assert (await kit.idle(session))[-1] == "TurnCompleted"


async def test_a_request_that_cannot_be_recorded_disturbs_nothing(home: Home) -> None:
    """Ids with spaces or other scripts, titles with half characters: refused or mended; the running turn runs on."""
    home.play({"when": {"turn": 0}, "calls": [run("hold")]}, DONE)
    async with home.room() as kit:
        session = await kit.held()
        for odd in ("a b", "é", "x\n", "\ud800"):
            params = SessionRenameParams.model_construct(client_request_id=odd, session_id=session, title="t")
            assert (await kit.refused("session/rename", params)).code is ErrorCode.INVALID_PARAMS
        await kit.call("session/rename", SessionRenameParams.model_construct(
            client_request_id="ok", session_id=session, title="half \ud83d"))  # fmt: skip
        assert kit.actor(session).state.title == "half \ufffd"
        home.ladder.go.set()
        await kit.idle(session)
        assert await kit.ends(session) == ["ok"]


@pytest.mark.parametrize("name", ["nope", "../x", "x" * 250, "a b", "é", "session/x"])
async def test_names_of_sessions_that_cannot_be(home: Home, name: str) -> None:
    """Typed, and nothing is kept of them."""
    async with home.room() as kit:
        error = await kit.refused("session/show", SessionParams(session_id=name))
        assert error.code in (ErrorCode.SESSION_UNKNOWN, ErrorCode.INVALID_PARAMS)
        assert not kit.sessions._opening  # what grows with every guess would be a leak


async def test_a_secret_in_pieces_is_not_shown_stored_or_told(home: Home) -> None:
    """A program prints a known value in pieces, and a private key line by line: in no event, blob or audit line."""
    home.write(a__txt=f"password = {SECRET}\n")
    calls = [run("leak"), call("read_file", path="a.txt"), call("search", pattern="password")]
    home.play({"when": {"turn": 0}, "calls": calls}, DONE)
    async with home.room() as kit:
        session = await kit.allowed()
        await kit.idle(session)
        assert await kit.ends(session) == ["ok"] * 3
        told = str(await kit.events(session))
        assert "key=" in told
        items = (await kit.call("session/item/list", ItemListParams(session_id=session, before=1000))).items
        assert "key=" in str(items)
        for text in (told, str(items)):
            assert SECRET not in text
            assert SECRET[9:] not in text
            assert KEY_LINES[1].strip() not in text
    stored = [path for path in home.data.rglob("*") if path.is_file() and not OWN & set(path.parts)]
    assert any("blob" in str(path) for path in stored)
    for path in stored:
        assert SECRET.encode() not in path.read_bytes(), path.name
        assert KEY_LINES[1].strip().encode() not in path.read_bytes(), path.name


async def test_an_export_hides_secrets_unless_asked(home: Home) -> None:
    """What the user typed is exported redacted, as the same JSON; raw when asked."""
    home.play(DONE)
    async with home.room() as kit:
        session = await kit.begin()
        message = f'my "password": "{SECRET}", and\n{SECRET}'
        await kit.send(session, message)
        await kit.idle(session)
        hidden, raw = await kit.events(session, redacted=True), await kit.events(session)
        assert SECRET not in str(hidden)
        assert message in [event["payload"].get("text") for event in raw]
        assert [event["seq"] for event in hidden] == [event["seq"] for event in raw]


async def test_idle_sessions_are_let_go_with_their_handles(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """More sessions than are kept: no more open files, all can be used again, and lists are paged."""
    monkeypatch.setattr(sessions_module, "LOADED_MAX", 2)
    home.play(DONE)
    async with home.room() as kit:
        names = [await kit.begin() for _ in range(3)]
        for name in names:
            await kit.sessions.open(name)
        gc.collect()
        before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0
        for _ in range(5):
            for name in names:
                await kit.call("session/show", SessionParams(session_id=name))
        gc.collect()
        if before:
            assert len(os.listdir("/proc/self/fd")) <= before + 2
        assert len(kit.sessions.all_loaded()) == 2
        for name in names:
            await kit.send(name)
            await kit.idle(name)
        first = await kit.call("session/list", SessionListParams(limit=2))
        rest = await kit.call("session/list", SessionListParams(limit=2, offset=first.next_offset))
        listed = [one.session_id for one in (*first.sessions, *rest.sessions)]
        assert listed == list(reversed(names))
        assert rest.next_offset is None
        items = await kit.call("session/item/list", ItemListParams(session_id=names[0], before=3, limit=2))
        assert (len(items.items), items.items_before) == (2, 1)


@pytest.mark.parametrize("quotes", [1_200_000, 1_900_000])
async def test_an_answer_too_large_to_be_written_ends_the_turn(home: Home, quotes: int) -> None:
    """What the journal cannot take is a failure with words; the session goes on."""
    large = call("write_file", path="a", content='"' * quotes)
    home.play({"when": {"user_contains": "go"}, "calls": [large], "chunk_chars": 1_000_000}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        kinds = await kit.idle(session)
        assert kinds[-1] == "TurnFailed"
        assert "RecoverySummarised" not in kinds  # nothing was lost, so nothing is read again
        await kit.send(session, "again")
        assert (await kit.idle(session))[-1] == "TurnCompleted"


async def test_a_folder_that_vanished_is_told(home: Home) -> None:
    """The user's folder is gone when a turn begins: typed, and the session stays."""
    home.write(a__txt="one\n")
    home.play(DONE)
    async with home.room() as kit:
        session = await kit.begin()
        shutil.rmtree(home.root)
        await kit.send(session)
        kinds = await kit.idle(session)
        assert kinds[-1] in ("TurnFailed", "TurnCompleted")
        params = SessionStartParams(client_request_id="n", root=str(home.root))
        assert (await kit.refused("session/start", params)).code is ErrorCode.WORKSPACE_MISSING
