"""Labels: whose word a piece of data is, and who may read it.

Purpose: a lattice that taint moves up and never down.
Invariant: join is associative, commutative, idempotent and monotone; a missing or unreadable label is TOP.
Must never: lower a label; a release is a decision of its own and leaves the label as it was.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, unique
from functools import reduce
from typing import Final, Protocol

PROVENANCE_IDS_MAX = 256


@unique
class Integrity(IntEnum):
    """How far the word can be trusted: typed by the user, found in the workspace, or from anywhere."""

    USER = 0
    WORKSPACE = 1
    UNTRUSTED = 2


@dataclass(frozen=True, slots=True)
class Label:
    """Integrity, readers (None: everyone) and the ids of where the data came from.

    Provenance is kept sorted and holds at most `PROVENANCE_IDS_MAX` ids, the smallest ones, so that the laws of join
    hold at the limit too; it informs the user and decides nothing.
    """

    integrity: Integrity
    readers: frozenset[str] | None
    provenance: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        kept = tuple(sorted(set(self.provenance))[:PROVENANCE_IDS_MAX])
        object.__setattr__(self, "provenance", kept)

    def join(self, other: "Label") -> "Label":
        """The least label at or above both: the worse integrity, the common readers, all provenance."""
        return Label(
            integrity=max(self.integrity, other.integrity),
            readers=_common(self.readers, other.readers),
            provenance=self.provenance + other.provenance,
        )

    def flows_to(self, other: "Label") -> bool:
        """True if data under this label may become data under `other` (order of the lattice, provenance aside)."""
        if self.integrity > other.integrity:
            return False
        return self.readers is None or (other.readers is not None and other.readers <= self.readers)

    def readable_by(self, reader: str) -> bool:
        """True if `reader` (a host name or a principal) is among the readers."""
        return self.readers is None or reader in self.readers

    def to_plain(self) -> dict[str, object]:
        """JSON form: `{integrity, readers: null | [..], provenance: [..]}`."""
        readers = None if self.readers is None else sorted(self.readers)
        return {"integrity": int(self.integrity), "readers": readers, "provenance": list(self.provenance)}


TOP: Final = Label(Integrity.UNTRUSTED, frozenset())
"""Trusted by nobody, readable by nobody: what a missing label means."""

BOTTOM: Final = Label(Integrity.USER, None)
"""Typed by the user and public: the neutral element of join."""


def join_all(labels: Iterable[Label | None]) -> Label:
    """Join of all labels; None counts as TOP; of nothing: BOTTOM."""
    return reduce(Label.join, (TOP if one is None else one for one in labels), BOTTOM)


def label_from_plain(plain: object) -> Label:
    """Reads the JSON form; anything that is not exactly such a form is TOP."""
    if not isinstance(plain, Mapping):
        return TOP
    integrity, readers = plain.get("integrity"), plain.get("readers", ())
    provenance = plain.get("provenance", [])
    if type(integrity) is not int or integrity not in {0, 1, 2}:
        return TOP
    if not (readers is None or _names(readers)) or not _names(provenance):
        return TOP
    allowed = None if readers is None else frozenset(readers)
    return Label(Integrity(integrity), allowed, tuple(provenance))


class RecordedLabel(Protocol):
    """A label as the journal holds it (`LabelRecord` is one)."""

    @property
    def integrity(self) -> int:
        """0 user, 1 workspace, 2 untrusted."""

    @property
    def readers(self) -> Sequence[str] | None:
        """Who may read; None: everyone."""

    @property
    def provenance(self) -> Sequence[str]:
        """Where it came from."""


def label_from_record(record: RecordedLabel | None) -> Label:
    """Reads a recorded label; none, or one that can't be read, is TOP."""
    if record is None:
        return TOP
    readers = None if record.readers is None else list(record.readers)
    integrity, provenance = int(record.integrity), list(record.provenance)
    return label_from_plain({"integrity": integrity, "readers": readers, "provenance": provenance})


def _names(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)


def _common(one: frozenset[str] | None, two: frozenset[str] | None) -> frozenset[str] | None:
    if one is None:
        return two
    return one if two is None else one & two
