"""Failing servers over loopback, the real engine, a clock of its own: what is asked again, when, and what is told."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.contract.test_engine_failures import rename_until_refused, set_pages
from tests.kit.clock import START_US, VirtualClock
from tests.kit.model_server import Behaviour, Call, ModelServer
from tests.kit.room import Home, Kit, new_home

from gloveport.protocol.ids import DAEMON_STREAM
from gloveport.server.secrets.value import Secret
from gloveport.server.session.state import Phase
from gloveport.server.settings import ModelChoice
from gloveport.server.turn.retry import ATTEMPTS_MAX

SLOW_DOWN = {"error": {"message": "slow down", "type": "rate_limit_error"}}
TOO_LONG = {
    "error": {"message": "This model's maximum context length is 8000 tokens", "code": "context_length_exceeded"}
}
ANSWER = Behaviour(text=("All ", "done."))
READ = Behaviour(text=(), calls=(Call("read_file", ('{"path":', '"a.txt"}')),), uses_max=1)
AT_NINE = "Fri, 15 Jan 2027 08:00:09 GMT"


@pytest.fixture
def home() -> Iterator[Home]:
    """A home of its own."""
    with new_home() as made:
        yield made


@asynccontextmanager
async def served(
    home: Home, *behaviours: Behaviour, dialect: Any = "openai"
) -> AsyncIterator[tuple[ModelServer, VirtualClock]]:
    """A model server that the sessions of this home use, and the clock by which their pauses pass."""
    clock = VirtualClock()
    home.now_us, home.sleep = clock.now_us, clock.sleep
    async with ModelServer(behaviours) as server:
        home.models = (ModelChoice(dialect, "m", base_url=server.base_url(dialect), key=Secret("sk-test")),)
        yield server, clock


async def facts(kit: Kit, session: str, kind: str) -> list[dict[str, Any]]:
    """The payloads of all events of a type."""
    return [event["payload"] for event in await kit.events(session) if event["type"] == kind]


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
@pytest.mark.parametrize(("header", "seconds"), [("3", 3), (AT_NINE, 9)])
async def test_f01_retry_after_in_both_forms_is_the_floor(home: Home, dialect: str, header: str, seconds: int) -> None:
    """Throttled twice, then answered: the pauses are as long as asked for, by the clock; the record says it."""
    throttled = Behaviour(status=429, headers={"retry-after": header}, body=SLOW_DOWN, uses_max=1)
    async with served(home, throttled, ANSWER, dialect=dialect) as (server, clock), home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        assert (await kit.idle(session))[-1] == "TurnCompleted"
        assert len(server.requests) == 2
        (pause,) = await facts(kit, session, "RetryScheduled")
        assert pause["backoff_us"] >= seconds * 1_000_000
        assert pause["floor"] == "retry_after"
        assert pause["due_at"] == START_US + pause["backoff_us"]
        assert pause["provider_request_id"] == "req_abc"
        assert sum(clock.sleeps) >= seconds


async def test_f01_an_hour_is_not_waited_for(home: Home) -> None:
    """The turn ends and says until when; nothing is asked meanwhile, not even for another message."""
    throttled = Behaviour(status=429, headers={"retry-after": "3600"}, body=SLOW_DOWN)
    async with served(home, throttled) as (server, clock), home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.idle(session)
        (end,) = await facts(kit, session, "TurnFailed")
        assert "until 09:00 UTC (60 min)" in end["message"]
        await kit.send(session)
        await kit.idle(session)
        assert len(server.requests) == 1
        assert clock.sleeps == []


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        (Behaviour(status=429, body={"error": {"message": "no more", "code": "insufficient_quota"}}), "model.quota"),
        (Behaviour(status=401, body={"error": {"message": "who are you?"}}), "model.auth"),
        (Behaviour(status=400, body={"error": {"message": "no such thing"}}), "model.refused"),
    ],
)
async def test_f01_what_does_not_pass_is_asked_once(home: Home, behaviour: Behaviour, code: str) -> None:
    """One request, one end, words for the user."""
    async with served(home, behaviour) as (server, clock), home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.idle(session)
        (end,) = await facts(kit, session, "TurnFailed")
        assert end["code"] == code
        assert end["hint"]
        assert len(server.requests) == 1
        assert clock.sleeps == []


@pytest.mark.parametrize(
    ("behaviour", "error_class"),
    [
        (Behaviour(status=503, body={}, uses_max=1), "overloaded"),
        (Behaviour(status=500, body={}, uses_max=1), "server"),
        (Behaviour(cut_after=2, uses_max=1), "truncated"),
        (Behaviour(end_after=2, uses_max=1), "truncated"),
    ],
)
async def test_f07_what_passes_is_tried_again(home: Home, behaviour: Behaviour, error_class: str) -> None:
    """A server that is busy, a stream that is cut, one that is closed without its end marker."""
    async with served(home, behaviour, ANSWER) as (server, _), home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        assert (await kit.idle(session))[-1] == "TurnCompleted"
        (pause,) = await facts(kit, session, "RetryScheduled")
        assert (pause["error_class"], pause["attempt"], pause["floor"]) == (error_class, 2, "none")
        assert len(server.requests) == 2


async def test_f07_a_cut_after_a_tool_keeps_the_text_and_the_tool_is_not_run_again(home: Home) -> None:
    """The second request is asked again with the result and the half answer in it, the roles taking turns."""
    home.write(a__txt="the file\n")
    half = Behaviour(text=("Half an ", "answer"), cut_after=3, uses_max=1)
    async with served(home, READ, half, ANSWER) as (server, _), home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        kinds = await kit.idle(session)
        assert kinds.count("ToolExecutionStarted") == 1
        assert await kit.ends(session) == ["ok"]
        (broken,) = await facts(kit, session, "ModelStreamInterrupted")
        assert broken["kept_utf16"] == len("Half an answer")
        roles = [message["role"] for message in server.requests[-1].body["messages"]]
        assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
        assert "Half an answer" in server.requests[-1].body["messages"][4]["content"]
        assert "no message of the user" in server.requests[-1].body["messages"][5]["content"]


async def test_what_a_broken_answer_had_cost_is_recorded(home: Home) -> None:
    """The provider had counted what it was sent: that is paid for twice, and the record says so."""
    broken = Behaviour(text=("Half",), cut_after=4, usage=(70, 9, 0), uses_max=1)
    async with served(home, broken, ANSWER, dialect="anthropic"), home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.idle(session)
        first, second = await facts(kit, session, "UsageRecorded")
        (interrupted,) = await facts(kit, session, "ModelStreamInterrupted")
        assert (first["request_id"], first["input_tokens"]) == (interrupted["request_id"], 70)
        assert kit.actor(session).state.input_tokens == 70 + second["input_tokens"]


async def test_f07_a_cut_after_the_first_of_two_calls_runs_neither(home: Home) -> None:
    """What arrived of the calls is not believed; the whole answer comes with the retry."""
    home.write(a__txt="the file\n")
    calls = (Call("read_file", ('{"path":"a.txt"}',), "c1"), Call("read_file", ('{"path":"a.txt"}',), "c2"))
    cut = Behaviour(text=(), calls=calls, cut_after=3, uses_max=1)
    whole = Behaviour(text=(), calls=calls, uses_max=1)
    async with served(home, cut, whole, ANSWER) as (server, _), home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.idle(session)
        assert await kit.ends(session) == ["ok", "ok"]
        assert len(server.requests) == 3


async def test_a_server_that_stays_away_ends_the_turn_and_opens_the_breaker(home: Home) -> None:
    """Five attempts, growing pauses, the record of the breaker beside the sessions; the next turn is told at once."""
    async with (
        served(home, Behaviour(status=503, body={"error": {"message": "busy"}})) as (server, clock),
        home.room() as kit,
    ):
        session = await kit.begin()
        await kit.send(session)
        await kit.idle(session)
        (end,) = await facts(kit, session, "TurnFailed")
        assert f"tried {ATTEMPTS_MAX} times" in end["message"]
        assert len(server.requests) == ATTEMPTS_MAX
        assert clock.sleeps == sorted(clock.sleeps)
        written = [event.type for event in await kit.journal.read(DAEMON_STREAM, 0, 100, 1 << 20)]
        assert written == ["BreakerOpened"]
        server.behaviours = [ANSWER]
        await kit.send(session)
        assert (await kit.idle(session))[-1] == "TurnCompleted"
        pauses = await facts(kit, session, "RetryScheduled")
        assert (pauses[-1]["error_class"], pauses[-1]["floor"]) == ("paused", "breaker")
        assert "left alone" in pauses[-1]["reason"]
        written = [event.type for event in await kit.journal.read(DAEMON_STREAM, 0, 100, 1 << 20)]
        assert written == ["BreakerOpened", "BreakerClosed"]


async def test_e01_stop_in_a_pause_is_at_once_and_nothing_is_asked_after(home: Home) -> None:
    """The turn is over while the timer still sleeps; the timer is dropped."""
    async with served(home, Behaviour(status=503, body={})) as (server, clock), home.room() as kit:
        clock.held = True
        session = await kit.begin()
        await kit.send(session)
        await clock.asleep.wait()
        assert kit.actor(session).state.phase is Phase.RETRYING
        await kit.cancel(session)
        assert kit.actor(session).state.phase is Phase.IDLE
        await kit.actor(session).wait_quiet()
        assert len(server.requests) == 1
        assert (await kit.kinds(session))[-2:] == ["TurnCancelRequested", "TurnCancelled"]


@pytest.mark.parametrize(("passed_s", "waits_for_s"), [(0, 0), (60, -60), (1_000, None), (-3_600, 0)])
async def test_d10_a_restart_in_a_pause_waits_for_what_is_left_of_it(
    home: Home, passed_s: float, waits_for_s: float | None
) -> None:
    """The moment stands in the record: a new daemon waits for the rest; by a clock set back never for longer."""
    throttled = Behaviour(status=429, headers={"retry-after": "100"}, body=SLOW_DOWN, uses_max=1)
    async with served(home, throttled, ANSWER) as (server, clock):
        clock.held = True
        async with home.room() as kit:
            session = await kit.begin()
            await kit.send(session)
            await clock.asleep.wait()
        (asked,) = clock.sleeps
        clock.pass_s(passed_s)
        clock.held = False
        async with home.room() as kit:
            await kit.sessions.open(session)
            kinds = await kit.idle(session)
            assert kinds[-1] == "TurnCompleted"
            slept = [] if waits_for_s is None else [pytest.approx(asked + waits_for_s, abs=1e-3)]
            assert clock.sleeps[1:] == slept
            assert len(server.requests) == 2


async def test_d02_a_refusal_of_the_journal_in_a_pause_loses_neither_the_pause_nor_the_turn(home: Home) -> None:
    """The session is read again and waits again for the same moment; it is asked once more, and once."""
    busy = Behaviour(status=503, body={}, uses_max=1)
    async with served(home, busy, ANSWER) as (server, clock), home.room() as kit:
        clock.held = True
        session = await kit.begin()
        await kit.send(session)
        await clock.asleep.wait()
        actor = kit.actor(session)
        await set_pages(kit, 1)
        await rename_until_refused(kit, session)
        assert actor.stale
        await actor.wait_quiet()
        clock.release()
        again = await kit.sessions.open(session)
        assert again is not actor
        assert (await kit.idle(session))[-1] == "TurnCompleted"
        assert len(server.requests) == 2


def too_long_while(marker: str) -> Behaviour:
    """A server whose window is too small while this stands in the request."""
    return Behaviour(status=400, body=TOO_LONG, when_contains=marker, uses_max=100)


async def test_f03_a_long_result_is_shortened_for_the_model_and_the_turn_goes_on(home: Home) -> None:
    """The middle of it is what does not fit; head and tail stay; call and result stay together; the record is whole."""
    filler = f"{'x' * 99}\n" * 100
    home.write(a__txt=f"HEAD\n{filler}MIDDLE\n{filler}TAIL\n")
    async with served(home, too_long_while("MIDDLE"), READ, ANSWER) as (server, _), home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        kinds = await kit.idle(session)
        assert kinds[-1] == "TurnCompleted"
        assert kinds.count("ContextCompacted") == 1
        (compacted,) = await facts(kit, session, "ContextCompacted")
        assert compacted["chars_after"] < compacted["chars_before"]
        last = server.requests[-1].body["messages"]
        assert [message["role"] for message in last] == ["system", "user", "assistant", "tool"]
        assert last[2]["tool_calls"][0]["id"] == last[3]["tool_call_id"]
        assert all(part in last[3]["content"] for part in ("HEAD", "TAIL", "characters are left out"))
        (ended,) = await facts(kit, session, "ToolExecutionFinished")
        assert "MIDDLE" in ended["text"]
        assert await kit.ends(session) == ["ok"]


async def test_f03_a_window_that_the_fixed_prompt_fills_ends_with_ways_out(home: Home) -> None:
    """Whatever is sent is too long: one request a turn, a named error, no loop; another model goes on."""
    async with served(home, too_long_while("")) as (server, _), home.room() as kit:
        session = await kit.begin()
        for turn in range(1, 6):
            await kit.send(session)
            await kit.idle(session)
            assert len(server.requests) == turn
            end = (await facts(kit, session, "TurnFailed"))[-1]
            assert end["code"] == "model.context_overflow"
            assert "larger window" in end["hint"]


async def test_two_sessions_share_a_lane_and_keys_do_not(home: Home) -> None:
    """What one session learns, the next one is spared; another key is another matter."""
    throttled = Behaviour(status=429, headers={"retry-after": "3600"}, body=SLOW_DOWN, when_contains="sorry")
    async with served(home, throttled, ANSWER) as (server, _):
        other = ModelChoice("openai", "m2", base_url=server.base_url("openai"), key=Secret("sk-other"))
        home.models = (*home.models, other)
        async with home.room() as kit:
            first, second = await kit.begin(), await kit.begin(None)
            lanes = kit.sessions.room.providers.lane
            assert lanes("openai", "m") != lanes("openai", "m2")
            assert lanes("scripted", "test") is None
            assert "sk-" not in f"{lanes('openai', 'm')}{lanes('openai', 'm2')}"
            await kit.send(first, "sorry")
            await kit.idle(first)
            await kit.send(second, "sorry")
            await kit.idle(second)
            assert len(server.requests) == 1


def ordered(kinds: Sequence[str], *wanted: str) -> bool:
    """Whether these types come in this order."""
    places = [kinds.index(kind) for kind in wanted]
    return places == sorted(places)


async def test_intent_before_retry(home: Home) -> None:
    """The schedule is on disk before the pause, the start of the retry before the request."""
    async with served(home, Behaviour(status=503, body={}, uses_max=1), ANSWER) as (_, _clock), home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        kinds = await kit.idle(session)
        assert ordered(kinds, "ModelStreamInterrupted", "RetryScheduled", "RetryStarted", "ModelResponseReceived")
