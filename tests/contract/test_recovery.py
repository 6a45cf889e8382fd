"""Recovery step by step, in one room after another over the same data: record, runs, cards, drift, summary."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import anyio
import pytest
from tests.kit.room import Home, Kit, call, new_home, run

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import SessionId, session_stream
from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.envelope import NewEvent
from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.protocol.journal.events.model import CallRecord
from gloveport.protocol.wire.session import SessionExportParams, SessionRenameParams
from gloveport.protocol.wire.turn import TurnStartParams
from gloveport.server.engine import perform
from gloveport.server.engine.actor import Actor
from gloveport.server.engine.prompt import model_request
from gloveport.server.engine.tool_run import card_holds, reconcile_call
from gloveport.server.journal.records import Append, IndexUpdate, Loss, StreamAppend
from gloveport.server.models.contract import AssistantTurn, ModelRequest, ToolResultPart
from gloveport.server.recovery.recover import recover
from gloveport.server.session.evolve import evolve
from gloveport.server.session.state import Call, ResultEntry

DONE = {"text": "Done."}
ASKS = {"when": {"turn": 0}, "calls": [run("echo", "a.txt")]}


@pytest.fixture
def home() -> Iterator[Home]:
    """An empty home."""
    with new_home() as made:
        yield made


@contextmanager
def no_tool_begins() -> Iterator[None]:
    """A room dies in the moment between the intent of a call and its effect."""

    async def wait_for_ever(*_args: object) -> None:
        await anyio.sleep_forever()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(perform, "run_tool", wait_for_ever)
        yield


async def began(kit: Kit, session: str) -> None:
    """Send a message, and return once the intent of its first call is on disk."""
    await kit.send(session)
    await kit.until_state(session, lambda s: bool(s.turn and s.turn.calls and s.turn.calls[0].started))


async def write(kit: Kit, session: str, *bodies: ev.EventBody, state: str = "idle") -> None:
    """Put events at the end of a session's log, as if a daemon had."""
    stream = session_stream(SessionId(session))
    head = await kit.journal.head(stream)
    assert head is not None
    news = tuple(NewEvent(type(body).__name__, body.version, ev.encode_body(body)) for body in bodies)
    index = IndexUpdate(session_id=session, updated_at=1, title="t", state=state, workspace=str(kit.home.root))
    await kit.journal.append(Append((StreamAppend(stream, head.next_seq, news),), 1, index=(index,)))


async def summaries(kit: Kit, session: str) -> list[list[tuple[str, str]]]:
    """What each recovery told, item by item."""
    found = await kit.bodies(session, "RecoverySummarised")
    return [[(item["kind"], item["outcome"]) for item in one["items"]] for one in found]


def told_of(request: ModelRequest) -> list[str]:
    """What a request tells, in short: answers with calls, and results."""
    words = []
    for message in request.messages:
        if isinstance(message, AssistantTurn):
            words.append(f"answer with {len(message.calls)}")
        elif isinstance(message, ToolResultPart):
            words.append("failed result" if message.is_error else "result")
    return words


# --- step 2: the record


async def test_a_record_that_contradicts_itself_is_read_only_and_says_so(home: Home) -> None:
    """Told once, in words; readable and exported; every change is refused and says what to do."""
    home.play({"when": {"turn": 0}, "calls": [call("list_files")]}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.idle(session)
        (ended,) = await kit.bodies(session, "ToolExecutionFinished")
        await write(kit, session, ev.ToolExecutionFinished.model_validate(ended, strict=False))
    async with home.room() as kit:
        await kit.sessions.open(session)
        kinds = await kit.kinds(session)
        assert kinds[-1] == "FaultsFound"
        (found,) = await kit.bodies(session, "FaultsFound")
        assert found["read_only"]
        refused = await kit.refused("turn/start", TurnStartParams(client_request_id="r", session_id=session, text="x"))
        assert refused.code is ErrorCode.SESSION_READ_ONLY
        assert "contradicts itself" in refused.message
        assert "new session" in refused.hint
        assert await kit.call("session/export", SessionExportParams(session_id=session, after_seq=0))
    async with home.room() as kit:
        await kit.sessions.open(session)
        assert await kit.kinds(session) == kinds


async def test_f05_a_call_whose_result_is_lost_leaves_a_valid_history(home: Home) -> None:
    """Its loss is told once; the next message is taken, and the model hears that the outcome is unknown. F05"""
    home.play(DONE)
    async with home.room() as kit:
        session = await kit.begin()
        born: dict[str, Any] = {"turn_id": "t1", "goal_revision": 1}
        label = LabelRecord(integrity=0, readers=None, provenance=("user",))
        wanted = CallRecord(
            call_id="t1.c1", provider_call_id="p1", tool="run_command", arguments_json="{}", arguments_error=None
        )
        await write(
            kit,
            session,
            ev.GoalRevised(goal_revision=1, message_id="m1"),
            ev.UserMessageAdded(**born, message_id="m1", text="go", label=label),
            ev.TurnStarted(**born, message_id="m1"),
            ev.ModelRequestStarted(**born, request_id="t1.r1", provider="scripted", model="test"),
            ev.ModelResponseReceived(
                **born, request_id="t1.r1", text="", calls=(wanted,), stop="tool_calls", text_digest="0" * 64
            ),
            ev.TurnCompleted(**born, reason="end"),
        )
    async with home.room() as kit:
        await kit.sessions.open(session)
        (found,) = await kit.bodies(session, "FaultsFound")
        assert not found["read_only"]
        assert "t1.c1" in found["findings"][0]
        await kit.send(session, "again")
        kinds = await kit.idle(session)
        assert kinds[-1] == "TurnCompleted"
        told = told_of(model_request(kit.actor(session).state, ()))
        assert told[:2] == ["answer with 1", "failed result"]
    async with home.room() as kit:
        await kit.sessions.open(session)
        assert await kit.kinds(session) == kinds


# --- step 3: executions


async def running_call(kit: Kit, session: str) -> tuple[Actor, Call]:
    """A session with a program under way."""
    await kit.send(session)
    await kit.answer(session, await kit.waiting(session))
    await kit.home.ladder.began.wait()
    actor = kit.actor(session)
    assert actor.state.turn is not None
    return actor, actor.state.turn.calls[0]


async def test_each_recovery_capability_has_its_rule(home: Home) -> None:
    """Opaque: unknown. Repeatable: made again, even without its tool. Probeable: its executor is asked."""
    home.play({"when": {"turn": 0}, "calls": [run("hold")]}, DONE)
    async with home.room() as kit:
        actor, running = await running_call(kit, await kit.begin())
        assert running.started is not None

        async def finding(recovery: str, tool: str = running.tool) -> str:
            started = running.started.model_copy(update={"recovery": recovery}) if running.started else None
            return (await reconcile_call(actor, evolve(running, started=started, tool=tool))).finding

        assert await finding("opaque") == "unknown"
        assert await finding("read_only", "no_such_tool") == "not_started"
        assert await finding("idempotent", "no_such_tool") == "not_started"
        assert await finding("probeable") == "still_running"
        assert await finding("probeable", "no_such_tool") == "unknown"
        home.ladder.go.set()


async def test_an_unknown_outcome_says_what_to_do_and_the_session_goes_on(home: Home) -> None:
    """The words name the way on; the user's next message is taken, and the model hears of the unknown call."""
    home.write(a__txt="one\n")
    edit = call("edit_file", path="a.txt", old="one", new="two")
    home.play({"when": {"user_contains": "took effect"}, "text": "Then I go on."}, {"calls": [edit]})
    with no_tool_begins():
        async with home.room() as kit:
            session = await kit.begin()
            await began(kit, session)
    (home.worktree(session) / "a.txt").write_text("three\n")
    async with home.room() as kit:
        await kit.sessions.open(session)
        kinds = await kit.idle(session)
        assert kinds[-1] == "TurnFailed"
        assert kinds.index("RecoverySummarised") < kinds.index("ToolReconciled")
        (told,) = await kit.bodies(session, "RecoverySummarised")
        assert "Look whether it took effect" in told["text"]
        await kit.send(session, "it took effect")
        assert (await kit.idle(session))[-1] == "TurnCompleted"
        results = [entry for entry in kit.actor(session).state.history if isinstance(entry, ResultEntry)]
        assert "unknown" in results[0].text


async def test_e02_an_edit_that_was_stopped_is_not_written_after_a_restart(home: Home) -> None:
    """Stopped before its first byte, killed, started: the file is as it was, the call is cancelled. E02"""
    home.write(a__txt="one\n")
    home.play({"when": {"turn": 0}, "calls": [call("edit_file", path="a.txt", old="one", new="two")]}, DONE)
    with no_tool_begins():
        async with home.room() as kit:
            session = await kit.begin()
            await began(kit, session)
            await kit.cancel(session)
    async with home.room() as kit:
        await kit.sessions.open(session)
        assert (await kit.idle(session))[-1] == "TurnCancelled"
        assert await kit.ends(session) == ["cancelled"]
        assert (home.worktree(session) / "a.txt").read_text() == "one\n"
        assert [one["finding"] for one in await kit.bodies(session, "ToolReconciled")] == ["not_started"]


async def test_f05_one_of_three_calls_killed_then_stopped(home: Home) -> None:
    """Killed with the first of three calls under way, stopped after: three ends, a valid history. F05"""
    home.play({"when": {"turns_total": 0}, "calls": [run("hold"), call("list_files"), run("echo", "x")]}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await running_call(kit, session)
    async with home.room() as kit:
        await kit.sessions.open(session)
        await kit.cancel(session)
        assert (await kit.idle(session))[-1] == "TurnCancelled"
        assert len(await kit.ends(session)) == 3
        await kit.send(session, "again")
        assert (await kit.idle(session))[-1] == "TurnCompleted"
        told = told_of(model_request(kit.actor(session).state, ()))
        assert told[:4] == ["answer with 3", *["failed result"] * 3]


# --- step 5: drift


async def test_what_the_user_changed_meanwhile_is_told_before_the_turn_goes_on(home: Home) -> None:
    """Named in an event and in the summary; the agent's copy is left as it is until the next turn begins."""
    home.write(a__txt="one\n", b__txt="b\n")
    home.play(ASKS, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.waiting(session)
    home.write(b__txt="changed by me\n", c__txt="new\n")
    async with home.room() as kit:
        await kit.sessions.open(session)
        (drift,) = await kit.bodies(session, "DriftDetected")
        assert (drift["paths"], drift["paths_total"]) == (["b.txt", "c.txt"], 2)
        assert await summaries(kit, session) == [[("approval", "waits"), ("drift", "changed")]]
        assert (home.worktree(session) / "b.txt").read_text() == "b\n"
        await kit.answer(session, await kit.waiting(session), "deny")
        await kit.idle(session)
        await kit.send(session, "again")
        await kit.until(lambda: (home.worktree(session) / "b.txt").read_text() == "changed by me\n")


async def test_a_folder_that_is_away_is_told_and_stops_nothing(home: Home) -> None:
    """The user's folder cannot be looked at: the summary says so, and the card still waits."""
    home.write(a__txt="one\n")
    home.play(ASKS, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.waiting(session)
    home.root.rename(home.folder / "away")
    async with home.room() as kit:
        await kit.sessions.open(session)
        (items,) = await summaries(kit, session)
        assert ("drift", "unknown") in items
        assert kit.actor(session).state.approvals
    (home.folder / "away").rename(home.root)


# --- step 6: cards


@pytest.mark.parametrize("change", ["nothing", "file"])
async def test_a_card_is_checked_against_today(home: Home, change: str) -> None:
    """Unchanged, it waits under its id. A file that it names changed: it is superseded and asked anew."""
    home.write(a__txt="one\n")
    home.play(ASKS, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        first = await kit.waiting(session)
    holds = change == "nothing"
    if not holds:
        (home.worktree(session) / "a.txt").write_text("other\n")
    async with home.room() as kit:
        await kit.sessions.open(session)
        await kit.until_state(session, lambda s: bool(s.approvals) and (first.approval_id in s.approvals) == holds)
        second = await kit.waiting(session)
        assert await summaries(kit, session) == [[("approval", "waits" if holds else "asked_again")]]
        decisions = [one["decision"] for one in await kit.bodies(session, "ApprovalResolved")]
        assert decisions == ([] if holds else ["superseded"])
        await kit.answer(session, second)
        await kit.idle(session)
        assert await kit.ends(session) == ["ok"]


async def test_a_card_does_not_outlive_the_trust_it_stood_on(home: Home) -> None:
    """The folder is not trusted any more: the card is taken back, and what it asked about is refused."""
    home.play(ASKS, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.waiting(session)
    async with home.room() as kit:
        await kit.trust("untrusted")
        await kit.sessions.open(session)
        await kit.idle(session)
        assert [one["decision"] for one in await kit.bodies(session, "ApprovalResolved")] == ["superseded"]
        assert await kit.ends(session) == ["denied"]


async def test_a_card_past_its_time_holds_no_more(home: Home) -> None:
    """Nobody could answer it while no daemon lived: it is asked anew."""
    home.play(ASKS, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        card = await kit.waiting(session)
        actor = kit.actor(session)
        asked, waits = actor.state.approvals[card.approval_id], actor.state.call(card.call_id)
        assert waits is not None
        assert await card_holds(actor, asked, waits)
        past = asked.model_copy(update={"expires_at": 1})
        assert await card_holds(actor, past, waits) is False
        assert await card_holds(actor, asked, evolve(waits, goal_revision=9)) is False
        assert await card_holds(actor, asked, evolve(waits, arguments_digest="1" * 64)) is False
        assert await card_holds(actor, asked, evolve(waits, tool="no_such_tool")) is None


# --- what could not be saved


async def test_d02_a_turn_that_could_not_be_saved_is_resumed_after_a_kill(home: Home) -> None:
    """The journal refuses in mid-turn, then the daemon is killed: nothing is lost, and the program ran once. D02"""
    home.play({"when": {"turn": 0}, "calls": [run("hold")]}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await running_call(kit, session)
        door = kit.journal._writing()
        await door.run(lambda connection: connection.execute("PRAGMA max_page_count=1").fetchone())
        refusals = []
        for number in range(200):
            rename = SessionRenameParams(client_request_id=f"r{number}", session_id=session, title=f"{number:0200d}")
            try:
                await kit.call("session/rename", rename)
            except GloveportError as error:
                refusals.append(error)
                break
        assert [error.code in (ErrorCode.NOT_SAVED, ErrorCode.DATA_FULL) for error in refusals] == [True]
    async with home.room() as kit:
        await kit.sessions.open(session)
        home.ladder.go.set()
        assert (await kit.idle(session))[-1] == "TurnCompleted"
        assert await kit.ends(session) == ["ok"]
        assert home.ladder.starts["hold"] == 1


# --- losses


async def test_lost_events_end_the_turn_and_nothing_runs_again(home: Home) -> None:
    """A log that is behind the world: the running program is ended, its outcome unknown; the user hears what to do."""
    home.play({"when": {"turn": 0}, "calls": [run("hold")]}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        actor, running = await running_call(kit, session)
        loss = Loss(actor.stream, 9, 2, "a page was damaged")
        actor.running.clear()
        assert await recover(actor, loss) == ()
        assert await kit.ends(session) == ["unknown"]
        assert (await kit.kinds(session))[-1] == "TurnFailed"
        assert await summaries(kit, session) == [[("loss", "lost")]]
        assert await kit.home.ladder.backend("memory").attach(running.call_id) is None
        assert home.ladder.starts["hold"] == 1


async def test_a_loss_that_a_reopening_finds_is_told_at_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loaded session that lost events is read again as soon as the journal is open, though nobody asks for it."""
    home.play(DONE)
    async with home.room() as kit:
        session, other = await kit.begin(), await kit.begin(None)
        actor, untouched = kit.actor(session), kit.actor(other)
        reopen = kit.journal.reopen

        async def reopen_and_lose() -> Any:
            report = await reopen()
            return replace(report, untold=(Loss(actor.stream, 2, 1, "damaged"),))

        monkeypatch.setattr(kit.journal, "reopen", reopen_and_lose)
        kit.journal._writer.stopped_reason = "a refusal of the disk"
        await kit.sessions.journal_ready()
        with anyio.fail_after(60):
            while kit.actor(session) is actor:
                await anyio.lowlevel.checkpoint()
        assert actor.stale
        assert kit.actor(other) is untouched


async def test_a_recovery_that_fails_is_tried_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session is not left as if it had been taken up: the next one who opens it gets it whole."""
    home.play({"when": {"turn": 0}, "calls": [call("list_files")]}, DONE)
    with no_tool_begins():
        async with home.room() as kit:
            session = await kit.begin()
            await began(kit, session)
    async with home.room() as kit:
        whole = kit.sessions._recover

        async def fails(_actor: Actor) -> Any:
            raise RuntimeError("out of luck")

        monkeypatch.setattr(kit.sessions, "_recover", fails)
        with pytest.raises(RuntimeError):
            await kit.sessions.open(session)
        monkeypatch.setattr(kit.sessions, "_recover", whole)
        await kit.sessions.open(session)
        assert (await kit.idle(session))[-1] == "TurnCompleted"
