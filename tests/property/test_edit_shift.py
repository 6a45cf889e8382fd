"""A place of a base is found again in a text that was changed elsewhere."""

from hypothesis import given
from hypothesis import strategies as st

from gloveport.server.edit.matching import Range, changed_ranges
from gloveport.server.edit.shift import Placed, place_lines, touching


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(1, 4)), max_size=4), st.data())
def test_places_move_with_the_changes_above_them(parts: list[tuple[int, int, int]], data: st.DataObject) -> None:
    """Of so many lines so many are made, and so many stay: a place is told to the line, in any relation to them."""
    changes, old, new = [], 2, 2
    for gone, made, stay in parts:
        if gone or made:
            changes.append(Range(old, old + gone, new, new + made))
        old, new = old + gone + stay, new + made + stay
    start = data.draw(st.integers(0, old))
    end = data.draw(st.integers(start, old))
    placed = place_lines(changes, start, end)
    met = [each for each in changes if each.old_end >= start and each.old_start <= end]
    assert touching(changes, start, end) == tuple(met)
    moved = sum(len(range(each.new_start, each.new_end)) - each.old_end + each.old_start for each in changes
                if each.old_end < start)  # fmt: skip
    if not met:
        assert placed == Placed(start + moved, end + moved, meets=False)
        return
    above, below = max(0, met[0].old_start - start), max(0, end - met[-1].old_end)
    inside = met[0].old_start >= start and met[-1].old_end <= end
    assert placed == Placed(met[0].new_start - above, met[-1].new_end + below, meets=True, inside=inside)


LINES = st.lists(st.sampled_from("abcdef"), max_size=12)


@given(st.data(), LINES, LINES)
def test_what_no_change_touches_is_found_with_its_lines(data: st.DataObject, old: list[str], new: list[str]) -> None:
    """Lines outside every change are the same lines there; a touched place holds every change that touches it."""
    start = data.draw(st.integers(0, len(old)))
    end = data.draw(st.integers(start, len(old)))
    changes = changed_ranges(old, new)
    placed = place_lines(changes, start, end)
    assert 0 <= placed.start <= placed.end <= len(new)
    met = [each for each in changes if each.old_end >= start and each.old_start <= end]
    assert placed.meets == bool(met)
    assert placed.inside == all(start <= each.old_start and each.old_end <= end for each in met)
    if not met:
        assert new[placed.start : placed.end] == old[start:end]
    for each in met:
        assert placed.start <= each.new_start <= each.new_end <= placed.end
