"""run_command: a program in the session's sandbox.

Purpose: start one argument vector without a shell, and tell how it ended.
Invariant: what was planned is what is started; a run is named by its call, so it can be found again.
Must never: run on the host side, or start a program twice for one call.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from pydantic import Field

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.journal.events.tool import FileFingerprint, Outcome
from gloveport.sandbox.contract import Result, ResultKind
from gloveport.server.edit.render import visible
from gloveport.server.tools.contract import (
    Arguments,
    Found,
    Performed,
    RunRequest,
    ToolContext,
    ToolPlan,
    bounded,
    effect,
)
from gloveport.server.tools.output import clean_output

WALL_S_DEFAULT: Final = 120.0
WALL_S_MAX: Final = 1_800.0
ARGV_ITEMS_MAX: Final = 256
PATH_CHARACTERS_MAX: Final = 1_024
NAMED_FILES_MAX: Final = 64

_OUTCOMES: Final[Mapping[ResultKind, Outcome]] = MappingProxyType(
    {
        ResultKind.OK: "ok",
        ResultKind.FAILED: "failed",
        ResultKind.TIMEOUT: "timeout",
        ResultKind.OOM: "oom",
        ResultKind.KILLED: "killed",
        ResultKind.POLICY: "policy",
        ResultKind.LOST: "lost",
    }
)


def outcome_of(result: Result) -> Outcome:
    """The outcome of a run, from its evidence."""
    return _OUTCOMES[result.kind]


def how_it_ended(result: Result) -> str:
    """One line for the model and the user."""
    if result.exit_code is not None and result.kind in (ResultKind.OK, ResultKind.FAILED):
        return f"exit code {result.exit_code} after {result.wall_s:.1f} s"
    return f"{result.kind.value}: {result.evidence}"


def performed(result: Result, text: str, context: ToolContext) -> Performed:
    """An ended run as a tool's outcome."""
    return Performed(
        outcome=outcome_of(result),
        text=text,
        evidence=f"{how_it_ended(result)}; {result.evidence}",
        label=context.label,
        exit_code=result.exit_code,
        output=context.redact(result.output),
        output_bytes=result.output_bytes_total,
    )


def named_files(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Words that may name files of the workspace: an approval is bound to what those hold."""
    words = (word.removeprefix("./") for word in argv)
    found = (word for word in words if word and not word.startswith(("-", "/")) and len(word) <= PATH_CHARACTERS_MAX)
    return tuple(dict.fromkeys(found))[:NAMED_FILES_MAX]


async def _digest(context: ToolContext, path: str) -> str | None:
    try:
        return await context.workspace.digest(path)
    except GloveportError:
        return None


class RunCommandArguments(Arguments):
    """Arguments of run_command."""

    argv: list[str] = Field(
        min_length=1,
        max_length=ARGV_ITEMS_MAX,
        description='Program and arguments, for example ["python", "-m", "build"]; there is no shell',
    )
    timeout_s: float = Field(default=WALL_S_DEFAULT, gt=0, le=WALL_S_MAX, description="Time limit in seconds")


class RunCommand:
    """run_command"""

    name = "run_command"
    description = "Run a program in the workspace, in a sandbox without network. No shell: give the argument vector."
    arguments = RunCommandArguments

    async def plan(self, arguments: RunCommandArguments, context: ToolContext) -> ToolPlan:
        """Executes one argument vector."""
        argv = tuple(arguments.argv)
        named = [(path, await _digest(context, path)) for path in named_files(argv)]
        return ToolPlan(
            title=visible(f"Run {' '.join(argv)}"[:200]),
            effects=(effect("execute", " ".join(argv)),),
            recovery="probeable",
            stop_class="killable",
            executor=f"sandbox:{context.hands.name}",
            label=context.label,
            argv=argv,
            file_digests=tuple((path, digest) for path, digest in named if digest is not None),
        )

    async def perform(self, arguments: RunCommandArguments, context: ToolContext) -> Performed:
        """Run it to its end."""
        request = RunRequest(run_id=context.call_id, argv=tuple(arguments.argv), wall_s=arguments.timeout_s)
        return self._told(await context.hands.run(request, context.show), context)

    async def reconcile(self, arguments: Any, started: tuple[FileFingerprint, ...], context: ToolContext) -> Found:
        """Look for the run by its name."""
        return await context.hands.look(context.call_id)

    async def attach(self, arguments: Any, started: tuple[FileFingerprint, ...], context: ToolContext) -> Performed:
        """Wait for the run that is there."""
        return self._told(await context.hands.attach(context.call_id, context.show), context)

    def _told(self, result: Result, context: ToolContext) -> Performed:
        text = bounded(f"{clean_output(context.redact(result.output))}\n[{how_it_ended(result)}]".lstrip("\n"))
        return performed(result, text, context)
