"""From an answer to a grant.

Purpose: what the user chose on a card becomes the grant that the card offered, or one that is narrower.
Invariant: an answer narrows and never widens: kinds, targets, scope, uses and time; a grant holds what a card offered.
Must never: mint an id or read a clock; both are handed in.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from gloveport.protocol.ids import ApprovalId, GrantId, SessionId, TurnId, WorkspaceId
from gloveport.server.policy.capability import Capability, Scope, capability_from_plain, narrowed_within, overbroad
from gloveport.server.policy.errors import TooWideError
from gloveport.server.policy.grant import Grant, bound_from_plain, grant_from_plain
from gloveport.server.policy.offers import LIFETIME_S, sentence_of

MICROSECONDS: Final = 1_000_000
_NARROWING: Final = frozenset({"scope", "capability", "uses"})


class IssuedGrant(Protocol):
    """The parts of the journal's `GrantIssued` that are read back."""

    @property
    def grant(self) -> Mapping[str, Any]:
        """The room's own record."""


def option_for(card: Mapping[str, Any], scope: Scope) -> int | None:
    """The first option of this scope on a card, or None when the card does not offer it."""
    return next((at for at, one in enumerate(card["options"]) if one["scope"] == scope), None)


def grant_from_answer(
    card: Mapping[str, Any],
    *,
    option: int,
    narrowed_to: Mapping[str, Any] | None = None,
    grant_id: str,
    approval_id: str,
    issued_at: int,
    expires_at: int | None = None,
) -> Grant:
    """The grant of an answer that allows.

    `narrowed_to` may name `scope`, `capability` (its JSON form) and `uses`; `expires_at` may only be earlier than the
    option's own end. Raises TooWideError for anything that the option does not hold.
    """
    options = card["options"]
    if not 0 <= option < len(options):
        raise TooWideError(f"the card offers {len(options)} answers, and this is not one of them")
    offered = options[option]
    wanted = narrowed_to or {}
    if set(wanted) - _NARROWING:
        raise TooWideError(f"an answer may name {', '.join(sorted(_NARROWING))} and nothing else")
    scope = _scope(wanted.get("scope", offered["scope"]), Scope(offered["scope"]))
    bound = bound_from_plain(offered["bound"])
    binding = card["binding"]
    return Grant(
        grant_id=GrantId(grant_id),
        capability=_capability(wanted.get("capability"), capability_from_plain(offered["capability"]), scope),
        scope=scope,
        workspace_id=WorkspaceId(binding["workspace_id"]),
        session_id=SessionId(binding["session_id"]),
        agent=binding["agent"],
        issued_at=issued_at,
        issued_from=ApprovalId(approval_id),
        bound=bound,
        expires_at=_expiry(issued_at, expires_at, min(LIFETIME_S[scope], offered["lifetime_s"])),
        uses_left=_uses(wanted.get("uses"), 1 if scope is Scope.once else offered["uses"]),
        turn_id=TurnId(binding["turn_id"]) if scope in {Scope.once, Scope.turn} else None,
        goal_revision=binding["goal_revision"] if scope in {Scope.once, Scope.turn} else None,
        trust_generation=binding["trust_generation"],
    )


def grant_sentence(grant: Grant) -> str:
    """What a grant lets through, whole, in one sentence."""
    return sentence_of(grant.capability, grant.scope, grant.bound, grant.uses_left)


def issued_fields(grant: Grant) -> dict[str, Any]:
    """The fields of the journal's `GrantIssued` for this grant."""
    return {
        "grant_id": str(grant.grant_id),
        "scope": str(grant.scope),
        "sentence": grant_sentence(grant),
        "grant": grant.to_plain(),
    }


def grant_from_issued(issued: IssuedGrant, uses: int = 0) -> Grant | None:
    """The grant of a recorded `GrantIssued` after so many uses; None when the record is not completely a grant."""
    grant = grant_from_plain(issued.grant)
    return None if grant is None else grant.used(uses)


def _scope(wanted: object, offered: Scope) -> Scope:
    known = next((scope for scope in Scope if scope == wanted), None)
    if known is None or known.width > offered.width:
        raise TooWideError(f"the option holds for {offered}, and {wanted!r:.40} is not within that")
    if known is Scope.once and offered is not Scope.once:
        raise TooWideError("to allow it once, take the option that says so; it is bound to this one call")
    return known


def _capability(wanted: object, offered: Capability, scope: Scope) -> Capability:
    if wanted is None:
        return offered
    try:
        capability = capability_from_plain(wanted) if isinstance(wanted, Mapping) else None
    except (ValueError, KeyError, TypeError):
        capability = None
    if capability is None:
        raise TooWideError("the narrowed capability can't be read")
    if not narrowed_within(capability, offered):
        raise TooWideError("the narrowed capability reaches further than the option")
    why = None if scope is Scope.once else overbroad(capability)
    if why is not None:
        raise TooWideError(why)
    return capability


def _uses(wanted: object, offered: int | None) -> int | None:
    if wanted is None:
        return offered
    if type(wanted) is not int or wanted < 1 or (offered is not None and wanted > offered):
        raise TooWideError("uses is a whole number from 1 up to what the option holds")
    return wanted


def _expiry(issued_at: int, wanted: int | None, lifetime_s: int) -> int:
    end = issued_at + lifetime_s * MICROSECONDS
    if wanted is None:
        return end
    if not issued_at < wanted <= end:
        raise TooWideError("the end lies in the past or later than the option's")
    return wanted
