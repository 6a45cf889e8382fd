"""Limits of money: what is reserved, what is counted, what ends a turn, and what has no price."""

from dataclasses import replace

import pytest
from tests.kit.simulation import materials as mat
from tests.kit.simulation.story import Story, call

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal import events as ev
from gloveport.server.session.spending import (
    ENTRY_TOKENS,
    PROMPT_TOKENS,
    REPLY_TOKENS_MAX,
    REPLY_TOKENS_MIN,
    TOKENIZERS_DIFFER,
    expected_input,
    turn_nano_usd,
    unseen_nano_usd,
)
from gloveport.server.session.state import Phase
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.draft import TurnError
from gloveport.server.turn.machine import step

USD = 10**9
IN, OUT = 1_000, 4_000
"""What a token costs in nano-USD: a dollar and four a million."""
USED = 10 * IN + 5 * OUT
"""What an answer of a story costs: 10 in, 5 out."""
SAID = len("mend it")
FIRST = (PROMPT_TOKENS + ENTRY_TOKENS + SAID) * IN
"""The input of the first request, as it is reckoned."""
LEAST = FIRST + REPLY_TOKENS_MIN * OUT
MODELS = (mat.rates("script"), mat.rates("other"))


def money(turn: int | None, session: int | None, rates: tuple[ev.ModelRates, ...] = MODELS) -> ev.BudgetSet:
    """Limits of money alone."""
    return ev.BudgetSet(
        turn_tokens=None, session_tokens=None, turn_nano_usd=turn, session_nano_usd=session, rates=rates, by="user"
    )


def limited(turn: int | None, session: int | None) -> Story:
    """A session with limits of money."""
    return Story().fact_is_written(money(turn, session))


def work(story: Story) -> Story:
    """A request, a call of its answer and the end of that: the next request is due."""
    return story.model_answers(call()).policy_says("allow").tool_ends()


def test_a_request_is_reckoned_at_its_bytes_and_the_most_of_an_answer() -> None:
    """The words of the user and the standing part; with room the longest answer is asked for."""
    story = limited(None, USD).user_says()
    (reserved,) = story.facts(ev.SpendReserved)
    assert reserved.input_tokens * IN == FIRST
    assert reserved.output_tokens == REPLY_TOKENS_MAX
    assert reserved.nano_usd == FIRST + REPLY_TOKENS_MAX * OUT
    assert story.news[-2:] == ["ModelRequestStarted", "SpendReserved"]


def test_without_a_limit_of_money_nothing_is_reserved_or_counted() -> None:
    """A session as it was."""
    story = work(Story().user_says())
    assert story.facts(ev.SpendReserved) == []
    assert story.state.nano_usd == 0


def test_an_answer_is_asked_for_as_long_as_the_limit_has_room_for() -> None:
    """A nano-dollar less than the least: no request, and the words tell what it may cost."""
    (shorter,) = limited(None, LEAST + 100 * OUT).user_says().facts(ev.SpendReserved)
    assert (shorter.output_tokens, shorter.nano_usd) == (REPLY_TOKENS_MIN + 100, LEAST + 100 * OUT)
    assert limited(None, LEAST).user_says().state.phase is Phase.MODEL
    for turn, session in ((None, LEAST - 1), (LEAST - 1, None)):
        story = limited(turn, session).user_says()
        assert story.state.phase is Phase.IDLE
        (failed,) = story.facts(ev.TurnFailed)
        assert failed.code == ErrorCode.BUDGET
        assert "spent $0.00 of $0.0245; the next request may cost $0.0245" in failed.message
        assert story.facts(ev.ModelRequestStarted) == []


def under_way(limits: ev.BudgetSet) -> Story:
    """A turn whose first request was counted and whose call runs, with these limits set meanwhile."""
    story = limited(None, USD).user_says().model_answers(call()).policy_says("allow")
    return story.fact_is_written(limits)


@pytest.mark.parametrize("whose", ["turn", "session"])
def test_a_turn_ends_where_the_next_request_could_pass_a_limit(whose: str) -> None:
    """What was counted is spent; the next input is the newest count and a token for each byte that came since."""
    least = expected_input(work(limited(None, USD).user_says()).state) * IN + REPLY_TOKENS_MIN * OUT
    assert least < LEAST
    for room, phase in ((0, Phase.MODEL), (-1, Phase.IDLE)):
        limit = USED + least + room
        story = under_way(money(limit, None) if whose == "turn" else money(None, limit)).tool_ends()
        assert story.state.phase is phase
        assert story.state.nano_usd == USED


def test_a_count_takes_the_place_of_the_reckoning() -> None:
    """10 in, of which 4 from the cache, and 5 out; the turn and the session hold the same."""
    story = limited(None, USD).user_says()
    story.when(inp.ResponseEnded(story.request_id, (call(),), "tool_calls", 10, 5, 4))
    assert story.state.nano_usd == 6 * IN + 4 * IN // 10 + 5 * OUT
    assert story.state.turn is not None
    assert story.state.turn.nano_usd == story.state.nano_usd
    assert unseen_nano_usd(story.state) == 0


def test_a_session_that_has_nothing_left_takes_no_message_until_the_limit_is_higher() -> None:
    """Refused with the code of a limit; the words stay with the user."""
    story = limited(None, LEAST).user_says().model_answers()
    message = inp.SendMessage("m8", "t8", "go on", queue=False)
    story.fact_is_written(money(None, USED))
    with pytest.raises(TurnError) as caught:
        step(story.state, message)
    assert caught.value.code is ErrorCode.BUDGET
    story.fact_is_written(money(None, USD))
    assert step(story.state, message).effects


def test_a_model_without_a_price_is_refused_and_never_free() -> None:
    """It was chosen after the limit was set: the turn ends before its request; with its price it goes on."""
    story = limited(None, USD).fact_is_written(ev.ModelSelected(provider="p", model="x", model_label="X"))
    message = inp.SendMessage("m8", "t8", "go on", queue=False)
    with pytest.raises(TurnError) as caught:
        step(story.state, message)
    assert caught.value.code is ErrorCode.UNPRICED
    assert "no price is known for p/x" in caught.value.message
    assert "input_usd" in caught.value.hint
    story.fact_is_written(money(None, USD, (*MODELS, mat.rates("x").model_copy(update={"provider": "p"}))))
    assert step(story.state, message).effects


def test_what_was_used_before_the_limit_counts_and_must_have_a_price() -> None:
    """All requests of the session by the rates of the limit; one without a price holds everything back."""
    story = Story().user_says().model_answers().fact_is_written(money(None, USD))
    assert story.state.nano_usd == USED
    story.fact_is_written(money(None, USD, (mat.rates("other"),)))
    story.fact_is_written(ev.ModelSelected(provider="scripted", model="other", model_label="O"))
    with pytest.raises(TurnError) as caught:
        step(story.state, inp.SendMessage("m8", "t8", "go on", queue=False))
    assert caught.value.code is ErrorCode.UNPRICED
    assert "scripted/script" in caught.value.message


def test_a_request_under_way_whose_model_has_no_price_holds_everything_back() -> None:
    """A log with a limit that names no price of what runs: its answer is not free, and no other request follows it."""
    story = Story().user_says().fact_is_written(money(None, USD, (mat.rates("other"),)))
    story.fact_is_written(ev.ModelSelected(provider="scripted", model="other", model_label="O"))
    work(story)
    (failed,) = story.facts(ev.TurnFailed)
    assert failed.code == ErrorCode.UNPRICED
    assert "scripted/script" in failed.message


def test_a_provider_that_does_not_count_is_taken_for_the_most_and_asked_no_more() -> None:
    """The answer costs what was reserved for it, and the turn ends: nobody knows what is next."""
    story = limited(None, USD).user_says()
    story.when(inp.ResponseEnded(story.request_id, (call(),), "tool_calls", None, None, None))
    (reserved,) = story.facts(ev.SpendReserved)
    assert story.state.nano_usd == unseen_nano_usd(story.state) == reserved.nano_usd
    story.policy_says("allow").tool_ends()
    assert "counts no tokens" in story.facts(ev.TurnFailed)[0].message


@pytest.mark.parametrize(("accepted", "given", "made"), [(True, None, None), (True, 12, 3), (False, None, None)])
def test_an_answer_that_broke_off_costs_what_it_may_be_billed(
    accepted: bool, given: int | None, made: int | None
) -> None:
    """Taken by the provider: its input as counted, its output the most that was asked for. Never taken: nothing."""
    story = limited(None, USD).user_says()
    (reserved,) = story.facts(ev.SpendReserved)
    if accepted:
        story.when(inp.RequestAccepted(story.request_id, "req_1"))
    broke = inp.RequestFailed(story.request_id, "model.unreachable", "it broke", "Try again.", None, given, made)
    story.when(broke)
    counted = reserved.input_tokens if given is None else given
    assert story.state.nano_usd == (counted * IN + REPLY_TOKENS_MAX * OUT if accepted else 0)
    assert unseen_nano_usd(story.state) == story.state.nano_usd


@pytest.mark.parametrize("fate", ["unknown", "never_accepted"])
def test_what_broke_off_with_the_daemon_counts_unless_the_provider_never_took_it(fate: str) -> None:
    """And the limit, its rates and what was spent are there after the restart."""
    story = limited(USD, None).user_says()
    (reserved,) = story.facts(ev.SpendReserved)
    story._reload()
    story.recovering = [inp.RequestInterrupted(story.request_id, fate, "asked"), inp.TakenUp()]  # type: ignore[arg-type]  # - a fate by name
    while story.recovering:
        story._recover()
    assert story.state.money is not None
    assert story.state.nano_usd == (reserved.nano_usd if fate == "unknown" else 0)
    assert len(story.facts(ev.SpendReserved)) == 2


def test_prices_that_change_later_change_nothing_that_was_written() -> None:
    """The rates stand in the event: a log read again is the same sum, whatever a list of prices says by then."""
    story = work(limited(None, USD).user_says())
    spent = story.state.nano_usd
    story._reload()
    assert story.state.nano_usd == spent == USED
    dearer = tuple(mat.rates(one.model, input_usd=2, output_usd=8) for one in MODELS)
    story.fact_is_written(money(None, USD, dearer))
    assert story.state.nano_usd == 2 * USED
    assert story.state.turn is not None
    assert story.state.turn.nano_usd == 2 * USED


def test_another_model_and_another_mode_are_reckoned_dearer() -> None:
    """Another model may make more tokens of the same words; another mode offers other tools."""
    story = work(limited(None, USD).user_says())
    same = expected_input(story.state)
    known = story.state.counted
    assert known is not None
    other = replace(story.state, model="other")
    assert expected_input(other) == same + (TOKENIZERS_DIFFER - 1) * known.input_tokens
    assert expected_input(replace(story.state, mode="plan")) == same + PROMPT_TOKENS


def test_what_the_newest_turn_used_is_told_until_the_next_one_begins() -> None:
    """In tokens, and in money also where the limit was set after it."""
    story = work(Story().user_says()).model_answers().fact_is_written(money(None, USD))
    assert (story.state.ended_turn.tokens, turn_nano_usd(story.state)) == (30, 2 * USED)
    story.user_says()
    assert turn_nano_usd(story.state) == 0
    story.model_answers()
    assert (story.state.ended_turn.tokens, turn_nano_usd(story.state)) == (15, USED)


def test_money_that_is_no_longer_limited_is_no_longer_counted() -> None:
    """Both limits taken back: requests go on, and a later limit counts all of them."""
    story = work(limited(None, USD).user_says())
    story.fact_is_written(money(None, None, ()))
    assert (story.state.money, story.state.nano_usd) == (None, 0)
    work(story)
    assert len(story.facts(ev.SpendReserved)) == 2
    story.fact_is_written(money(None, USD))
    assert story.state.nano_usd == 2 * USED
