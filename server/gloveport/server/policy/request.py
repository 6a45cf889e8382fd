"""What is asked, and the circumstances it is judged in.

Purpose: the request and the context of a decision, complete, so that a decision needs nothing else but rules and grants.
Invariant: everything that a decision depends on is in here and was recorded; the same arguments give the same answer.
Must never: be filled from the workspace's own files, except for names and digests the workspace room resolved.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from gloveport.protocol.ids import CallId, SessionId, Sha256, TurnId, WorkspaceId
from gloveport.server.policy.display import argv_text
from gloveport.server.policy.effects import RUNNING_KINDS, Effect, EffectKind
from gloveport.server.policy.labels import Integrity, Label
from gloveport.server.policy.rung import SandboxFacts, TrustLevel

Intent = Literal["named", "implied", "absent"]
MAIN_AGENT = "main"


class DeclaredEffect(Protocol):
    """An effect as a tool declares it (the journal's `EffectRecord` is one)."""

    @property
    def kind(self) -> str:
        """A name of `EffectKind`; any other name is an unknown effect."""

    @property
    def target(self) -> str:
        """A path relative to the workspace, a displayed command, or `host:port`."""


@dataclass(frozen=True, slots=True)
class Request:
    """One call of one tool.

    `effects` name resolved targets; `unknown` are declared effects whose kind nobody knows (`kind:target`). `label` is
    the join of everything in the model's context. `argv` is what is started, if anything; `environment` are the
    variables the model set for it. `file_digests` are (path, SHA-256) of the files the call names. `sandbox` is where
    it would run; None: the daemon itself, which starts no program. `intent`: whether the user's own words of this goal
    name the effect, imply it, or neither.
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
    sandbox: SandboxFacts | None = None
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """The circumstances: whose workspace, which turn and agent, and the time.

    `trust_level`: the user's level for this workspace identity (None: never asked). `trust_generation` rises with every
    change of that level. `worktree` is the integrity of what lies in the worktree (None: unknown). `builtin_tools` are
    the names of our own tools; every other tool is unknown. `now`: UTC microseconds.
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
