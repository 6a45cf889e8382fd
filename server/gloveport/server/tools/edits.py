"""edit_file, multi_edit, write_file, delete_file, move_file: changing files of the worktree one by one.

Purpose: the hands that change a file by exact quotes, whole, or by its name.
Invariant: a quote that does not occur exactly once is refused with the places that look like it.
Must never: follow a link at the end of a path that is deleted or moved: the link itself is meant.
"""

from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import Field

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.edit.replace import Quote, replace_many
from gloveport.server.edit.rewrite import rewrite_text
from gloveport.server.tools.changing import Change, Changing, current, is_kept, where
from gloveport.server.tools.contract import Arguments, ToolContext, ToolError
from gloveport.server.tools.files import RelativePath

WRITE_CHARACTERS_MAX: Final = 2_000_000
EDITS_MAX: Final = 200


async def quoted(context: ToolContext, path: str, quotes: Sequence[Quote]) -> Change:
    """A file with its quotes replaced. Whether a kept file has the places is not told before it is asked."""
    real = await context.workspace.resolve(path)
    before = await context.workspace.read(real, at=real)
    try:
        return Change(path, real, before, replace_many(before, quotes, path=path))
    except GloveportError as error:
        if await is_kept(context, path, real):
            return Change(path, real, before, before, error)
        raise


class EditFileArguments(Arguments):
    """Arguments of edit_file."""

    path: RelativePath
    old: str = Field(min_length=1, max_length=WRITE_CHARACTERS_MAX, description="The exact text to replace")
    new: str = Field(max_length=WRITE_CHARACTERS_MAX, description="The text to put in its place")


class EditFile(Changing):
    """edit_file"""

    name = "edit_file"
    description = "Replace one exact piece of text in a file. The quoted text must occur exactly once."
    arguments = EditFileArguments

    async def changes(self, arguments: EditFileArguments, context: ToolContext) -> tuple[Change, ...]:
        """The file with the one place replaced."""
        return (await quoted(context, arguments.path, [Quote(arguments.old, arguments.new)]),)

    def title(self, arguments: EditFileArguments, changes: Sequence[Change]) -> str:
        """Edit one path."""
        return f"Edit {where(changes[0])}"


class OneEdit(Arguments):
    """One of several edits."""

    old: str = Field(min_length=1, max_length=WRITE_CHARACTERS_MAX, description="The exact text to replace")
    new: str = Field(max_length=WRITE_CHARACTERS_MAX, description="The text to put in its place")
    replace_all: bool = Field(default=False, description="Replace every place, not exactly one")


class MultiEditArguments(Arguments):
    """Arguments of multi_edit."""

    path: RelativePath
    edits: Annotated[
        list[OneEdit],
        Field(min_length=1, max_length=EDITS_MAX, description="Made in order, each on what the ones before left"),
    ]


class MultiEdit(Changing):
    """multi_edit"""

    name = "multi_edit"
    description = (
        "Replace several exact pieces of text in one file: all of them, or none when one does not match. "
        "Each quoted text must occur exactly once, unless replace_all is set."
    )
    arguments = MultiEditArguments

    async def changes(self, arguments: MultiEditArguments, context: ToolContext) -> tuple[Change, ...]:
        """The file with all places replaced."""
        quotes = [Quote(edit.old, edit.new, edit.replace_all) for edit in arguments.edits]
        return (await quoted(context, arguments.path, quotes),)

    def title(self, arguments: MultiEditArguments, changes: Sequence[Change]) -> str:
        """Edit one path in several places."""
        return f"Edit {where(changes[0])} ({len(arguments.edits)} edits)"


class WriteFileArguments(Arguments):
    """Arguments of write_file."""

    path: RelativePath
    content: str = Field(max_length=WRITE_CHARACTERS_MAX, description="The whole new content")


class WriteFile(Changing):
    """write_file"""

    name = "write_file"
    description = "Create a file or replace its whole content. An existing file keeps its line endings and encoding."
    arguments = WriteFileArguments

    async def changes(self, arguments: WriteFileArguments, context: ToolContext) -> tuple[Change, ...]:
        """The file with the new content."""
        real = await context.workspace.resolve(arguments.path)
        before = await current(context, real)
        return (Change(arguments.path, real, before, rewrite_text(before, arguments.content, path=arguments.path)),)

    def title(self, arguments: WriteFileArguments, changes: Sequence[Change]) -> str:
        """Create or rewrite one path."""
        return f"{'Create' if changes[0].before is None else 'Rewrite'} {where(changes[0])}"


class DeleteFileArguments(Arguments):
    """Arguments of delete_file."""

    path: RelativePath


class DeleteFile(Changing):
    """delete_file"""

    name = "delete_file"
    description = "Delete one file."
    arguments = DeleteFileArguments

    async def changes(self, arguments: DeleteFileArguments, context: ToolContext) -> tuple[Change, ...]:
        """The file, gone."""
        real, _, before = await lying(context, arguments.path)
        return (Change(arguments.path, real, before, None),)

    def title(self, arguments: DeleteFileArguments, changes: Sequence[Change]) -> str:
        """Delete one path."""
        return f"Delete {where(changes[0])}"


class MoveFileArguments(Arguments):
    """Arguments of move_file."""

    path: RelativePath
    to: Annotated[str, Field(min_length=1, max_length=4096, description="The new path; nothing may lie there")]


class MoveFile(Changing):
    """move_file"""

    name = "move_file"
    description = "Rename or move one file. Its bytes and its mode stay as they are; a file at the new path is kept."
    arguments = MoveFileArguments

    async def changes(self, arguments: MoveFileArguments, context: ToolContext) -> tuple[Change, ...]:
        """The file under its old name, gone; under its new name, as it was."""
        real, kind, data = await lying(context, arguments.path)
        return await moved(context, Change(arguments.path, real, data, data, is_link=kind == "link"), arguments.to)

    def title(self, arguments: MoveFileArguments, changes: Sequence[Change]) -> str:
        """Move one path to another."""
        return f"Move {where(changes[0])} to {where(changes[1])}"


async def lying(context: ToolContext, path: str) -> tuple[str, str, bytes]:
    """What lies at a path itself: link-free path, `file` or `link`, and its bytes."""
    real = await context.workspace.resolve(path, last=False)
    await context.workspace.check_place(real)
    state, data = await context.workspace.entry(real)
    if state is None or data is None:
        raise ToolError(ErrorCode.FILE_MISSING, f"{path} does not exist")
    return real, state.kind, data


async def moved(context: ToolContext, change: Change, to: str) -> tuple[Change, ...]:
    """A change whose result lies at another path: what was there is gone. Raises `change.conflict` over a file."""
    real = await context.workspace.resolve(to, last=False)
    there, _ = await context.workspace.entry(real)
    if there is not None:
        raise ToolError(ErrorCode.CHANGE_CONFLICT, f"{to} is there already; nothing was moved")
    gone = Change(change.path, change.real, change.before, None, change.refusal, is_link=change.is_link)
    made = Change(to, real, None, change.after, change.refusal, change.real, change.runnable, change.is_link)
    return gone, made
