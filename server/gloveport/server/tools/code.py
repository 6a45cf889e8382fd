"""run_python and run_javascript: a piece of code on named files, away from everything.

Purpose: compute over inputs of the worktree in a scratch folder, without network, and take named files back.
Invariant: the code sees the files that were judged and no others; what it writes reaches the worktree only under the
paths that were judged.
Must never: run in the daemon, or see the worktree itself.
"""

import base64
import binascii
import shutil
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.events.tool import EffectRecord, FileFingerprint
from gloveport.sandbox.interpreter import find_interpreter
from gloveport.server.edit.render import visible
from gloveport.server.edit.replace import hash_of
from gloveport.server.hands.request import Started, start_of, whole
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
from gloveport.server.tools.files import RelativePath, kept_reads, touched
from gloveport.server.tools.handwork import (
    Worked,
    failed,
    good,
    judge_end,
    mark_place,
    once,
    refuse_size,
    show_nothing,
    take_files,
)
from gloveport.server.tools.output import clean_output

HAND: Final = "execution"
CODE_CHARACTERS_MAX: Final = 32 * 1024
FILES_MAX: Final = 16
PRINTED_BYTES_MAX: Final = 256 * 1024
OUTPUTS_BYTES_MAX: Final = 2 * 1024 * 1024


class RunCodeArguments(Arguments):
    """Arguments of run_python and run_javascript."""

    code: Annotated[str, Field(min_length=1, max_length=CODE_CHARACTERS_MAX, description="A whole program")]
    inputs: list[RelativePath] = Field(
        default_factory=list,
        max_length=FILES_MAX,
        description="Files of the workspace that it reads, under their names",
    )
    outputs: list[RelativePath] = Field(
        default_factory=list, max_length=FILES_MAX, description="Files that it writes and that are taken back"
    )


class RunPython:
    """run_python"""

    name: ClassVar[str] = "run_python"
    description: ClassVar[str] = (
        "Run a Python program (standard library alone) in an empty folder with copies of the named inputs; no network, "
        "no other files. Named outputs are taken into the workspace."
    )
    arguments = RunCodeArguments
    suffix: ClassVar[str] = "py"

    async def plan(self, arguments: RunCodeArguments, context: ToolContext) -> ToolPlan:
        """Executes the code on what it names."""
        words = self._words()
        effects: list[EffectRecord] = [effect("execute", f"{self.name} {hash_of(arguments.code.encode())[:12]}")]
        digests: list[tuple[str, str]] = []
        for path in arguments.inputs:
            real = await context.workspace.resolve(path)
            effects += (*touched("read", path, real), *await kept_reads(real, context))
            digest = await context.workspace.digest(real)
            if digest is None:
                raise ToolError(ErrorCode.FILE_MISSING, f"there is no file {path}")
            digests.append((real, str(digest)))
        marks = []
        for path in arguments.outputs:
            marks.append(await mark_place(path, context))
            effects += touched("write", path, marks[-1].path)
        return ToolPlan(
            title=visible(f"Run a piece of {words[0]}"),
            effects=tuple(dict.fromkeys(effects)),
            recovery="probeable",
            stop_class="killable",
            executor=f"sandbox:{context.hands.name}",
            label=context.label,
            argv=(words[0], "-c" if self.suffix == "py" else "-e", arguments.code),
            fingerprint=tuple(marks),
            file_digests=tuple(digests),
        )

    async def perform(self, arguments: RunCodeArguments, context: ToolContext) -> Performed:
        """Run it to its end."""
        return await self._end(await once(HAND, await self._started(arguments, context), context), arguments, context)

    async def reconcile(self, arguments: Any, started: tuple[FileFingerprint, ...], context: ToolContext) -> Found:
        """Look for the run by its name."""
        return await context.hands.look(context.call_id)

    async def attach(
        self, arguments: RunCodeArguments, started: tuple[FileFingerprint, ...], context: ToolContext
    ) -> Performed:
        """Wait for the run that is there."""
        result = await context.hands.attach(context.call_id, show_nothing)
        return await self._end(judge_end(HAND, result), arguments, context)

    def _words(self) -> tuple[str, ...]:
        """A name for the language, and the program with its options."""
        return "python", find_interpreter().path, "-I", "-S", "-B"

    async def _started(self, arguments: RunCodeArguments, context: ToolContext) -> Started:
        contents = []
        for path in arguments.inputs:
            real = await context.workspace.resolve(path)
            if not context.was_judged("read", real):
                raise ToolError(ErrorCode.CHANGE_CONFLICT, f"{path} leads elsewhere since the call was planned")
            contents.append(await context.workspace.read(path, at=real))
        refuse_size(sum(map(len, contents)), HAND, "what it reads", "Name fewer or smaller inputs.")
        asked = {
            "argv": self._words()[1:],
            "code": arguments.code,
            "name": f"code.{self.suffix}",
            "inputs": [[path, len(data)] for path, data in zip(arguments.inputs, contents, strict=True)],
            "outputs": arguments.outputs,
            "output_bytes_max": PRINTED_BYTES_MAX,
            "files_bytes_max": OUTPUTS_BYTES_MAX,
        }
        return start_of("execute", asked, b"".join(contents))

    async def _end(self, done: Worked, arguments: RunCodeArguments, context: ToolContext) -> Performed:
        nothing = failed(done, context)
        if nothing is not None:
            return nothing
        try:
            told = done.told or {}
            code, cut = whole(told["exit_code"]), whole(told["cut"])
            printed = context.redact(base64.b64decode(told["printed"], validate=True))
            files = {str(name): base64.b64decode(data, validate=True) for name, data in told["files"]}
        except (KeyError, TypeError, ValueError, binascii.Error):
            return replace(good(done, "No result: what the hand answered is none", context.label), outcome="failed")
        taken = await self._take(files, arguments, context) if code == 0 else ""
        more = f"\n[{cut} more bytes were printed]" if cut else ""
        shown = clean_output(printed).rstrip("\n")
        text = f"{shown}{more}\n[exit code {code}]{taken}".lstrip("\n")
        ended = good(done, bounded(text), context.label, output=printed)
        return replace(ended, outcome="ok" if code == 0 else "failed", exit_code=code)

    async def _take(self, files: dict[str, bytes], arguments: RunCodeArguments, context: ToolContext) -> str:
        """Put the files that were asked for into the worktree, all or none; in words."""
        absent = [path for path in arguments.outputs if path not in files]
        places = zip(arguments.outputs, context.fingerprint, strict=True)
        try:
            await take_files([(mark, files[path]) for path, mark in places if path in files], context)
        except GloveportError as error:
            return f"\n[its files were not taken: {error.message}]"
        written = f"\n[written: {', '.join(path for path in arguments.outputs if path in files)}]" if files else ""
        return written + (f"\n[not written by it: {', '.join(absent)}]" if absent else "")


class RunJavascript(RunPython):
    """run_javascript"""

    name = "run_javascript"
    description = (
        "Run a JavaScript program with Node (no packages) in an empty folder with copies of the named inputs; no "
        "network, no other files. Named outputs are taken into the workspace."
    )
    suffix = "js"

    def _words(self) -> tuple[str, ...]:
        # What is found here is started in the jail at the same place, where only the machine's programs are.
        node = shutil.which("node", path="/usr/local/bin:/usr/bin:/bin")
        if node is None:
            words = "there is no node among this machine's programs"
            raise ToolError(
                ErrorCode.TOOL_UNAVAILABLE, words, hint="The user can install Node; run_python works without."
            )
        return "javascript", node, "--max-old-space-size=192"
