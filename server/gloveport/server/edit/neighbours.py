"""Hunks that stand close to one another.

Purpose: find hunks whose surroundings touch, and the lines between them, for texts that show them as one.
Invariant: each hunk is in one group, in order; what lies between two of a group is equal on both sides.
Must never: make a hunk of several, which would be another one to decide on.
"""

from collections.abc import Iterator, Sequence

from gloveport.server.edit.hunks import CONTEXT_LINES, Hunk


def grouped(hunks: Sequence[Hunk]) -> Iterator[list[Hunk]]:
    """Hunks whose contexts touch, together."""
    group: list[Hunk] = []
    for hunk in hunks:
        if group and hunk.old_start - _old_end(group[-1]) > 2 * CONTEXT_LINES:
            yield group
            group = []
        group.append(hunk)
    if group:
        yield group


def between(hunk: Hunk, after: Hunk) -> list[bytes]:
    """The equal lines between two hunks of a group, of which each knows those next to it."""
    gap = after.old_start - _old_end(hunk)
    known = hunk.context_after[:gap]
    return [*known, *after.context_before[len(after.context_before) - (gap - len(known)) :]]


def _old_end(hunk: Hunk) -> int:
    return hunk.old_start + len(hunk.old_lines)
