"""apply_patch, apply_diff: changing several files by a patch.

Purpose: the hands that take a patch (V4A form) or a unified diff, and change all of its files or none.
Invariant: context lines come from the file, never from the patch; a place that is not exactly as quoted is refused.
Must never: write over a file that the patch means to add, or a path that it means to move to.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Final

from pydantic import Field

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.edit.patching import PatchFile, apply_blocks
from gloveport.server.edit.v4a import parse_v4a
from gloveport.server.tools.changing import Change, Changing, is_kept, list_of
from gloveport.server.tools.contract import Arguments, ToolContext, ToolError
from gloveport.server.tools.edits import lying, moved
from gloveport.server.tools.unified import parse_unified

PATCH_CHARACTERS_MAX: Final = 4_000_000
FILES_MAX: Final = 500


class _Patching(Changing):
    """What both forms share: the files of a patch, each as it would be."""

    @abstractmethod
    def read(self, arguments: Any) -> tuple[PatchFile, ...]:
        """The patch as data. Raises GloveportError `tool.arguments`."""

    async def changes(self, arguments: Any, context: ToolContext) -> tuple[Change, ...]:
        """Every file of the patch. Raises GloveportError when one cannot be made, and then none is."""
        files = self.read(arguments)
        if len(files) > FILES_MAX:
            raise ToolError(ErrorCode.TOOL_ARGUMENTS, f"the patch has more than {FILES_MAX} files; send it in parts")
        return tuple([change for file in files for change in await _changes(file, context)])

    def title(self, arguments: Any, changes: Sequence[Change]) -> str:
        """Patch some paths."""
        return f"Patch {list_of(list(dict.fromkeys(change.path for change in changes)))}"


async def _changes(file: PatchFile, context: ToolContext) -> tuple[Change, ...]:
    if file.kind == "add":
        return (await _added(file, context),)
    if file.kind == "delete":
        place, kind, data = await lying(context, file.path)
        return (await _deleted(file, Change(file.path, place, data, None, is_link=kind == "link"), context),)
    last = file.moved_to is None or bool(file.blocks)
    real = await context.workspace.resolve(file.path, last=last)
    state, before = await context.workspace.entry(real)
    if state is None or before is None:
        raise ToolError(ErrorCode.FILE_MISSING, f"{file.path} does not exist")
    change = await _patched(file, real, before, context)
    if state.kind == "link":
        change = Change(file.path, real, before, before, is_link=True)
    return (change,) if file.moved_to is None else await moved(context, change, file.moved_to)


async def _added(file: PatchFile, context: ToolContext) -> Change:
    real = await context.workspace.resolve(file.path)
    there, _ = await context.workspace.entry(real)
    if there is not None:
        raise ToolError(ErrorCode.CHANGE_CONFLICT, f"{file.path} is there already, and the patch means to add it")
    try:
        return Change(file.path, real, None, file.text.encode(), runnable=file.runnable)
    except UnicodeEncodeError:
        raise ToolError(ErrorCode.EDIT_ENCODING, f"{file.path}: the text holds half a surrogate pair") from None


async def _deleted(file: PatchFile, change: Change, context: ToolContext) -> Change:
    """A deletion; a diff that quotes the lines must quote all of them."""
    if not file.blocks:
        return change
    patched = await _patched(file, change.real, change.before or b"", context)
    if patched.refusal is not None or not patched.after:
        return Change(change.path, change.real, change.before, None, patched.refusal, is_link=change.is_link)
    words = f"{file.path}: the diff deletes the file and quotes only a part of it"
    refusal = ToolError(ErrorCode.EDIT_NO_MATCH, words)
    if not await is_kept(context, file.path, change.real):
        raise refusal
    return Change(change.path, change.real, change.before, None, refusal)


async def _patched(file: PatchFile, real: str, before: bytes, context: ToolContext) -> Change:
    """A file with all blocks applied. Whether a kept file has the places is not told before it is asked."""
    try:
        after = apply_blocks(before, file.blocks, path=file.path) if file.blocks else before
    except GloveportError as error:
        if await is_kept(context, file.path, real):
            return Change(file.path, real, before, before, error)
        raise
    return Change(file.path, real, before, after, runnable=file.runnable)


class ApplyPatchArguments(Arguments):
    """Arguments of apply_patch."""

    patch: str = Field(min_length=1, max_length=PATCH_CHARACTERS_MAX, description="The patch")


class ApplyPatch(_Patching):
    """apply_patch"""

    name = "apply_patch"
    description = """Change several files at once, all or none, by a patch of this form:
*** Begin Patch
*** Update File: src/a.py
@@ class Stack:
 context lines exactly as the file has them
-a line to remove
+a line to add
*** Add File: notes.txt
+its lines
*** Delete File: old.txt
*** Update File: b.py
*** Move to: c.py
*** End Patch
Lines after @@ name what the block lies in; the lines of a block must occur there exactly once."""
    arguments = ApplyPatchArguments

    def read(self, arguments: ApplyPatchArguments) -> tuple[PatchFile, ...]:
        """The V4A form."""
        return parse_v4a(arguments.patch)


class ApplyDiffArguments(Arguments):
    """Arguments of apply_diff."""

    diff: str = Field(min_length=1, max_length=PATCH_CHARACTERS_MAX, description="The unified diff")


class ApplyDiff(_Patching):
    """apply_diff"""

    name = "apply_diff"
    description = (
        "Change several files at once, all or none, by a unified diff as `git diff` writes it. Context lines must be "
        "exactly those of the file, and line counts right."
    )
    arguments = ApplyDiffArguments

    def read(self, arguments: ApplyDiffArguments) -> tuple[PatchFile, ...]:
        """The unified form."""
        return parse_unified(arguments.diff)
