"""edit_file, write_file, delete_file: changing the worktree.

Purpose: the three hands that change files of the private worktree.
Invariant: the bytes that were planned are the bytes that are written: the plan's hashes name both.
Must never: touch the user's own files, or write over a file that changed since the plan.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Final

from pydantic import Field

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import Sha256
from gloveport.protocol.journal.events.tool import EffectRecord, FileFingerprint
from gloveport.server.edit.replace import hash_of, replace_exact
from gloveport.server.edit.rewrite import rewrite_text
from gloveport.server.tools.contract import Arguments, Found, Performed, ToolContext, ToolError, ToolPlan, effect
from gloveport.server.tools.files import RelativePath, kept_reads, named, touched

WRITE_CHARACTERS_MAX: Final = 2_000_000


async def _current(context: ToolContext, path: str) -> bytes | None:
    try:
        return await context.workspace.read(path)
    except GloveportError as error:
        if error.code is ErrorCode.FILE_MISSING:
            return None
        raise


async def _digest_now(context: ToolContext, path: str) -> str | None:
    now = await _current(context, path)
    return None if now is None else hash_of(now)


@dataclass(frozen=True, slots=True)
class Change:
    """A change as it would be made now: the link-free path, and its bytes before and after; null: absent.

    `refusal` is why it cannot be made, where saying so before anybody was asked would tell what the file holds.
    """

    real: str
    before: bytes | None
    after: bytes | None
    refusal: GloveportError | None = None

    @property
    def mark(self) -> FileFingerprint:
        """Path and hashes: what is planned, and what must hold when it is done."""
        hashes = [None if data is None else hash_of(data) for data in (self.before, self.after)]
        return FileFingerprint(path=self.real, base_hash=hashes[0], result_hash=hashes[1])


class _Changing(ABC):
    """What the changing tools share: the path is led to its end first, and the outcome is found by hashes."""

    effect_kind = "write"
    follows_last = True

    @abstractmethod
    async def change(self, arguments: Any, real: str, context: ToolContext) -> Change:
        """The change at the link-free path. Raises GloveportError when it cannot be made."""

    @abstractmethod
    def title(self, what: str, change: Change) -> str:
        """The call in words."""

    async def plan(self, arguments: Any, context: ToolContext) -> ToolPlan:
        """Changes what the path leads to, under each name that it has."""
        change = await self._made(arguments, context)
        mark = change.mark
        return ToolPlan(
            title=self.title(named(arguments.path, change.real), change),
            effects=await self._effects(arguments, change.real, context),
            recovery="fingerprinted",
            stop_class="atomic",
            executor="daemon",
            label=context.label,
            fingerprint=(mark,),
            file_digests=() if mark.base_hash is None else ((change.real, mark.base_hash),),
        )

    async def perform(self, arguments: Any, context: ToolContext) -> Performed:
        """Make the change, given that path and file are what the change was made from."""
        change = await self._made(arguments, context)
        judged = all(
            context.was_judged(one.kind, one.target) for one in await self._effects(arguments, change.real, context)
        )
        if context.fingerprint != (change.mark,) or not judged:
            raise ToolError(ErrorCode.CHANGE_CONFLICT, f"{arguments.path} changed since the call was planned")
        if change.refusal is not None:
            raise change.refusal
        path = arguments.path
        expected = None if change.mark.base_hash is None else Sha256(change.mark.base_hash)
        if change.after is None:
            await context.workspace.delete(path, expected=expected, at=change.real, unless=context.is_stopped)
            return _done(f"{path} deleted", "the file is gone", context)
        await context.workspace.write(path, change.after, expected=expected, at=change.real, unless=context.is_stopped)
        return _done(f"{path} written ({len(change.after)} bytes)", f"sha256 {hash_of(change.after)}", context)

    async def _made(self, arguments: Any, context: ToolContext) -> Change:
        real = await context.workspace.resolve(arguments.path, last=self.follows_last)
        await context.workspace.check_place(real)
        return await self.change(arguments, real, context)

    async def _effects(self, arguments: Any, real: str, context: ToolContext) -> tuple[EffectRecord, ...]:
        """On the file, on the path as spelled, and on every path of the user's that leads to the file."""
        other = await context.workspace.aliases((real,))
        on_names = (effect(self.effect_kind, name) for name in other.get(real, ()))
        found = (*touched(self.effect_kind, arguments.path, real), *on_names, *await kept_reads(real, context))
        return tuple(dict.fromkeys(found))

    async def reconcile(self, arguments: Any, started: tuple[FileFingerprint, ...], context: ToolContext) -> Found:
        """Compare every file with the hashes of the intent."""
        found = [(mark, await _digest_now(context, mark.path)) for mark in started]
        paths = ", ".join(mark.path for mark in started)
        if found and all(digest == mark.result_hash for mark, digest in found):
            return Found("succeeded", f"{paths} has the intended content")
        if found and all(digest == mark.base_hash for mark, digest in found):
            return Found("not_started", f"{paths} has its content from before the call")
        return Found("unknown", f"{paths or 'the file'} is neither as before the call nor as intended")

    async def attach(self, arguments: Any, started: tuple[FileFingerprint, ...], context: ToolContext) -> Performed:
        """The change is there already."""
        gone = bool(started) and all(mark.result_hash is None for mark in started)
        found = "the file is gone" if gone else "the file has the intended content"
        return _done(f"{arguments.path} {'deleted' if gone else 'written'}", f"found after a restart: {found}", context)


def _done(text: str, evidence: str, context: ToolContext) -> Performed:
    return Performed(outcome="ok", text=text, evidence=evidence, label=context.label)


class EditFileArguments(Arguments):
    """Arguments of edit_file."""

    path: RelativePath
    old: str = Field(min_length=1, max_length=WRITE_CHARACTERS_MAX, description="The exact text to replace")
    new: str = Field(max_length=WRITE_CHARACTERS_MAX, description="The text to put in its place")


class EditFile(_Changing):
    """edit_file"""

    name = "edit_file"
    description = "Replace one exact piece of text in a file. The quoted text must occur exactly once."
    arguments = EditFileArguments

    async def change(self, arguments: EditFileArguments, real: str, context: ToolContext) -> Change:
        """The file with the one place replaced. Whether a kept file has the place is not told before it is asked."""
        before = await context.workspace.read(real, at=real)
        try:
            after = replace_exact(before, arguments.old, arguments.new, path=arguments.path).result
        except GloveportError as error:
            if context.is_kept(real) or context.is_kept(arguments.path) or await kept_reads(real, context):
                return Change(real, before, before, error)
            raise
        return Change(real, before, after)

    def title(self, what: str, change: Change) -> str:
        """Edit one path."""
        return f"Edit {what}"


class WriteFileArguments(Arguments):
    """Arguments of write_file."""

    path: RelativePath
    content: str = Field(max_length=WRITE_CHARACTERS_MAX, description="The whole new content")


class WriteFile(_Changing):
    """write_file"""

    name = "write_file"
    description = "Create a file or replace its whole content. An existing file keeps its line endings and encoding."
    arguments = WriteFileArguments

    async def change(self, arguments: WriteFileArguments, real: str, context: ToolContext) -> Change:
        """The file with the new content."""
        before = await _current(context, real)
        return Change(real, before, rewrite_text(before, arguments.content, path=arguments.path))

    def title(self, what: str, change: Change) -> str:
        """Create or rewrite one path."""
        return f"{'Create' if change.before is None else 'Rewrite'} {what}"


class DeleteFileArguments(Arguments):
    """Arguments of delete_file."""

    path: RelativePath


class DeleteFile(_Changing):
    """delete_file"""

    name = "delete_file"
    description = "Delete one file."
    arguments = DeleteFileArguments
    effect_kind = "delete"
    follows_last = False

    async def change(self, arguments: DeleteFileArguments, real: str, context: ToolContext) -> Change:
        """The file, gone."""
        before = await _current(context, real)
        if before is None:
            raise ToolError(ErrorCode.FILE_MISSING, f"{arguments.path} does not exist")
        return Change(real, before, None)

    def title(self, what: str, change: Change) -> str:
        """Delete one path."""
        return f"Delete {what}"
