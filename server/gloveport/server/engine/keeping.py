"""Snapshots of a session's fold and view, kept beside its log.

Purpose: open a session of any length without reading its whole log.
Invariant: a snapshot is taken only where it is whole, of this build, and of an event that the log still has; then it
and the events after it give what all events give. What is long is kept in parts; only parts that changed are written.
Must never: be needed (without it the log is folded anew), or be believed in part.
"""

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import is_
from typing import Any, Final, get_args, get_origin, get_type_hints

import anyio
import anyio.lowlevel
import orjson

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.journal.events import ChangeApplyStarted, ChangeRefused, ChangeUnsettled
from gloveport.server.engine.folding import PLANS_KEPT_MAX, Loaded
from gloveport.server.engine.paged import Captured, PagedView, StalePageError, read_root
from gloveport.server.journal.store import Journal
from gloveport.server.session.codec import Codec, codec_of
from gloveport.server.session.series import Series
from gloveport.server.session.state import SessionState

FOLD: Final = "fold"
VIEW: Final = "view"
PART_ITEMS: Final = 1_024
"""Entries of a long sequence of the state that are written together."""
MARK_BYTES: Final = 16


class StaleSnapshotError(ValueError):
    """What is kept does not fit together, or is not of this build."""


@dataclass(frozen=True, slots=True)
class Beside:
    """What is folded beside the state."""

    plans: tuple[ChangeApplyStarted, ...]
    refusals: Mapping[str, ChangeRefused | ChangeUnsettled]
    faults: tuple[str, ...]
    has_erased: bool


@dataclass(frozen=True, slots=True)
class Form:
    """How each field of the state is kept; long sequences in parts, of which `kinds` are made again."""

    whole: Mapping[str, Codec]
    long: Mapping[str, Codec]
    kinds: Mapping[str, type[Any]]
    beside: Codec


def make_form() -> Form:
    """The form of today's state. Raises TypeError for a field that cannot be kept exactly."""
    hints = get_type_hints(SessionState, include_extras=True)
    names = [field.name for field in fields(SessionState)]
    codecs = {name: codec_of(hints[name]) for name in names}
    kinds = {name: kind for name in names if (kind := _long_kind(hints[name])) is not None}
    return Form(
        whole={name: codec for name, codec in codecs.items() if name not in kinds},
        long={name: codecs[name] for name in kinds},
        kinds=kinds,
        beside=codec_of(Beside),
    )


def _long_kind(hint: Any) -> type[Any] | None:
    """What a field of any length is; None for one that is kept whole."""
    origin = get_origin(hint)
    return origin if origin is Series or (origin is tuple and ... in get_args(hint)) else None


def view_page(page: int) -> str:
    """The kind under which a page of the view is kept."""
    return f"{VIEW}/{page}"


def _part(name: str, number: int) -> str:
    return f"{FOLD}/{name}/{number}"


def _mark(raw: bytes) -> str:
    return hashlib.blake2b(raw, digest_size=MARK_BYTES).hexdigest()


def _split(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (values[at : at + PART_ITEMS] for at in range(0, len(values), PART_ITEMS))


@dataclass(frozen=True, slots=True)
class Place:
    """An event of a session's log."""

    epoch: int
    seq: int
    digest: str


class Keeper:
    """Keeps one session's snapshots. `seq` is that of the last one written or read; 0 when there is none."""

    def __init__(self, journal: Journal, stream: str, build: str, form: Form) -> None:
        self._journal, self._stream, self._build, self._form = journal, stream, build, form
        self._written: dict[str, Sequence[Any]] = {}
        self._marks: dict[str, list[str]] = {}
        self._busy = anyio.Lock()
        self.seq = 0

    async def write(self, loaded: Loaded) -> bool:
        """Keep a session as it stands now; False where the log went another way. Raises GloveportError."""
        async with self._busy:
            place = Place(loaded.epoch, loaded.seq, loaded.digest)
            if place.seq == self.seq:
                return True
            state, view = loaded.state, loaded.view
            states, marks = self._encode(loaded)
            captured = view.capture()
            states |= {view_page(page): raw for page, raw in captured.pages.items()}
            states[VIEW] = orjson.dumps({"build": self._build}) + b"\n" + captured.root
            done = False
            try:
                done = await self._journal.put_snapshots(self._stream, place.seq, place.digest, states)
            finally:
                self._settle(view, captured, written=done)
            if done:
                self.seq, self._marks = place.seq, marks
                self._written = {name: getattr(state, name) for name in self._form.long}
            return done

    def _settle(self, view: PagedView, captured: Captured, *, written: bool) -> None:
        if written:
            view.written()
        else:
            view.failed(captured)

    def _encode(self, loaded: Loaded) -> tuple[dict[str, bytes], dict[str, list[str]]]:
        state, states, marks = loaded.state, dict[str, bytes](), dict[str, list[str]]()
        for name, codec in self._form.long.items():
            before = list(_split(self._written.get(name, ())))
            known = self._marks.get(name, [])
            marks[name] = []
            for number, part in enumerate(_split(getattr(state, name))):
                if number < len(known) and len(before[number]) == len(part) and all(map(is_, before[number], part)):
                    marks[name].append(known[number])
                else:
                    raw = orjson.dumps(codec.encode(part))
                    states[_part(name, number)] = raw
                    marks[name].append(_mark(raw))
        whole = {name: codec.encode(getattr(state, name)) for name, codec in self._form.whole.items()}
        beside = self._form.beside.encode(
            Beside(tuple(loaded.plans), loaded.refusals, tuple(loaded.faults), loaded.has_erased)
        )
        head = {"build": self._build, "state": whole, "long": marks, "beside": beside}
        return {FOLD: orjson.dumps(head), **states}, marks

    async def read(self) -> Loaded | None:
        """The session as it was kept, if that can be believed. Raises GloveportError: the journal cannot be read."""
        kept = await self._journal.snapshot(self._stream, FOLD)
        if kept is None:
            self.forget()
            return None
        try:
            loaded = await self._decode(kept.state)
            view, place = await self._view()
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            self.forget()
            return None
        if place.seq != kept.seq:
            self.forget()
            return None
        loaded.view, self.seq = view, kept.seq
        loaded.epoch, loaded.seq, loaded.digest = kept.epoch, kept.seq, kept.digest
        return loaded

    async def read_view(self) -> tuple[PagedView, Place] | None:
        """The view alone, and where it stands. Raises GloveportError when the journal cannot be read."""
        try:
            return await self._view()
        except (ValueError, TypeError, KeyError):
            return None

    async def _decode(self, raw: bytes) -> Loaded:
        head = orjson.loads(raw)
        if head["build"] != self._build or head["state"].keys() != self._form.whole.keys():
            raise StaleSnapshotError("of another build")
        values: dict[str, Any] = {name: codec.decode(head["state"][name]) for name, codec in self._form.whole.items()}
        for name, codec in self._form.long.items():
            values[name] = self._form.kinds[name](await self._decode_long(name, codec, head["long"][name]))
        beside: Beside = self._form.beside.decode(head["beside"])
        self._written, self._marks = {name: values[name] for name in self._form.long}, head["long"]
        return Loaded(
            SessionState(**values),
            plans=deque(beside.plans, PLANS_KEPT_MAX),
            refusals=dict(beside.refusals),
            faults=list(beside.faults),
            has_erased=beside.has_erased,
        )

    async def _decode_long(self, name: str, codec: Codec, marks: list[str]) -> list[Any]:
        kinds = [_part(name, number) for number in range(len(marks))]
        parts = await self._journal.snapshots(self._stream, kinds)
        found: list[Any] = []
        for kind, mark in zip(kinds, marks, strict=True):
            raw = parts[kind].state
            if _mark(raw) != mark:
                raise StaleSnapshotError(f"{kind} is another one")
            found += codec.decode(orjson.loads(raw))
            await anyio.lowlevel.checkpoint()  # a long session must not hold up the others
        return found

    async def _view(self) -> tuple[PagedView, Place]:
        kept = await self._journal.snapshot(self._stream, VIEW)
        if kept is None:
            raise StaleSnapshotError("there is none")
        head, _, raw = kept.state.partition(b"\n")
        if orjson.loads(head) != {"build": self._build}:
            raise StaleSnapshotError("of another build")
        root = read_root(raw)
        if root.watermark != kept.seq:
            raise StaleSnapshotError("of another place")
        pages = await self._journal.snapshots(self._stream, map(view_page, root.hot_pages))
        raws = {page: pages[view_page(page)].state for page in root.hot_pages}
        return PagedView.opened(root, raws), Place(kept.epoch, kept.seq, kept.digest)

    async def bring(self, view: PagedView, pages: Iterable[int]) -> None:
        """Have pages of the view in memory. Raises StalePageError, and forgets the snapshots, when one is not there."""
        wanted = list(pages)
        if not wanted:
            return
        found = await self._journal.snapshots(self._stream, map(view_page, wanted))
        try:
            for page in wanted:
                kept = found.get(view_page(page))
                view.thaw(page, kept.state if kept is not None else b"")
        except StalePageError:
            self.forget()
            await self._journal.drop_snapshots(self._stream)
            raise

    def forget(self) -> None:
        """Nothing is kept: the next write writes everything."""
        self.seq, self._written, self._marks = 0, {}, {}

    async def items(self, view: PagedView, start: int, stop: int) -> list[dict[str, Any]]:
        """Items of the view by index. Raises StalePageError."""
        await self.bring(view, view.missing(start, stop))
        found = view.items(start, stop)
        view.trim()
        return found


async def try_write(keeper: Keeper, loaded: Loaded) -> bool:
    """`write`, where a refusal of the disk costs the snapshot alone; the next append finds out for itself."""
    try:
        return await keeper.write(loaded)
    except GloveportError:
        return False
