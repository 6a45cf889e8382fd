"""read_file, list_files, search: looking at the worktree.

Purpose: the three hands that only look.
Invariant: every path goes through the workspace, which refuses what lies outside it; what is judged is the file that a
    path leads to, and what is read is what was judged.
Must never: follow a link out of the worktree or start a program.
"""

from abc import ABC, abstractmethod
from typing import Annotated, Any, Final

from pydantic import Field

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.events.tool import EffectRecord, FileFingerprint
from gloveport.server.edit.lines import Encoding, sniff_form
from gloveport.server.edit.render import visible
from gloveport.server.edit.replace import to_utf8
from gloveport.server.tools.contract import (
    Arguments,
    Found,
    Performed,
    ToolContext,
    ToolError,
    ToolPlan,
    bounded,
    effect,
)
from gloveport.server.tools.output import clean_output

READ_LINES_MAX: Final = 2_000
LIST_ENTRIES_MAX: Final = 1_000
SEARCH_HITS_MAX: Final = 200
_HOW_TO_ASK: Final = "give the exact path of one to have it asked about"

RelativePath = Annotated[str, Field(min_length=1, max_length=4096, description="Path relative to the workspace")]


def looking(title: str, effects: tuple[EffectRecord, ...], context: ToolContext) -> ToolPlan:
    """The plan of a call that only looks."""
    return ToolPlan(
        title=title,
        effects=effects,
        recovery="read_only",
        stop_class="killable",
        executor="daemon",
        label=context.label,
    )


def touched(kind: str, path: str, real: str) -> tuple[EffectRecord, ...]:
    """The effect on what a path leads to, and on the path as it was spelled."""
    return tuple(effect(kind, one) for one in dict.fromkeys((real, path)))


def named(path: str, real: str) -> str:
    """A path for a title, with what it leads to."""
    return path if path == real else f"{path}, which leads to {real}"


async def kept_reads(real: str, context: ToolContext) -> tuple[EffectRecord, ...]:
    """The effect of reading a copy of a kept file under a name of its own: that of reading the kept one."""
    try:
        digest = await context.workspace.digest(real)
    except GloveportError:
        return ()
    origin = await context.workspace.kept_origin(digest, context.is_kept)
    return () if origin in (None, real) else (effect("read", str(origin)),)


def exact_name(pattern: str) -> str | None:
    """The one path that a pattern of files names; null when it may name several."""
    name = pattern.removeprefix("/")
    return name if name and not set(name) & set("*?[]\\!#") and name == name.strip("/ ") else None


def seen(text: str, context: ToolContext, evidence: str) -> Performed:
    """The outcome of a call that only looked."""
    return Performed(outcome="ok", text=bounded(text), evidence=evidence, label=context.label)


class _Looking(ABC):
    """What the looking tools share: doing them again is always right."""

    async def reconcile(self, arguments: Any, started: tuple[FileFingerprint, ...], context: ToolContext) -> Found:
        """Nothing was changed, so it may run again."""
        return Found("not_started", "a call that only looks may be made again")

    async def attach(self, arguments: Any, started: tuple[FileFingerprint, ...], context: ToolContext) -> Performed:
        """Look again."""
        return await self.perform(arguments, context)

    @abstractmethod
    async def perform(self, arguments: Any, context: ToolContext) -> Performed:
        """Look."""


class ReadFileArguments(Arguments):
    """Arguments of read_file."""

    path: RelativePath
    start_line: int = Field(default=1, ge=1, description="First line to show, from 1")
    lines: int = Field(default=READ_LINES_MAX, ge=1, le=READ_LINES_MAX, description="How many lines")


class ReadFile(_Looking):
    """read_file"""

    name = "read_file"
    description = "Read a text file. Long files are shown in parts; lines keep their text without numbers."
    arguments = ReadFileArguments

    async def plan(self, arguments: ReadFileArguments, context: ToolContext) -> ToolPlan:
        """Reads one path, and what it leads to."""
        real = await context.workspace.resolve(arguments.path)
        effects = touched("read", arguments.path, real)
        return looking(f"Read {named(arguments.path, real)}", (*effects, *await kept_reads(real, context)), context)

    async def perform(self, arguments: ReadFileArguments, context: ToolContext) -> Performed:
        """The asked lines."""
        real = await context.workspace.resolve(arguments.path)
        asked = (*touched("read", arguments.path, real), *await kept_reads(real, context))
        if not all(context.was_judged(one.kind, one.target) for one in asked):
            raise ToolError(ErrorCode.CHANGE_CONFLICT, f"{arguments.path} is not what was judged; read it again")
        data = await context.workspace.read(arguments.path, at=real)
        form = sniff_form(data)
        if form.encoding is Encoding.BINARY:
            words = f"[{len(data)} bytes that are no text; the file can be moved or deleted, not edited]"
            return seen(words, context, f"{len(data)} bytes read")
        lines = clean_output(context.redact(to_utf8(data, form))).split("\n")
        start, stop = arguments.start_line - 1, arguments.start_line - 1 + arguments.lines
        text = "\n".join(lines[start:stop])
        if start or stop < len(lines):
            text += f"\n[lines {arguments.start_line} to {min(stop, len(lines))} of {len(lines)}]"
        if form.encoding is Encoding.LEGACY:
            text += "\n[not UTF-8: what is shown as � is kept as it is; edit by quoting ASCII text alone]"
        return seen(text, context, f"{len(data)} bytes read")


class ListFilesArguments(Arguments):
    """Arguments of list_files."""

    pattern: str = Field(default="**", min_length=1, max_length=1024, description="Pattern such as src/** or *.py")


class ListFiles(_Looking):
    """list_files"""

    name = "list_files"
    description = "List the files of the workspace whose path matches a pattern; ignored files are left out."
    arguments = ListFilesArguments

    async def plan(self, arguments: ListFilesArguments, context: ToolContext) -> ToolPlan:
        """Searches names."""
        return looking(f"List {arguments.pattern}", (effect("search", "."),), context)

    async def perform(self, arguments: ListFilesArguments, context: ToolContext) -> Performed:
        """Paths, one a line."""
        found = await context.workspace.list(arguments.pattern, limit=LIST_ENTRIES_MAX)
        text = "\n".join(visible(path) for path in found.paths) or "no file matches"
        if found.truncated:
            text += f"\n[more than {LIST_ENTRIES_MAX} files match; narrow the pattern]"
        return seen(text, context, f"{len(found.paths)} paths")


class SearchArguments(Arguments):
    """Arguments of search."""

    pattern: str = Field(min_length=1, max_length=1024, description="Regular expression (RE2 syntax)")
    path: str = Field(default="**", min_length=1, max_length=1024, description="Pattern of the files to look in")


class Search(_Looking):
    """search"""

    name = "search"
    description = "Find lines that match a regular expression, with path and line number."
    arguments = SearchArguments

    async def plan(self, arguments: SearchArguments, context: ToolContext) -> ToolPlan:
        """Searches content; a file that is kept is read, if it is named exactly."""
        effects = (effect("search", "."), *await self._reads(arguments, context))
        return looking(f"Search for {arguments.pattern}", effects, context)

    async def perform(self, arguments: SearchArguments, context: ToolContext) -> Performed:
        """`path:line: text`, one hit a line."""
        kept = await context.workspace.withheld(context.is_kept)
        reads = await self._reads(arguments, context)
        judged = bool(reads) and all(context.was_judged(one.kind, one.target) for one in reads)
        allowed = {exact_name(arguments.path)} if judged else set()
        found = await context.workspace.search(
            arguments.pattern, pattern=arguments.path, limit=SEARCH_HITS_MAX, leave_out=kept - allowed
        )
        lines = [
            f"{visible(hit.path)}:{hit.line}: {clean_output(context.redact(hit.text.encode('utf-8', 'surrogatepass')))}"
            for hit in found.matches
        ]
        if found.truncated:
            lines.append(f"[more than {SEARCH_HITS_MAX} lines match; narrow the pattern]")
        if found.skipped:
            lines.append(f"[{len(found.skipped)} files were not searched: binary, unreadable or too large]")
        if found.left_out:
            lines.append(f"[{len(found.left_out)} files that may hold secrets were not searched; {_HOW_TO_ASK}]")
        return seen("\n".join(lines) or "no line matches", context, f"{len(found.matches)} hits")

    async def _reads(self, arguments: SearchArguments, context: ToolContext) -> tuple[EffectRecord, ...]:
        """The effect of looking into the one file that is named, where that file is kept."""
        name = exact_name(arguments.path)
        if name is None:
            return ()
        own = (effect("read", name),) if context.is_kept(name) else ()
        return (*own, *await kept_reads(name, context))
