"""plot: a chart as a PNG file of the worktree.

Purpose: draw numbers that the model gives, by a hand that sees nothing else.
Invariant: what is written is one PNG of a bounded size at the judged path; where nothing can be drawn, the numbers come
back as a table and nothing is written.
Must never: write over a file that changed since the call was planned.
"""

import base64
import binascii
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal.events.tool import FileFingerprint
from gloveport.sandbox.monitor.levels import Level
from gloveport.server.edit.render import visible
from gloveport.server.hands.libraries import LibraryMissingError, find_library
from gloveport.server.hands.request import start_of
from gloveport.server.tools.contract import Arguments, Found, Performed, ToolContext, ToolError, ToolPlan
from gloveport.server.tools.files import named, touched
from gloveport.server.tools.handwork import Worked, failed, good, judge_end, mark_place, show_nothing, take_files, work
from gloveport.server.tools.programs import how_it_ended

HAND: Final = "plot"
VALUES_MAX: Final = 5_000
SERIES_MAX: Final = 12
SIDE_PX_MIN: Final = 200
SIDE_PX_MAX: Final = 2_000
LABEL_CHARACTERS_MAX: Final = 200
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_ENVIRONMENT: Final = (("OPENBLAS_NUM_THREADS", "1"), ("MPLCONFIGDIR", "/tmp"))  # noqa: S108 - a place inside the jail

Label = Annotated[str, Field(max_length=LABEL_CHARACTERS_MAX)]


class Series(Arguments):
    """One row of numbers."""

    name: Label = ""
    values: list[Annotated[float, Field(strict=False, allow_inf_nan=False)]] = Field(
        min_length=1, max_length=VALUES_MAX
    )


class PlotArguments(Arguments):
    """Arguments of plot."""

    path: Annotated[str, Field(pattern=r"\.png$", max_length=1_024, description="Where the picture goes; ends in .png")]
    kind: Literal["bar", "line", "scatter", "pie", "histogram"] = "bar"
    title: Label = ""
    x_label: Label = ""
    y_label: Label = ""
    labels: list[Label] = Field(default_factory=list, max_length=VALUES_MAX, description="One for each value")
    series: list[Series] = Field(min_length=1, max_length=SERIES_MAX)
    width_px: int = Field(default=800, ge=SIDE_PX_MIN, le=SIDE_PX_MAX)
    height_px: int = Field(default=500, ge=SIDE_PX_MIN, le=SIDE_PX_MAX)


class Plot:
    """plot"""

    name = "plot"
    description = "Draw numbers as a chart (bar, line, scatter, pie, histogram) into a PNG file of the workspace."
    arguments = PlotArguments

    async def plan(self, arguments: PlotArguments, context: ToolContext) -> ToolPlan:
        """Writes one picture; nothing where it cannot be drawn here."""
        _check(arguments)
        if _missing() is not None:
            return ToolPlan(
                title="Show numbers as a table",
                effects=(),
                recovery="read_only",
                stop_class="killable",
                executor="daemon",
                label=context.label,
            )
        mark = await mark_place(arguments.path, context)
        return ToolPlan(
            title=visible(f"Draw {named(arguments.path, mark.path)}"),
            effects=touched("write", arguments.path, mark.path),
            recovery="probeable",
            stop_class="killable",
            executor=f"sandbox:{context.hands.name}",
            label=context.label,
            fingerprint=(mark,),
            file_digests=() if mark.base_hash is None else ((mark.path, mark.base_hash),),
        )

    async def perform(self, arguments: PlotArguments, context: ToolContext) -> Performed:
        """Draw it and write it."""
        missing = _missing()
        if missing is not None or not context.fingerprint:
            words = missing.advice if missing is not None else "the library was not there when this was judged"
            text = f"Nothing was drawn: {words}\nThe numbers as a table:\n{_table(arguments)}"
            return Performed("failed", text, f"level 1: {words}", context.label)
        asked = arguments.model_dump(exclude={"path"})
        asked["labels"] = arguments.labels or [str(at) for at in range(1, len(arguments.series[0].values) + 1)]
        started = start_of("drawing", asked, library=find_library("matplotlib"), environment=_ENVIRONMENT)
        return await self._end(await work(HAND, started, context), arguments, context)

    async def reconcile(self, arguments: Any, started: tuple[FileFingerprint, ...], context: ToolContext) -> Found:
        """Look for the run by its name."""
        return await context.hands.look(context.call_id)

    async def attach(
        self, arguments: PlotArguments, started: tuple[FileFingerprint, ...], context: ToolContext
    ) -> Performed:
        """Take what the run that is there has drawn."""
        result = await context.hands.attach(context.call_id, show_nothing)
        return await self._end(judge_end(HAND, result), arguments, context)

    async def _end(self, done: Worked, arguments: PlotArguments, context: ToolContext) -> Performed:
        nothing = failed(done, context)
        if nothing is not None and done.level in (Level.RESOURCES, Level.DEPENDENCY):
            words = f"Nothing was drawn ({how_it_ended(done.result)}). The numbers as a table:\n{_table(arguments)}"
            return replace(nothing, text=words)
        if nothing is not None:
            return nothing
        picture = _picture(done)
        if picture is None:
            return replace(good(done, "No result: what the hand answered is no PNG", context.label), outcome="failed")
        await take_files([(context.fingerprint[0], picture)], context)
        return good(done, f"{arguments.path} written ({len(picture)} bytes)", context.label, output=picture)


def _missing() -> LibraryMissingError | None:
    """What is said where the library is not installed."""
    try:
        find_library("matplotlib")
    except LibraryMissingError as error:
        return error
    return None


def _check(arguments: PlotArguments) -> None:
    """Raise ToolError where the numbers do not go together."""
    if arguments.kind == "histogram":
        return
    sizes = {len(one.values) for one in arguments.series}
    if len(sizes) > 1 or (arguments.labels and len(arguments.labels) not in sizes):
        raise ToolError(ErrorCode.TOOL_ARGUMENTS, "labels and each series have one value for each other")
    if arguments.kind == "pie" and len(arguments.series) > 1:
        raise ToolError(ErrorCode.TOOL_ARGUMENTS, "a pie has one series")


def _picture(done: Worked) -> bytes | None:
    try:
        data = base64.b64decode((done.told or {})["png"], validate=True)
    except (KeyError, TypeError, ValueError, binascii.Error):
        return None
    return data if data.startswith(_PNG) else None


def _table(arguments: PlotArguments) -> str:
    """The numbers in words, where they cannot be drawn."""
    head = "\t".join(["", *(one.name or f"series {at}" for at, one in enumerate(arguments.series, 1))])
    count = max(len(one.values) for one in arguments.series)
    labels = arguments.labels or [str(at) for at in range(1, count + 1)]
    rows = (
        "\t".join([label, *(f"{one.values[at]:g}" if at < len(one.values) else "" for one in arguments.series)])
        for at, label in enumerate(labels)
    )
    return "\n".join([arguments.title, head, *rows]).strip("\n")
