"""Asking policy about a planned call, and turning answers into rights.

Purpose: carry facts between the session, a tool's plan and the policy kernel.
Invariant: everything a decision depends on is passed in; the card that is stored is the card that is judged.
Must never: decide anything itself.
"""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from gloveport.protocol.ids import SessionId, Sha256, TurnId, WorkspaceId
from gloveport.protocol.journal.events import ApprovalRequested, GrantIssued
from gloveport.protocol.journal.events.tool import EffectRecord
from gloveport.sandbox.contract import Claim
from gloveport.server.engine.actor import Actor
from gloveport.server.engine.hands import SANDBOX, Hands
from gloveport.server.engine.labelling import carried_label, confidential, sent_label, tree_label
from gloveport.server.engine.told import told_before
from gloveport.server.policy.answer import grant_from_answer, grant_from_issued, issued_fields
from gloveport.server.policy.awaited import stop_class_of
from gloveport.server.policy.card import build_card, card_digest
from gloveport.server.policy.decide import Decision, decide
from gloveport.server.policy.effects import OUTGOING_KINDS, EffectKind
from gloveport.server.policy.grant import Grant
from gloveport.server.policy.intake import carries_words_alone, request_from_plan
from gloveport.server.policy.intent import intent_of
from gloveport.server.policy.labels import BOTTOM, Integrity, Label, label_from_record
from gloveport.server.policy.request import Context, Leaving, Request, Sending
from gloveport.server.policy.rung import SandboxFacts, TrustLevel
from gloveport.server.policy.shell.understood import Understood
from gloveport.server.policy.together import put_together
from gloveport.server.policy.typed import is_typed_look, nothing_read
from gloveport.server.session.state import Call, SessionState
from gloveport.server.tools.contract import ToolPlan
from gloveport.server.turn.inputs import CallJudged, CardShown, Judgement, Plan

_LEVELS: Final[Mapping[str, TrustLevel]] = MappingProxyType({level.value: level for level in TrustLevel})


def sandbox_facts(hands: Hands) -> SandboxFacts:
    """The rung of a call as policy sees it."""
    holds = hands.available.holds
    return SandboxFacts(
        name=hands.backend.name,
        strength=int(hands.backend.strength) if hands.available.ok else 0,
        network=Claim.NO_NETWORK not in holds,
        holds=tuple(sorted(claim.value for claim in holds)),
        does_not_hold=tuple(sorted(claim.value for claim, _ in hands.available.does_not_hold)),
        statement=hands.backend.statement,
        host=hands.backend.host,
        missing="" if hands.available.ok else hands.available.reason or "a trial of it failed",
    )


def context_of(actor: Actor) -> Context:
    """The circumstances of a decision now."""
    state = actor.state
    level = _LEVELS.get(state.trust_level)
    return Context(
        workspace_id=WorkspaceId(state.workspace_id),
        session_id=SessionId(actor.session_id),
        turn_id=TurnId(state.turn.turn_id if state.turn is not None else ""),
        goal_revision=state.goal_revision,
        trust_level=level,
        worktree=Integrity(tree_label(actor).integrity),
        now=actor.room.latest_us(),
        builtin_tools=actor.room.toolbox.names,
    )


def rights_in_force(actor: Actor, now: int) -> tuple[Grant, ...]:
    """The rights that may answer for a call of this session: its own, and those of its workspace."""
    own = (grant_in_force(actor.state, issued, now) for issued in actor.state.grants.values())
    shared = actor.room.rights.in_force(actor.state.workspace_id, now)
    return (*(grant for grant in own if grant is not None), *shared)


def grant_in_force(state: SessionState, issued: GrantIssued, now: int) -> Grant | None:
    """The grant after its uses so far; None when it is used up, expired or unreadable."""
    grant = grant_from_issued(issued, state.grant_uses.get(issued.grant_id, 0))
    if grant is None or (grant.uses_left is not None and grant.uses_left <= 0):
        return None
    return None if grant.expires_at is not None and grant.expires_at <= now else grant


async def beside_it(actor: Actor, plan: ToolPlan, hands: Hands) -> Label:
    """What could leave with a call, besides its own words; nothing where nothing leaves.

    To a sandbox on another machine the whole copy of the folder is sent, whatever the call names.
    """
    leaves = any(one.kind in OUTGOING_KINDS for one in plan.effects)
    is_sent = _is_jailed(plan) and bool(hands.backend.host)
    if not leaves and not is_sent and (not _is_jailed(plan) or Claim.NO_NETWORK in hands.available.holds):
        return BOTTOM
    carried = label_from_record(await carried_label(actor, plan.effects))
    if is_sent:
        return carried.join(label_from_record(await sent_label(actor)))
    if leaves and (unseen := actor.state.unseen):  # what nobody looked through may be anything, also what was read
        return carried.join(label_from_record(confidential(actor.state, f"not-looked-through:{unseen[0]}")))
    return carried


def _request(
    state: SessionState, call: Call, plan: ToolPlan, hands: Hands, understood: Understood | None, carried: Label
) -> Request:
    request = request_from_plan(
        call_id=call.call_id,
        tool=call.tool,
        effects=plan.effects,
        labels=(call.label if carries_words_alone(plan.effects, plan.argv) else state.label, plan.label),
        arguments_digest=call.arguments_digest,
        goal_revision=call.goal_revision,
        argv=plan.argv,
        cwd=plan.cwd,
        file_digests=plan.file_digests,
        unbound=plan.unbound,
        reversible=plan.reversible,
        sandbox=sandbox_facts(hands) if _is_jailed(plan) else None,
        sends=plan.sends,
        understood=understood,
    )
    intent = intent_of(state.user_messages[-1:], request.effects)
    unread = nothing_read(label_from_record(state.label))
    typed = plan.argv is None and unread and is_typed_look(state.unanswered_look, plan.sends)
    sending, sources = _sending(state, call, plan), label_from_record(call.label)
    request = dataclasses.replace(request, payload=leaving_of(plan), sending=sending, sources=sources)
    return dataclasses.replace(request, intent=intent, typed=typed, carried=carried, unseen=state.unseen)


def _sending(state: SessionState, call: Call, plan: ToolPlan) -> Sending | None:
    """What leaves, and what the model had been shown when it wrote it."""
    shown = plan.shown
    if shown is None:
        return None
    return Sending(shown.head, shown.body, shown.is_scanned, told_before(state, call.call_id))


def leaving_of(plan: ToolPlan) -> Leaving | None:
    """What leaves, as policy sees it."""
    sent = plan.payload
    if sent is None:
        return None
    digest = Sha256(hashlib.sha256(sent.data).hexdigest())
    return Leaving(sent.effect, sent.scheme, sent.host, sent.port, digest, len(sent.data))


def _is_jailed(plan: ToolPlan) -> bool:
    """True if the call starts something in the sandbox."""
    return plan.executor.startswith(SANDBOX)


def _places(plan: ToolPlan) -> tuple[str, ...]:
    """What a call in the sandbox would reach outside."""
    return tuple(one.target for one in plan.effects if one.kind == "network")


def _decided(actor: Actor, request: Request, context: Context) -> Decision:
    """What the rules in force in a session and its rights say about a request."""
    rules = actor.room.session_rules.of(actor.state.rules)
    return decide(request, rules, rights_in_force(actor, context.now), context)


def judge(
    actor: Actor, call: Call, plan: ToolPlan, hands: Hands, understood: Understood | None, carried: Label
) -> CallJudged:
    """Policy's answer to a planned call, with the card where it asks. `carried`: see `beside_it`."""
    request, context = _request(actor.state, call, plan, hands, understood, carried), context_of(actor)
    decision = _decided(actor, request, context)
    return CallJudged(
        call_id=call.call_id,
        plan=Plan(
            title=plan.title,
            effects=(*plan.effects, *_secrets(decision, plan)),
            recovery=plan.recovery,
            stop_class=stop_class_of(plan.stop_class, plan.argv, decision.effects),
            executor=plan.executor,
            fingerprint=plan.fingerprint,
            label=plan.label,
            security_context=hands.security_context(_places(plan)) if _is_jailed(plan) else {"runs_in": "daemon"},
        ),
        judgement=Judgement(
            verdict=decision.verdict.value,
            risk=decision.risk,
            reason=decision.reason,
            rule_ids=decision.rule_ids,
            rules_hash=decision.rules_hash,
            grant_id=decision.grant_id,
            grant_uses_left=decision.grant_uses_left,
        ),
        card=_card(request, decision, context, plan),
    )


def together(judged: Sequence[CallJudged]) -> CallJudged:
    """Several judgements that ask, as one of the first with the others beside it. Each keeps its card and digest."""
    cards = put_together([one.card.card for one in judged if one.card is not None])
    first, *others = (
        dataclasses.replace(one, card=dataclasses.replace(one.card, card=card, card_digest=card_digest(card)))
        for one, card in zip(judged, cards, strict=True)
        if one.card is not None
    )
    return dataclasses.replace(first, beside=tuple(others))


async def decision_on(
    actor: Actor, call: Call, plan: ToolPlan, hands: Hands, understood: Understood | None
) -> Decision:
    """The whole decision on a planned call, for those who only want to know."""
    carried, context = await beside_it(actor, plan, hands), context_of(actor)
    request = _request(actor.state, call, plan, hands, understood, carried)
    return _decided(actor, request, context)


def _secrets(decision: Decision, plan: ToolPlan) -> tuple[EffectRecord, ...]:
    """Secrets that policy saw in the command line: what is allowed with the call belongs to its intent."""
    known = {(effect.kind, effect.target) for effect in plan.effects}
    found = (effect for effect in decision.effects if effect.kind is EffectKind.secret_read)
    return tuple(
        EffectRecord(kind=str(effect.kind), target=effect.target)
        for effect in found
        if (str(effect.kind), effect.target) not in known
    )


def _card(request: Request, decision: Decision, context: Context, plan: ToolPlan) -> CardShown | None:
    if decision.need is None:
        return None
    card = build_card(request, decision, context, summary=plan.title, diff=plan.diff)
    return CardShown(card=card, card_digest=card_digest(card), expires_at=None)


def issue_grant(
    actor: Actor, asked: ApprovalRequested, option: int, narrowed_to: Mapping[str, Any] | None, expires_at: int | None
) -> GrantIssued:
    """The right that an answer gives; `expires_at` is by the clock, what is recorded by the newest time.

    Raises PolicyError (TOO_WIDE) when the answer reaches further than the card.
    """
    clock = actor.room.now_us()
    now = actor.room.latest_us(clock)
    grant = grant_from_answer(
        asked.card,
        option=option,
        narrowed_to=narrowed_to,
        grant_id=actor.room.new_id("grant"),
        approval_id=asked.approval_id,
        issued_at=now,
        expires_at=None if expires_at is None else expires_at + now - clock,
    )
    return GrantIssued(**issued_fields(grant))
