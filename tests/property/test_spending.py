"""Limits of money in any history: what a provider truly bills passes none by more than one request over its reserve.

The world here bills: it makes tokens of the very words that the engine would send, and keeps its own account in exact
fractions, also of what it never told. The machine knows the counts it was told, and no more.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from random import Random
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kit.simulation.story import Story, call

from gloveport.protocol.journal import events as ev
from gloveport.server.engine.prompt import model_request
from gloveport.server.models.contract import AssistantTurn, SystemText
from gloveport.server.session.spending import PROMPT_TOKENS
from gloveport.server.session.state import CallStage, Phase
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.draft import TurnError
from gloveport.server.turn.machine import step

MOVES: Final = 40
MODELS: Final = ("script", "m0", "m1")
PIECES: Final = ("word ", "中文", "😀", "x" * 900, "\n", "line of code()\n" * 40)


def ladder(rng: Random) -> tuple[ev.RateStep, ...]:
    """A price, or one that rises with the input; now and then nothing is asked for."""
    first = rng.choice((0, 10**8, 10**9, 15 * 10**9))
    steps = [ev.RateStep(above=-1, nano_usd=first)]
    if rng.random() < 0.3:
        steps.append(ev.RateStep(above=rng.choice((20_000, 60_000)), nano_usd=first * 2))
    return tuple(steps)


def price(steps: tuple[ev.RateStep, ...], given: int) -> int:
    """For a million tokens of a request with so much input."""
    return [one.nano_usd for one in steps if given > one.above][-1]


@dataclass
class Bank:
    """A provider that bills, and what it has billed."""

    rng: Random
    honest: bool
    rates: tuple[ev.ModelRates, ...] = ()
    billed: Fraction = Fraction(0)
    of_turn: Fraction = Fraction(0)
    requests: int = 0
    bytes_a_token: dict[str, int] = field(default_factory=dict)

    def tokens(self, story: Story) -> int:
        """What it makes of the words of the request under way."""
        request, ratio = model_request(story.state, ()), self.bytes_a_token[story.state.model]
        made = PROMPT_TOKENS // 2 if story.state.mode == "plan" else PROMPT_TOKENS
        for message in request.messages:
            if isinstance(message, SystemText):
                continue
            texts = [message.text]
            if isinstance(message, AssistantTurn):
                texts += [one for part in message.calls for one in (part.call_id, part.name, part.arguments_json)]
            made += 8 + sum(-(-len(text.encode()) // ratio) for text in texts)
        return made if self.honest else made * self.rng.choice((1, 1, 3))

    def bill(self, model: str, given: int, cached: int, made: int) -> None:
        """Another request, exactly."""
        (rate,) = [one for one in self.rates if one.model == model]
        anew = price(rate.input, given) * (given - cached)
        cost = anew + price(rate.cached or rate.input, given) * cached + price(rate.output, given) * made
        self.billed += Fraction(cost, 10**6)
        self.of_turn += Fraction(cost, 10**6)
        self.requests += 1


class Spender:
    """A history in which money is limited from the beginning."""

    def __init__(self, rng: Random, *, honest: bool) -> None:
        self.rng, self.story, self.bank = rng, Story(), Bank(rng, honest)
        ratio = rng.choice((1, 2, 3))
        self.bank.bytes_a_token = {model: ratio * rng.choice((1, 2)) for model in MODELS}
        self.bank.rates = tuple(
            ev.ModelRates(
                provider="scripted", model=model, input=ladder(rng), output=ladder(rng), cached=None, request_nano_usd=0
            )
            for model in MODELS
        )
        self.made = 0
        self.checked = 0
        self.limits()

    def limits(self) -> None:
        """Limits of money, never none of both."""
        turn, session = (self.rng.choice((10**7, 10**8, 5 * 10**8, 3 * 10**9)) for _ in range(2))
        one = self.rng.choice(((turn, None), (None, session), (turn, session)))
        self.story.fact_is_written(
            ev.BudgetSet(
                turn_tokens=None,
                session_tokens=None,
                turn_nano_usd=one[0],
                session_nano_usd=one[1],
                rates=self.bank.rates,
                by="user",
            )
        )

    def text(self) -> str:
        """Some words."""
        return "".join(self.rng.choice(PIECES) for _ in range(self.rng.randint(1, 12)))

    def move(self) -> None:
        """Something that can happen next."""
        phase = self.story.state.phase
        if phase is Phase.IDLE:
            self.between_turns()
        elif phase is Phase.MODEL:
            self.check_reserve()
            self.answer()
        elif phase is Phase.RETRYING:
            self.story.pause_ends()
        else:
            self.work()
        self.check_account()

    def between_turns(self) -> None:
        """The user says something, or changes what the session may do."""
        chance = self.rng.random()
        if chance < 0.15:
            self.limits()
        elif chance < 0.3:
            model = self.rng.choice(MODELS)
            self.story.fact_is_written(ev.ModelSelected(provider="scripted", model=model, model_label=model))
        elif chance < 0.4:
            self.story.fact_is_written(ev.ModeChosen(mode=self.rng.choice(("agent", "plan")), by="user"))
        else:
            self.made += 1
            self.bank.of_turn = Fraction(0)
            self.story.when(inp.SendMessage(f"m{self.made}", f"t{self.made}", self.text(), queue=False))

    def answer(self) -> None:
        """The whole answer with its count or without; or it breaks off, with the daemon or by itself."""
        story, chance, model = self.story, self.rng.random(), self.story.state.model
        given = self.bank.tokens(story)
        most = model_request(story.state, ()).max_output_tokens
        made = self.rng.choice((0, 5, most))
        cached = self.rng.randint(0, given)
        if chance < 0.6:
            self.bank.bill(model, given, cached, made)
            counts = (given, made, cached) if self.rng.random() < 0.93 else (None, None, None)
            calls = (call(),) if self.rng.random() < 0.7 else ()
            story.model_streams(self.text())
            story.when(inp.ResponseEnded(story.request_id, calls, "tool_calls" if calls else "end", *counts))
        elif chance < 0.75:
            fate = self.rng.choice(("unknown", "never_accepted"))
            if fate == "unknown":
                self.bank.bill(model, given, 0, made)
            story._reload()
            story.recovering = [inp.RequestInterrupted(story.request_id, fate, "asked"), inp.TakenUp()]  # type: ignore[arg-type]  # - a fate by name
            while story.recovering:
                story._recover()
        else:
            self.break_off(model, given, made)

    def break_off(self, model: str, given: int, made: int) -> None:
        """Taken or not; counted in part or not at all: what is billed may be more than was told."""
        story = self.story
        counts: tuple[int | None, int | None, int | None] = (None, None, None)
        if self.rng.random() < 0.7:
            story.when(inp.RequestAccepted(story.request_id, "req_1"))
            self.bank.bill(model, given, 0, made)
            counts = self.rng.choice(((None, None, None), (given, 1, 0), (given, None, None)))
        kind = self.rng.choice(("server", "connect", "auth"))
        trouble = inp.Trouble(kind, 1_000_000, None, None)
        story.when(inp.RequestFailed(story.request_id, "model.unreachable", "it broke", "Again.", trouble, *counts))

    def work(self) -> None:
        """The call of the answer runs and ends."""
        turn = self.story.state.turn
        assert turn is not None
        if any(one.stage is CallStage.RUNNING for one in turn.calls):
            self.story.tool_ends("ok", self.text())
        else:
            self.story.policy_says("allow")

    def check_reserve(self) -> None:
        """The request that has just begun was reserved for: with it, what was truly billed stays within the limits."""
        reserves = self.story.facts(ev.SpendReserved)
        if len(reserves) == self.checked:
            return
        self.checked = len(reserves)
        reserved, money = reserves[-1], self.story.state.money
        assert money is not None
        assert reserved.request_id == self.story.request_id
        if not self.bank.honest:
            return
        assert self.bank.tokens(self.story) <= reserved.input_tokens
        if money.session_nano_usd is not None:
            assert self.bank.billed + reserved.nano_usd <= money.session_nano_usd + self.bank.requests
        if money.turn_nano_usd is not None:
            assert self.bank.of_turn + reserved.nano_usd <= money.turn_nano_usd + self.bank.requests

    def check_account(self) -> None:
        """What the session is taken to have spent is never less than what was billed, but for rounding."""
        if self.bank.honest:
            assert self.bank.billed <= self.story.state.nano_usd + self.bank.requests
        requests = self.story.facts(ev.ModelRequestStarted)
        assert len(requests) == len(self.story.facts(ev.SpendReserved))


SLOW: Final = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=25, deadline=None, suppress_health_check=SLOW)
@given(st.integers(0, 2**32))
def test_what_is_spent_passes_no_limit_by_more_than_one_request_over_its_reserve(seed: int) -> None:
    """A provider that keeps to what it is asked for passes none at all (but for a billionth of rounding a request)."""
    spender = Spender(Random(seed), honest=True)
    for _ in range(MOVES):
        spender.move()


@settings(max_examples=15, deadline=None, suppress_health_check=SLOW)
@given(st.integers(0, 2**32))
def test_a_provider_that_counts_too_much_passes_a_limit_by_that_request_alone(seed: int) -> None:
    """Every count is believed at once: after the one that passed the limit no further request is made."""
    spender = Spender(Random(seed), honest=False)
    for _ in range(MOVES):
        spender.move()
        money, state = spender.story.state.money, spender.story.state
        assert money is not None
        if money.session_nano_usd is not None and state.nano_usd > money.session_nano_usd:
            assert state.phase is not Phase.MODEL
            if state.phase is Phase.IDLE:
                with pytest.raises(TurnError):
                    step(state, inp.SendMessage("m", "t", "go on", queue=False))


class Cutter:
    """A session with a limit of tokens whose provider counts, cuts and is stopped as it likes."""

    def __init__(self, rng: Random, limit: int) -> None:
        self.rng, self.story, self.limit = rng, Story(), limit
        self.moved = self.biggest = self.turns = 0
        self.story.fact_is_written(
            ev.BudgetSet(
                turn_tokens=None, session_tokens=limit, turn_nano_usd=None, session_nano_usd=None, rates=(), by="user"
            )
        )

    def go_on(self) -> bool:
        """One more move; False where the session has no room for any."""
        if self.story.state.phase is Phase.RETRYING:
            self.story.pause_ends()
        elif self.story.state.phase is Phase.IDLE:
            self.turns += 1
            given = inp.SendMessage(f"m{self.turns}", f"t{self.turns}", "x" * 40, queue=False)
            try:
                step(self.story.state, given)
            except TurnError:
                return False
            self.story.when(given)
        else:
            self.answer()
        return True

    def answer(self) -> None:
        """Bytes go and come; the end is whole, cut, or stopped; the count whole, a part, or none."""
        story, rng = self.story, self.rng
        sent, arrived = rng.randint(400, 4_000), rng.choice((0, 1, 900, 40_000))
        self.moved += sent + arrived
        self.biggest = max(self.biggest, sent + arrived)
        story.when(inp.RequestAccepted(story.request_id, "req_1"))
        honest = (-(-sent // 4), -(-arrived // 4), 0)
        if rng.random() < 0.3:
            counts = rng.choice((honest, (None, None, None)))
            story.when(inp.ResponseEnded(story.request_id, (), "end", *counts, sent, arrived))
            return
        if stopped := rng.random() < 0.4:
            story.when(inp.CancelTurn(story.turn_id, "user"))
        trouble = None if stopped else inp.Trouble(rng.choice(("server", "truncated", "idle", "auth")), 1_000_000)
        counts = rng.choice(((None, None, None), (honest[0], 1, 0), (honest[0], None, None), honest))
        words = ("model.unreachable", "it broke", "Again.")
        story.when(inp.RequestFailed(story.request_id, *words, trouble, *counts, sent, arrived))


@settings(max_examples=25, deadline=None, suppress_health_check=SLOW)
@given(st.integers(0, 2**32), st.integers(1, 30_000))
def test_a_session_with_a_limit_of_tokens_ends_after_so_many_bytes_whatever_is_cut(seed: int, limit: int) -> None:
    """At four bytes a token, and by no more than the one request that nobody could know."""
    cutter = Cutter(Random(seed), limit)
    while cutter.go_on():
        assert cutter.moved <= 4 * limit + cutter.biggest
    state = cutter.story.state
    assert 4 * (state.input_tokens + state.output_tokens) >= cutter.moved
