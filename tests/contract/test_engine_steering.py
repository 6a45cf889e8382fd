"""Queue, steer, interrupt and stop in a real room: what runs, what is waited for, what is written, and what is not."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import anyio
import pytest
from tests.kit.room import Home, Kit, call, new_home, run

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.turn import (
    TurnEditParams,
    TurnInterruptParams,
    TurnQueueParams,
    TurnStartParams,
    TurnSteerParams,
    TurnUnqueueParams,
)
from gloveport.server.engine import perform
from gloveport.server.session.state import CallStage, Phase, SessionState

DONE = {"text": "Done."}


@pytest.fixture
def home() -> Iterator[Home]:
    """An empty home."""
    with new_home() as made:
        yield made


def is_running(state: SessionState) -> bool:
    """Whether a call runs."""
    return state.turn is not None and any(one.stage is CallStage.RUNNING for one in state.turn.calls)


@asynccontextmanager
async def held_at_its_work(home: Home, kit: Kit, session: str) -> AsyncIterator[None]:
    """The call has begun and waits for its turn in the worktree; leaving lets it go on."""
    home.ladder.wait_at = home.ladder.trials + 2  # the second look at the rung is that of the performing
    await kit.send(session)
    await kit.until_state(session, is_running)
    lock = kit.actor(session).workspace._lock
    async with lock:
        home.ladder.trial.set()
        with anyio.fail_after(60):
            while not lock.statistics().tasks_waiting:
                await anyio.sleep(0.001)
        yield


async def test_e04_queue_steer_interrupt_in_one_long_turn(home: Home) -> None:
    """Three distinct verbs, acknowledged with what happens; what runs goes on under steering, its result is kept."""
    home.play(
        {"when": {"user_contains": "interrupting"}, "text": "I do that."},
        {"when": {"user_contains": "queued"}, "text": "Then this."},
        {"when": {"user_contains": "steered"}, "text": "ab", "chunk_chars": 1, "wait_after_chunks": 1,
         "wait_for_file": "never"},
        {"when": {"turn": 0}, "calls": [run("hold")]},
    )  # fmt: skip
    async with home.room() as kit:
        session = await kit.held()
        turn_id = kit.turn_id(session)
        queued = await kit.send(session, "queued", queue=True)
        steered = await kit.steer(session, "steered as well")
        assert (queued.position, queued.turn_id) == (1, None)
        assert (steered.turn_id, steered.kind, steered.chosen_by) == (turn_id, "supplement", "rule")
        assert "nothing is stopped" in steered.words
        home.ladder.go.set()
        await kit.until_state(session, lambda s: bool(s.turn and s.turn.request and s.turn.request.text))
        assert await kit.ends(session) == ["ok"]
        interrupted = await kit.interrupt(session, "interrupting")
        assert interrupted.turn_id != turn_id
        assert "A new turn begins" in interrupted.words
        await kit.until_state(session, lambda s: s.goal_revision == 3)
        kinds = await kit.idle(session)
        events = [e["payload"] for e in await kit.events(session) if e["type"] == "UserMessageAdded"]
        assert [e["text"] for e in events] == ["go", "steered as well", "interrupting", "queued"]
        assert [e["turn_id"] for e in events[:3]] == [turn_id, turn_id, interrupted.turn_id]
        assert (kinds.count("TurnCancelled"), kinds.count("TurnCompleted")) == (1, 2)


async def test_e04_send_now_steers_and_stops_nothing(home: Home) -> None:
    """A queued message is sent now by its id: the program goes on, the same turn takes it, the queue is empty."""
    home.play({"when": {"user_contains": "queued"}, "text": "Both."}, {"when": {"turn": 0}, "calls": [run("hold")]})
    async with home.room() as kit:
        session = await kit.held()
        turn_id = kit.turn_id(session)
        queued = await kit.send(session, "queued", queue=True)
        params = TurnSteerParams(
            client_request_id="now", session_id=session, expected_turn_id=turn_id, message_id=queued.message_id
        )
        told = await kit.call("turn/steer", params)
        assert (told.turn_id, told.message_id, told.kind) == (turn_id, queued.message_id, "supplement")
        assert kit.actor(session).state.queue == ()
        home.ladder.go.set()
        kinds = await kit.idle(session)
        assert await kit.ends(session) == ["ok"]
        assert (kinds.count("TurnStarted"), kinds.count("UserMessageAdded")) == (1, 2)


async def test_a_correction_ends_the_program_and_the_model_goes_on_with_it(home: Home) -> None:
    """The program is killed, the second call never begins, and the next request has the correction, under goal 2."""
    home.play(
        {"when": {"user_contains": "corrects the task"}, "text": "Only the API, then."},
        {"when": {"turn": 0}, "calls": [run("hold"), run("echo", "x")]},
    )
    async with home.room() as kit:
        session = await kit.held()
        told = await kit.steer(session, "No, only the API")
        assert (told.kind, told.chosen_by) == ("correct", "rule")
        assert "Run hold: is being stopped." in told.words
        await kit.idle(session)
        assert sorted(await kit.ends(session)) == ["cancelled", "cancelled"]
        assert kit.actor(session).state.history[-1].text == "Only the API, then."
        events = await kit.events(session)
        revisions = {e["type"]: e["payload"]["goal_revision"] for e in events if "goal_revision" in e["payload"]}
        assert (revisions["ToolExecutionFinished"], revisions["ModelResponseReceived"]) == (1, 2)


@pytest.mark.parametrize("how", ["stop", "correct"])
async def test_a_migration_is_awaited(home: Home, how: str) -> None:
    """Stop and correction are answered at once and say that they wait; the migration ends by itself, well."""
    home.play(
        {"when": {"user_contains": "corrects"}, "text": "Only the API, then."},
        {"when": {"turn": 0}, "calls": [run("alembic", "upgrade", "head"), run("echo", "x")]},
        DONE,
    )
    async with home.room() as kit:
        session = await kit.held()
        told = await (kit.cancel(session) if how == "stop" else kit.steer(session, "no, only the API"))
        assert "can't be stopped halfway" in told.words
        state = kit.actor(session).state
        assert state.phase is (Phase.STOPPING if how == "stop" else Phase.TOOLS)
        assert is_running(state)
        home.ladder.go.set()
        kinds = await kit.idle(session)
        assert sorted(await kit.ends(session)) == ["cancelled", "ok"]
        assert kinds.count("ToolExecutionStarted") == 1
        ended = [e["payload"] for e in await kit.events(session) if e["type"] == "ToolExecutionFinished"]
        assert "went on" in ended[-1]["text"]


@pytest.mark.parametrize("where", ["stream", "four commands", "between calls", "long reply"])
async def test_e01_stop_takes_effect_at_once(home: Home, where: str) -> None:
    """No tool and no request begins after the stop, whatever was under way; calls of one answer run one at a time."""
    home.write(a__txt="one\n")
    wait = {"chunk_chars": 1000, "wait_after_chunks": 60, "wait_for_file": "never"}
    step = {
        "stream": {"text": "ab", **wait, "chunk_chars": 1, "wait_after_chunks": 1},
        "four commands": {"calls": [run("hold")] * 4},
        "between calls": {"calls": [call("read_file", path="a.txt"), run("hold"), call("read_file", path="a.txt")]},
        "long reply": {"text": "é" * 100_000, **wait},
    }[where]
    home.play({"when": {"turn": 0}, **step}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        if where == "four commands":
            await kit.answer(session, await kit.waiting(session), scope="turn")
            await home.ladder.began.wait()
        elif where == "between calls":
            await kit.waiting(session)
        else:
            least = 1 if where == "stream" else 50_000
            await kit.until_state(
                session, lambda s: bool(s.turn and s.turn.request and s.turn.request.text_utf16 >= least)
            )
        await kit.cancel(session)
        kinds = await kit.idle(session)
        after = kinds[kinds.index("TurnCancelRequested") :]
        assert not {"ToolExecutionStarted", "ModelRequestStarted", "ApprovalRequested"} & set(after)
        ends = await kit.ends(session)
        assert ends == {"four commands": ["cancelled"] * 4, "between calls": ["ok", "cancelled", "cancelled"]}.get(
            where, []
        )
        assert home.ladder.starts["hold"] == (where == "four commands")


@pytest.mark.parametrize("how", ["stop", "correct"])
async def test_e02_an_edit_that_is_stopped_while_it_prepares_writes_nothing(home: Home, how: str) -> None:
    """The stop comes between the beginning and the first irreversible step: the file is as it was."""
    home.write(a__txt="one\n")
    home.play({"when": {"turn": 0, "user_contains": "go"}, "calls": [call("edit_file", path="a.txt", old="one",
               new="two")]}, DONE)  # fmt: skip
    async with home.room() as kit:
        session = await kit.begin()
        async with held_at_its_work(home, kit, session):
            await (kit.cancel(session) if how == "stop" else kit.steer(session, "wrong file", "correct"))
        await kit.idle(session)
        assert await kit.ends(session) == ["cancelled"]
        assert (home.worktree(session) / "a.txt").read_text() == "one\n"
        assert await kit.changes(session) == {}


async def test_e02_an_edit_without_a_stop_is_written(home: Home) -> None:
    """The same without the stop: what holds the edit back is nothing else."""
    home.write(a__txt="one\n")
    home.play({"when": {"turn": 0}, "calls": [call("edit_file", path="a.txt", old="one", new="two")]}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        async with held_at_its_work(home, kit, session):
            pass
        await kit.idle(session)
        assert (home.worktree(session) / "a.txt").read_text() == "two\n"


async def test_a_search_is_dropped_at_once(home: Home) -> None:
    """It only reads, so nobody waits for it: the session rests while the worktree is still held."""
    home.write(a__txt="one\n")
    home.play({"when": {"turn": 0}, "calls": [call("search", pattern="one")]}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        async with held_at_its_work(home, kit, session):
            await kit.cancel(session)
            await kit.idle(session)
            assert await kit.ends(session) == ["cancelled"]


async def test_a_stop_rests_also_when_an_executor_does_not(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that does not end in time is left: its outcome is unknown, the session can be used again."""
    monkeypatch.setattr(perform, "STOP_S_MAX", 0.05)
    home.play({"when": {"turn": 0, "user_contains": "go"}, "calls": [run("stubborn")]}, DONE)
    async with home.room() as kit:
        session = await kit.held()
        await kit.cancel(session)
        await kit.idle(session)
        assert await kit.ends(session) == ["unknown"]
        await kit.send(session, "next")
        await kit.idle(session)
        assert (await kit.kinds(session)).count("TurnCompleted") == 1
        home.ladder.go.set()


# --- one message, once


async def test_e06_lost_reply_double_click_and_two_clients(home: Home) -> None:
    """A retry is answered and not done again, also after a restart; of two clients at once one begins the turn."""
    home.play({"when": {"turn": 0, "user_contains": "first"}, "text": "ab", "chunk_chars": 1, "wait_after_chunks": 1,
               "wait_for_file": "open"}, DONE)  # fmt: skip
    async with home.room() as kit:
        session = await kit.begin()
        first = TurnStartParams(client_request_id="typed-1", session_id=session, text="first")
        other = first.model_copy(update={"client_request_id": "other-client"})
        answers: dict[str, set[str]] = {"typed-1": set(), "other-client": set()}

        async def send(params: TurnStartParams) -> None:
            try:
                answers[params.client_request_id].add(str(await kit.call("turn/start", params)))
            except GloveportError as error:
                answers[params.client_request_id].add(error.code)

        async with anyio.create_task_group() as tasks:
            for params in (first, first, other):
                tasks.start_soon(send, params)
        won = first if answers["other-client"] == {ErrorCode.TURN_BUSY} else other
        assert all(len(told) == 1 for told in answers.values())
        assert [told == {ErrorCode.TURN_BUSY} for told in answers.values()].count(True) == 1
        expected = kit.turn_id(session)
        more = (
            ("turn/queue", TurnQueueParams(client_request_id="typed-2", session_id=session, text="later")),
            ("turn/steer", TurnSteerParams(
                client_request_id="typed-3", session_id=session, text="and a test", expected_turn_id=expected)),
            ("turn/edit", TurnEditParams(
                client_request_id="typed-4", session_id=session, text="later on", message_id="filled in")),
            ("turn/interrupt", TurnInterruptParams(
                client_request_id="typed-5", session_id=session, text="now this", expected_turn_id=expected)),
        )  # fmt: skip
        queued = await kit.call(*more[0])
        sent = [(m, p if m != "turn/edit" else p.model_copy(update={"message_id": queued.message_id})) for m, p in more]
        told = [await kit.call(method, params) for method, params in sent]
        assert [await kit.call(method, params) for method, params in reversed(sent)] == told[::-1]
        assert told[0] == queued
        (home.folder / "open").touch()
        await kit.until_state(session, lambda s: s.goal_revision == 3)
        await kit.idle(session)
        count = len(await kit.kinds(session))
    async with home.room() as kit:
        assert [await kit.call(method, params) for method, params in sent] == told
        assert (await kit.call("turn/start", won)).turn_id == expected
        assert len(await kit.kinds(session)) == count
        added = [e["payload"] for e in await kit.events(session) if e["type"] == "UserMessageAdded"]
        assert [e["text"] for e in added] == ["first", "now this", "later on"]
        back = [e["payload"] for e in await kit.events(session) if e["type"] == "UserMessageUnqueued"]
        assert [(e["text"], e["reason"]) for e in back] == [("and a test", "the turn was stopped")]


@pytest.mark.parametrize("where", ["stream", "tool", "approval"])
async def test_d08_stop_after_a_crash_leads_to_rest_and_a_new_message_is_taken(home: Home, where: str) -> None:
    """The daemon dies in mid-turn; the next one's session is stopped, rests, and works."""
    wait = {"text": "ab", "chunk_chars": 1, "wait_after_chunks": 1, "wait_for_file": "never"}
    home.play({"when": {"turn": 0, "user_contains": "go"}, **(wait if where == "stream" else {"calls": [run("hold")]})},
              DONE)  # fmt: skip
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        if where == "stream":
            await kit.until_state(session, lambda s: bool(s.turn and s.turn.request and s.turn.request.text))
        else:
            card = await kit.waiting(session)
            if where == "tool":
                await kit.answer(session, card)
                await home.ladder.began.wait()
        await kit.send(session, "queued", queue=True)
    async with home.room() as kit:
        await kit.cancel(session)
        kinds = await kit.idle(session)
        assert "ModelStreamInterrupted" in kinds if where == "stream" else await kit.ends(session) == ["cancelled"]
        assert kinds.count("TurnFailed") + kinds.count("TurnCancelled") == 1
        assert "UserMessageUnqueued" in kinds
        await kit.send(session, "next")
        assert (await kit.idle(session))[-1] == "TurnCompleted"


async def test_what_waits_outlives_the_daemon(home: Home) -> None:
    """A supplement and the queue are there after a restart, and arrive."""
    home.play({"when": {"turn": 0, "user_contains": "go"}, "calls": [run("hold")]}, DONE)
    async with home.room() as kit:
        session = await kit.held()
        await kit.steer(session, "and a test", "supplement")
        await kit.send(session, "later", queue=True)
    async with home.room() as kit:
        home.ladder.go.set()
        await kit.sessions.open(session)
        await kit.until_state(session, lambda s: s.goal_revision == 2)
        await kit.idle(session)
        added = [e["payload"]["text"] for e in await kit.events(session) if e["type"] == "UserMessageAdded"]
        assert added == ["go", "and a test", "later"]


async def test_wrong_words_are_refused_and_say_what_to_do(home: Home) -> None:
    """Neither or both of text and message, another turn, a message that does not wait, an edit of the past."""
    home.write(a__txt="one\n")
    home.play(
        {"when": {"turn": 0}, "calls": [call("edit_file", path="a.txt", old="one", new="two"), run("hold")]}, DONE
    )
    async with home.room() as kit:
        session = await kit.begin()
        first = await kit.send(session)
        await kit.waiting(session)
        base = {"session_id": session, "expected_turn_id": kit.turn_id(session)}
        for number, (more, code) in enumerate((
            ({}, ErrorCode.INVALID_PARAMS),
            ({"text": "a", "message_id": "b"}, ErrorCode.INVALID_PARAMS),
            ({"text": "a", "expected_turn_id": "other"}, ErrorCode.TURN_MISMATCH),
            ({"message_id": "none"}, ErrorCode.TURN_MISMATCH),
        )):  # fmt: skip
            for method, shape in (("turn/steer", TurnSteerParams), ("turn/interrupt", TurnInterruptParams)):
                params = shape.model_validate({**base, **more, "client_request_id": f"w{number}{method[5]}"})
                assert (await kit.refused(method, params)).code is code
        edit = TurnEditParams(client_request_id="e", session_id=session, message_id=first.message_id, text="other")
        refused = await kit.refused("turn/edit", edit)
        assert "no file is changed by an edit" in refused.hint
        back = TurnUnqueueParams(client_request_id="u", session_id=session, message_id=first.message_id)
        assert (await kit.refused("turn/unqueue", back)).code is ErrorCode.TURN_MISMATCH
        assert (home.worktree(session) / "a.txt").read_text() == "two\n"
        assert (home.root / "a.txt").read_text() == "one\n"
