"""Facts about decisions: policy, approvals, grants.

Purpose: who allowed what, shown how, for how long.
Invariant: an answer names the digest of the card that was shown; a grant is used at most as often as it says.
Must never: hold a grant that no card offered.
"""

from typing import Literal

from pydantic import Field, JsonValue

from gloveport.protocol.journal.events.base import CallBody, EventBody, HexDigest
from gloveport.protocol.journal.events.tool import EffectRecord


class PolicyDecided(CallBody):
    """What policy said about a call, by which rules of which sources, and why."""

    verdict: Literal["allow", "ask", "deny"]
    risk: str
    reason: str
    rule_ids: tuple[str, ...]
    rules_hash: HexDigest
    effects: tuple[EffectRecord, ...]
    grant_id: str | None


class ApprovalRequested(CallBody):
    """The user is asked. `card` is what is rendered, `card_digest` what an answer must name."""

    approval_id: str
    card: dict[str, JsonValue]
    card_digest: HexDigest
    expires_at: int | None


class ApprovalResolved(CallBody):
    """The card was answered, expired or became void."""

    approval_id: str
    card_digest: HexDigest
    decision: Literal["allowed", "denied", "expired", "withdrawn", "superseded"]
    scope: Literal["once", "turn", "session", "workspace"] | None
    grant_id: str | None
    by: str


class GrantIssued(EventBody):
    """A right was given; `grant` is the policy room's own record of it."""

    grant_id: str
    scope: Literal["once", "turn", "session", "workspace"]
    sentence: str
    grant: dict[str, JsonValue]


class GrantUsed(EventBody):
    """A right was used for one call; written with the call's intent, in one transaction."""

    grant_id: str
    call_id: str
    uses_left: int | None = Field(ge=0)


class GrantRevoked(EventBody):
    """A right ended before its time."""

    grant_id: str
    reason: str
