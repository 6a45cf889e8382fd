"""How much of the end of a stream may be the beginning of a known word.

Purpose: an Aho–Corasick automaton over the known words, walked one byte at a time.
Invariant: after any bytes, `open_length` is the length of the longest end of them that a known word continues.
Must never: depend on how the bytes were cut.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

ROOT: Final = 0


class Automaton:
    """Built once for a set of words; its states are plain numbers, so any number of streams can walk it."""

    __slots__ = ("_fallback", "_next", "_open", "reach")

    def __init__(self, words: Iterable[bytes]) -> None:
        self._next: dict[tuple[int, int], int] = {}
        depth = [0]
        for word in words:
            self._add(word, depth)
        self.reach = max(depth)
        self._fallback = self._link(len(depth))
        self._open = self._find_open(depth)

    def walk(self, state: int, data: bytes) -> int:
        """The state after more bytes; only the last `reach` of them can matter."""
        if len(data) > self.reach:
            state, data = ROOT, data[len(data) - self.reach :]
        for byte in data:
            state = self._step(state, byte)
        return state

    def open_length(self, state: int) -> int:
        """How many of the last bytes a known word may continue."""
        return self._open[state]

    def _step(self, state: int, byte: int) -> int:
        while (following := self._next.get((state, byte))) is None:
            if state == ROOT:
                return ROOT
            state = self._fallback[state]
        return following

    def _add(self, word: bytes, depth: list[int]) -> None:
        state = ROOT
        for byte in word:
            following = self._next.get((state, byte))
            if following is None:
                following = len(depth)
                depth.append(depth[state] + 1)
                self._next[state, byte] = following
            state = following

    def _link(self, states: int) -> list[int]:
        """For each state, the longest shorter end of it that is a beginning, too; found level by level."""
        children: dict[int, list[tuple[int, int]]] = {}
        for (state, byte), following in self._next.items():
            children.setdefault(state, []).append((byte, following))
        self._fallback = [ROOT] * states
        queue = deque(state for _, state in children.get(ROOT, ()))
        while queue:
            state = queue.popleft()
            for byte, following in children.get(state, ()):
                self._fallback[following] = self._step(self._fallback[state], byte)
                queue.append(following)
        return self._fallback

    def _find_open(self, depth: list[int]) -> list[int]:
        """A finished word that no longer one continues is not open; then a shorter end of it may be."""
        continued = {state for state, _ in self._next}
        found = [0] * len(depth)
        for state in sorted(range(1, len(depth)), key=depth.__getitem__):
            found[state] = depth[state] if state in continued else found[self._fallback[state]]
        return found
