"""Tokens and cost: who counted what, what it costs by the list, what is unpriced, what may have been billed beside."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random

import pytest
from genai_prices import Usage, calc_price
from genai_prices.data import providers
from tests.kit.placed import placed_bodies, placed_run
from tests.kit.simulation.story import Story, call

from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.events.base import EventBody
from gloveport.server.commands.price_list import load_prices, prices_of, recorded_rates
from gloveport.server.session.spending import rates_of
from gloveport.server.session.views.metrics import MetricsProjection
from gloveport.server.session.views.placed import Placed, project
from gloveport.server.session.views.price import PriceRule, Rates, Tokens, cost_nano_usd, rates_at
from gloveport.server.session.views.usage import REASON_MODEL, REASON_TOKENS, UsageProjection
from gloveport.server.settings import ModelChoice, ModelPrice, Settings

NOW = int(datetime(2026, 11, 1, 12, tzinfo=UTC).timestamp() * 1e6)
BOOK = {("openai", "m"): (PriceRule(Rates(((-1, 2_000_000_000),), ((-1, 10_000_000_000),), ((-1, 1_000_000_000),))),)}
BORN = {"turn_id": "t1", "goal_revision": 1}


def request(name: str, model: str = "m") -> ev.ModelRequestStarted:
    return ev.ModelRequestStarted(turn_id="t1", goal_revision=1, request_id=name, provider="openai", model=model)


def accepted(name: str) -> ev.ModelRequestAccepted:
    return ev.ModelRequestAccepted(turn_id="t1", goal_revision=1, request_id=name, provider_request_id="r")


def broken(name: str, code: str = "model.unreachable") -> ev.ModelStreamInterrupted:
    return ev.ModelStreamInterrupted(
        turn_id="t1", goal_revision=1, request_id=name, kept_utf16=0, code=code, reason="it broke"
    )


def answered(name: str, given: int | None = 1000, output: int | None = 100, cached: int | None = 0) -> list[EventBody]:
    return [
        ev.ModelResponseReceived(
            turn_id="t1", goal_revision=1, request_id=name, text="x", calls=(), stop="end", text_digest="0" * 64
        ),
        ev.UsageRecorded(
            turn_id="t1",
            goal_revision=1,
            request_id=name,
            input_tokens=given,
            output_tokens=output,
            cached_tokens=cached,
        ),
    ]


def reconciled(may_be_billed: bool) -> ev.ModelRequestReconciled:
    return ev.ModelRequestReconciled(
        turn_id="t1", goal_revision=1, request_id="r1", provider_request_id=None,
        fate="unknown" if may_be_billed else "never_accepted", may_be_billed=may_be_billed, evidence="asked",
    )  # fmt: skip


def usage(*bodies: EventBody) -> UsageProjection:
    return project(UsageProjection(), placed_bodies(bodies))


def test_tokens_are_summed_by_request_turn_and_model() -> None:
    """1,000 tokens in (400 of them cached), 100 out at $2, $1 and $10 a million: exactly 2,600,000 nano-USD."""
    report = usage(request("r1"), *answered("r1", 1000, 100, 400), request("r2"), *answered("r2")).finish(BOOK)
    assert [one.cost_nano_usd for one in report.requests] == [600 * 2000 + 400 * 1000 + 100 * 10_000, 3_000_000]
    assert report.total.cost_nano_usd == 5_600_000
    assert (report.total.input_tokens, report.total.output_tokens, report.total.cached_tokens) == (2000, 200, 400)
    assert report.by_model == (("openai/m", report.total),)
    assert report.by_turn == (("t1", report.total),)
    assert report.total.unpriced == report.total.unseen == 0


def test_what_is_not_known_is_unpriced_and_never_nothing() -> None:
    """A model without a price and an answer without a count are told with the reason, and counted."""
    bodies = [request("r1", "home-made"), *answered("r1"), request("r2"), *answered("r2", None, None, None)]
    report = usage(*bodies).finish(BOOK)
    assert [(one.cost_nano_usd, one.unpriced) for one in report.requests] == [
        (None, REASON_MODEL),
        (None, REASON_TOKENS),
    ]
    assert (report.total.priced, report.total.unpriced, report.total.cost_nano_usd) == (0, 2, None)
    assert usage(*bodies).finish().total.unpriced == 2


def test_f07_a_lost_answer_may_have_been_billed_and_is_counted_apart() -> None:
    """Accepted, then cut, then sent again: one request is priced; the other is an estimate that no sum holds."""
    report = usage(request("r1"), accepted("r1"), broken("r1"), request("r2"), *answered("r2")).finish(BOOK)
    assert (report.total.requests, report.total.priced, report.total.unseen) == (2, 1, 1)
    assert report.total.cost_nano_usd == 3_000_000
    assert report.total.unseen_nano_usd == 2_000_000


@pytest.mark.parametrize(
    ("bodies", "unseen"),
    [
        ([request("r1"), broken("r1")], 0),  # never accepted: nothing to bill
        ([request("r1"), broken("r1", "model.broken_stream")], 1),  # the daemon died: nobody knows
        ([request("r1"), reconciled(False), broken("r1", "model.broken_stream")], 0),  # the provider never took it
        ([request("r1"), reconciled(True), broken("r1")], 1),  # it may have: whoever looked says so
        ([request("r1"), accepted("r1")], 1),  # under way, or the log ends here
        ([request("r1"), accepted("r1"), broken("r1", "rpc.cancelled")], 1),  # stopped by the user: what came is billed
    ],
)
def test_which_requests_may_have_been_billed_without_a_count(bodies: list[EventBody], unseen: int) -> None:
    """By what the log says of their acceptance and end; without a later count there is no estimate."""
    total = usage(*bodies).finish(BOOK).total
    assert (total.unseen, total.unseen_nano_usd) == (unseen, None)


def test_a_request_that_was_held_back_is_none_to_the_provider() -> None:
    """The breaker let it wait and nothing was sent: only what reached out counts, in every sum and measure."""

    def again(name: str, kind: str) -> ev.RetryScheduled:
        return ev.RetryScheduled(
            turn_id="t1", goal_revision=1, request_id=name, attempt=2, attempts_max=5, error_class=kind, backoff_us=1,
            floor="none", due_at=1, provider_request_id=None, reason="no answer",
        )  # fmt: skip

    bodies = [
        request("r1"), broken("r1"), again("r1", "connect"), request("r2"), broken("r2"), again("r2", "paused"),
        request("r3"), *answered("r3"),
    ]  # fmt: skip
    report = project(UsageProjection(), placed_bodies(bodies)).finish(BOOK)
    assert [one.request_id for one in report.requests] == ["r1", "r3"]
    assert report.total.requests == 2
    counts = project(MetricsProjection(), placed_bodies(bodies)).finish().counts
    assert (counts["streams"], counts["streams_interrupted"], counts["retries"]) == (2, 1, 1)


def test_events_told_again_count_once() -> None:
    """Usage is kept by request: the same facts twice are the same usage."""
    bodies = [request("r1"), accepted("r1"), *answered("r1")]
    assert usage(*bodies, *bodies).finish(BOOK) == usage(*bodies).finish(BOOK)


def test_a_session_is_followed_with_what_other_rooms_write() -> None:
    """A real history: as many requests as the machine made, events of a newer version passed over."""
    story = Story().user_says().model_answers(call()).policy_says("allow").tool_ends().model_answers()
    events = [*placed_run(story), Placed(999, 5, "ThoughtSold", None)]
    assert project(UsageProjection(), events).finish().total.requests == 2


def test_prices_hold_from_their_day_and_hour_on() -> None:
    """The last rule that holds counts, the first where none does; a part of the day may run over midnight."""
    day, night = Rates(((-1, 2),), ((-1, 2),)), Rates(((-1, 1),), ((-1, 1),))
    hour = 3_600_000_000
    rules = (PriceRule(day), PriceRule(night, day_us=(22 * hour, 6 * hour)))
    assert [rates_at(rules, h * hour) is night for h in (0, 5, 6, 12, 21, 22, 23)] == [1, 1, 0, 0, 0, 1, 1]
    rules = (PriceRule(night), PriceRule(day, day_us=(6 * hour, 22 * hour)))
    assert [rates_at(rules, h * hour) is day for h in (0, 5, 6, 12, 21, 22, 23)] == [0, 0, 1, 1, 1, 0, 0]
    later = (PriceRule(night, since_us=5), PriceRule(day, since_us=10))
    assert [rates_at(later, at) is day for at in (4, 9, 10)] == [False, False, True]
    assert rates_at((), 0) is None


def listed() -> list[tuple[str, str]]:
    """Every model of the two providers that the list has."""
    return [(one.id, model.id) for one in providers if one.id in ("openai", "anthropic") for model in one.models]


def test_the_arithmetic_is_that_of_the_list_itself() -> None:
    """For every listed model, random usage and times: our billionths are the package's own total."""
    rng, compared = Random(7), 0
    book = load_prices(dict.fromkeys(listed()))
    assert len(book) > 40
    for (provider, model), rules in book.items():
        for given in (0, 1, 999, 128_000, 200_000, 200_001, 272_000, 272_001, 900_000):
            cached, output = rng.randint(0, given), rng.randint(0, 60_000)
            when = datetime(2026, 11, 1, tzinfo=UTC) - timedelta(hours=rng.randint(0, 20_000))
            rates = rates_at(rules, int(when.timestamp()) * 1_000_000)
            assert rates is not None
            cost = cost_nano_usd(rates, Tokens(given, output, cached))
            assert cost is not None
            counts = Usage(input_tokens=given, output_tokens=output, cache_read_tokens=cached)
            theirs = calc_price(counts, model, provider_id=provider, genai_request_timestamp=when).total_price
            assert abs(Decimal(cost) - theirs * 10**9) <= 1, (provider, model, given, cached, output, when)
            compared += 1
    assert compared > 240


def test_a_model_at_an_address_of_its_own_takes_no_price_of_another_server() -> None:
    """`gpt-5` on the user's own machine is not OpenAI's; the scripted model has no price and loads no list."""
    names = {("openai", "gpt-5"): "http://127.0.0.1:11434/v1", ("scripted", "demo"): None}
    assert load_prices(names) == {}
    assert set(load_prices({("openai", "gpt-5"): None, ("openai", "no-such"): None})) == {("openai", "gpt-5")}


def test_the_users_own_price_goes_before_the_lists() -> None:
    """Of any provider, also for a limit: one step each, and from the cache as input where nothing else is said."""
    own = (
        ModelChoice("openai", "gpt-5", price=ModelPrice(7, 8, 9)),
        ModelChoice("scripted", "mine", price=ModelPrice(1, 2)),
    )
    named = frozenset({("openai", "gpt-5"), ("scripted", "mine"), ("scripted", "demo"), ("anthropic", "no-such")})
    book = prices_of(Settings(own, "unset", {}), named)
    assert book == {
        ("openai", "gpt-5"): (PriceRule(Rates(((-1, 7),), ((-1, 8),), ((-1, 9),))),),
        ("scripted", "mine"): (PriceRule(Rates(((-1, 1),), ((-1, 2),))),),
    }
    recorded = recorded_rates(book, NOW)
    assert [(one.provider, one.model, one.input[0].nano_usd) for one in recorded] == [
        ("openai", "gpt-5", 7),
        ("scripted", "mine", 1),
    ]
    assert rates_of(recorded, "openai", "gpt-5") == Rates(((-1, 7),), ((-1, 8),), ((-1, 9),))


def test_the_list_is_loaded_when_a_model_could_have_a_price_and_not_before() -> None:
    """Its 20 MiB are not those of a daemon whose models are scripted, or of which nobody asked the cost."""
    words = (
        "import sys; from gloveport.server.commands.port import READS; "
        "from gloveport.server.commands.price_list import load_prices; "
        "load_prices({('scripted', 'demo'): None}); before = 'genai_prices' in sys.modules; "
        "load_prices({('openai', 'gpt-5'): None}); print(before, 'genai_prices' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["False", "True"]
