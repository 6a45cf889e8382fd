"""read_document: tables and text out of files that need a parser.

Purpose: show rows of CSV, Excel, JSON and JUnit files and the text of PDF, read by a hand in a jail of its own.
Invariant: the hand sees the bytes of the one file that was judged, and nothing else; what was read with less precision
says so.
Must never: parse a file in the daemon.
"""

import base64
import posixpath
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, Literal

from pydantic import Field

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal.events.tool import FileFingerprint
from gloveport.server.edit.render import visible
from gloveport.server.hands.libraries import find_library
from gloveport.server.hands.request import NOTHING, Started, start_of
from gloveport.server.tools.contract import Arguments, Found, Performed, ToolContext, ToolError, ToolPlan, bounded
from gloveport.server.tools.files import RelativePath, kept_reads, named, touched
from gloveport.server.tools.handwork import Worked, failed, good, mark_place, refuse_size, take_files, work
from gloveport.server.tools.output import clean_output
from gloveport.server.tools.rows import rows_text

ROWS_DEFAULT: Final = 100
ROWS_MAX: Final = 1_000
SAVED_BYTES_MAX: Final = 2 * 1024 * 1024
Format = Literal["csv", "excel", "pdf", "json", "xml"]
_BY_NAME: Final[Mapping[str, Format]] = MappingProxyType(
    {".csv": "csv", ".tsv": "csv", ".xlsx": "excel", ".xlsm": "excel", ".pdf": "pdf", ".json": "json",
     ".jsonl": "json", ".ndjson": "json", ".xml": "xml"}
)  # fmt: skip
_LIBRARIES: Final[Mapping[str, str]] = MappingProxyType({"excel": "openpyxl", "pdf": "pypdf"})
_MODULES: Final[Mapping[str, str]] = MappingProxyType({"excel": "excel", "pdf": "pdf"})


class ReadDocumentArguments(Arguments):
    """Arguments of read_document."""

    path: RelativePath
    format: Literal["auto", "csv", "excel", "pdf", "json", "xml"] = Field(
        default="auto", description="auto goes by the file's name; xml takes JUnit reports, too"
    )
    sheet: str = Field(default="", max_length=200, description="Sheet of a workbook; empty: the first one")
    first_row: int = Field(default=1, ge=1, description="First row to show, from 1 (of a PDF: page)")
    rows: int = Field(default=ROWS_DEFAULT, ge=1, le=ROWS_MAX, description="How many rows (of a PDF: pages)")
    save_as: str = Field(
        default="", max_length=1_024, description="Write the whole table as CSV to this file of the workspace, too"
    )
    large: bool = Field(default=False, description="Give it more time, memory and input, for a large file")


class ReadDocument:
    """read_document"""

    name = "read_document"
    description = (
        "Read a table (CSV, Excel, JSON), a PDF's text or an XML report. Rows are shown as JSON lists, the first row "
        "first. The file is parsed in a jail of its own."
    )
    arguments = ReadDocumentArguments

    async def plan(self, arguments: ReadDocumentArguments, context: ToolContext) -> ToolPlan:
        """Reads one file."""
        kind = format_of(arguments)
        _library(kind)
        real = await context.workspace.resolve(arguments.path)
        digest = await context.workspace.digest(real)
        saved = await mark_place(arguments.save_as, context) if arguments.save_as else None
        writes = () if saved is None else touched("write", arguments.save_as, saved.path)
        return ToolPlan(
            title=visible(f"Read {named(arguments.path, real)} as {kind}"),
            effects=(*touched("read", arguments.path, real), *await kept_reads(real, context), *writes),
            recovery="read_only" if saved is None else "idempotent",
            fingerprint=() if saved is None else (saved,),
            stop_class="killable",
            executor=f"sandbox:{context.hands.name}",
            label=context.label,
            file_digests=() if digest is None else ((real, str(digest)),),
        )

    async def perform(self, arguments: ReadDocumentArguments, context: ToolContext) -> Performed:
        """Read it in a jail."""
        kind, hand = format_of(arguments), "file_reader_large" if arguments.large else "file_reader"
        real = await context.workspace.resolve(arguments.path)
        if not context.was_judged("read", real):
            raise ToolError(ErrorCode.CHANGE_CONFLICT, f"{arguments.path} leads elsewhere since the call was planned")
        data = await context.workspace.read(arguments.path, at=real)
        hint = "It is too large for this tool." if arguments.large else "Set `large`, or read it in parts otherwise."
        refuse_size(len(data), hand, arguments.path, hint)
        asked = {
            "format": kind,
            "sheet": arguments.sheet,
            "first_row": arguments.first_row,
            "rows": arguments.rows,
            "as_csv": bool(arguments.save_as),
            "bytes_max": SAVED_BYTES_MAX,
        }
        library = NOTHING if _library(kind) is None else find_library(_LIBRARIES[kind])

        def lean() -> Started:
            return start_of("lean", asked, data)

        done = await work(hand, start_of(_MODULES.get(kind, "tables"), asked, data, library), context, lean=lean)
        return failed(done, context) or await _told(done, arguments, context)

    async def reconcile(self, arguments: Any, started: tuple[FileFingerprint, ...], context: ToolContext) -> Found:
        """Nothing was changed, so it may run again."""
        return Found("not_started", "a call that only looks may be made again")

    async def attach(
        self, arguments: ReadDocumentArguments, started: tuple[FileFingerprint, ...], context: ToolContext
    ) -> Performed:
        """Read it again."""
        return await self.perform(arguments, context)


def format_of(arguments: ReadDocumentArguments) -> Format:
    """The format by name or as given. Raises ToolError where the name tells none."""
    if arguments.format != "auto":
        return arguments.format
    known = _BY_NAME.get(posixpath.splitext(arguments.path)[1].lower())
    if known is None:
        words = f"{arguments.path}: its name tells no format"
        raise ToolError(ErrorCode.TOOL_ARGUMENTS, words, hint="Name the format, or use read_file for plain text.")
    return known


def _library(kind: Format) -> str | None:
    """The library that the format needs, which is there. Raises LibraryMissingError."""
    name = _LIBRARIES.get(kind)
    if name is not None:
        find_library(name)
    return name


async def _told(done: Worked, arguments: ReadDocumentArguments, context: ToolContext) -> Performed:
    """Rows or text as the model sees them; the whole table goes into its file where that was asked for."""
    told = done.told or {}
    try:
        text = rows_text(told)
        table = base64.b64decode(told["csv"], validate=True) if "csv" in told else None
    except (KeyError, TypeError, ValueError, RecursionError):
        text = "No result: the reader's answer is not one"
        return replace(good(done, text, context.label), outcome="failed")
    if arguments.save_as and table is not None:
        await take_files([(context.fingerprint[0], table)], context)
        text = f"[{arguments.save_as} written, {len(table)} bytes]\n{text}"
    elif arguments.save_as:
        text = f"[{arguments.save_as} was not written: what was read is no whole table]\n{text}"
    return good(done, bounded(clean_output(context.redact(text.encode("utf-8", "replace")))), context.label)
