"""Which lines of two texts correspond.

Purpose: find changed ranges between two line sequences in bounded time, whatever the input.
Invariant: the ranges are ordered and disjoint, and everything outside them is equal on both sides.
Must never: take quadratic time: when the budget is spent, a region is reported as changed as a whole.

Lines that occur once on both sides fix the frame (longest increasing run of them); what lies between is matched
by the greedy shortest-edit search with a limit on edits.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

EDITS_PER_REGION_MAX: Final = 500
SEARCH_STEPS_MAX: Final = 1_000_000
FRAME_DEPTH_MAX: Final = 40


class Range(NamedTuple):
    """Changed lines: `[old_start, old_end)` on the left became `[new_start, new_end)` on the right."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


@dataclass(slots=True)
class _Region:
    old_start: int
    old_end: int
    new_start: int
    new_end: int
    depth: int = 0


def changed_ranges(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Range]:
    """Ordered changed ranges between two sequences; empty when they are equal."""
    numbers: dict[Hashable, int] = {}
    left = [numbers.setdefault(line, len(numbers)) for line in old]
    right = [numbers.setdefault(line, len(numbers)) for line in new]
    search = _Search(left, right)
    search.run()
    return _ranges_from(search.pairs, len(left), len(right))


def _ranges_from(pairs: dict[int, int], old_size: int, new_size: int) -> list[Range]:
    ranges: list[Range] = []
    old_at = new_at = 0
    for old_index in sorted(pairs):
        new_index = pairs[old_index]
        if old_index > old_at or new_index > new_at:
            ranges.append(Range(old_at, old_index, new_at, new_index))
        old_at, new_at = old_index + 1, new_index + 1
    if old_at < old_size or new_at < new_size:
        ranges.append(Range(old_at, old_size, new_at, new_size))
    return ranges


class _Search:
    """One matching run over interned lines; `pairs` maps an old line to its new line."""

    def __init__(self, old: list[int], new: list[int]) -> None:
        self.old = old
        self.new = new
        self.pairs: dict[int, int] = {}
        self.steps_left = SEARCH_STEPS_MAX

    def run(self) -> None:
        stack = [_Region(0, len(self.old), 0, len(self.new))]
        while stack:
            region = stack.pop()
            self._trim(region)
            if region.old_start == region.old_end or region.new_start == region.new_end:
                continue
            anchors = self._anchors(region) if region.depth < FRAME_DEPTH_MAX else []
            if anchors:
                stack.extend(self._split(region, anchors))
            else:
                self._shortest(region)

    def _trim(self, region: _Region) -> None:
        old, new = self.old, self.new
        size = min(region.old_end - region.old_start, region.new_end - region.new_start)
        head = 0
        while head < size and old[region.old_start + head] == new[region.new_start + head]:
            self.pairs[region.old_start + head] = region.new_start + head
            head += 1
        region.old_start += head
        region.new_start += head
        tail = 0
        while tail < size - head and old[region.old_end - 1 - tail] == new[region.new_end - 1 - tail]:
            tail += 1
            self.pairs[region.old_end - tail] = region.new_end - tail
        region.old_end -= tail
        region.new_end -= tail

    def _anchors(self, region: _Region) -> list[tuple[int, int]]:
        old_part = self.old[region.old_start : region.old_end]
        new_part = self.new[region.new_start : region.new_end]
        old_counts, new_counts = Counter(old_part), Counter(new_part)
        new_place = {line: at for at, line in enumerate(new_part, region.new_start) if new_counts[line] == 1}
        common = [
            (at, new_place[line])
            for at, line in enumerate(old_part, region.old_start)
            if old_counts[line] == 1 and line in new_place
        ]
        return _longest_increasing(common)

    def _split(self, region: _Region, anchors: list[tuple[int, int]]) -> list[_Region]:
        depth = region.depth + 1
        gaps = []
        old_at, new_at = region.old_start, region.new_start
        for old_index, new_index in anchors:
            self.pairs[old_index] = new_index
            gaps.append(_Region(old_at, old_index, new_at, new_index, depth))
            old_at, new_at = old_index + 1, new_index + 1
        gaps.append(_Region(old_at, region.old_end, new_at, region.new_end, depth))
        return gaps

    def _shortest(self, region: _Region) -> None:
        old_part = self.old[region.old_start : region.old_end]
        new_part = self.new[region.new_start : region.new_end]
        if set(old_part).isdisjoint(new_part):
            return  # nothing corresponds, as a file that was written anew: the search would find that out slowly
        trace = self._trace(old_part, new_part)
        if trace is None:
            return
        for old_index, new_index in _walk_back(trace, len(old_part), len(new_part)):
            self.pairs[region.old_start + old_index] = region.new_start + new_index

    def _trace(self, old: list[int], new: list[int]) -> list[dict[int, int]] | None:
        """Furthest points per number of edits, or None when a limit was met before the end."""
        old_size, new_size = len(old), len(new)
        reach = {1: 0}
        trace: list[dict[int, int]] = []
        for edits in range(min(old_size + new_size, EDITS_PER_REGION_MAX) + 1):
            trace.append(reach.copy())
            self.steps_left -= 2 * edits + 1
            if self.steps_left < 0:
                return None
            for diagonal in range(-edits, edits + 1, 2):
                at = _step(reach, diagonal, edits)
                begun = at
                while at < old_size and at - diagonal < new_size and old[at] == new[at - diagonal]:
                    at += 1
                self.steps_left -= at - begun
                reach[diagonal] = at
                if at >= old_size and at - diagonal >= new_size:
                    return trace
        return None


def _step(reach: dict[int, int], diagonal: int, edits: int) -> int:
    if diagonal == -edits or (diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1]):
        return reach[diagonal + 1]
    return reach[diagonal - 1] + 1


def _walk_back(trace: list[dict[int, int]], old_size: int, new_size: int) -> list[tuple[int, int]]:
    pairs = []
    old_at, new_at = old_size, new_size
    for edits in range(len(trace) - 1, -1, -1):
        reach = trace[edits]
        diagonal = old_at - new_at
        if edits == 0:
            before_old = before_new = 0
        else:
            down = diagonal == -edits or (diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1])
            before = diagonal + 1 if down else diagonal - 1
            before_old, before_new = reach[before], reach[before] - before
        while old_at > before_old and new_at > before_new:
            old_at -= 1
            new_at -= 1
            pairs.append((old_at, new_at))
        old_at, new_at = before_old, before_new
    return pairs


def _longest_increasing(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Longest run of pairs (already ordered by the first part) whose second parts increase."""
    tails: list[int] = []
    tail_index: list[int] = []
    previous: list[int] = []
    for index, (_, value) in enumerate(pairs):
        slot = bisect_left(tails, value)
        previous.append(tail_index[slot - 1] if slot else -1)
        if slot == len(tails):
            tails.append(value)
            tail_index.append(index)
        else:
            tails[slot] = value
            tail_index[slot] = index
    run = []
    index = tail_index[-1] if tail_index else -1
    while index >= 0:
        run.append(pairs[index])
        index = previous[index]
    return run[::-1]
