"""look_with: programs that only look, on the worktree shown read-only.

Purpose: the safe set of the shell: a few programs of this machine that read and print.
Invariant: the program is one of the set and takes no option that writes, starts or asks for more; the jail shows the
worktree read-only, without what may hold secrets, and has no network.
Must never: start a shell.
"""

import posixpath
import shutil
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from pydantic import Field

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal.events.tool import FileFingerprint
from gloveport.sandbox.contract import Result
from gloveport.server.edit.render import visible
from gloveport.server.hands.table import HANDS
from gloveport.server.tools.contract import (
    Arguments,
    Found,
    Performed,
    RunRequest,
    ToolContext,
    ToolError,
    ToolPlan,
    bounded,
    effect,
)
from gloveport.server.tools.output import clean_output
from gloveport.server.tools.programs import hidden_files, hidden_words, how_it_ended, performed, secrets_named

HAND: Final = "shell"
ARGV_ITEMS_MAX: Final = 64
ITEM_CHARACTERS_MAX: Final = 1_024
SAFE: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "cat": (), "cmp": (), "comm": (), "cut": (), "diff": (), "du": (), "file": ("-C", "--compile"), "grep": (),
        "head": (), "ls": (), "md5sum": (), "nl": (), "od": (), "sha256sum": (), "stat": (), "strings": (), "tail": (),
        "tr": (), "wc": (),
        "sort": ("-o", "--output", "--compress-program", "-T", "--temporary-directory"),
        "find": ("-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprint0", "-fprintf", "-fls"),
        "uniq": (),
    }
)  # fmt: skip
"""Each program, and how the options begin that it is not given."""
_UNIQ_OPERANDS_MAX: Final = 1


class LookWithArguments(Arguments):
    """Arguments of look_with."""

    argv: list[str] = Field(min_length=1, max_length=ARGV_ITEMS_MAX, description=f"One of: {', '.join(sorted(SAFE))}")


class LookWith:
    """look_with"""

    name = "look_with"
    description = (
        "Run one of a few programs that only look (ls, cat, grep, find, diff, wc, sort and the like) on the workspace, "
        "which it cannot change. No shell, no pipes."
    )
    arguments = LookWithArguments

    async def plan(self, arguments: LookWithArguments, context: ToolContext) -> ToolPlan:
        """Reads what the words name."""
        argv = tuple(arguments.argv)
        check_safe(argv)
        if not context.hands.hides:
            words = f"the sandbox {context.hands.name} cannot show the workspace read-only"
            raise ToolError(ErrorCode.TOOL_UNAVAILABLE, words, hint="Use read_file, list_files and search.")
        reads = await secrets_named([word for word in argv[1:] if not word.startswith("-")], context)
        return ToolPlan(
            title=visible(f"Look with {' '.join(argv)}"[:200]),
            effects=(effect("search", "."), *reads),
            recovery="read_only",
            stop_class="killable",
            executor=f"sandbox:{context.hands.name}",
            label=context.label,
        )

    async def perform(self, arguments: LookWithArguments, context: ToolContext) -> Performed:
        """Run it to its end."""
        hidden = await hidden_files(context)
        program = check_safe(tuple(arguments.argv))
        request = RunRequest(
            context.call_id,
            (program, *arguments.argv[1:]),
            HANDS[HAND].wall_s,
            hidden,
            tool_kind="small",
            hand=HAND,
        )
        result = await context.hands.run(request, context.show)
        return _told(result, context, hidden_words(hidden))

    async def reconcile(self, arguments: Any, started: tuple[FileFingerprint, ...], context: ToolContext) -> Found:
        """Nothing was changed, so it may run again."""
        return Found("not_started", "a call that only looks may be made again")

    async def attach(
        self, arguments: LookWithArguments, started: tuple[FileFingerprint, ...], context: ToolContext
    ) -> Performed:
        """Look again."""
        return await self.perform(arguments, context)


def check_safe(argv: tuple[str, ...]) -> str:
    """The program's own path. Raises ToolError for what is not of the safe set."""
    name = argv[0]
    refused = SAFE.get(name)
    if refused is None:
        words = f"{name[:100]!r} is not of the safe set: {', '.join(sorted(SAFE))}"
        raise ToolError(ErrorCode.TOOL_ARGUMENTS, words, hint="Use run_command for other programs.")
    for word in argv[1:]:
        if len(word) > ITEM_CHARACTERS_MAX or "\0" in word:
            raise ToolError(ErrorCode.TOOL_ARGUMENTS, "a word of it is too long, or holds a zero byte")
        if posixpath.normpath(word.removeprefix("@")).startswith("..") or word.startswith("/"):
            raise ToolError(ErrorCode.TOOL_ARGUMENTS, f"{word[:100]!r} leads out of the workspace")
        if any(_is_option(word, one) for one in refused):
            words = f"{name} is not run with {word[:100]!r} here"
            raise ToolError(ErrorCode.TOOL_ARGUMENTS, words, hint="Use run_command for it.")
    if name == "uniq" and sum(not word.startswith("-") for word in argv[1:]) > _UNIQ_OPERANDS_MAX:
        raise ToolError(ErrorCode.TOOL_ARGUMENTS, "uniq would write its second file")
    program = shutil.which(name, path="/usr/bin:/bin")
    if program is None:
        raise ToolError(ErrorCode.TOOL_UNAVAILABLE, f"{name} is not among this machine's programs")
    return program


def _is_option(word: str, option: str) -> bool:
    """Whether a word is this option, in any spelling that a program takes for it."""
    if option.startswith("--"):
        return word.startswith("--") and option.startswith(word.partition("=")[0]) and len(word) > len("--")
    if len(option) > len("-o"):
        return word == option
    return word.startswith("-") and not word.startswith("--") and option[1] in word


def _told(result: Result, context: ToolContext, more: str) -> Performed:
    shown = clean_output(context.redact(result.output)).rstrip("\n")
    return performed(result, bounded(f"{shown}\n[{how_it_ended(result)}]".lstrip("\n")) + more, context)
