"""run_command: a program in the session's sandbox.

Purpose: start one argument vector without a shell, and tell how it ended.
Invariant: what was planned is what is started; a run is named by its call, so it can be found again.
Must never: run on the host side, or start a program twice for one call.
"""

import posixpath
import shlex
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final

from pydantic import Field

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.journal.events.tool import EffectRecord, FileFingerprint, Outcome
from gloveport.sandbox.contract import Result, ResultKind
from gloveport.sandbox.monitor.levels import Level, is_tampered, level_of, words_of
from gloveport.server.edit.render import visible
from gloveport.server.tools.bound_files import bind_files
from gloveport.server.tools.contract import (
    REFUSED,
    Arguments,
    Found,
    Performed,
    RunRequest,
    ToolContext,
    ToolPlan,
    bounded,
    effect,
)
from gloveport.server.tools.files import RelativePath, kept_reads, touched
from gloveport.server.tools.output import clean_output
from gloveport.server.workspace.repository import NO_REPOSITORY, LentRepository

WALL_S_DEFAULT: Final = 120.0
WALL_S_MAX: Final = 1_800.0
ARGV_ITEMS_MAX: Final = 256
PATH_CHARACTERS_MAX: Final = 1_024
NAMED_FILES_MAX: Final = 64
HIDDEN_TOLD_MAX: Final = 5
REFUSED_TOLD_MAX: Final = 6
PLACES_MAX: Final = 16
PLACE_CHARACTERS_MAX: Final = 300

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
    """The outcome of a run, from its evidence; who tried several ways out is a matter of policy however it ended."""
    return "policy" if level_of(result) is Level.HOSTILE else _OUTCOMES[result.kind]


def how_it_ended(result: Result) -> str:
    """One line for the model and the user."""
    if result.exit_code is not None and result.kind in (ResultKind.OK, ResultKind.FAILED):
        return f"exit code {result.exit_code} after {result.wall_s:.1f} s"
    return f"{result.kind.value}: {result.evidence}"


def what_was_refused(result: Result) -> str:
    """The calls that the sandbox refused, the first one first; empty when there were none."""
    shown = [f"{visible(words)} ({times} times)" if times > 1 else visible(words) for words, times in result.denied]
    more = f" and {len(shown) - REFUSED_TOLD_MAX} more" if len(shown) > REFUSED_TOLD_MAX else ""
    return f"{REFUSED}{', '.join(shown[:REFUSED_TOLD_MAX])}{more}" if shown else ""


def hostile_evidence(result: Result) -> str:
    """What shows an attack; empty where there was none."""
    if level_of(result) is not Level.HOSTILE:
        return ""
    return result.evidence if is_tampered(result) else what_was_refused(result)


def evidence_of(result: Result) -> str:
    """Everything that the record says of an end: how, what was refused, which thresholds were passed, its level."""
    level = level_of(result)
    parts = [how_it_ended(result), result.evidence, what_was_refused(result), *result.alarms]
    if level is not None:
        parts.append(f"level {int(level)}: {words_of(result)}")
    return "; ".join(part for part in dict.fromkeys(parts) if part)


def performed(result: Result, text: str, context: ToolContext) -> Performed:
    """An ended run as a tool's outcome. What a run was doing when it was ended stands behind its output."""
    outcome, refused, hostile = outcome_of(result), what_was_refused(result), hostile_evidence(result)
    if hostile:
        refused = f"{hostile}; {words_of(result)}"
    dump = f"\n[what it was doing when it was ended]\n{result.dump}\n".encode() if result.dump else b""
    return Performed(
        outcome=outcome,
        text=f"{text}\n[{refused}]" if refused and outcome != "ok" else text,
        evidence=evidence_of(result),
        label=context.label,
        exit_code=result.exit_code,
        output=context.redact(result.output + dump),
        output_bytes=result.output_bytes_total,
        lasted_us=None if result.kind is ResultKind.LOST else int(result.wall_s * 1e6),
        hostile=hostile,
        hostile_words=words_of(result) if hostile else "",
    )


def named_files(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Words that name files or folders of the workspace as they stand, for what a program may read."""
    words = (word.removeprefix("./") for word in argv)
    found = (word for word in words if word and not word.startswith(("-", "/")) and len(word) <= PATH_CHARACTERS_MAX)
    return tuple(dict.fromkeys(found))[:NAMED_FILES_MAX]


async def secrets_named(names: Iterable[str], context: ToolContext) -> tuple[EffectRecord, ...]:
    """The reads that a program's call asks for: what the named files lead to, and kept files among and below them.

    Where single files cannot be hidden from a program, it may read every kept one.
    """
    kept = await context.workspace.withheld(context.is_kept)
    found: list[EffectRecord] = []
    folders: list[str] = []
    for name in names:
        try:
            real = await context.workspace.resolve(name)
        except GloveportError:
            continue  # it leads out of the worktree, so there is nothing of the worktree behind it
        folders.append(real)
        if real != name:
            found += touched("read", name, real)
    for path in sorted(kept):
        if not context.hands.hides or any(path == one or path.startswith(f"{one}/") for one in folders):
            found += (effect("read", path), *await kept_reads(path, context))
    return tuple(dict.fromkeys(found))


async def hidden_files(context: ToolContext) -> tuple[str, ...]:
    """The kept files of the worktree but those of which every name was judged: those the user let it read."""
    hidden = []
    for path in sorted(await context.workspace.withheld(context.is_kept)):
        if not _is_judged(path, context) or not all(
            _is_judged(one.target, context) for one in await kept_reads(path, context)
        ):
            hidden.append(path)
    return tuple(hidden)


async def own_repository(context: ToolContext) -> LentRepository:
    """The session's own repository, for a jail that has a view of files."""
    return await context.workspace.repository(context.is_kept) if context.hands.hides else NO_REPOSITORY


def repository_words(repository: LentRepository, argv: tuple[str, ...]) -> str:
    """What the model is told of the session's repository; that there is none only where it is asked for."""
    is_told = bool(repository.words) and (bool(repository.folder) or any("git" in word for word in argv))
    return f"\n[{repository.words}]" if is_told else ""


def _is_judged(path: str, context: ToolContext) -> bool:
    """True if reading the path was judged, or reading a kept folder above it."""
    targets = [posixpath.normpath(one.target) for one in context.planned if one.kind in ("read", "secret_read")]
    return path in targets or any(path.startswith(f"{one}/") and context.is_kept(one) for one in targets)


def hidden_words(hidden: tuple[str, ...]) -> str:
    """What the model is told of files that the program did not see; empty when there are none."""
    if not hidden:
        return ""
    shown = ", ".join(visible(path) for path in hidden[:HIDDEN_TOLD_MAX])
    more = f" and {len(hidden) - HIDDEN_TOLD_MAX} more" if len(hidden) > HIDDEN_TOLD_MAX else ""
    return f"\n[hidden from the program, since they may hold secrets: {shown}{more}; name in `reads` what it needs]"


Reads = Annotated[
    list[RelativePath],
    Field(
        default_factory=list,
        max_length=NAMED_FILES_MAX,
        description="Files that may hold secrets and that the program must see; the user is asked about each",
    ),
]


Network = Annotated[
    list[Annotated[str, Field(min_length=3, max_length=PLACE_CHARACTERS_MAX)]],
    Field(
        default_factory=list,
        max_length=PLACES_MAX,
        description='Places outside that the program must reach, each "host:port"; the user is asked about each',
    ),
]
SENDS_ANYTHING: Final = "whatever the program sends: it may be anything it can read"


def network_effects(places: Iterable[str], context: ToolContext) -> tuple[EffectRecord, ...]:
    """The effects of reaching these places. Raises SandboxError where the rung cannot hold them as a list."""
    named = tuple(dict.fromkeys(places))
    context.hands.refuse_places(named)
    return tuple(effect("network", place) for place in named)


Credentials = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=64)]],
    Field(
        default_factory=list,
        max_length=PLACES_MAX,
        description="Names of the user's credentials that the program uses; it finds a stand-in in their variables",
    ),
]


def credential_effects(names: Iterable[str], context: ToolContext) -> tuple[EffectRecord, ...]:
    """The effects of using these credentials: their places are reached, in the user's name. Raises SandboxError."""
    places = tuple(dict.fromkeys(context.hands.lend(name).place for name in names))
    context.hands.refuse_places(places)
    return tuple(effect(kind, place) for place in places for kind in ("network", "publish"))


def stand_ins(names: Iterable[str], context: ToolContext) -> tuple[tuple[str, str], ...]:
    """Variables and what the program finds in them. Raises SandboxError."""
    lent = (context.hands.lend(name) for name in dict.fromkeys(names))
    return tuple((one.variable, one.stand_in) for one in lent)


def judged_places(context: ToolContext) -> tuple[str, ...]:
    """The places outside that were judged with the call: these and no others are let through."""
    return tuple(one.target for one in context.planned if one.kind == "network")


def _sends(reaches: tuple[EffectRecord, ...], credentials: Iterable[str]) -> str:
    """What leaves, in words."""
    used = ", ".join(dict.fromkeys(credentials))
    return (SENDS_ANYTHING + (f", with the credential {used}" if used else "")) if reaches else ""


class RunCommandArguments(Arguments):
    """Arguments of run_command."""

    argv: list[str] = Field(
        min_length=1,
        max_length=ARGV_ITEMS_MAX,
        description='Program and arguments, for example ["python", "-m", "build"]; there is no shell',
    )
    timeout_s: float = Field(default=WALL_S_DEFAULT, gt=0, le=WALL_S_MAX, description="Time limit in seconds")
    reads: Reads
    network: Network
    credentials: Credentials


class RunCommand:
    """run_command"""

    name = "run_command"
    description = (
        "Run a program in the workspace, in a sandbox without network but for the places named in `network`. "
        "No shell: give the argument vector."
    )
    arguments = RunCommandArguments

    async def plan(self, arguments: RunCommandArguments, context: ToolContext) -> ToolPlan:
        """Executes one argument vector."""
        argv = tuple(arguments.argv)
        words = tuple(word.removeprefix(f"{context.hands.root}/") for word in argv)
        bound = await bind_files(argv, context.hands.root, context.workspace)
        reads = await secrets_named((*named_files(words), *arguments.reads), context)
        reaches = network_effects(arguments.network, context)
        reaches = tuple(dict.fromkeys((*reaches, *credential_effects(arguments.credentials, context))))
        return ToolPlan(
            title=visible(f"Run {shlex.join(argv)}"[:200]),
            effects=(effect("execute", " ".join(argv)), *reads, *reaches),
            recovery="probeable",
            stop_class="killable",
            executor=f"sandbox:{context.hands.name}",
            label=context.label,
            argv=argv,
            file_digests=bound.digests,
            unbound=bound.unbound,
            sends=_sends(reaches, arguments.credentials),
        )

    async def perform(self, arguments: RunCommandArguments, context: ToolContext) -> Performed:
        """Run it to its end."""
        hidden = await hidden_files(context)
        places = judged_places(context)
        lent = stand_ins(arguments.credentials, context)
        repository = await own_repository(context)
        request = RunRequest(
            context.call_id, tuple(arguments.argv), arguments.timeout_s, hidden,
            environment=lent, places=places, repository=repository,
        )  # fmt: skip
        more = hidden_words(hidden) + repository_words(repository, request.argv)
        return self._told(await context.hands.run(request, context.show), context, more)

    async def reconcile(self, arguments: Any, started: tuple[FileFingerprint, ...], context: ToolContext) -> Found:
        """Look for the run by its name."""
        return await context.hands.look(context.call_id)

    async def attach(self, arguments: Any, started: tuple[FileFingerprint, ...], context: ToolContext) -> Performed:
        """Wait for the run that is there."""
        return self._told(await context.hands.attach(context.call_id, context.show), context)

    def _told(self, result: Result, context: ToolContext, more: str = "") -> Performed:
        text = bounded(f"{clean_output(context.redact(result.output))}\n[{how_it_ended(result)}]".lstrip("\n"))
        return performed(result, text + more, context)
