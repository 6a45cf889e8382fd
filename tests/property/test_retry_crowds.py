"""Failing providers on a virtual clock: no storm, floors held, stops obeyed, nobody starves, all come back."""

from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.crowd import SECOND, Crowd, Failure

from gloveport.protocol.journal import events as ev
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.breaker import FAILURES_MAX, Position
from gloveport.server.turn.flow import TURN_REQUESTS_MAX
from gloveport.server.turn.retry import ATTEMPTS_MAX, PAUSE_ASKED_US_MAX, WAITED_US_MAX

PASSING = ("rate", "overloaded", "server", "connect", "idle", "truncated")
FINAL = ("auth", "quota", "refused", "config", "malformed", "too_large")
PLACES = 8


def down(_now: int, _rng: Random) -> Failure | None:
    """A provider that is gone."""
    return Failure("connect")


def test_a_provider_that_is_down_is_not_stormed() -> None:
    """100 sessions, an hour: a few requests before the breaker opens, then one probe at a time, with growing rests."""
    crowd = Crowd(100, down, places=PLACES).all_ask().run()
    assert all(isinstance(session.end, ev.TurnFailed) for session in crowd.sessions)
    after = [moment for moment, _ in crowd.sent[FAILURES_MAX + PLACES :]]
    assert all(later - earlier >= 5 * SECOND for earlier, later in pairwise(after))
    assert crowd.sent_in_second() <= FAILURES_MAX + PLACES
    assert len(crowd.sent) <= FAILURES_MAX + PLACES + WAITED_US_MAX // (5 * SECOND)
    assert crowd.probes_most == 1


@pytest.mark.parametrize("pause_s", [3, 30, 100])
def test_f01_one_asks_for_a_pause_and_all_keep_it(pause_s: int) -> None:
    """After the first answer that names a pause, nobody asks before it is over."""

    def throttled(now: int, _rng: Random) -> Failure | None:
        return Failure("rate", pause_s * SECOND) if now < 10 * SECOND else None

    crowd = Crowd(100, throttled, places=PLACES).all_ask().run()
    assert all(isinstance(session.end, ev.TurnCompleted) for session in crowd.sessions)
    first = crowd.sent[0][0]
    heard = first + SECOND // 10
    early = [moment for moment, _ in crowd.sent if heard < moment < first + pause_s * SECOND]
    assert early == []
    assert crowd.breaker.position is Position.CLOSED


def test_the_crowd_comes_back_when_the_provider_does() -> None:
    """Two minutes of failure, then all is answered, no more at once than may be, in a bounded time."""

    def back(now: int, rng: Random) -> Failure | None:
        return Failure(rng.choice(("overloaded", "server"))) if now < 120 * SECOND else None

    crowd = Crowd(100, back, places=PLACES).all_ask().run()
    assert all(isinstance(session.end, ev.TurnCompleted) for session in crowd.sessions)
    assert crowd.under_way_most <= PLACES
    assert crowd.now < 400 * SECOND
    assert crowd.breaker.position is Position.CLOSED


def test_no_session_starves() -> None:
    """A slow healthy provider: everybody gets one before anybody gets a second."""
    crowd = Crowd(60, lambda _now, _rng: None, places=2).all_ask(1).run()
    served = Counter(name for _, name in crowd.sent)
    assert set(served.values()) == {1}
    assert crowd.now <= 61 * SECOND + SECOND


LIVES = st.lists(
    st.one_of(
        st.none(),
        st.builds(Failure, st.sampled_from(PASSING), st.none() | st.integers(0, 2 * PAUSE_ASKED_US_MAX)),
        st.builds(Failure, st.sampled_from(FINAL)),
    ),
    min_size=1,
    max_size=12,
)


@settings(deadline=None, max_examples=150)
@given(LIVES, st.integers(0, 2**16), st.integers(1, 6), st.none() | st.integers(0, 200 * SECOND))
def test_f01_any_sequence_of_failures(life: list[Failure | None], seed: int, count: int, stop_at: int | None) -> None:
    """Requests are bounded, no retry comes before its floor or after a stop, what does not pass is asked once."""

    def play(_now: int, rng: Random) -> Failure | None:
        return rng.choice(life)

    crowd = Crowd(count, play, places=2, seed=seed)
    crowd.all_ask()
    if stop_at is not None:
        first = crowd.sessions[0]

        def stop() -> None:
            if first.state.turn is not None:
                crowd.feed(first, inp.CancelTurn(None, "user"))

        crowd.at(stop_at, stop)
    crowd.run()
    for session in crowd.sessions:
        assert session.state.turn is None
        requests = [moment for moment, name in crowd.sent if name == session.name]
        assert len(requests) <= ATTEMPTS_MAX
        assert len(session.scheduled) < TURN_REQUESTS_MAX
        assert sum(body.backoff_us for _, body in session.scheduled) <= WAITED_US_MAX
        assert all(body.error_class not in FINAL for _, body in session.scheduled)
        assert all(body.due_at >= moment + body.backoff_us for moment, body in session.scheduled)
        for (_, body), began in zip(session.scheduled, session.retried_at, strict=False):
            assert began >= body.due_at
        if session.stopped_at is not None:
            assert all(moment <= session.stopped_at for moment in session.retried_at)
