"""Where lines of a base lie in a text that was changed since.

Purpose: carry a place of the base over to the changed text.
Invariant: a place that no change touches or adjoins keeps its lines; of any other the answer says so.
Must never: guess: a place that is touched grows to the changes that touch it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gloveport.server.edit.matching import Range


@dataclass(frozen=True, slots=True)
class Placed:
    """Lines of the changed text, the end exclusive; `meets`: a change touches or adjoins this place.

    `inside`: no line outside of the place was changed by those that touch it.
    """

    start: int
    end: int
    meets: bool
    inside: bool = True


def place_lines(changes: Sequence[Range], start: int, end: int) -> Placed:
    """Where the lines `start` up to and without `end` of the base lie after the ordered `changes` from it.

    Both numbers may be the same: then a place between two lines is meant.
    """
    before = [each for each in changes if each.old_end < start]
    moved = before[-1].new_end - before[-1].old_end if before else 0
    met = touching(changes, start, end)
    if not met:
        return Placed(start + moved, end + moved, meets=False)
    first, last = met[0], met[-1]
    inside = first.old_start >= start and last.old_end <= end
    place = min(start + moved, first.new_start), max(last.new_end, end + last.new_end - last.old_end)
    return Placed(*place, meets=True, inside=inside)


def touching(changes: Sequence[Range], start: int, end: int) -> tuple[Range, ...]:
    """The changes that touch or adjoin the lines `start` up to and without `end` of the base, in order."""
    return tuple(each for each in changes if each.old_end >= start and each.old_start <= end)
