"""What the changing tools share.

Purpose: from arguments to the files that would change, the effects that are declared for them, and the change itself.
Invariant: the bytes that were planned are the bytes that are written: the plan's hashes name both, of every file; all
files of a call change, or none.
Must never: touch the user's own files, or write over a file that changed since the plan.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import Sha256
from gloveport.protocol.journal.events.tool import EffectRecord, FileFingerprint
from gloveport.server.edit.changes import Entry, EntryKind, describe
from gloveport.server.edit.render import unified_diff, visible
from gloveport.server.edit.replace import hash_of
from gloveport.server.tools.contract import Found, Performed, ToolContext, ToolError, ToolPlan, effect
from gloveport.server.tools.files import kept_reads, named, touched
from gloveport.server.workspace.changing import FileEdit

DIFF_LINES_MAX: Final = 400
"""Lines of a diff on a card; how many more there are is told."""
_NAMED_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Change:
    """One file as it would be changed now: its path as spelled and without links, its bytes before and after.

    Null bytes: absent. `moved_from` is the link-free path where it lay. `refusal` is why it cannot be made, where
    saying so before anybody was asked would tell what the file holds.
    """

    path: str
    real: str
    before: bytes | None
    after: bytes | None
    refusal: GloveportError | None = None
    moved_from: str | None = None
    runnable: bool | None = None
    is_link: bool = False

    @property
    def mark(self) -> FileFingerprint:
        """Path and hashes: what is planned, and what must hold when it is done."""
        hashes = [None if data is None else hash_of(data) for data in (self.before, self.after)]
        return FileFingerprint(path=self.real, base_hash=hashes[0], result_hash=hashes[1])

    @property
    def edit(self) -> FileEdit:
        """What the workspace is asked to do."""
        before = None if self.before is None else hash_of(self.before)
        return FileEdit(self.real, before, self.after, self.moved_from, self.runnable)

    @property
    def kind(self) -> str:
        """The effect on the file."""
        return "delete" if self.after is None else "write"


class Changing(ABC):
    """A tool that changes files: each path is led to its end first, and the outcome is found by hashes."""

    @abstractmethod
    async def changes(self, arguments: Any, context: ToolContext) -> tuple[Change, ...]:
        """The changes of all files. Raises GloveportError when they cannot be made."""

    @abstractmethod
    def title(self, arguments: Any, changes: Sequence[Change]) -> str:
        """The call in words."""

    async def plan(self, arguments: Any, context: ToolContext) -> ToolPlan:
        """Changes what the paths lead to, under each name that they have."""
        changes = await self._made(arguments, context)
        marks = tuple(change.mark for change in changes)
        return ToolPlan(
            title=self.title(arguments, changes),
            effects=await _effects(changes, context),
            recovery="fingerprinted",
            stop_class="atomic",
            executor="daemon",
            label=context.label,
            fingerprint=marks,
            file_digests=tuple((mark.path, mark.base_hash) for mark in marks if mark.base_hash is not None),
            diff=await _diff(changes, context),
        )

    async def perform(self, arguments: Any, context: ToolContext) -> Performed:
        """Make the changes, given that paths and files are what they were made from."""
        changes = await self._made(arguments, context)
        judged = all(context.was_judged(one.kind, one.target) for one in await _effects(changes, context))
        if context.fingerprint != tuple(change.mark for change in changes) or not judged:
            names = _names([change.path for change in changes])
            raise ToolError(ErrorCode.CHANGE_CONFLICT, f"{names} changed since the call was planned")
        for change in changes:
            if change.refusal is not None:
                raise change.refusal
        await context.workspace.edit([change.edit for change in changes], unless=context.is_stopped)
        return _done(changes, context)

    async def _made(self, arguments: Any, context: ToolContext) -> tuple[Change, ...]:
        changes = await self.changes(arguments, context)
        places = [change.real for change in changes]
        twice = next((place for at, place in enumerate(places) if place in places[:at]), None)
        if twice is not None:
            raise ToolError(ErrorCode.TOOL_ARGUMENTS, f"{twice} is changed twice in one call")
        for change in changes:
            if change.after is not None:
                await context.workspace.check_place(change.real)
        return changes

    async def reconcile(self, arguments: Any, started: tuple[FileFingerprint, ...], context: ToolContext) -> Found:
        """Compare every file with the hashes of the intent; what was done by half is taken back."""
        await context.workspace.sweep_beside([mark.path for mark in started])
        found = [(mark, await _digest_now(context, mark.path)) for mark in started]
        if found and all(digest == mark.result_hash for mark, digest in found):
            return Found("succeeded", f"{_names([mark.path for mark in started])} has the intended content")
        if found and all(digest in (mark.base_hash, mark.result_hash) for mark, digest in found):
            back = await context.workspace.put_back({mark.path: _hashes(mark) for mark in started})
            words = f"; {_names(list(back))} had the intended one and was put back" if back else ""
            return Found(
                "not_started", f"{_names([mark.path for mark in started])} has its content from before the call{words}"
            )
        return Found(
            "unknown",
            f"{_names([mark.path for mark in started]) or 'the file'} is neither as before the call nor as intended",
        )

    async def attach(self, arguments: Any, started: tuple[FileFingerprint, ...], context: ToolContext) -> Performed:
        """The change is there already."""
        gone = bool(started) and all(mark.result_hash is None for mark in started)
        found = "the file is gone" if gone else "the file has the intended content"
        names = _names([mark.path for mark in started]) or "the file"
        return _said(f"{names} {'deleted' if gone else 'written'}", f"found after a restart: {found}", context)


async def current(context: ToolContext, path: str) -> bytes | None:
    """The bytes of what a path leads to; null when there is no such file."""
    try:
        return await context.workspace.read(path)
    except GloveportError as error:
        if error.code is ErrorCode.FILE_MISSING:
            return None
        raise


async def is_kept(context: ToolContext, path: str, real: str) -> bool:
    """True when what the file holds may not be told before it was asked about."""
    return context.is_kept(real) or context.is_kept(path) or bool(await kept_reads(real, context))


def list_of(paths: Sequence[str]) -> str:
    """Paths for a title."""
    return _names(paths)


def where(change: Change) -> str:
    """A changed path for a title, with what it leads to."""
    return named(change.path, change.real)


def _names(paths: Sequence[str]) -> str:
    shown = ", ".join(paths[:_NAMED_MAX])
    return shown if len(paths) <= _NAMED_MAX else f"{shown} and {len(paths) - _NAMED_MAX} more"


def _hashes(mark: FileFingerprint) -> tuple[Sha256 | None, Sha256 | None]:
    base, result = (None if each is None else Sha256(each) for each in (mark.base_hash, mark.result_hash))
    return base, result


async def _digest_now(context: ToolContext, path: str) -> str | None:
    state, _ = await context.workspace.entry(path)
    return None if state is None else state.digest


async def _effects(changes: Sequence[Change], context: ToolContext) -> tuple[EffectRecord, ...]:
    """On each file, on its path as spelled, and on every path of the user's that leads to it."""
    aliases: Mapping[str, tuple[str, ...]] = await context.workspace.aliases([change.real for change in changes])
    found: list[EffectRecord] = []
    for change in changes:
        found += touched(change.kind, change.path, change.real)
        found += (effect(change.kind, name) for name in aliases.get(change.real, ()))
        found += await kept_reads(change.real, context)
        # Under its new name, and with other bytes, nothing would tell that it is kept.
        if change.moved_from is not None and context.is_kept(change.moved_from) and not context.is_kept(change.real):
            found.append(effect("read", change.moved_from))
    return tuple(dict.fromkeys(found))


async def _diff(changes: Sequence[Change], context: ToolContext) -> str:
    """What would change, for a person; of files that are kept only that they change."""
    parts = []
    for change in changes:
        if await _is_hidden(change, context):
            parts.append(f"{visible(change.real)}: not shown here, as it may hold secrets\n")
            continue
        kind: EntryKind = "link" if change.is_link else "file"
        old, new = (None if data is None else Entry(kind, data, 0) for data in (change.before, change.after))
        names = None if old is None else change.real, None if new is None else change.real
        text = unified_diff(names, describe(change.real, old, new).hunks)
        lines = [] if change.moved_from is None else [f"{visible(change.moved_from)} → {visible(change.real)}\n"]
        parts += [*lines, text or f"{visible(change.real)}: no lines to show\n"]
    rows = context.redact("".join(parts).encode()).decode("utf-8", "replace").splitlines()
    more = [f"… {len(rows) - DIFF_LINES_MAX} more lines"] if len(rows) > DIFF_LINES_MAX else []
    return "\n".join([*rows[:DIFF_LINES_MAX], *more])


async def _is_hidden(change: Change, context: ToolContext) -> bool:
    names = [change.real] if change.moved_from is None else [change.real, change.moved_from]
    return any([await is_kept(context, change.path, name) for name in names])


def _done(changes: Sequence[Change], context: ToolContext) -> Performed:
    words = []
    for change in changes:
        moved = f"{change.moved_from} moved to " if change.moved_from is not None else ""
        if change.after is not None:
            words.append(f"{moved}{change.path} written ({len(change.after)} bytes)")
        elif all(other.moved_from != change.real for other in changes):
            words.append(f"{change.path} deleted")
    hashes = [f"sha256 {hash_of(change.after)}" for change in changes if change.after is not None]
    return _said("; ".join(words), "; ".join(hashes) or "the file is gone", context)


def _said(text: str, evidence: str, context: ToolContext) -> Performed:
    return Performed(outcome="ok", text=text, evidence=evidence, label=context.label)
