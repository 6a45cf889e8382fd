"""Hunks of any two byte strings can be taken in any subset and any order, exactly."""

import io
import itertools
import re
from collections.abc import Iterable

import pytest
import unidiff
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.byte_texts import CONTENTS, PAIRS

from gloveport.protocol.errors import ErrorCode
from gloveport.server.edit.apply import apply_hunks, revert_hunks
from gloveport.server.edit.errors import EditError
from gloveport.server.edit.hunks import _middle, diff_hunks
from gloveport.server.edit.lines import same_units, split_lines
from gloveport.server.edit.matching import (
    EDITS_PER_REGION_MAX,
    FRAME_DEPTH_MAX,
    SEARCH_STEPS_MAX,
    Range,
    _longest_increasing,
    _Region,
    _Search,
    changed_ranges,
)
from gloveport.server.edit.neighbours import grouped
from gloveport.server.edit.render import diff_rows, unified_diff


@given(CONTENTS)
def test_lines_join_to_the_same_bytes(data: bytes) -> None:
    """Cutting loses nothing: CRLF, lone CR, BOM, NUL, UTF-16, legacy bytes, no final newline."""
    assert b"".join(split_lines(data)) == data


@given(
    st.text("a\n\r\u0a00\u0a0a\u0d0a\u000d\U0001f600", max_size=12),
    st.sampled_from([("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff")]),
    st.sampled_from([b"", b"\n", b"\0", b"a"]),
)
def test_two_byte_texts_are_cut_at_their_own_line_feeds(text: str, form: tuple[str, bytes], torn: bytes) -> None:
    """By an independent rule: never within a letter, nor by bytes of two neighbours; torn ends stay."""
    order, mark = form
    lines = [part.encode(order) for part in re.findall(r"[^\n]*\n|[^\n]+", text)]
    if not lines or (torn and text.endswith("\n")):
        lines.append(b"")
    lines[0], lines[-1] = mark + lines[0], (mark if len(lines) == 1 else b"") + lines[-1] + torn
    assert split_lines(mark + text.encode(order) + torn) == lines


@pytest.mark.parametrize("order", ["utf-16-le", "utf-16-be"])
def test_two_byte_texts_without_a_mark_are_cut_too(order: str) -> None:
    """Also where the first letter is the end of a line, or the last is none."""
    for lines in (["\n", "\r\n", "abc\n", "\n"], ["abc\n", "\n", "def"]):
        assert split_lines("".join(lines).encode(order)) == [line.encode(order) for line in lines]


def test_as_many_lines_as_may_be_matched_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one more, on either side, what lies between the first change and the last is one hunk."""
    monkeypatch.setattr("gloveport.server.edit.hunks.DIFF_LINES_MAX", 10)
    old = [b"%d\n" % number for number in range(10)]
    new = [b"new\n", *old[1:9], b"end\n"]
    assert len(diff_hunks(b"".join(old), b"".join(new), "f")) == 2
    for more in ([b"x\n"], []):
        (hunk,) = diff_hunks(b"".join([*old[:5], *more, *old[5:]]), b"".join([*new, *([] if more else [b"x\n"])]), "f")
        assert (hunk.old_start, len(hunk.old_lines)) == (0, 10 + len(more))


@given(PAIRS)
def test_all_hunks_give_the_result_and_none_the_base(pair: tuple[bytes, bytes]) -> None:
    """Accept all = result, reject all = base (A01, A03)."""
    base, result = pair
    hunks = diff_hunks(base, result, "f")
    assert apply_hunks(base, hunks) == result
    assert revert_hunks(result, hunks) == base
    assert apply_hunks(base, ()) == base
    assert bool(hunks) == (base != result)
    old, new = split_lines(base), split_lines(result)
    for hunk in hunks:
        assert hunk.old_lines == tuple(old[hunk.old_start : hunk.old_start + len(hunk.old_lines)])
        assert hunk.new_lines == tuple(new[hunk.new_start : hunk.new_start + len(hunk.new_lines)])


@given(PAIRS, st.data())
def test_any_subset_in_any_order_is_the_base_with_just_those_lines(
    pair: tuple[bytes, bytes], data: st.DataObject
) -> None:
    """A subset equals an independent splice of lines; accepting some equals rejecting the others."""
    base, result = pair
    hunks = diff_hunks(base, result, "f")
    chosen = data.draw(st.lists(st.sampled_from(hunks), unique=True) if hunks else st.just([]))
    others = [hunk for hunk in hunks if hunk not in chosen]
    taken = apply_hunks(base, data.draw(st.permutations(chosen)))
    assert taken == revert_hunks(result, data.draw(st.permutations(others)))
    lines = split_lines(base)
    for hunk in sorted(chosen, key=lambda each: -each.old_start):
        lines[hunk.old_start : hunk.old_start + len(hunk.old_lines)] = hunk.new_lines
    assert taken == b"".join(lines)


@given(PAIRS, st.data())
def test_one_by_one_equals_at_once(pair: tuple[bytes, bytes], data: st.DataObject) -> None:
    """Accepting hunk by hunk against a moving base, in any order, ends in the result."""
    base, result = pair
    rounds = 0
    while hunks := diff_hunks(base, result, "f"):
        base = apply_hunks(base, [data.draw(st.sampled_from(hunks))])
        rounds += 1
        assert rounds < 200
    assert base == result


@given(PAIRS)
def test_hunks_do_not_touch_each_other(pair: tuple[bytes, bytes]) -> None:
    """Ids and digests are distinct, places ordered, and no context holds a line that another hunk changes."""
    hunks = diff_hunks(*pair, "f")
    assert len({hunk.digest for hunk in hunks}) == len({hunk.hunk_id for hunk in hunks}) == len(hunks)
    for one, two in itertools.pairwise(hunks):
        assert one.old_start + len(one.old_lines) + len(one.context_after) <= two.old_start
        assert one.old_start + len(one.old_lines) <= two.old_start - len(two.context_before)


@given(PAIRS, st.integers(0, 5))
def test_a_hunk_is_as_small_as_it_can_be_and_knows_its_surroundings(pair: tuple[bytes, bytes], context: int) -> None:
    """It begins and ends with a change, holds no run of equal lines that would part it, and has its full context."""
    base, result = pair
    old, new = split_lines(base), split_lines(result)
    places = changed_ranges(old, new)
    for hunk in diff_hunks(base, result, "f", context) if same_units(base, result) else ():
        start, end = hunk.old_start, hunk.old_start + len(hunk.old_lines)
        inside = [each for each in places if start <= each.old_start and each.old_end <= end]
        assert (inside[0].old_start, inside[0].new_start, inside[-1].old_end) == (start, hunk.new_start, end)
        assert inside[-1].new_end == hunk.new_start + len(hunk.new_lines)
        assert all(two.old_start - one.old_end < context for one, two in itertools.pairwise(inside))
        assert hunk.context_before == tuple(old[max(0, start - context) : start])
        assert hunk.context_after == tuple(old[end : end + context])


@given(PAIRS, st.text(min_size=1, max_size=5))
def test_a_hunk_is_refused_where_its_lines_are_not(pair: tuple[bytes, bytes], other: str) -> None:
    """No place is guessed (A04)."""
    base, result = pair
    strange = b"".join(b"line %d %s\n" % (n, other.encode("utf-8", "replace")) for n in range(40))
    removing = [hunk for hunk in diff_hunks(base, result, "f") if hunk.old_lines]
    for hunk in removing:
        with pytest.raises(EditError) as refusal:
            apply_hunks(strange, [hunk])
        assert refusal.value.code is ErrorCode.CHANGE_CONFLICT


@given(st.lists(st.integers(0, 3), max_size=30), st.lists(st.integers(0, 3), max_size=30))
def test_matching_leaves_equal_lines_outside_its_ranges(old: list[int], new: list[int]) -> None:
    """What lies between two ranges is equal, and the ranges turn one side into the other."""
    assert rebuilt(old, new) == new


def rebuilt(old: list[int], new: list[int]) -> list[int]:
    """The new side from the old one and the ranges."""
    built: list[int] = []
    at = 0
    for place in changed_ranges(old, new):
        built += old[at : place.old_start]
        assert len(built) == place.new_start
        built += new[place.new_start : place.new_end]
        at = place.old_end
    return built + old[at:]


@given(st.lists(st.sampled_from([b"a", b"b"])), st.lists(st.sampled_from([b"a", b"b"])))
def test_the_changed_middle_is_what_lies_between_equal_ends(old: list[bytes], new: list[bytes]) -> None:
    """As large a head as there is, then as large a tail as is left."""

    def alike(pairs: Iterable[tuple[bytes, bytes]]) -> int:
        return len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))

    head = alike(zip(old, new, strict=False))
    tail = alike(zip(reversed(old[head:]), reversed(new[head:]), strict=False))
    assert _middle(old, new) == Range(head, len(old) - tail, head, len(new) - tail)


@given(st.lists(st.integers(0, 5)), st.lists(st.integers(6, 9)))
def test_texts_without_a_common_line_are_told_apart_at_once(old: list[int], new: list[int]) -> None:
    """A file that was written anew costs its reading, not a search."""
    ranges = [Range(0, len(old), 0, len(new))] if old or new else []
    assert changed_ranges(old, new) == ranges
    search = _Search(old, new)
    search.run()
    assert search.steps_left == SEARCH_STEPS_MAX


def test_the_last_step_of_the_budget_may_be_spent() -> None:
    """A region that needs exactly what is left is matched; with one step less it is changed as a whole."""
    old, new = [1, 2, 1, 2], [2, 1, 2, 1]
    whole = _Search(old, new)
    whole.run()
    needed = SEARCH_STEPS_MAX - whole.steps_left
    assert needed == (1 + 3 + 5) + (3 + 3)  # a round of n edits looks at 2 n + 1 ways; each equal line is one more
    for budget, pairs in ((needed, whole.pairs), (needed - 1, {})):
        search = _Search(old, new)
        search.steps_left = budget
        search.run()
        assert (search.pairs, bool(pairs)) == (pairs, budget == needed)


def test_the_last_edit_of_a_region_may_be_made() -> None:
    """So many lines taken out and put in around equal ones; with one more the region is changed as a whole."""
    around = EDITS_PER_REGION_MAX // 4
    old = [1] * around + [0, 0] + [1] * around
    new = [2] * around + [0, 0] + [2] * around
    assert kept(old, new) == kept(new, old) == 2
    assert changed_ranges(old, [*new, 2]) == [Range(0, len(old), 0, len(new) + 1)]


def test_frames_within_frames_end_at_a_depth() -> None:
    """Each line is unique only between two that were matched before; below the last frame the search goes on."""
    depths: list[int] = []

    class Watched(_Search):
        def _anchors(self, region: _Region) -> list[tuple[int, int]]:
            depths.append(region.depth)
            return super()._anchors(region)

    size = FRAME_DEPTH_MAX + 4
    sides = [[mark, 1, *(line for at in range(2, size) for line in (at, at - 1, mark))] for mark in (-1, -2)]
    search = Watched(*sides)
    search.run()
    assert (min(depths), max(depths)) == (0, FRAME_DEPTH_MAX - 1)
    assert rebuilt(*sides) == sides[1]


def longest_common(old: list[int], new: list[int]) -> int:
    """Length of the longest common subsequence, by the book."""
    row = [0] * (len(new) + 1)
    for one in old:
        before = row
        row = [0]
        for at, two in enumerate(new):
            row.append(before[at] + 1 if one == two else max(before[at + 1], row[at]))
    return row[-1]


SEQUENCES = st.lists(st.integers(0, 4), max_size=24)


def kept(old: list[int], new: list[int]) -> int:
    """How many lines the matching keeps."""
    ranges = changed_ranges(old, new)
    assert all(place.old_end > place.old_start or place.new_end > place.new_start for place in ranges)
    for one, two in itertools.pairwise(ranges):
        assert one.old_end < two.old_start or one.new_end < two.new_start
    removed = sum(place.old_end - place.old_start for place in ranges)
    added = sum(place.new_end - place.new_start for place in ranges)
    assert len(old) - removed == len(new) - added
    return len(old) - removed


@given(st.permutations(range(9)), st.integers(0, 9))
def test_the_frame_is_the_longest_that_keeps_the_order(order: list[int], size: int) -> None:
    """Of lines that stand once on both sides: as many as go the same way."""
    pairs = list(enumerate(order[:size]))
    frame = _longest_increasing(pairs)
    assert [pair for pair in pairs if pair in frame] == frame
    assert [new for _, new in frame] == sorted(new for _, new in frame)
    assert len(frame) == longest_common(order[:size], sorted(order[:size]))


@given(SEQUENCES, SEQUENCES)
def test_a_matching_without_unique_lines_is_the_shortest(old: list[int], new: list[int]) -> None:
    """The least number of changed lines there is; lines that stand once on both sides bind the frame instead."""
    best, found = longest_common(old, new), kept(old, new)
    assert found <= best
    assert found == best or bound(old, new)


@pytest.mark.parametrize(("letters", "size"), [(2, 5), (3, 4)])
def test_every_pair_of_short_texts_is_matched_the_shortest_way(letters: int, size: int) -> None:
    """None left out: where no line binds the frame, the least number of changed lines, both ways round."""
    texts = [list(text) for length in range(size + 1) for text in itertools.product(range(letters), repeat=length)]
    for old, new in itertools.product(texts, texts):
        found, best = kept(old, new), longest_common(old, new)
        assert rebuilt(old, new) == new
        assert found <= best
        assert found == best or bound(old, new)


def bound(old: list[int], new: list[int]) -> bool:
    """True when a line stands once on both sides of what is left without equal ends."""
    one, two = list(old), list(new)
    for at in (0, -1):
        while one and two and one[at] == two[at]:
            del one[at], two[at]
    return any(one.count(line) == two.count(line) == 1 for line in one)


@given(SEQUENCES, st.data())
def test_lines_that_were_only_put_in_or_only_taken_out_are_all_that_changes(
    old: list[int], data: st.DataObject
) -> None:
    """Whatever stands once or many times: nothing that stayed is shown as changed."""
    chosen = data.draw(st.lists(st.booleans(), min_size=len(old), max_size=len(old)))
    new = [line for line, stays in zip(old, chosen, strict=True) if stays]
    assert kept(old, new) == kept(new, old) == len(new)
    tall = [number * 10 + line for number, line in enumerate(old)]
    short = [line for line, stays in zip(tall, chosen, strict=True) if stays]
    assert kept(tall, short) == len(short)


def test_matching_is_bounded_on_hostile_input() -> None:
    """Two long texts without a common unique line end within the budget of steps."""
    old = [n % 7 for n in range(20_000)]
    new = [(n * 3) % 7 for n in range(20_000)]
    assert changed_ranges(old, new)


@given(PAIRS)
def test_shown_rows_hold_every_line_of_a_hunk_once(pair: tuple[bytes, bytes]) -> None:
    """The shown diff is the change: removed and added rows count up to the hunk's lines (A01)."""
    for hunk in diff_hunks(*pair, "f"):
        rows = diff_rows(hunk)
        around = len(hunk.context_before) + len(hunk.context_after)
        assert sum(row.kind != "+" for row in rows) == len(hunk.old_lines) + around
        assert sum(row.kind != "-" for row in rows) == len(hunk.new_lines) + around
        assert not any(char in row.text for row in rows for char in "\n\r\x00\x1b")


TEXT_LINES = st.lists(st.sampled_from(["a", "b", "  c", "", "d e", "é", "+x", "-y", "\\ z"]), max_size=20)


@given(TEXT_LINES, TEXT_LINES, st.booleans(), st.booleans(), st.booleans())
def test_unified_text_is_read_back_by_an_independent_parser(
    old: list[str], new: list[str], old_ends: bool, new_ends: bool, joined: bool
) -> None:
    """`unidiff` finds the same places and lines, also a missing last newline (A03); joined, no line is there twice."""
    base = "\n".join(old).encode() + (b"\n" if old_ends else b"")
    result = "\n".join(new).encode() + (b"\n" if new_ends else b"")
    hunks = diff_hunks(base, result, "f.txt")
    parsed = unidiff.PatchSet(io.StringIO(unified_diff(("f.txt", "f.txt"), hunks, joined=joined)))
    assert len(parsed) == (1 if hunks else 0)
    for patched in parsed:
        assert patched.path == "f.txt"
        assert len(patched) == (len(list(grouped(hunks))) if joined else len(hunks))
        if joined:
            ends = [shown.source_start + shown.source_length for shown in patched]
            assert all(end <= after.source_start for end, after in zip(ends, patched[1:], strict=False))
            assert sum(shown.added for shown in patched) - sum(shown.removed for shown in patched) == len(
                split_lines(result)
            ) - len(split_lines(base))
        rebuilt = base.decode().splitlines(keepends=True)
        for shown in reversed(patched):
            source = [line.value for line in shown if line.line_type in " -"]
            start = shown.source_start - (1 if shown.source_length else 0)
            assert "".join(rebuilt[start : start + len(source)]).rstrip("\n") == "".join(source).rstrip("\n")
        assert sum(len(shown) for shown in patched) > 0
