"""edit_file, write_file, delete_file: changing the worktree.

Purpose: the three hands that change files of the private worktree.
Invariant: the bytes that were planned are the bytes that are written: the plan's hashes name both.
Must never: touch the user's own files, or write over a file that changed since the plan.
"""

from abc import ABC, abstractmethod
from typing import Any, Final

from pydantic import Field

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.events.tool import FileFingerprint
from gloveport.server.edit.replace import hash_of, replace_exact
from gloveport.server.edit.rewrite import rewrite_text
from gloveport.server.tools.contract import Arguments, Found, Performed, ToolContext, ToolError, ToolPlan, effect
from gloveport.server.tools.files import RelativePath

WRITE_CHARACTERS_MAX: Final = 2_000_000


async def _current(context: ToolContext, path: str) -> bytes | None:
    try:
        return await context.workspace.read(path)
    except GloveportError as error:
        if error.code is ErrorCode.FILE_MISSING:
            return None
        raise


def _changing(title: str, kind: str, path: str, base: bytes | None, result: bytes | None, label: Any) -> ToolPlan:
    base_hash = None if base is None else hash_of(base)
    result_hash = None if result is None else hash_of(result)
    return ToolPlan(
        title=title,
        effects=(effect(kind, path),),
        recovery="fingerprinted",
        stop_class="atomic",
        executor="daemon",
        label=label,
        fingerprint=(FileFingerprint(path=path, base_hash=base_hash, result_hash=result_hash),),
        file_digests=() if base_hash is None else ((path, base_hash),),
    )


class _Changing(ABC):
    """What the changing tools share: their outcome is found by hashes."""

    @abstractmethod
    async def result(self, arguments: Any, context: ToolContext) -> tuple[bytes | None, bytes | None]:
        """The file's bytes before and after; null: absent. Raises GloveportError when the change cannot be made."""

    async def perform(self, arguments: Any, context: ToolContext) -> Performed:
        """Write the result, given that the file still is what the result was made from."""
        before, after = await self.result(arguments, context)
        expected = None if before is None else hash_of(before)
        digest = None if after is None else hash_of(after)
        if any((mark.base_hash, mark.result_hash) != (expected, digest) for mark in context.fingerprint):
            raise ToolError(ErrorCode.CHANGE_CONFLICT, f"{arguments.path} changed since the call was planned")
        if after is None:
            await context.workspace.delete(arguments.path, expected=expected)
            return _done(f"{arguments.path} deleted", "the file is gone", context)
        await context.workspace.write(arguments.path, after, expected=expected)
        return _done(f"{arguments.path} written ({len(after)} bytes)", f"sha256 {hash_of(after)}", context)

    async def reconcile(self, arguments: Any, started: tuple[FileFingerprint, ...], context: ToolContext) -> Found:
        """Compare the file with the hashes of the intent."""
        for mark in started:
            now = await _current(context, mark.path)
            digest = None if now is None else hash_of(now)
            if digest == mark.result_hash:
                return Found("succeeded", f"{mark.path} has the intended content")
            if digest == mark.base_hash:
                return Found("not_started", f"{mark.path} has its content from before the call")
        return Found("unknown", "the file is neither as before the call nor as intended")

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

    async def result(self, arguments: EditFileArguments, context: ToolContext) -> tuple[bytes | None, bytes | None]:
        """The file with the one place replaced."""
        before = await context.workspace.read(arguments.path)
        return before, replace_exact(before, arguments.old, arguments.new, path=arguments.path).result

    async def plan(self, arguments: EditFileArguments, context: ToolContext) -> ToolPlan:
        """Writes one path."""
        before, after = await self.result(arguments, context)
        return _changing(f"Edit {arguments.path}", "write", arguments.path, before, after, context.label)


class WriteFileArguments(Arguments):
    """Arguments of write_file."""

    path: RelativePath
    content: str = Field(max_length=WRITE_CHARACTERS_MAX, description="The whole new content")


class WriteFile(_Changing):
    """write_file"""

    name = "write_file"
    description = "Create a file or replace its whole content. An existing file keeps its line endings and encoding."
    arguments = WriteFileArguments

    async def result(self, arguments: WriteFileArguments, context: ToolContext) -> tuple[bytes | None, bytes | None]:
        """The file with the new content."""
        before = await _current(context, arguments.path)
        return before, rewrite_text(before, arguments.content, path=arguments.path)

    async def plan(self, arguments: WriteFileArguments, context: ToolContext) -> ToolPlan:
        """Writes one path."""
        before, after = await self.result(arguments, context)
        title = f"{'Create' if before is None else 'Rewrite'} {arguments.path}"
        return _changing(title, "write", arguments.path, before, after, context.label)


class DeleteFileArguments(Arguments):
    """Arguments of delete_file."""

    path: RelativePath


class DeleteFile(_Changing):
    """delete_file"""

    name = "delete_file"
    description = "Delete one file."
    arguments = DeleteFileArguments

    async def result(self, arguments: DeleteFileArguments, context: ToolContext) -> tuple[bytes | None, bytes | None]:
        """The file, gone."""
        before = await _current(context, arguments.path)
        if before is None:
            raise ToolError(ErrorCode.FILE_MISSING, f"{arguments.path} does not exist")
        return before, None

    async def plan(self, arguments: DeleteFileArguments, context: ToolContext) -> ToolPlan:
        """Deletes one path."""
        before, after = await self.result(arguments, context)
        return _changing(f"Delete {arguments.path}", "delete", arguments.path, before, after, context.label)
