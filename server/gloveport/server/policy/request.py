"""What is asked, and the circumstances it is judged in.

Purpose: the request and the context of a decision, complete, so that nothing is needed beside rules and grants.
Invariant: everything that a decision depends on is in here and was recorded; the same arguments give the same answer.
Must never: be filled from the workspace's own files, except for names and digests the workspace room resolved.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from gloveport.protocol.ids import CallId, SessionId, Sha256, TurnId, WorkspaceId
from gloveport.server.policy.commands import derived_effects, program_of, run_effect
from gloveport.server.policy.effects import Effect, EffectKind
from gloveport.server.policy.labels import BOTTOM, Integrity, Label
from gloveport.server.policy.origins import Told
from gloveport.server.policy.rung import SandboxFacts, TrustLevel
from gloveport.server.policy.shell.understood import Understood

Intent = Literal["named", "implied", "absent"]
MAIN_AGENT: Final = "main"
TEST_TOOL: Final = "run_tests"


@dataclass(frozen=True, slots=True)
class Request:
    """One call of one tool; `request_from_plan` builds it.

    `effects` name resolved targets; `unknown` are declared effects whose kind nobody knows (`kind:target`). `label`
    is the join of everything in the model's context. `argv` is what is started, if anything; `environment` are the
    variables the model set for it. `file_digests` are (path, SHA-256) of the files the call names, `unbound` the
    named ones whose content can't be told, so that no answer lasts. `sandbox` is where it would run; None: the daemon
    itself, which starts no program. `intent`: whether the user's own words of this goal name the effect, imply it, or
    neither. `typed`: all that leaves is a look that the user asked for in words. `understood` is the command line
    taken apart; None: nobody looked. `carried` is the label of what the call could read and take along; `unseen`
    are files that earlier calls left and nobody looked through. For the card alone: `sending` is what leaves, whole,
    and `sources` names what the model had read when it wrote the call.
    """

    call_id: CallId
    tool: str
    effects: tuple[Effect, ...]
    label: Label
    arguments_digest: Sha256
    goal_revision: int
    intent: Intent = "implied"
    reversible: bool = True
    argv: tuple[str, ...] | None = None
    cwd: str = "."
    environment: tuple[tuple[str, str], ...] = ()
    file_digests: tuple[tuple[str, Sha256], ...] = ()
    unbound: tuple[str, ...] = ()
    sandbox: SandboxFacts | None = None
    unknown: tuple[str, ...] = ()
    payload: "Leaving | None" = None
    sending: "Sending | None" = None
    sources: Label = BOTTOM
    understood: Understood | None = None
    typed: bool = False
    carried: Label = BOTTOM
    unseen: tuple[str, ...] = ()

    @property
    def leaving(self) -> Label:
        """The label of all that could leave with it: what the model had read, and what the call itself could read."""
        return self.label.join(self.carried)

    @property
    def only_looks(self) -> bool:
        """True if the command line does nothing beside the effects that are named with it."""
        return self.understood is not None and self.understood.only_looks

    @property
    def commands(self) -> tuple[tuple[str, ...], ...]:
        """The simple commands that were found in the command line."""
        return () if self.understood is None else self.understood.commands


@dataclass(frozen=True, slots=True)
class Leaving:
    """The very bytes that would leave, by their hash and size, and where to; `effect` is the kind by which."""

    effect: str
    scheme: str
    host: str
    port: int
    sha256: Sha256
    size: int


@dataclass(frozen=True, slots=True)
class Sending:
    """What leaves, as a person is shown it: what stands before its body, and the body, whole.

    `is_scanned`: all of it was looked through for secrets, and none was found. `told`: what the model had been shown.
    """

    head: tuple[str, ...]
    body: str
    is_scanned: bool
    told: tuple[Told, ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """The circumstances: whose workspace, which turn and agent, and the time.

    `trust_level`: the user's level for this workspace identity (None: never asked). `trust_generation` rises with every
    change of that level. `worktree` is the integrity of what lies in the worktree (None: unknown). `builtin_tools` are
    the names of our own tools; every other tool is unknown. `now`: UTC microseconds. `ancestors`: the agents that
    this one works for, up to the user's own; its rights are no more than theirs.
    """

    workspace_id: WorkspaceId
    session_id: SessionId
    turn_id: TurnId
    goal_revision: int
    trust_level: TrustLevel | None
    worktree: Integrity | None
    now: int
    builtin_tools: frozenset[str] = frozenset()
    agent: str = MAIN_AGENT
    trust_generation: int = 0
    ancestors: tuple[str, ...] = ()


def effects_of(request: Request) -> tuple[Effect, ...]:
    """All effects: the declared ones, and those its command line is known to have; one of each kind and target."""
    argv = request.argv
    added = () if argv is None else _effects_of_command(request, argv)
    found: dict[str, Effect] = {}
    for effect in (*request.effects, *added):
        # where the argv is known, it says what runs, not the tool's words for it
        if argv is None or effect.kind is not EffectKind.execute or effect.fact("from") is not None:
            found.setdefault(effect.key, effect)
    if request.tool != TEST_TOOL or argv is None:
        return tuple(found.values())
    return tuple(_with_test_class(effect, argv) for effect in found.values())


def _effects_of_command(request: Request, argv: tuple[str, ...]) -> tuple[Effect, ...]:
    """What a command line is known to do: exactly where it was understood, else all that it may."""
    if request.understood is None:
        return (run_effect(argv), *derived_effects(argv))
    if request.only_looks:
        return (run_effect(argv), *request.understood.effects)
    within = (effect for command in request.commands for effect in derived_effects(command))
    return (run_effect(argv), *derived_effects(argv), *within, *request.understood.effects)


def framework_of(argv: Sequence[str]) -> str:
    """What runs the tests: the module behind `-m`, else the program."""
    for flag, module in pairwise(argv):
        if flag == "-m":
            return module
    return program_of(argv)


def _with_test_class(effect: Effect, argv: tuple[str, ...]) -> Effect:
    if effect.kind is not EffectKind.execute or effect.fact("test_class") is not None:
        return effect
    return Effect(effect.kind, effect.target, (*effect.detail, ("test_class", framework_of(argv))))


def request_digest(request: Request) -> Sha256:
    """What an answer that holds once is bound to: the call, its arguments, program, folder, variables and files."""
    body: dict[str, object] = {
        "call_id": request.call_id,
        "tool": request.tool,
        "arguments": request.arguments_digest,
        "effects": sorted(effect.key for effect in request.effects),
        "unknown": sorted(request.unknown),
        "argv": request.argv,
        "cwd": request.cwd,
        "environment": sorted(request.environment),
        "payload": None if request.payload is None else request.payload.sha256,
        "files": sorted(request.file_digests),
        "goal_revision": request.goal_revision,
    }
    body |= {"unbound": sorted(request.unbound)} if request.unbound else {}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return Sha256(hashlib.sha256(text.encode()).hexdigest())
