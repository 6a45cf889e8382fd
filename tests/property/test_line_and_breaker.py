"""The line and the breaker under any inputs."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from gloveport.server.turn import breaker as brk
from gloveport.server.turn import line as queue

SECOND = 1_000_000
MOVES = st.lists(st.tuples(st.booleans(), st.sampled_from(["a", "b", "c"]), st.integers(0, 50)), max_size=80)


@settings(deadline=None)
@given(MOVES, st.integers(1, 4))
def test_a_line_is_full_used_fair_and_admits_each_once(moves: list[tuple[bool, str, int]], places: int) -> None:
    """Never more than allowed, never a free place beside a waiting ticket; who has least under way is next."""
    line, admitted_ever, names = queue.Line(places), Counter[str](), []
    for number, (joins, owner, choice) in enumerate(moves):
        before = line
        if joins:
            names.append(f"t{number}")
            line, admitted = queue.step(line, queue.Joined(f"t{number}", owner))
        else:
            held = [ticket.name for ticket in (*line.active, *line.waiting)]
            line, admitted = queue.step(line, queue.Left(held[choice % len(held)] if held else "nobody"))
            left = {ticket.name for ticket in (*before.active, *before.waiting)}
            left -= {ticket.name for ticket in (*line.active, *line.waiting)}
            assert len(left) == bool(held)
        admitted_ever.update(admitted)
        assert len(line.active) <= places
        assert not line.waiting or len(line.active) == places
        if len(admitted) == 1 and not joins:
            (one,) = (ticket for ticket in line.active if ticket.name == admitted[0])
            busy = Counter(ticket.owner for ticket in line.active if ticket.name != one.name)
            waited = [
                ticket for ticket in before.waiting if ticket.name in {*admitted, *(t.name for t in line.waiting)}
            ]
            least = min(busy[ticket.owner] for ticket in waited)
            assert busy[one.owner] == least
            earlier = waited[: [ticket.name for ticket in waited].index(one.name)]
            assert all(busy[ticket.owner] > least for ticket in earlier)
    assert all(count == 1 for count in admitted_ever.values())
    assert set(admitted_ever) <= set(names)


def test_nobody_is_passed_over_for_ever() -> None:
    """A second wish of a busy owner waits behind the first wishes of others, but not behind endless ones."""
    line, _ = queue.step(queue.Line(2), queue.Joined("long", "busy"))
    line, _ = queue.step(line, queue.Joined("short-0", "o0"))
    line, admitted = queue.step(line, queue.Joined("second", "busy"))
    assert admitted == ()
    for number in range(1, 2 * queue.PASSED_OVER_MAX):
        line, _ = queue.step(line, queue.Joined(f"short-{number}", f"o{number}"))
        line, admitted = queue.step(line, queue.Left(f"short-{number - 1}"))
        if admitted == ("second",):
            assert number == queue.PASSED_OVER_MAX + 1
            return
        assert admitted == (f"short-{number}",)
    raise AssertionError("it starves")


def test_a_full_line_takes_nobody() -> None:
    """The line has an end, and says so by not keeping the ticket."""
    line = queue.Line(0)
    for number in range(queue.WAITING_MAX):
        line, _ = queue.step(line, queue.Joined(f"t{number}", "a"))
    line, _ = queue.step(line, queue.Joined("one more", "a"))
    assert len(line.waiting) == queue.WAITING_MAX
    assert not queue.is_waiting(line, "one more")
    assert queue.is_waiting(line, "t0")


GIVEN = st.tuples(
    st.sampled_from([brk.Asked, brk.Answered, brk.Failed, brk.Dropped]),
    st.sampled_from(["a", "b", "c"]),
    st.integers(-10 * SECOND, 70 * SECOND),
)


@settings(deadline=None)
@given(st.lists(GIVEN, max_size=80))
def test_a_breaker_lets_nothing_through_while_open_and_one_while_half_open(
    given_all: list[tuple[type, str, int]],
) -> None:
    """Whatever comes, in whatever order, by a clock that may be set back."""
    state, now = brk.Breaker(), 100 * SECOND
    for kind, ticket, passed in given_all:
        now += passed
        before = state
        state, verdict = brk.step(state, kind(ticket), now)
        assert brk.step(before, kind(ticket), now) == (state, verdict)
        assert (state.probe is not None) <= (state.position is brk.Position.HALF_OPEN)
        if kind is not brk.Asked:
            continue
        if before.position is brk.Position.OPEN and now < before.until_us:
            assert not verdict.passes
            assert 0 < verdict.wait_us <= brk.ASKED_REST_US_MAX
        if before.position is brk.Position.HALF_OPEN and before.probe is not None:
            assert not verdict.passes
        if verdict.passes and before.position is not brk.Position.CLOSED:
            assert state.probe == ticket


def opened(at: int = 0) -> brk.Breaker:
    """One that failures have opened."""
    state = brk.Breaker()
    for number in range(brk.FAILURES_MAX):
        assert state.position is brk.Position.CLOSED
        state, _ = brk.step(state, brk.Failed(f"f{number}"), at)
    return state


def test_failures_in_a_row_open_it_and_an_answer_between_begins_anew() -> None:
    """Only a row opens it."""
    state = brk.Breaker()
    for number in range(3 * brk.FAILURES_MAX):
        state, _ = brk.step(state, brk.Failed(f"f{number}"), 0)
        if number % (brk.FAILURES_MAX - 1) == 0:
            state, _ = brk.step(state, brk.Answered(f"f{number}"), 0)
    assert state.position is brk.Position.CLOSED
    assert (opened().position, opened().until_us) == (brk.Position.OPEN, brk.REST_US)


def test_a_probe_decides_and_rests_grow_to_a_limit() -> None:
    """A failing probe doubles the rest; a good one closes; a dropped one leaves the place to the next."""
    state, now, rests = opened(), 0, []
    for _ in range(6):
        rests.append(state.until_us - now)
        now = state.until_us
        state, verdict = brk.step(state, brk.Asked("p"), now)
        assert verdict.passes
        state, _ = brk.step(state, brk.Failed("p"), now)
        assert (state.position, state.probe) == (brk.Position.OPEN, None)
    assert state.failures == brk.FAILURES_MAX + 6
    assert rests == [5 * SECOND, 10 * SECOND, 20 * SECOND, 40 * SECOND, 60 * SECOND, 60 * SECOND]
    state, _ = brk.step(state, brk.Asked("p"), state.until_us)
    state, _ = brk.step(state, brk.Dropped("p"), now)
    state, verdict = brk.step(state, brk.Asked("q"), now)
    assert verdict.passes
    for late in (brk.Answered("another"), brk.Failed("another"), brk.Dropped("another")):
        state, _ = brk.step(state, late, now)
        assert (state.position, state.probe) == (brk.Position.HALF_OPEN, "q")
    assert brk.step(state, brk.Asked("r"), now)[1] == brk.Verdict(passes=False, wait_us=brk.PROBE_US)
    state, _ = brk.step(state, brk.Answered("q"), now)
    assert state == brk.Breaker()


def test_f01_a_pause_that_was_asked_for_opens_it_at_once_within_a_limit() -> None:
    """One answer is enough; a month is not believed: a probe asks again after ten minutes."""
    state, _ = brk.step(brk.Breaker(), brk.Failed("a", 3 * SECOND), 0)
    assert (state.position, state.until_us) == (brk.Position.OPEN, 3 * SECOND)
    state, _ = brk.step(state, brk.Failed("sent before", 9 * SECOND), 0)
    assert state.until_us == 9 * SECOND
    state, _ = brk.step(state, brk.Asked("probe"), 9 * SECOND)
    state, _ = brk.step(state, brk.Failed("probe", 7 * SECOND), 9 * SECOND)
    assert (state.position, state.until_us) == (brk.Position.OPEN, 16 * SECOND)
    state, _ = brk.step(brk.Breaker(), brk.Failed("a", 30 * 86_400 * SECOND), 0)
    assert state.until_us == brk.ASKED_REST_US_MAX


def test_d10_a_clock_set_back_keeps_it_open_no_longer_than_it_may_be() -> None:
    """An hour back: it is asked again after ten minutes at the most."""
    state = opened(3_600 * SECOND)
    state, verdict = brk.step(state, brk.Asked("a"), 0)
    assert verdict == brk.Verdict(passes=False, wait_us=brk.ASKED_REST_US_MAX)
    _, verdict = brk.step(state, brk.Asked("a"), brk.ASKED_REST_US_MAX)
    assert verdict.passes
