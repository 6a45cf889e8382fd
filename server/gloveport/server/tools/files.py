"""read_file, list_files, search: looking at the worktree.

Purpose: the three hands that only look.
Invariant: every path goes through the workspace, which refuses what lies outside it.
Must never: follow a link out of the worktree or start a program.
"""

from abc import ABC, abstractmethod
from typing import Annotated, Any, Final

from pydantic import Field

from gloveport.protocol.journal.events.tool import FileFingerprint
from gloveport.server.edit.names import split_path
from gloveport.server.edit.render import visible
from gloveport.server.tools.contract import (
    Arguments,
    Found,
    Performed,
    ToolContext,
    ToolPlan,
    bounded,
    effect,
)
from gloveport.server.tools.output import clean_output

READ_LINES_MAX: Final = 2_000
LIST_ENTRIES_MAX: Final = 1_000
SEARCH_HITS_MAX: Final = 200

RelativePath = Annotated[str, Field(min_length=1, max_length=4096, description="Path relative to the workspace")]


def looking(title: str, kind: str, target: str, context: ToolContext) -> ToolPlan:
    """The plan of a call that only looks."""
    return ToolPlan(
        title=title,
        effects=(effect(kind, target),),
        recovery="read_only",
        stop_class="killable",
        executor="daemon",
        label=context.label,
    )


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
        """Reads one path."""
        split_path(arguments.path)
        return looking(f"Read {arguments.path}", "read", arguments.path, context)

    async def perform(self, arguments: ReadFileArguments, context: ToolContext) -> Performed:
        """The asked lines."""
        data = await context.workspace.read(arguments.path)
        lines = clean_output(context.redact(data)).split("\n")
        start, stop = arguments.start_line - 1, arguments.start_line - 1 + arguments.lines
        text = "\n".join(lines[start:stop])
        if start or stop < len(lines):
            text += f"\n[lines {arguments.start_line} to {min(stop, len(lines))} of {len(lines)}]"
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
        return looking(f"List {arguments.pattern}", "search", ".", context)

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
        """Searches content."""
        return looking(f"Search for {arguments.pattern}", "search", ".", context)

    async def perform(self, arguments: SearchArguments, context: ToolContext) -> Performed:
        """`path:line: text`, one hit a line."""
        found = await context.workspace.search(arguments.pattern, pattern=arguments.path, limit=SEARCH_HITS_MAX)
        lines = [
            f"{visible(hit.path)}:{hit.line}: {clean_output(context.redact(hit.text.encode('utf-8', 'surrogatepass')))}"
            for hit in found.matches
        ]
        if found.truncated:
            lines.append(f"[more than {SEARCH_HITS_MAX} lines match; narrow the pattern]")
        if found.skipped:
            lines.append(f"[{len(found.skipped)} files were not searched: binary, unreadable or too large]")
        return seen("\n".join(lines) or "no line matches", context, f"{len(found.matches)} hits")
