"""list_archive and unpack_archive: what a zip or tar file holds, and named members of it.

Purpose: look into an archive in a jail, and put chosen members into the worktree under paths that were judged.
Invariant: no path comes from an archive: the call names each member and where it goes is made from that name; all of
what is asked is written, or nothing.
Must never: follow or make a link, or unpack more than the limits say.
"""

import base64
import binascii
import posixpath
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Annotated, Any, Final

from pydantic import Field

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal.events.tool import FileFingerprint
from gloveport.server.edit.names import fold_path
from gloveport.server.edit.render import visible
from gloveport.server.hands.request import start_of
from gloveport.server.tools.contract import Arguments, Found, Performed, ToolContext, ToolError, ToolPlan, bounded
from gloveport.server.tools.files import RelativePath, kept_reads, named, touched
from gloveport.server.tools.handwork import Worked, failed, good, mark_place, refuse_size, take_files, work
from gloveport.server.tools.output import clean_output
from gloveport.server.tools.rows import rows_text

HAND: Final = "archive"
LISTED_MAX: Final = 500
MEMBERS_MAX: Final = 100
UNPACKED_BYTES_MAX: Final = 16 * 1024 * 1024
MEMBER_BYTES_MAX: Final = 8 * 1024 * 1024


class ListArchiveArguments(Arguments):
    """Arguments of list_archive."""

    path: RelativePath


class UnpackArchiveArguments(Arguments):
    """Arguments of unpack_archive."""

    path: RelativePath
    members: Annotated[
        list[RelativePath], Field(min_length=1, max_length=MEMBERS_MAX, description="Names as they are listed")
    ]
    into: str = Field(default="", max_length=1_024, description="Folder of the workspace; empty: its root")


class ListArchive:
    """list_archive"""

    name = "list_archive"
    description = "List the members of a zip or tar file of the workspace: name, kind and size of each."
    arguments = ListArchiveArguments

    async def plan(self, arguments: ListArchiveArguments, context: ToolContext) -> ToolPlan:
        """Reads one file."""
        return await _reading(arguments.path, f"List {arguments.path}", context)

    async def perform(self, arguments: ListArchiveArguments, context: ToolContext) -> Performed:
        """List it in a jail."""
        done = await _worked(arguments.path, None, context)
        if (nothing := failed(done, context)) is not None:
            return nothing
        try:
            text = rows_text(done.told or {})
        except (KeyError, TypeError, ValueError, RecursionError):
            return replace(good(done, "No result: what the hand answered is no list", context.label), outcome="failed")
        return good(done, bounded(clean_output(context.redact(text.encode("utf-8", "replace")))), context.label)

    async def reconcile(self, arguments: Any, started: tuple[FileFingerprint, ...], context: ToolContext) -> Found:
        """Nothing was changed, so it may run again."""
        return Found("not_started", "a call that only looks may be made again")

    async def attach(
        self, arguments: ListArchiveArguments, started: tuple[FileFingerprint, ...], context: ToolContext
    ) -> Performed:
        """List it again."""
        return await self.perform(arguments, context)


class UnpackArchive:
    """unpack_archive"""

    name = "unpack_archive"
    description = (
        "Unpack named members of a zip or tar file into the workspace, under their own names below `into`. List the "
        "archive first. Links and special files are not unpacked."
    )
    arguments = UnpackArchiveArguments

    async def plan(self, arguments: UnpackArchiveArguments, context: ToolContext) -> ToolPlan:
        """Reads one file, writes the named ones."""
        plan = await _reading(arguments.path, f"Unpack {len(arguments.members)} of {arguments.path}", context)
        effects, marks = list(plan.effects), []
        for path in places_of(arguments):
            marks.append(await mark_place(path, context))
            effects += touched("write", path, marks[-1].path)
        return replace(
            plan,
            effects=tuple(dict.fromkeys(effects)),
            recovery="idempotent",
            fingerprint=tuple(marks),
            file_digests=(
                *plan.file_digests,
                *((one.path, one.base_hash) for one in marks if one.base_hash is not None),
            ),
        )

    async def perform(self, arguments: UnpackArchiveArguments, context: ToolContext) -> Performed:
        """Unpack in a jail, and write what comes out."""
        done = await _worked(arguments.path, arguments.members, context)
        if (nothing := failed(done, context)) is not None:
            return nothing
        try:
            told = done.told or {}
            files = {str(name): base64.b64decode(data, validate=True) for name, data in told["files"]}
            refused = [f"{name}: {why}" for name, why in told["refused"]]
        except (KeyError, TypeError, ValueError, binascii.Error):
            return replace(good(done, "No result: what the hand answered is none", context.label), outcome="failed")
        if refused or set(files) != set(arguments.members):
            words = clean_output(context.redact("; ".join(refused).encode("utf-8", "replace")))
            return replace(good(done, f"Nothing was unpacked. {words}", context.label), outcome="failed")
        places = zip(arguments.members, context.fingerprint, strict=True)
        await take_files([(mark, files[name]) for name, mark in places], context)
        written = ", ".join(visible(path) for path in places_of(arguments))
        return good(done, bounded(f"Unpacked: {written}"), context.label)

    async def reconcile(self, arguments: Any, started: tuple[FileFingerprint, ...], context: ToolContext) -> Found:
        """Unpacking the same again gives the same."""
        return Found("not_started", "the same may be unpacked again")

    async def attach(
        self, arguments: UnpackArchiveArguments, started: tuple[FileFingerprint, ...], context: ToolContext
    ) -> Performed:
        """Unpack it again."""
        return await self.perform(arguments, context)


def places_of(arguments: UnpackArchiveArguments) -> tuple[str, ...]:
    """Where each member goes. Raises ToolError for names that lead elsewhere, and for two that are one."""
    found = []
    for member in arguments.members:
        plain = posixpath.normpath(member)
        if plain != member.removeprefix("./") or plain.startswith(("/", "..")) or "\\" in member or "\0" in member:
            words = f"the member {member[:200]!r} names a place elsewhere"
            raise ToolError(ErrorCode.TOOL_ARGUMENTS, words, hint="Leave it out.")
        found.append(posixpath.join(arguments.into.rstrip("/"), plain) if arguments.into else plain)
    folded = {fold_path(path) for path in found}
    if len(folded) != len(found):
        words = "two members would go to one place, here or on a file system that takes their names for one"
        raise ToolError(ErrorCode.TOOL_ARGUMENTS, words, hint="Unpack them apart, each into a folder of its own.")
    if any(str(above) in folded for path in folded for above in PurePosixPath(path).parents):
        raise ToolError(ErrorCode.TOOL_ARGUMENTS, "one member would lie below another one, which is a file")
    return tuple(found)


async def _reading(path: str, title: str, context: ToolContext) -> ToolPlan:
    real = await context.workspace.resolve(path)
    digest = await context.workspace.digest(real)
    return ToolPlan(
        title=visible(title.replace(path, named(path, real), 1)),
        effects=(*touched("read", path, real), *await kept_reads(real, context)),
        recovery="read_only",
        stop_class="killable",
        executor=f"sandbox:{context.hands.name}",
        label=context.label,
        file_digests=() if digest is None else ((real, str(digest)),),
    )


async def _worked(path: str, members: list[str] | None, context: ToolContext) -> Worked:
    real = await context.workspace.resolve(path)
    if not context.was_judged("read", real):
        raise ToolError(ErrorCode.CHANGE_CONFLICT, f"{path} leads elsewhere since the call was planned")
    data = await context.workspace.read(path, at=real)
    refuse_size(len(data), HAND, path, "It is too large for this tool.")
    asked = {
        "members": members,
        "list_max": LISTED_MAX,
        "bytes_max": UNPACKED_BYTES_MAX,
        "member_bytes_max": MEMBER_BYTES_MAX,
    }
    return await work(HAND, start_of("archives", asked, data), context)
