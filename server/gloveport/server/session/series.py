"""A sequence that grows at its end, for the frozen state.

Purpose: what a tuple is to its readers, where appending costs the same however long it is.
Invariant: nothing that was made changes; equal values are equal, and hash alike, whether series or tuples. What two
series were grown from is shared between them, part by part.
Must never: be changed in place, or copied as a whole to append.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, Self, TypeVar, overload

T = TypeVar("T")

PART_ITEMS: Final = 64
"""Values of a full part: an append copies the last part, and one in so many the list of parts."""


class Series(Sequence[T]):
    """Values in order. A slice of it is a tuple."""

    __slots__ = ("_full", "_rest")

    _full: tuple[tuple[T, ...], ...]
    _rest: tuple[T, ...]

    def __init__(self, values: Iterable[T] = ()) -> None:
        every = tuple(values)
        whole = len(every) - len(every) % PART_ITEMS
        self._set(tuple(every[at : at + PART_ITEMS] for at in range(0, whole, PART_ITEMS)), every[whole:])

    def _set(self, full: tuple[tuple[T, ...], ...], rest: tuple[T, ...]) -> Self:
        object.__setattr__(self, "_full", full)
        object.__setattr__(self, "_rest", rest)
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a series cannot be changed ({name})")

    def plus(self, value: T) -> Self:
        """These values and one more."""
        made = object.__new__(type(self))
        rest = (*self._rest, value)
        return made._set(self._full, rest) if len(rest) < PART_ITEMS else made._set((*self._full, rest), ())

    def with_last(self, value: T) -> Self:
        """These values with another one in the last one's place. Raises IndexError when there is none."""
        made = object.__new__(type(self))
        if self._rest:
            return made._set(self._full, (*self._rest[:-1], value))
        return made._set(self._full[:-1], self._full[-1][:-1]).plus(value)

    def __len__(self) -> int:
        return len(self._full) * PART_ITEMS + len(self._rest)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...

    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return self._slice(index)
        at = index + len(self) if index < 0 else index
        if at < 0:
            raise IndexError("series index out of range")
        part = at // PART_ITEMS
        return self._full[part][at % PART_ITEMS] if part < len(self._full) else self._rest[at - part * PART_ITEMS]

    def _slice(self, index: slice) -> tuple[T, ...]:
        start, stop, step = index.indices(len(self))
        if step != 1:
            return tuple(self)[index]
        first = start // PART_ITEMS
        parts = (*self._full[first : -(-stop // PART_ITEMS)], self._rest)
        before = min(first, len(self._full)) * PART_ITEMS
        return tuple(chain.from_iterable(parts))[start - before : max(start, stop) - before]

    def __iter__(self) -> Iterator[T]:
        return chain(chain.from_iterable(self._full), self._rest)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Series):
            return self is other or (self._full == other._full and self._rest == other._rest)
        return tuple(self) == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Series({tuple(self)!r})"
