"""approval/*, grant/*: cards and the rights that answers gave.

Purpose: the handlers of questions to the user.
Invariant: an answer names the digest of the card that was rendered; it can narrow and never widen.
Must never: answer for the user.
"""

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.events import EventBody, GrantRevoked
from gloveport.protocol.wire.base import Empty, SessionParams
from gloveport.protocol.wire.turn import (
    ApprovalInfo,
    ApprovalListResult,
    ApprovalResolveParams,
    ApprovalResolveResult,
    GrantInfo,
    GrantListResult,
    GrantRevokeParams,
)
from gloveport.server.commands.house import House
from gloveport.server.commands.once import Once
from gloveport.server.engine.bookkeeping import REVOKED_BY
from gloveport.server.engine.judging import issue_grant, rights_in_force
from gloveport.server.engine.perform import start as start_effects
from gloveport.server.engine.tool_run import recheck_others
from gloveport.server.policy.answer import grant_sentence
from gloveport.server.session.state import SessionState
from gloveport.server.transports.port import Caller
from gloveport.server.turn.inputs import ApprovalAnswered
from gloveport.server.turn.releases import ONCE


async def listed(house: House, params: SessionParams, caller: Caller) -> ApprovalListResult:
    """The cards that wait."""
    actor = await house.sessions.open(params.session_id)
    return ApprovalListResult(
        approvals=tuple(
            ApprovalInfo(
                approval_id=one.approval_id,
                call_id=one.call_id,
                card=one.card,
                card_digest=one.card_digest,
                expires_at=one.expires_at,
            )
            for one in actor.state.approvals.values()
        )
    )


async def resolve(house: House, params: ApprovalResolveParams, caller: Caller, once: Once) -> ApprovalResolveResult:
    """Answer a card."""
    actor = await house.sessions.open(params.session_id)
    asked = actor.state.approvals.get(params.approval_id)
    if asked is None:
        raise GloveportError(ErrorCode.APPROVAL_UNKNOWN, "this card does not wait any more")
    if asked.card_digest != params.card_digest:
        raise GloveportError(ErrorCode.SUPERSEDED, "the card is not the one that was shown")
    by = caller.client_name or "client"
    if params.decision == "deny":
        result = ApprovalResolveResult(grant_id=None, sentence="")
        given = ApprovalAnswered(params.approval_id, params.card_digest, "denied", None, by, params.unasked)
    else:
        grant = issue_grant(actor, asked, params.option, params.narrowed_to, params.expires_at)
        result = ApprovalResolveResult(grant_id=grant.grant_id, sentence=grant.sentence)
        given = ApprovalAnswered(params.approval_id, params.card_digest, "allowed", grant, by)
    start_effects(actor, await actor.submit(given, once.request(result)))
    if given.grant is not None and given.grant.scope != ONCE and actor.state.approvals:
        start_effects(actor, await recheck_others(actor, by))
    return result


async def grants(house: House, params: SessionParams, caller: Caller) -> GrantListResult:
    """The rights in force: the session's own, and those of its workspace."""
    actor = await house.sessions.open(params.session_id)
    room, rows = house.sessions.room, []
    clock = room.now_us()
    now = room.latest_us(clock)
    for grant in rights_in_force(actor, now):
        rows.append(
            GrantInfo(
                grant_id=grant.grant_id,
                scope=grant.scope.value,
                sentence=grant_sentence(grant),
                expires_at=None if grant.expires_at is None else grant.expires_at - (now - clock),
                uses_left=grant.uses_left,
                session_id=grant.session_id,
                issued_at=grant.issued_at,
            )
        )
    return GrantListResult(grants=tuple(rows))


async def revoke(house: House, params: GrantRevokeParams, caller: Caller, once: Once) -> Empty:
    """End a right now."""
    actor = await house.sessions.open(params.session_id)
    reason = f"{REVOKED_BY}{caller.client_name or 'client'}"

    def facts(state: SessionState) -> tuple[EventBody, ...]:
        shared = actor.room.rights.holds(state.workspace_id, params.grant_id)
        if params.grant_id not in state.grants and not shared:
            raise GloveportError(ErrorCode.APPROVAL_UNKNOWN, "there is no such right", hint="List them: grant/list.")
        return (GrantRevoked(grant_id=params.grant_id, reason=reason),)

    await actor.record(facts, once.request(Empty()))
    return Empty()
