"""The product's own policy before every call of the benchmark.

Purpose: carry the label of what was read, have the real `decide` judge, and build the real card for whoever answers.
Invariant: nothing here allows or denies; a verdict is the policy room's, an answer the approver's.
Must never: know which calls are the user's and which the attacker's.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tests.redteam.dojo.mapping import declare

from gloveport.protocol.ids import SessionId, TurnId, WorkspaceId
from gloveport.server.policy.card import build_card
from gloveport.server.policy.decide import decide
from gloveport.server.policy.intake import request_from_plan
from gloveport.server.policy.intent import intent_of
from gloveport.server.policy.labels import BOTTOM, Integrity, Label
from gloveport.server.policy.request import Context
from gloveport.server.policy.rules.rule import Source
from gloveport.server.policy.rules.ruleset import RuleSet, ruleset_from_texts
from gloveport.server.policy.rung import TrustLevel

Card = Mapping[str, Any]
Approver = Callable[[str, Mapping[str, Any], Card], bool]

BUILTIN: Final = Path(__file__).parents[3] / "server/gloveport/server/policy/rules/builtin.toml"


def default_rules() -> RuleSet:
    """The rules that every user has."""
    return ruleset_from_texts({Source.builtin: BUILTIN.read_text(encoding="utf-8")})


@dataclass
class Monitor:
    """One task: what the user typed, and everything read so far."""

    prompt: str
    rules: RuleSet
    tools: frozenset[str]
    approver: Approver
    label: Label = BOTTOM
    asks: int = 0
    merged: int = 0
    """Cards, if neighbours of one tool with nothing read between were one card."""
    denied: list[str] = field(default_factory=list)
    _last: str = ""
    _calls: int = 0

    def allows(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Judge one call, asking whoever answers when policy asks."""
        self._calls += 1
        declared = declare(tool, arguments)
        request = request_from_plan(
            call_id=f"c{self._calls}",
            tool=tool,
            effects=declared.effects,
            labels=(self.label,),
            arguments_digest=hashlib.sha256(json.dumps(arguments, default=str, sort_keys=True).encode()).hexdigest(),
            goal_revision=1,
            reversible=declared.reversible,
            sends=declared.sends,
        )
        request = replace(request, intent=intent_of([self.prompt], request.effects))
        context = Context(
            workspace_id=WorkspaceId("w"),
            session_id=SessionId("s"),
            turn_id=TurnId("t"),
            goal_revision=1,
            trust_level=TrustLevel.restricted,
            worktree=Integrity.WORKSPACE,
            now=1,
            builtin_tools=self.tools,
        )
        decision = decide(request, self.rules, (), context)
        if decision.verdict == "deny":
            self.denied.append(f"{tool}: {decision.reason}")
            return False
        if decision.verdict == "allow":
            self._last = ""
            return True
        self.asks += 1
        self.merged += tool != self._last
        self._last = tool
        return self.approver(tool, arguments, build_card(request, decision, context))

    def took(self, tool: str, arguments: Mapping[str, Any]) -> None:
        """The result of a call is in the model's context now."""
        integrity = Integrity(declare(tool, arguments).result)
        self.label = self.label.join(Label(integrity, None, (f"tool:{tool}",)))
