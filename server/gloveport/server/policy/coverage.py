"""Which grant answers for a call.

Purpose: find the one grant in force that covers everything that is asked.
Invariant: a grant matches the next identical call and nothing wider than was shown; ended, used up or foreign grants do
not count; with several, the narrowest answers, whatever their order.
Must never: join two grants into a wider one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gloveport.protocol.ids import Sha256
from gloveport.server.policy.capability import Scope, overbroad, pattern_covers
from gloveport.server.policy.findings import Finding
from gloveport.server.policy.grant import Bound, Grant
from gloveport.server.policy.request import Context, Request, request_digest


def covering_grant(
    grants: Iterable[Grant], request: Request, context: Context, asks: Sequence[Finding], ceiling: Scope
) -> Grant | None:
    """The narrowest grant in force that answers all asks, or None.

    An agent that works for others needs that each of them has one too; one of counted uses is for its own agent alone.
    """
    if not all(
        _may_pass_on(grants := tuple(grants), request, context, asks, ceiling, one) for one in context.ancestors
    ):
        return None
    digest = request_digest(request)
    found = [
        grant
        for grant in grants
        if grant.scope.width <= ceiling.width
        and is_in_force(grant, context)
        and _is_for(grant, request, context, digest)
        and all(_answers(grant, request, ask) for ask in asks)
    ]
    return min(found, key=lambda grant: (grant.scope.width, grant.issued_at, grant.grant_id), default=None)


def _may_pass_on(
    grants: Sequence[Grant], request: Request, context: Context, asks: Sequence[Finding], ceiling: Scope, ancestor: str
) -> bool:
    """True if a grant of the ancestor's own answers for the same call, however often."""
    own = replace(context, agent=ancestor, ancestors=())
    lasting = (grant for grant in grants if grant.uses_left is None)
    return covering_grant(lasting, request, own, asks, ceiling) is not None


def is_in_force(grant: Grant, context: Context) -> bool:
    """True if the grant is alive here and now: not revoked, expired, used up, or of another place, turn or trust."""
    alive = grant.revoked_at is None and (grant.uses_left is None or grant.uses_left > 0)
    in_time = grant.expires_at is None or context.now < grant.expires_at
    return alive and in_time and _is_here(grant, context)


def _is_here(grant: Grant, context: Context) -> bool:
    same_goal = grant.goal_revision is None or grant.goal_revision == context.goal_revision
    same_trust = grant.trust_generation == context.trust_generation
    if grant.workspace_id != context.workspace_id or not (same_goal and same_trust):
        return False
    if grant.scope is Scope.workspace:
        return True
    if grant.session_id != context.session_id:
        return False
    return grant.scope is Scope.session or (grant.turn_id == context.turn_id and grant.goal_revision is not None)


def _is_for(grant: Grant, request: Request, context: Context, digest: Sha256) -> bool:
    same_hand = grant.agent == context.agent and grant.capability.tool == request.tool
    if not same_hand or not _bound_holds(grant.bound, request, digest):
        return False
    if grant.scope is Scope.once:
        return grant.bound.request == digest
    return overbroad(grant.capability) is None


def _bound_holds(bound: Bound, request: Request, digest: Sha256) -> bool:
    sandbox = request.sandbox
    strength, network = (0, False) if sandbox is None else (sandbox.strength, sandbox.network)
    return (
        bound.request in {None, digest}
        and (bound.files is None or bound.files == request.file_digests)
        and (bound.cwd is None or bound.cwd == request.cwd)
        and bound.environment == request.environment
        and strength >= bound.strength_min
        and (bound.network or not network)
        and request.label.integrity <= bound.integrity_max
    )


def _answers(grant: Grant, request: Request, ask: Finding) -> bool:
    if grant.scope.width > ask.ceiling.width:
        return False
    if ask.effect is None:
        return True
    named = ask.effect.kind in grant.capability.kinds
    return named and pattern_covers(grant.capability.pattern, ask.effect, request.argv)
