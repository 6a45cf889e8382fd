"""What is shown shorter: really shorter, pairs whole, ends in the nothing-left of a few levels."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gloveport.server.session.shortening import KEPT_CHARS, NOTE_CHARS_MAX, plan_shortening, shorten, shown_chars
from gloveport.server.session.state import AssistantEntry, CallEntry, Entry, ResultEntry, UserEntry

SIZES = st.integers(0, 20_000)
ENTRIES: st.SearchStrategy[list[Entry]] = st.lists(
    st.one_of(
        SIZES.map(lambda n: UserEntry("u" * n)),
        SIZES.map(lambda n: AssistantEntry("a" * n, (CallEntry("c", "p", "read_file", "{}"),))),
        SIZES.map(lambda n: ResultEntry("c", "p", "r" * n, is_error=False)),
    ),
    max_size=12,
)


def numbered(entries: list[Entry]) -> tuple[Entry, ...]:
    """Every result under an id of its own."""
    return tuple(replace(e, call_id=f"c{n}") if isinstance(e, ResultEntry) else e for n, e in enumerate(entries))


def applied(history: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """The history as the fold of the planned compaction leaves it."""
    kept = {one.call_id: one.kept_chars for one in plan_shortening(history)}
    return tuple(
        replace(e, kept_chars=kept[e.call_id]) if isinstance(e, ResultEntry) and e.call_id in kept else e
        for e in history
    )


@given(ENTRIES)
def test_f03_each_compaction_is_smaller_and_they_end(entries: list[Entry]) -> None:
    """At most one a level; nothing but results changes, and no result is dropped or loses its text."""
    history = numbered(entries)
    for level in range(len(KEPT_CHARS) + 1):
        shorter = applied(history)
        if shorter == history:
            break
        assert level < len(KEPT_CHARS)
        assert sum(map(shown_chars, shorter)) < sum(map(shown_chars, history))
        assert [type(e) for e in shorter] == [type(e) for e in history]
        assert [e.text for e in shorter] == [e.text for e in history]
        history = shorter
    assert plan_shortening(history) == ()
    results = [shown_chars(e) for e in history if isinstance(e, ResultEntry)]
    assert all(size <= KEPT_CHARS[-1] + NOTE_CHARS_MAX for size in results)


def test_all_that_is_sent_is_measured() -> None:
    """Words, names and arguments of calls, results as far as they are shown."""
    assert (
        shown_chars(AssistantEntry("four", (CallEntry("c", "p", "tool", "{}"), CallEntry("d", "q", "t", "{1}")))) == 14
    )
    assert shown_chars(ResultEntry("c", "p", "x" * 1_000, is_error=False)) == 1_000
    assert shown_chars(ResultEntry("c", "p", "x" * 1_000, is_error=False, kept_chars=200)) == 200 + NOTE_CHARS_MAX
    assert shown_chars(ResultEntry("c", "p", "x" * 100, is_error=False, kept_chars=200)) == 100


@given(st.integers(0, 2_000), st.integers(0, 1_000))
def test_a_shortened_text_keeps_both_ends_and_says_what_is_missing(size: int, kept: int) -> None:
    """Head and tail are the text's own; the note names the number; it is never longer than was reckoned with."""
    text = "".join(chr(0x4E00 + number) for number in range(size))
    short = shorten(text, kept)
    if len(text) <= kept:
        assert short == text
        return
    head, tail = kept * 2 // 3, kept - kept * 2 // 3
    assert short.startswith(text[:head])
    assert short.endswith(f"]\n{text[len(text) - tail :]}")
    assert len(short.splitlines()) == 2 + bool(tail)
    assert f"[{len(text) - kept} characters are left out" in short
    assert len(short) <= kept + NOTE_CHARS_MAX
