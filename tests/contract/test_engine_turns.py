"""Turns in a real room: cancel in every phase, queue, answers, rights."""

from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from tests.kit.room import Home, Kit, call, new_home, run

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.place import SandboxChooseParams
from gloveport.protocol.wire.turn import (
    GrantRevokeParams,
    TurnQueueResult,
    TurnStartParams,
    TurnUnqueueParams,
    WhyParams,
)
from gloveport.server.session.state import CallStage, Phase

DONE = {"text": "Done."}


@pytest.fixture
def home() -> Iterator[Home]:
    """An empty home."""
    with new_home() as made:
        yield made


def running_call(kit: Kit, session_id: str) -> bool:
    """Whether a call runs."""
    turn = kit.actor(session_id).state.turn
    return turn is not None and any(one.stage is CallStage.RUNNING for one in turn.calls)


async def quiet(kit: Kit, session_id: str) -> None:
    """Wait until none of the session's effects is under way."""
    with anyio.fail_after(60):
        await kit.actor(session_id).wait_quiet()


async def test_cancel_while_the_model_streams_keeps_what_arrived(home: Home) -> None:
    """The text stays, marked; nothing goes on."""
    home.play({"text": "First half. Second half.", "chunk_chars": 11, "wait_after_chunks": 1, "wait_for_file": "never"})
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.until_state(session, lambda s: bool(s.turn and s.turn.request and s.turn.request.text))
        await kit.cancel(session)
        kinds = await kit.idle(session)
        assert kinds.index("TurnCancelRequested") < kinds.index("ModelStreamInterrupted") < kinds.index("TurnCancelled")
        assert kit.actor(session).state.history[-1].text == "First half."
        await quiet(kit, session)


async def test_cancel_while_a_card_waits_withdraws_it(home: Home) -> None:
    """No answer can start the call afterwards."""
    home.play({"when": {"turn": 0}, "calls": [run("echo", "x"), run("echo", "y")]}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        card = await kit.waiting(session)
        await kit.cancel(session)
        kinds = await kit.idle(session)
        with pytest.raises(GloveportError) as caught:
            await kit.answer(session, card)
        assert caught.value.code is ErrorCode.APPROVAL_UNKNOWN
        assert "ToolExecutionStarted" not in kinds
        assert await kit.ends(session) == ["cancelled", "cancelled"]


async def test_cancel_while_a_program_runs_ends_it(home: Home) -> None:
    """The program is stopped, its output kept, the calls after it never begin."""
    home.play({"when": {"turn": 0}, "calls": [run("hold"), run("echo", "later")]}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.answer_all(session)
        await home.ladder.began.wait()
        await kit.cancel(session)
        kinds = await kit.idle(session)
        assert sorted(await kit.ends(session)) == ["cancelled", "cancelled"]
        assert kinds.count("ToolExecutionStarted") == 1
        assert "TurnCancelled" in kinds
        await quiet(kit, session)


@pytest.mark.parametrize("what", ["edit", "program"])
async def test_cancel_between_intent_and_beginning(home: Home, what: str) -> None:
    """The intent is on disk, the call has not begun: it never does."""
    home.write(a__txt="one\n")
    begun = call("edit_file", path="a.txt", old="one", new="two") if what == "edit" else run("hold")
    home.play({"when": {"turn": 0}, "calls": [begun]}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        home.ladder.wait_at = home.ladder.trials + (2 if what == "edit" else 3)
        await kit.send(session)
        if what == "program":
            await kit.answer(session, await kit.waiting(session))
        await kit.until(lambda: running_call(kit, session))
        await kit.cancel(session)
        home.ladder.trial.set()
        await kit.idle(session)
        assert await kit.ends(session) == ["cancelled"]
        assert (home.worktree(session) / "a.txt").read_text() == "one\n"
        assert not home.ladder.starts


async def test_cancel_at_every_event_of_a_turn(home: Home) -> None:
    """Stop right after the n-th event, for every n: one end for each call, nothing starts after the stop, and the
    session can be used again."""
    home.write(a__txt="one\n")
    calls = [call("edit_file", path="a.txt", old="one", new="two"), call("read_file", path="a.txt")]
    home.play({"when": {"turn": 0}, "text": "I look.", "calls": calls}, DONE)
    async with home.room() as kit:
        length = 40
        for at in range(2, length):
            session = await kit.begin("trusted" if at == 2 else None)
            seen = len(kit.told.events)

            def reached(seen: int = seen, at: int = at, session: str = session) -> bool:
                mine = [event for event in kit.told.events[seen:] if event.stream == f"session/{session}"]
                return len(mine) >= at or kit.actor(session).state.phase is Phase.IDLE

            await kit.send(session)
            await kit.until(reached)
            if kit.actor(session).state.phase is Phase.IDLE:
                break
            await kit.cancel(session)
            await kit.idle(session)
            await quiet(kit, session)
            await kit.ends(session)
            events = [event["type"] for event in await kit.events(session)]
            if "TurnCancelRequested" in events:
                after = events[events.index("TurnCancelRequested") :]
                assert not {"ToolExecutionStarted", "ModelRequestStarted"} & set(after), after
        else:
            pytest.fail("the turn has more events than were tried")


async def test_a_message_waits_and_is_delivered_when_the_turn_ends(home: Home) -> None:
    """Messages wait in order; one can be taken back; each of the others becomes a turn of its own."""
    home.play({"when": {"user_contains": "go"}, "text": "ab", "chunk_chars": 1, "wait_after_chunks": 1,
               "wait_for_file": "open"}, DONE)  # fmt: skip
    async with home.room() as kit:
        session = await kit.begin()
        assert (await kit.send(session)).turn_id == kit.turn_id(session)
        assert (await kit.refused("turn/start", TurnStartParams(
            client_request_id="busy", session_id=session, text="now"))).code is ErrorCode.TURN_BUSY  # fmt: skip
        taken = await kit.send(session, "taken back", queue=True)
        assert (taken.position, taken.turn_id) == (1, None)
        await kit.call("turn/unqueue", TurnUnqueueParams(
            client_request_id="u", session_id=session, message_id=taken.message_id))  # fmt: skip
        await kit.send(session, "second", queue=True)
        assert (await kit.send(session, "third", queue=True)).position == 2
        (home.folder / "open").touch()
        await kit.until_state(session, lambda state: state.goal_revision == 3)
        await kit.idle(session)
        assert kit.actor(session).state.user_messages == ("go", "second", "third")


async def test_a_message_sent_as_the_turn_ends_is_told_its_turn(home: Home) -> None:
    """The answer says what was decided, not what the session looked like when the request came in."""
    home.play({"text": "ab", "chunk_chars": 2, "wait_after_chunks": 1, "wait_for_file": "open"})
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.until_state(session, lambda s: bool(s.turn and s.turn.request and s.turn.request.text))
        actor = kit.actor(session)
        sent: list[TurnQueueResult] = []

        async def next_message() -> None:
            sent.append(await kit.send(session, "next", queue=True))

        async def until_waiting(count: int) -> None:
            with anyio.fail_after(60):
                while actor._lock.statistics().tasks_waiting < count:
                    await anyio.sleep(0.001)

        # First the end of the answer waits for the lock, then the message.
        async with anyio.create_task_group() as tasks, actor._lock:
            (home.folder / "open").touch()
            await until_waiting(1)
            tasks.start_soon(next_message)
            await until_waiting(2)
        assert sent[0].position is None
        await kit.idle(session)
        started = [e["payload"]["turn_id"] for e in await kit.events(session) if e["type"] == "TurnStarted"]
        assert started[1:] == [sent[0].turn_id]


async def test_no_is_an_end_and_the_model_is_told(home: Home) -> None:
    """A denied call never runs; the turn goes on; why says so."""
    home.play(
        {"when": {"turn": 0}, "calls": [run("hold")]}, {"when": {"result_contains": "said no"}, "text": "Then not."}
    )
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        card = await kit.waiting(session)
        await kit.answer(session, card, "deny")
        await kit.idle(session)
        assert await kit.ends(session) == ["denied"]
        assert kit.actor(session).state.history[-1].text == "Then not."
        assert not home.ladder.starts
        why = await kit.call("tool/why", WhyParams(session_id=session, call_id=card.call_id))
        assert (why.tool, why.outcome) == ("run_command", "denied")
        assert "ask" in why.decision
        assert why.hint
        unknown = await kit.refused("tool/why", WhyParams(session_id=session, call_id="none"))
        assert unknown.code is ErrorCode.TOOL_UNKNOWN


@pytest.mark.parametrize(("scope", "in_turn", "in_next"), [("once", 2, 1), ("turn", 1, 1), ("session", 1, 0)])
async def test_a_right_holds_as_long_as_its_scope(home: Home, scope: str, in_turn: int, in_next: int) -> None:
    """How often the same command is asked about twice within a turn and once in the next."""
    home.play(
        {"when": {"turn": 0, "user_contains": "go"}, "calls": [run("echo", "a"), run("echo", "a")]},
        {"when": {"turn": 0}, "calls": [run("echo", "a")]},
        DONE,
    )
    async with home.room() as kit:
        session = await kit.begin()
        asked = []
        for text in ("go", "again"):
            await kit.send(session, text)
            count = 0
            while True:
                state = await kit.until_state(session, lambda s: bool(s.approvals) or s.phase is Phase.IDLE)
                if not state.approvals:
                    break
                count += 1
                await kit.answer(session, await kit.waiting(session), scope=scope)
            asked.append(count)
        assert asked == [in_turn, in_next]
        assert await kit.ends(session) == ["ok"] * 3


def writing(*paths: str) -> list[dict[str, Any]]:
    """Calls that write files which are asked about."""
    return [call("write_file", path=path, content=f"{number}\n") for number, path in enumerate(paths)]


async def test_neighbours_are_asked_about_together_and_answered_one_by_one(home: Home) -> None:
    """Three files of one answer: three cards at once, one is refused, the others are written in their order; each
    answer stands in the record with the digest of its own card."""
    home.play({"when": {"turn": 0}, "calls": writing("conftest.py", "package.json", "sub/conftest.py")}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.waiting(session)
        shown = (await kit.call("approval/list", SessionParams(session_id=session))).approvals
        first, second, third = (one.card["together"] for one in shown if "together" in one.card)
        assert [(one["at"], one["of"]) for one in (first, second, third)] == [(1, 3), (2, 3), (3, 3)]
        assert first["calls"] == [one.call_id for one in shown]
        for card, decision in ((shown[2], "allow"), (shown[1], "deny"), (shown[0], "allow")):
            assert "ToolExecutionStarted" not in await kit.kinds(session)
            await kit.answer(session, card, decision)
        await kit.idle(session)
        said = [one["payload"] for one in await kit.events(session) if one["type"] == "ApprovalResolved"]
        assert [(one["call_id"], one["decision"]) for one in said] == [
            (shown[2].call_id, "allowed"), (shown[1].call_id, "denied"), (shown[0].call_id, "allowed"),
        ]  # fmt: skip
        assert [one["card_digest"] for one in said] == [one.card_digest for one in reversed(shown)]
        began = [one["payload"] for one in await kit.events(session) if one["type"] == "ToolExecutionStarted"]
        assert [one["call_id"] for one in began] == [shown[0].call_id, shown[2].call_id]


async def test_what_runs_is_never_answered_before_what_runs_ahead_of_it_has_ended(home: Home) -> None:
    """What the first leaves may be what the second runs, though no card names it: each is a question of its own."""
    home.play({"when": {"turn": 0}, "calls": [run("echo", "a"), run("echo", "b")]}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        for word in ("a", "b"):
            (shown,) = [await kit.waiting(session)]
            assert "together" not in shown.card
            assert shown.card["command"]["words"][-1] == word
            assert len((await kit.call("approval/list", SessionParams(session_id=session))).approvals) == 1
            await kit.answer(session, shown)
            await kit.until_state(session, lambda state, old=shown: old.approval_id not in state.approvals)
        await kit.idle(session)
        assert await kit.ends(session) == ["ok", "ok"]


ASKS_FOR_WRITES = """version = 1
[[rule]]
id = "writes"
effects = ["write"]
verdict = "ask"
ceiling = "session"
justification = "I want to see it."
match = [{ effect = "write", target = "a.txt" }]
not_match = [{ effect = "read", target = "a.txt" }]
"""


async def test_a_right_that_lasts_takes_the_cards_back_that_it_answers(home: Home) -> None:
    """Two writes of one file and another: the first answer is for the session, the second is not asked about again."""
    (home.folder / "rules.toml").write_text(ASKS_FOR_WRITES)
    home.play({"when": {"turn": 0}, "calls": writing("a.txt", "a.txt", "b.txt")}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        card = await kit.waiting(session)
        assert card.card["together"]["of"] == 3
        await kit.answer(session, card, scope="session")
        (left,) = (await kit.call("approval/list", SessionParams(session_id=session))).approvals
        assert left.call_id == card.card["together"]["calls"][2]
        await kit.answer(session, left, "deny")
        await kit.idle(session)
        assert await kit.ends(session) == ["denied", "ok", "ok"]
        assert (await kit.kinds(session)).count("ApprovalRequested") == 3


async def test_two_clients_answer_one_card(home: Home) -> None:
    """One answer counts; the other is told; the program runs once."""
    home.play({"when": {"turn": 0}, "calls": [run("hold")]}, DONE)
    home.ladder.go.set()
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        card = await kit.waiting(session)
        outcomes: list[object] = []

        async def one(decision: str) -> None:
            try:
                outcomes.append(await kit.answer(session, card, decision))
            except GloveportError as error:
                outcomes.append(error.code)

        async with anyio.create_task_group() as tasks:
            for decision in ("allow", "allow", "deny"):
                tasks.start_soon(one, decision)
        await kit.idle(session)
        assert outcomes.count(ErrorCode.APPROVAL_UNKNOWN) == 2
        kinds = await kit.kinds(session)
        assert (kinds.count("ApprovalResolved"), kinds.count("ToolExecutionFinished")) == (1, 1)
        assert home.ladder.starts["hold"] <= 1


async def test_an_answer_may_narrow_and_never_widen(home: Home) -> None:
    """Over the wire: fewer uses and an earlier end are taken; another command, a longer scope and more uses are refused
    and the card waits on."""
    home.play({"when": {"turn": 0}, "calls": [run("echo", "a"), run("echo", "a")]}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        card = await kit.waiting(session)
        other = {"tool": "run_command", "kinds": ["execute"], "pattern": {"kind": "argv_exact", "value": ["rm", "a"]}}
        for scope, wish in (("turn", {"capability": other}), ("turn", {"scope": "session"}), ("once", {"uses": 2})):
            with pytest.raises(GloveportError) as caught:
                await kit.answer(session, card, scope=scope, narrowed_to=wish)
            assert caught.value.code is not ErrorCode.INTERNAL
            assert (await kit.waiting(session)).card_digest == card.card_digest
        ends_at = kit.sessions.room.now_us() + 10**9
        given = await kit.answer(session, card, scope="turn", narrowed_to={"uses": 1}, expires_at=ends_at)
        again = await kit.waiting(session)
        assert again.call_id != card.call_id
        assert (await kit.call("grant/list", SessionParams(session_id=session))).grants == ()
        await kit.answer(session, again, scope="turn", expires_at=ends_at)
        kinds = await kit.idle(session)
        assert await kit.ends(session) == ["ok", "ok"]
        issued = [event["payload"] for event in await kit.events(session) if event["type"] == "GrantIssued"]
        assert issued[0]["grant_id"] == given.grant_id
        assert all(grant["grant"]["expires_at"] <= ends_at for grant in issued)
        assert kinds.count("GrantUsed") == 2


async def test_a_right_that_was_revoked_asks_again(home: Home) -> None:
    """Revoked means from now on; an unknown right is told."""
    home.play({"when": {"turn": 0}, "calls": [run("echo", "a")]}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        given = await kit.answer(session, await kit.waiting(session), scope="session")
        await kit.idle(session)
        revoke = GrantRevokeParams(client_request_id="rv", session_id=session, grant_id=given.grant_id)
        await kit.call("grant/revoke", revoke)
        await kit.call("grant/revoke", revoke)
        again = revoke.model_copy(update={"client_request_id": "rv2"})
        assert (await kit.refused("grant/revoke", again)).code is ErrorCode.APPROVAL_UNKNOWN
        await kit.send(session, "again")
        await kit.answer(session, await kit.waiting(session), "deny")
        await kit.idle(session)
        assert await kit.ends(session) == ["ok", "denied"]


async def test_a_judgement_does_not_outlive_what_it_stood_on(home: Home) -> None:
    """Trust is taken back and the right revoked while calls are judged: no call starts under the old level."""
    home.play({"when": {"turn": 0}, "calls": [run("echo", str(number)) for number in range(6)]}, DONE)
    async with home.room() as kit:
        session = await kit.allowed()
        await kit.trust("untrusted")
        await kit.idle(session)
        level = "trusted"
        for event in await kit.events(session):
            if event["type"] == "SandboxChosen":
                level = event["payload"]["trust_level"]
            if event["type"] == "ToolExecutionStarted":
                assert event["payload"]["security_context"]["trust_level"] == level == "trusted"
        assert level == "untrusted"
        assert kit.actor(session).state.grants == {}


async def test_the_sandbox_is_changed_between_turns_only(home: Home) -> None:
    """While a turn runs it is refused; afterwards it is written."""
    home.play({"when": {"turn": 0}, "calls": [run("echo", "a")]}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        card = await kit.waiting(session)
        choose = SandboxChooseParams(client_request_id="s", session_id=session, sandbox="memory")
        assert (await kit.refused("sandbox/choose", choose)).code is ErrorCode.TURN_BUSY
        await kit.answer(session, card, "deny")
        await kit.idle(session)
        await kit.call("sandbox/choose", choose)
        none = choose.model_copy(update={"client_request_id": "s2", "sandbox": "none"})
        assert (await kit.refused("sandbox/choose", none)).code is ErrorCode.SANDBOX_UNAVAILABLE
        assert "SandboxChosen" in await kit.kinds(session)
