"""The product's own policy before every call of the benchmark.

Purpose: carry the label of what was read, have the real `decide` judge, and build the real card for whoever answers.
Invariant: nothing here allows or denies; a verdict is the policy room's, an answer the approver's.
Must never: know which calls are the user's and which the attacker's.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tests.redteam.dojo.mapping import declare

from gloveport.protocol.ids import SessionId, TurnId, WorkspaceId
from gloveport.server.policy.answer import grant_from_answer
from gloveport.server.policy.card import build_card
from gloveport.server.policy.decide import Decision, decide
from gloveport.server.policy.effects import OUTGOING_KINDS
from gloveport.server.policy.grant import Grant
from gloveport.server.policy.intake import carries_words_alone, request_from_plan
from gloveport.server.policy.intent import intent_of
from gloveport.server.policy.labels import BOTTOM, Integrity, Label
from gloveport.server.policy.request import Context, Request
from gloveport.server.policy.rules.rule import Source
from gloveport.server.policy.rules.ruleset import RuleSet, ruleset_from_texts
from gloveport.server.policy.rung import TrustLevel
from gloveport.server.policy.together import may_join, put_together
from gloveport.server.policy.typed import is_typed_look, nothing_read

Card = Mapping[str, Any]
Approver = Callable[[str, Mapping[str, Any], Card], bool]

BUILTIN: Final = Path(__file__).parents[3] / "server/gloveport/server/policy/rules/builtin.toml"


@dataclass(frozen=True)
class Call:
    """One call of a response."""

    call_id: str
    tool: str
    arguments: dict[str, Any]
    label: Label
    """Of all that was read when the model made it."""
    told: tuple[str, ...] | None = None
    """Who is told of it besides those it names."""


def default_rules() -> RuleSet:
    """The rules that every user has."""
    return ruleset_from_texts({Source.builtin: BUILTIN.read_text(encoding="utf-8")})


@dataclass
class Monitor:
    """One task: what the user typed, everything read so far, and the rights that answers gave."""

    prompt: str
    rules: RuleSet
    tools: frozenset[str]
    approver: Approver
    label: Label = BOTTOM
    asks: int = 0
    """Answers that somebody gave."""
    cards: int = 0
    """Times that somebody was interrupted; several parts of one kind stand together."""
    denied: list[str] = field(default_factory=list)
    grants: list[Grant] = field(default_factory=list)
    looked: bool = False
    """The user's own words answered for a look, or a call reached outside otherwise."""
    _calls: int = 0

    def asks_about(self, calls: Sequence[Call]) -> tuple[bool, ...]:
        """Ask about the first of the calls that are left of a response as the engine does, before any of them runs.

        It is asked about with those right behind it that may stand beside it; the answers to these, in their order.
        """
        first = self._card(calls[0])
        if first is None:
            return (True,)
        cards = [first]
        for call in calls[1:]:
            beside = self._card(call)
            if beside is None or not may_join(cards, beside):
                break
            cards.append(beside)
        self.cards += 1
        return tuple(self._answered(call, card) for call, card in zip(calls, put_together(cards), strict=False))

    def allows(self, call: Call) -> bool:
        """Judge one call as it begins, with the rights that were given; where they hold no more, it is asked again."""
        card = self._card(call)
        if card is not None:
            self.cards += 1
            self._answered(call, card)
        decision, _request = self._judged(call)
        if decision.verdict == "deny":
            self.denied.append(f"{call.tool}: {decision.reason}")
        return str(decision.verdict) == "allow"

    def _card(self, call: Call) -> Card | None:
        decision, request = self._judged(call)
        return build_card(request, decision, self._context()) if decision.verdict == "ask" else None

    def _answered(self, call: Call, card: Card) -> bool:
        self.asks += 1
        if not self.approver(call.tool, call.arguments, card):
            return False
        given = grant_from_answer(card, option=0, grant_id=f"g{self.asks}", approval_id=f"a{self.asks}", issued_at=1)
        self.grants.append(given)
        return True

    def _judged(self, call: Call) -> tuple[Decision, Request]:
        declared = declare(call.tool, call.arguments, call.told)
        request = request_from_plan(
            call_id=call.call_id,
            tool=call.tool,
            effects=declared.effects,
            labels=(call.label if carries_words_alone(declared.effects, None) else self.label,),
            arguments_digest=hashlib.sha256(
                json.dumps(call.arguments, default=str, sort_keys=True).encode()
            ).hexdigest(),
            goal_revision=1,
            reversible=declared.reversible,
            sends=declared.sends,
        )
        said = "" if self.looked or not nothing_read(self.label) else self.prompt
        typed = is_typed_look(said, declared.sends)
        request = replace(request, intent=intent_of([self.prompt], request.effects), typed=typed)
        return decide(request, self.rules, self.grants, self._context()), request

    def _context(self) -> Context:
        return Context(
            workspace_id=WorkspaceId("w"),
            session_id=SessionId("s"),
            turn_id=TurnId("t"),
            goal_revision=1,
            trust_level=TrustLevel.restricted,
            worktree=Integrity.WORKSPACE,
            now=1,
            builtin_tools=self.tools,
        )

    def named(self, tool: str, arguments: Mapping[str, Any], told: tuple[str, ...] | None = None) -> Call:
        """A call under an id of its own."""
        self._calls += 1
        return Call(f"c{self._calls}", tool, dict(arguments), self.label, told)

    def took(self, call: Call) -> None:
        """The result of a call is in the model's context now."""
        integrity = Integrity(declare(call.tool, call.arguments, call.told).result)
        self.label = self.label.join(Label(integrity, None, (f"tool:{call.tool}",)))
        self.looked = self.looked or any(
            one.kind in OUTGOING_KINDS for one in declare(call.tool, call.arguments, call.told).effects
        )
