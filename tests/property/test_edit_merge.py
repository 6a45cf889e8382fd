"""A merge of two changes is both of them, or a refusal."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.byte_texts import CONTENTS, PAIRS

from gloveport.protocol.errors import ErrorCode
from gloveport.server.edit.apply import apply_hunks
from gloveport.server.edit.errors import EditError
from gloveport.server.edit.hunks import Hunk, diff_hunks
from gloveport.server.edit.lines import same_units, split_lines
from gloveport.server.edit.matching import changed_ranges
from gloveport.server.edit.merge import merge_texts, met_digest, take_again, take_hunks
from gloveport.server.edit.shift import touching


def merged(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """The merge, or None for a refusal."""
    try:
        return merge_texts(base, ours, theirs, path="f")
    except EditError as error:
        return None if error.code is ErrorCode.CHANGE_CONFLICT else b"wrong code"


@given(PAIRS, CONTENTS)
def test_merge_is_symmetric_and_neutral(pair: tuple[bytes, bytes], other: bytes) -> None:
    """One side unchanged gives the other; equal sides give themselves; the order of sides does not matter."""
    base, ours = pair
    assert merged(base, ours, base) == merged(base, base, ours) == merged(base, ours, ours) == ours
    assert merged(base, ours, other) == merged(base, other, ours)


LINES = st.lists(st.sampled_from([b"x\n", b"\ty\r\n", b"", b"z\rz\n"]), max_size=3)


@given(st.lists(st.tuples(st.sampled_from(["keep", "ours", "theirs"]), LINES, LINES), max_size=8))
def test_changes_in_different_places_are_both_there(parts: list[tuple[str, list[bytes], list[bytes]]]) -> None:
    """Segments between unique lines, each changed by at most one side: the merge has every change exactly."""
    base, ours, theirs, both = [], [], [], []
    for number, (who, old, new) in enumerate(parts):
        mark = [b"mark %d\n" % number]
        base += mark + old
        ours += mark + (new if who == "ours" else old)
        theirs += mark + (new if who == "theirs" else old)
        both += mark + (old if who == "keep" else new)
    found = merged(b"".join(base), b"".join(ours), b"".join(theirs))
    assert found in (None, b"".join(both))
    if all(who == "keep" or other == "keep" for (who, *_), (other, *_) in pairwise(parts)):
        assert found is not None


@pytest.mark.parametrize(("ours", "theirs"), [
    (b"a\nB\nc\n", b"a\nX\nc\n"), (b"a\nc\n", b"a\nX\nc\n"), (b"a\nB\nc\n", b"a\nb\nX\nc\n"),
    (b"A\nb\nc\n", b"a\nB\nc\n"),
])  # fmt: skip
def test_changes_of_the_same_or_adjoining_lines_are_refused(ours: bytes, theirs: bytes) -> None:
    """Nobody's line is chosen over the other's."""
    assert merged(b"a\nb\nc\n", ours, theirs) is None


def named(base: bytes, hunk: Hunk, user: bytes) -> str:
    """The name of what the user has at a hunk."""
    lines = split_lines(user)
    changes = changed_ranges(split_lines(base), lines)
    return met_digest(changes, lines, hunk.old_start, hunk.old_start + len(hunk.old_lines))


@given(PAIRS, CONTENTS, st.data())
def test_named_lines_give_way_and_no_others(pair: tuple[bytes, bytes], user: bytes, data: st.DataObject) -> None:
    """All that was named is the agent's, every change of the user's that touches no hunk is there as it was."""
    base, result = pair
    hunks = diff_hunks(base, result, "f")
    if not hunks or not same_units(base, user) or not same_units(base, result):
        return
    chosen = data.draw(st.lists(st.sampled_from(hunks), min_size=1, unique=True))
    shown = {hunk.digest: named(base, hunk, user) for hunk in chosen}
    taken = take_hunks(base, data.draw(st.permutations(chosen)), user, shown, path="f")
    lines = split_lines(user)
    changes = changed_ranges(split_lines(base), lines)
    gone = {one for hunk in chosen for one in touching(changes, hunk.old_start, hunk.old_start + len(hunk.old_lines))}
    pieces = [(one.old_start, one.old_end, lines[one.new_start : one.new_end]) for one in changes if one not in gone]
    pieces += [(hunk.old_start, hunk.old_start + len(hunk.old_lines), list(hunk.new_lines)) for hunk in chosen]
    expected = split_lines(base)
    for start, end, new in sorted(pieces, key=lambda piece: piece[:2], reverse=True):
        expected[start:end] = new
    assert taken == b"".join(expected) == take_again(base, chosen, user, path="f")
    assert take_hunks(base, hunks, base, {}, path="f") == apply_hunks(base, hunks) == result


@given(PAIRS, CONTENTS, CONTENTS)
def test_what_is_not_as_it_was_shown_does_not_give_way(pair: tuple[bytes, bytes], user: bytes, newer: bytes) -> None:
    """Taken by the name of another text: refused, unless just this place is the same in both."""
    base, result = pair
    hunks = diff_hunks(base, result, "f")[:1]
    if not hunks or not same_units(base, user) or not same_units(base, newer):
        return
    shown = {hunks[0].digest: named(base, hunks[0], user)}
    is_same = named(base, hunks[0], newer) == shown[hunks[0].digest]
    if is_same:
        take_hunks(base, hunks, newer, shown, path="f")
        return
    with pytest.raises(EditError, match="not what was shown") as refused:
        take_hunks(base, hunks, newer, shown, path="f")
    assert refused.value.code is ErrorCode.CHANGE_CONFLICT


def test_the_name_tells_where_and_how_far() -> None:
    """The same words in the place of more or of other lines have another name."""
    base = b"a\nb\nc\nd\n"
    hunk = diff_hunks(base, b"a\nB\nc\nd\n", "f")[0]
    texts = [base, b"a\nX\nc\nd\n", b"a\nX\nd\n", b"X\nc\nd\n", b"a\nX\nX\nc\nd\n", b"a\nc\nd\n"]
    assert len({named(base, hunk, text) for text in texts}) == len(texts)
    with pytest.raises(EditError, match="not what was shown"):
        take_hunks(base, [hunk], texts[2], {hunk.digest: named(base, hunk, texts[1])}, path="f")
    with pytest.raises(EditError, match="both sides"):
        take_hunks(base, [hunk], texts[1], {}, path="f")
