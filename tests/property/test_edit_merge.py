"""A merge of two changes is both of them, or a refusal."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.byte_texts import CONTENTS, PAIRS

from gloveport.protocol.errors import ErrorCode
from gloveport.server.edit.errors import EditError
from gloveport.server.edit.merge import merge_texts


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
