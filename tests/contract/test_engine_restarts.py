"""A room that ends anywhere, and what the next one over the same data makes of it."""

import json
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from tests.kit.room import ME, Home, Kit, call, new_home, run, swallow

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.ids import SessionId, session_stream
from gloveport.protocol.journal.envelope import NewEvent
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.session import ItemListParams, SessionExportParams, SessionRenameParams
from gloveport.protocol.wire.turn import TurnStartParams
from gloveport.server.engine import apply_run, perform
from gloveport.server.engine.prompt import model_request
from gloveport.server.journal.records import Append, StreamAppend

DONE = {"text": "Done."}


@pytest.fixture
def home() -> Iterator[Home]:
    """An empty home."""
    with new_home() as made:
        yield made


def recoveries(kinds: list[str]) -> int:
    """How often a restart was told."""
    return kinds.count("RecoverySummarised")


async def test_a_card_waits_over_a_restart(home: Home) -> None:
    """The same card, the same id; its answer starts the call."""
    home.play({"when": {"turn": 0}, "calls": [run("echo", "a")]}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        first = await kit.waiting(session)
    async with home.room() as kit:
        await kit.sessions.open(session)
        second = await kit.waiting(session)
        assert (second.approval_id, second.card_digest) == (first.approval_id, first.card_digest)
        await kit.answer(session, second)
        kinds = await kit.idle(session)
        assert await kit.ends(session) == ["ok"]
        assert recoveries(kinds) == 1


def half() -> dict[str, Any]:
    """An answer that stops in its middle until a file is there."""
    step = {"text": "First half. Second half.", "chunk_chars": 11, "wait_after_chunks": 1, "wait_for_file": "go"}
    return {"when": {"turn": 0}, **step}


def go_on(home: Home) -> None:
    """Let the halted answer go on."""
    (home.folder / "go").write_text("")


async def streaming(kit: Kit) -> str:
    """A session of which half an answer has arrived."""
    session = await kit.begin()
    await kit.send(session)
    await kit.until_state(session, lambda s: bool(s.turn and s.turn.request and s.turn.request.text))
    return session


@pytest.mark.parametrize("fate", ["finished", "never_accepted", None])
async def test_d08_a_half_answer_is_kept_and_asked_for_again(home: Home, fate: str | None) -> None:
    """What had arrived is there, marked; its provider is asked; the turn goes on; a later restart adds nothing. D08"""
    home.play(half(), DONE, lookup=fate)
    async with home.room() as kit:
        session = await streaming(kit)
        await kit.until_state(session, lambda s: bool(s.turn and s.turn.request and s.turn.request.provider_request_id))
    async with home.room() as kit:
        go_on(home)
        await kit.sessions.open(session)
        kinds = await kit.idle(session)
        charged = [] if fate == "never_accepted" else ["UsageEstimated"]
        found = [
            "RecoverySummarised",
            "ModelRequestReconciled",
            "ModelStreamInterrupted",
            *charged,
            "ModelRequestStarted",
        ]
        begin = kinds.index("RecoverySummarised")
        assert kinds[begin : begin + len(found)] == found
        assert kinds[-1] == "TurnCompleted"
        assert kinds.count("TurnStarted") == 1
        (asked,) = await kit.bodies(session, "ModelRequestReconciled")
        assert (asked["fate"], asked["may_be_billed"]) == (fate or "unknown", fate != "never_accepted")
        (told,) = await kit.bodies(session, "RecoverySummarised")
        assert [(item["kind"], item["outcome"]) for item in told["items"]] == [("request", "asked_again")]
        assert ("count it twice" in told["text"]) == (fate != "never_accepted")
        before, after = kit.actor(session).state.history[-2:]
        assert (before.text, before.interrupted) == ("First half.", True)
        assert (after.text, after.interrupted) == ("First half. Second half.", False)
        assert [type(message).__name__ for message in model_request(kit.actor(session).state, ()).messages] == [
            "SystemText", "UserText", "AssistantTurn", "UserText", "AssistantTurn",
        ]  # fmt: skip
    async with home.room() as kit:
        await kit.sessions.open(session)
        assert await kit.kinds(session) == kinds
        await kit.send(session, "again")
        assert (await kit.idle(session))[-1] == "TurnCompleted"


@pytest.mark.parametrize("where", ["stream", "tool", "card"])
async def test_d08_stop_and_a_message_work_after_a_kill(home: Home, where: str) -> None:
    """Killed in an answer, in a program, at a question: stop ends the turn, and the next message is answered. D08"""
    first = half() if where == "stream" else {"when": {"turns_total": 0}, "calls": [run("hold")]}
    home.play(first, DONE)
    async with home.room() as kit:
        if where == "stream":
            session = await streaming(kit)
        else:
            session = await kit.begin()
            await kit.send(session)
            card = await kit.waiting(session)
            if where == "tool":
                await kit.answer(session, card)
                await home.ladder.began.wait()
    async with home.room() as kit:
        await kit.sessions.open(session)
        await kit.cancel(session)
        kinds = await kit.idle(session)
        assert kinds[-1] == "TurnCancelled"
        go_on(home)
        await kit.send(session, "again")
        assert (await kit.idle(session))[-1] == "TurnCompleted"


@pytest.mark.parametrize("later", ["while it runs", "when it has ended", "when it is gone"])
async def test_a_program_that_outlives_the_room(home: Home, later: str) -> None:
    """Attached to, reported with its end, or begun where there is no run of it; never run twice; output once."""
    home.play({"when": {"turn": 0}, "calls": [run("hold")]}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        card = await kit.waiting(session)
        await kit.answer(session, card)
        await home.ladder.began.wait()
        await kit.until(lambda: "ToolExecutionProgress" in {event.type for event in kit.told.events})
    if later != "while it runs":
        home.ladder.go.set()
        execution = await home.ladder.backend("memory").attach(card.call_id)
        assert execution is not None
        ended = await execution.result()
    if later == "when it is gone":
        await home.ladder.backend("memory").forget(card.call_id)
    async with home.room() as kit:
        await kit.sessions.open(session)
        home.ladder.go.set()
        kinds = await kit.idle(session)
        assert await kit.ends(session) == ["ok"]
        assert kinds.count("ToolExecutionStarted") == 1
        assert home.ladder.starts["hold"] == (2 if later == "when it is gone" else 1)
        if later == "when it has ended":
            (end,) = await kit.bodies(session, "ToolExecutionFinished")
            assert end["duration_us"] == int(ended.wall_s * 1e6), "what the run's own record says"
        if later != "when it is gone":
            params = ItemListParams(session_id=session, before=10_000)
            items = (await kit.call("session/item/list", params)).items
            tool = next(item.fields for item in items if item.kind == "tool")
            assert tool["output"] == "began\nwent on\n"
        await kit.actor(session).wait_quiet()
        with anyio.fail_after(60):
            while await home.ladder.backend("memory").attach(card.call_id) is not None:
                await anyio.lowlevel.checkpoint()


async def test_a_stopped_turn_is_stopped_over_a_restart(home: Home) -> None:
    """Stop was on disk, the program still ran: the next room stops it and ends the turn as stopped."""
    home.play({"when": {"turn": 0}, "calls": [run("hold"), run("echo", "x")]}, DONE)
    async with home.room() as kit:
        session = await kit.held()
        kit.actor(session).running.clear()  # the stop reaches nobody: the room ends in that very moment
        await kit.cancel(session)
    async with home.room() as kit:
        await kit.sessions.open(session)
        kinds = await kit.idle(session)
        assert kinds[-1] == "TurnCancelled"
        assert sorted(await kit.ends(session)) == ["cancelled", "cancelled"]


async def test_a_program_that_a_stop_had_ended_is_cancelled_over_a_restart(home: Home) -> None:
    """The stop was on disk and reached the program, its end was not recorded: it ends as cancelled, not as killed."""
    home.play({"when": {"turn": 0}, "calls": [run("hold")]}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        card = await kit.waiting(session)
        await kit.answer(session, card)
        await home.ladder.began.wait()
        kit.actor(session).running.clear()
        await kit.cancel(session)
    execution = await home.ladder.backend("memory").attach(card.call_id)
    assert execution is not None
    await execution.stop()
    async with home.room() as kit:
        await kit.sessions.open(session)
        assert (await kit.idle(session))[-1] == "TurnCancelled"
        assert await kit.ends(session) == ["cancelled"]


async def dies_in(kit: Kit, monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> anyio.Event:
    """Let an effect wait for ever where it would begin; the event says that it got there."""
    there = anyio.Event()

    async def wait_for_ever(*_args: object, **_more: object) -> None:
        there.set()
        await anyio.sleep_forever()

    monkeypatch.setattr(module, name, wait_for_ever)
    return there


@pytest.mark.parametrize("found", ["before", "after", "other"])
async def test_an_edit_whose_end_is_unknown(home: Home, monkeypatch: pytest.MonkeyPatch, found: str) -> None:
    """The hashes tell: not begun is done now, done is not done again, and anything else is unknown and left alone."""
    home.write(a__txt="one\n")
    home.play({"when": {"turn": 0}, "calls": [call("edit_file", path="a.txt", old="one", new="two")]}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        there = await dies_in(kit, monkeypatch, perform, "run_tool")
        await kit.send(session)
        with anyio.fail_after(60):
            await there.wait()
    monkeypatch.undo()
    edited = home.worktree(session) / "a.txt"
    edited.write_text({"before": "one\n", "after": "two\n", "other": "three\n"}[found])
    async with home.room() as kit:
        await kit.sessions.open(session)
        kinds = await kit.idle(session)
        assert await kit.ends(session) == ["unknown" if found == "other" else "ok"]
        assert edited.read_text() == ("three\n" if found == "other" else "two\n")
        assert kinds[-1] == ("TurnFailed" if found == "other" else "TurnCompleted")
        assert kinds.count("ToolReconciled") == 1
        if found != "other":
            assert set(await kit.changes(session)) == {"a.txt"}
    async with home.room() as kit:
        await kit.sessions.open(session)
        assert await kit.kinds(session) == kinds


async def test_a_look_is_made_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read-only calls are simply repeated."""
    home.write(a__txt="one\n")
    home.play({"when": {"turn": 0}, "calls": [call("read_file", path="a.txt")]}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        there = await dies_in(kit, monkeypatch, perform, "run_tool")
        await kit.send(session)
        with anyio.fail_after(60):
            await there.wait()
    monkeypatch.undo()
    async with home.room() as kit:
        await kit.sessions.open(session)
        await kit.idle(session)
        assert await kit.ends(session) == ["ok"]


@pytest.mark.parametrize("found", ["before", "after", "other"])
async def test_an_apply_whose_end_is_unknown(home: Home, monkeypatch: pytest.MonkeyPatch, found: str) -> None:
    """Nothing written: refused, still proposed. Written: applied. Neither: refused, the file left alone."""
    home.write(a__txt="one\n")
    home.play({"when": {"turn": 0}, "calls": [call("edit_file", path="a.txt", old="one", new="two")]}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.idle(session)
        params = kit.decision(session, *(await kit.changes(session)).values())
        async with anyio.create_task_group() as tasks:
            if found == "after":  # written, and the room ends before it can say so
                there = await dies_in(kit, monkeypatch, apply_run, "done")
            else:
                there = await dies_in(kit, monkeypatch, perform, "apply_changes")
            tasks.start_soon(swallow, kit.commands.call("change/accept", params, ME))
            with anyio.fail_after(60):
                await there.wait()
            kit.actor(session).poison()  # lets the waiting client go
            tasks.cancel_scope.cancel()
    monkeypatch.undo()
    mine = home.root / "a.txt"
    if found == "other":
        mine.write_text("three\n")
    async with home.room() as kit:
        await kit.sessions.open(session)
        state = kit.actor(session).state
        assert not state.applying
        if found == "after":
            assert await kit.call("change/accept", params)
            assert (mine.read_text(), await kit.changes(session)) == ("two\n", {})
        else:
            assert (await kit.refused("change/accept", params)).code is ErrorCode.CHANGE_CONFLICT
            assert mine.read_text() == ("one\n" if found == "before" else "three\n")
            assert set(await kit.changes(session)) == {"a.txt"}
        assert (await kit.kinds(session)).count("RecoverySummarised") == 1


async def test_a_lost_worktree_leaves_the_session_readable(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with an apply under way; what needs the worktree is refused with words."""
    home.write(a__txt="one\n")
    home.play({"when": {"turn": 0}, "calls": [call("edit_file", path="a.txt", old="one", new="two")]}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.idle(session)
        params = kit.decision(session, *(await kit.changes(session)).values())
        async with anyio.create_task_group() as tasks:
            there = await dies_in(kit, monkeypatch, perform, "apply_changes")
            tasks.start_soon(swallow, kit.commands.call("change/accept", params, ME))
            with anyio.fail_after(60):
                await there.wait()
            kit.actor(session).poison()
            tasks.cancel_scope.cancel()
    monkeypatch.undo()
    (home.data / "sessions" / session).rename(home.folder / "moved away")
    async with home.room() as kit:
        shown = await kit.call("session/show", SessionParams(session_id=session))
        assert shown.goal_revision == 1
        assert (await kit.kinds(session)).count("ChangeApplyStarted") == 1
        await kit.call("session/item/list", ItemListParams(session_id=session, before=100))
        fresh = kit.decision(session, *(await kit.changes(session)).values())
        assert (await kit.refused("change/accept", fresh)).code is not ErrorCode.INTERNAL
    (home.folder / "moved away").rename(home.data / "sessions" / session)
    async with home.room() as kit:
        await kit.sessions.open(session)
        assert not kit.actor(session).state.applying


async def test_events_of_a_newer_version_make_it_read_only(home: Home) -> None:
    """Readable and listed; every change is refused and nothing is written."""
    home.play(DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.idle(session)
        stream = session_stream(SessionId(session))
        head = await kit.journal.head(stream)
        assert head is not None
        event = NewEvent("FromTheFuture", 9, json.dumps({"text": "?"}).encode())
        await kit.journal.append(Append((StreamAppend(stream, head.next_seq, (event,)),), 1))
    async with home.room() as kit:
        shown = await kit.call("session/show", SessionParams(session_id=session))
        assert shown.read_only
        kinds = await kit.kinds(session)
        rename = SessionRenameParams(client_request_id="r1", session_id=session, title="t")
        assert (await kit.refused("session/rename", rename)).code is ErrorCode.SESSION_READ_ONLY
        message = TurnStartParams(client_request_id="r2", session_id=session, text="x")
        assert (await kit.refused("turn/start", message)).code is ErrorCode.SESSION_READ_ONLY
        await kit.trust("restricted")
        assert await kit.kinds(session) == kinds
        page = await kit.call("session/export", SessionExportParams(session_id=session, after_seq=0))
        assert page.events[-1]["payload"] == {"text": "?"}


async def test_trust_given_while_nobody_looks_is_taken_over(home: Home) -> None:
    """A session that is not loaded takes the level over when it is opened; its rights end there."""
    home.play({"when": {"turn": 0}, "calls": [run("echo", "a")]}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.answer(session, await kit.waiting(session), scope="session")
        await kit.idle(session)
        assert kit.actor(session).state.grants
    async with home.room() as kit:
        await kit.trust("restricted")
        assert kit.sessions.loaded(session) is None
        state = (await kit.sessions.open(session)).state
        assert (state.trust_level, dict(state.grants)) == ("restricted", {})


async def test_a_room_ends_at_once_with_a_tool_and_a_model_under_way(home: Home) -> None:
    """Two sessions, a running program and a streaming model: the room is gone within a second."""
    wait = {"chunk_chars": 1, "wait_after_chunks": 1, "wait_for_file": "never"}
    home.play(
        {"when": {"user_contains": "run", "turn": 0}, "calls": [run("hold")]},
        {"when": {"turn": 0}, "text": "ab", **wait},
    )
    async with home.room() as kit:
        one, two = await kit.begin(), await kit.begin(None)
        await kit.send(one, "run")
        await kit.answer(one, await kit.waiting(one))
        await home.ladder.began.wait()
        await kit.send(two, "talk")
        await kit.until_state(two, lambda s: bool(s.turn and s.turn.request and s.turn.request.text))
        began = anyio.current_time()
    assert anyio.current_time() - began < 1.0
