"""What is asked, and the circumstances it is judged in.

Purpose: the two arguments of `decide`, complete, so that a decision needs nothing else.
Invariant: everything that a decision depends on is in here and was recorded; the same arguments give the same answer.
Must never: be filled from the workspace's own files, except for names and digests the workspace room resolved.
"""

from dataclasses import dataclass
from typing import Literal

from gloveport.protocol.ids import CallId, SessionId, Sha256, TurnId, WorkspaceId
from gloveport.server.policy.effects import Effect
from gloveport.server.policy.grant import Grant
from gloveport.server.policy.labels import Integrity, Label
from gloveport.server.policy.rules.ruleset import RuleSet
from gloveport.server.policy.rung import SandboxFacts, TrustLevel

Intent = Literal["named", "implied", "absent"]


@dataclass(frozen=True, slots=True)
class Request:
    """One call of one tool.

    `effects` name resolved targets. `label` is the join of everything in the model's context. `argv` is what is
    started, if anything; `environment` are the variables the model set for it. `file_digests` are (path, SHA-256) of
    the files the call names. `sandbox` is where it would run; None: the daemon itself, which starts no program.
    `intent`: whether the user's own words of this goal name the effect, imply it, or neither.
    """

    call_id: CallId
    tool: str
    effects: tuple[Effect, ...]
    label: Label
    arguments_digest: Sha256
    goal_revision: int
    intent: Intent
    reversible: bool
    argv: tuple[str, ...] | None = None
    cwd: str = "."
    environment: tuple[tuple[str, str], ...] = ()
    file_digests: tuple[tuple[str, Sha256], ...] = ()
    sandbox: SandboxFacts | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """The circumstances: whose workspace, which grants and rules, and the time.

    `trusted`: the user has trusted this workspace identity. `trust_level`: the user's level for it; `worktree` is the
    integrity of what lies in the worktree (None: unknown). `builtin_tools` are the names of our own tools; every other
    tool is unknown. `now`: UTC microseconds.
    """

    workspace_id: WorkspaceId
    session_id: SessionId
    turn_id: TurnId
    goal_revision: int
    trusted: bool
    trust_level: TrustLevel | None
    worktree: Integrity | None
    rules: RuleSet
    now: int
    grants: tuple[Grant, ...] = ()
    builtin_tools: frozenset[str] = frozenset()
    agent: str = "main"
    auto_accept: bool = False
