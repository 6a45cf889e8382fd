"""The books of the warm pool: exact fit, used once, a fair share for each session."""

from hypothesis import given
from hypothesis import strategies as st

from gloveport.sandbox.backends.pool import ASKED_RECENTLY_S, Idle, PoolBooks

SESSIONS = ("a", "b", "c")


def idle(name: str, session: str = "a", key: str = "k", ends_at: float = 1000.0) -> Idle:
    return Idle(name, key, session, ends_at)


def test_only_an_exact_fit_is_taken_and_only_once() -> None:
    books = PoolBooks(4)
    books.put(idle("one"), 0.0)
    assert books.take("b", "k", 10.0, 0.0) is None
    assert books.take("a", "other", 10.0, 0.0) is None
    assert books.take("a", "k", 2000.0, 0.0) is None, "it would end before the run"
    assert books.take("a", "k", 10.0, 0.0) == idle("one")
    assert books.take("a", "k", 10.0, 0.0) is None


def test_one_that_is_ready_is_enough() -> None:
    books = PoolBooks(4)
    assert books.wants("a", "k", 0.0)
    books.put(idle("one"), 0.0)
    assert not books.wants("a", "k", 0.0)
    assert books.wants("a", "other", 0.0)
    assert books.wants("a", "k", 2000.0), "the one that was ready is spent"
    assert not PoolBooks(0).wants("a", "k", 0.0)


def test_a_session_that_holds_everything_gives_way() -> None:
    books = PoolBooks(2)
    for name in ("one", "two"):
        books.take("a", name, 1.0, 0.0)
        books.put(idle(name, key=name), 0.0)
    books.take("b", "k", 1.0, 1.0)
    assert books.put(idle("three", "b"), 1.0) == [idle("one", key="one")]
    later = ASKED_RECENTLY_S + 2.0
    books.take("b", "gone", 1.0, later)
    assert books.put(idle("four", "b", "four"), later) == [idle("two", key="two")]


@given(st.lists(st.tuples(st.sampled_from(SESSIONS), st.sampled_from("kl"), st.booleans()), max_size=60))
def test_books_never_hold_more_than_their_places_nor_give_one_twice(steps: list[tuple[str, str, bool]]) -> None:
    books, places, given_out = PoolBooks(3), 3, set()
    held: dict[str, str] = {}
    for number, (session, key, takes) in enumerate(steps):
        now = float(number)
        taken = books.take(session, key, now + 1, now)
        if taken is not None:
            assert taken.name not in given_out
            assert held.pop(taken.name) == session
            given_out.add(taken.name)
        if not takes and books.wants(session, key, now):
            for gone in books.put(Idle(f"n{number}", key, session, 10_000.0), now):
                del held[gone.name]
            held[f"n{number}"] = session
        assert len(held) <= places
    assert {one.name for one in books.clear()} == set(held)
