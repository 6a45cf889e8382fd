"""policy/*: the rules in force, and what they would say.

Purpose: the handlers that show and explain policy.
Invariant: what is shown is what decides.
Must never: decide about a call, or change a rule.
"""

from gloveport.protocol.wire.base import Empty
from gloveport.protocol.wire.policy import (
    FactorInfo,
    PolicyExplainParams,
    PolicyExplainResult,
    PolicyShowResult,
    RuleInfo,
)
from gloveport.server.commands.house import House
from gloveport.server.engine.explaining import explain_command
from gloveport.server.policy.display import command_display
from gloveport.server.policy.explain import explain
from gloveport.server.policy.explain import show as show_rules
from gloveport.server.policy.words import effect_words
from gloveport.server.transports.port import Caller


async def show(house: House, params: Empty, caller: Caller) -> PolicyShowResult:
    """The rules in force."""
    shown = show_rules(house.sessions.room.rules)
    return PolicyShowResult(rules_hash=shown["rules_hash"], rules=tuple(map(RuleInfo.model_validate, shown["rules"])))


async def explained(house: House, params: PolicyExplainParams, caller: Caller) -> PolicyExplainResult:
    """What would be decided about a command in a session, by which rules, and why; nothing is run."""
    actor = await house.sessions.open(params.session_id)
    decision, known = await explain_command(actor, params.argv)
    words = explain(decision)
    shown = {f"{one['source']}:{one['rule_id']}": one for one in show_rules(house.sessions.room.rules)["rules"]}
    return PolicyExplainResult(
        verdict=decision.verdict.value,
        risk=decision.risk,
        words=words.decision,
        hint=words.hint,
        rules_hash=decision.rules_hash,
        rules=tuple(RuleInfo.model_validate(shown[name]) for name in decision.rule_ids if name in shown),
        findings=tuple(f"{one.rule_id}: {one.verdict}: {one.words}" for one in decision.findings),
        factors=tuple(FactorInfo(name=one.name, level=one.level.name, words=one.words) for one in decision.factors),
        effects=tuple(effect_words(effect) for effect in decision.effects),
        commands=() if known is None else tuple(command_display(command) for command in known.commands),
        doubts=() if known is None else known.doubts,
        grant_id=decision.grant_id,
    )
