"""Hunks of a notebook: cell by cell.

Purpose: match two notebooks by whole cells, so that whatever hunks are taken, the file stays a notebook.
Invariant: a range begins and ends where cells do; everything outside the ranges is equal on both sides.
Must never: part what stands on one line, or the keys before the cells from those behind them when they differ.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise

from gloveport.server.edit.errors import EditError
from gloveport.server.edit.matching import Range, changed_ranges
from gloveport.server.edit.notebook import SUFFIX, Layout, cell_layout

Piece = tuple[str, tuple[bytes, ...]]


def cell_ranges(
    base: bytes, result: bytes, old: Sequence[bytes], new: Sequence[bytes], path: str
) -> list[Range] | None:
    """The changed ranges of lines of two notebooks; None when one of them is none that can be read."""
    if not path.lower().endswith(SUFFIX):
        return None
    try:
        layouts = cell_layout(base, path=path), cell_layout(result, path=path)
    except EditError:
        return None
    if layouts[0].keys != layouts[1].keys:
        return [Range(0, len(old), 0, len(new))]
    pieces = [_pieces(lines, layout) for lines, layout in zip((old, new), layouts, strict=True)]
    at = [[0, *accumulate(len(lines) for _, lines in side)] for side in pieces]
    return [
        Range(at[0][place.old_start], at[0][place.old_end], at[1][place.new_start], at[1][place.new_end])
        for place in changed_ranges(*pieces)
    ]


def _pieces(lines: Sequence[bytes], layout: Layout) -> list[Piece]:
    """All lines: those before the cells, each cell with what follows it, and those behind the last one."""
    starts = sorted({*layout.starts, layout.end})
    return [
        ("head", tuple(lines[: starts[0]])),
        *(("cell", tuple(lines[first:then])) for first, then in pairwise(starts)),
        ("tail", tuple(lines[layout.end :])),
    ]
