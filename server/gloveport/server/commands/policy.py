"""policy/*, session/rules: the rules in force, and what they would say.

Purpose: the handlers that show and explain policy, and the one that gives a session rules of its own.
Invariant: what is shown is what decides; a rule that comes this way only narrows.
Must never: decide about a call, or change a rule of another source.
"""

from hashlib import sha256

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.events import EventBody, SessionRulesSet
from gloveport.protocol.wire.policy import (
    FactorInfo,
    PolicyExplainParams,
    PolicyExplainResult,
    PolicyShowParams,
    PolicyShowResult,
    RuleInfo,
    SessionRulesParams,
    SessionRulesResult,
)
from gloveport.server.commands.house import House
from gloveport.server.commands.once import Once
from gloveport.server.engine.explaining import explain_command
from gloveport.server.policy.display import command_display
from gloveport.server.policy.explain import explain
from gloveport.server.policy.explain import show as show_rules
from gloveport.server.policy.rules.rule import Source
from gloveport.server.policy.words import effect_words
from gloveport.server.session.state import SessionState
from gloveport.server.transports.port import Caller


async def show(house: House, params: PolicyShowParams, caller: Caller) -> PolicyShowResult:
    """The rules in force, everybody's or a session's. Raises SESSION_UNKNOWN."""
    room = house.sessions.room
    text = "" if params.session_id is None else (await house.sessions.open(params.session_id)).state.rules
    shown = show_rules(room.session_rules.of(text))
    rules = tuple(map(RuleInfo.model_validate, shown["rules"]))
    return PolicyShowResult(rules_hash=shown["rules_hash"], rules=rules, own_text=text)


async def give_session(house: House, params: SessionRulesParams, caller: Caller, once: Once) -> SessionRulesResult:
    """Give a session rules of its own, which replace those before. Raises RULES_INVALID, SUPERSEDED."""
    actor, known = await house.sessions.open(params.session_id), house.sessions.room.session_rules
    own = known.check(params.text)
    shown = show_rules(known.of(params.text))
    names = {str(one.rule_id) for one in own}
    stated = (one for one in shown["rules"] if one["source"] == Source.session and one["rule_id"] in names)
    result = SessionRulesResult(rules_hash=shown["rules_hash"], rules=tuple(map(RuleInfo.model_validate, stated)))
    fact = SessionRulesSet(text=params.text, ids=tuple(sorted(names)), by=caller.client_name or "client")

    def facts(state: SessionState) -> tuple[EventBody, ...]:
        if params.base_digest not in (None, sha256(state.rules.encode()).hexdigest()):
            raise GloveportError(
                ErrorCode.SUPERSEDED,
                "the session's rules were changed since they were read; nothing was changed now",
                hint="Read them again, and make the change in what they say today.",
            )
        return (fact,)

    await actor.record(facts, once.request(result))
    return result


async def explained(house: House, params: PolicyExplainParams, caller: Caller) -> PolicyExplainResult:
    """What would be decided about a command in a session, by which rules, and why; nothing is run."""
    actor = await house.sessions.open(params.session_id)
    decision, known = await explain_command(actor, params.argv)
    words = explain(decision)
    shown = {
        f"{one['source']}:{one['rule_id']}": one
        for one in show_rules(house.sessions.room.session_rules.of(actor.state.rules))["rules"]
    }
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
