"""A place of a base is found again in a text that was changed elsewhere."""

from hypothesis import given
from hypothesis import strategies as st

from gloveport.server.edit.matching import changed_ranges
from gloveport.server.edit.shift import place_lines

LINES = st.lists(st.sampled_from("abcdef"), max_size=12)


@given(st.data(), LINES, LINES)
def test_what_no_change_touches_is_found_with_its_lines(data: st.DataObject, old: list[str], new: list[str]) -> None:
    """Lines outside every change are the same lines there; a touched place holds every change that touches it."""
    start = data.draw(st.integers(0, len(old)))
    end = data.draw(st.integers(start, len(old)))
    changes = changed_ranges(old, new)
    placed = place_lines(changes, start, end)
    assert 0 <= placed.start <= placed.end <= len(new)
    touching = [each for each in changes if each.old_end >= start and each.old_start <= end]
    assert placed.meets == bool(touching)
    assert placed.inside == all(start <= each.old_start and each.old_end <= end for each in touching)
    if not touching:
        assert new[placed.start : placed.end] == old[start:end]
    for each in touching:
        assert placed.start <= each.new_start <= each.new_end <= placed.end
    if touching:
        first, last = touching[0], touching[-1]
        assert placed.start == first.new_start - max(0, first.old_start - start)
        assert placed.end == last.new_end + max(0, end - last.old_end)
