"""Messages about turns, approvals and grants.

Purpose: start, queue, cancel; answer cards; list and revoke grants.
Invariant: an answer names the digest of the card that was rendered.
Must never: let a client decide without the decision token (the method table says which calls decide).
"""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from gloveport.protocol.wire.base import (
    TEXT_LENGTH_MAX,
    Digest,
    Name,
    SessionMutation,
    SessionParams,
    WireModel,
)

MessageText = Annotated[str, StringConstraints(min_length=1, max_length=TEXT_LENGTH_MAX)]


class TurnStartParams(SessionMutation):
    """A typed message of the user. While a turn runs it is refused, or queued if `queue` is set."""

    text: MessageText
    queue: bool = False


class TurnStartResult(WireModel):
    """The turn that began, or null and `queued`."""

    turn_id: str | None
    message_id: str
    queued: bool


class TurnUnqueueParams(SessionMutation):
    """Take a waiting message back."""

    message_id: Name


class TurnCancelParams(SessionMutation):
    """Stop the running turn; `turn_id` guards against stopping the next one."""

    turn_id: Name | None = None


class TurnCancelResult(WireModel):
    """Whether a turn was running; it is idle once TurnCancelled arrives."""

    turn_id: str | None


class ApprovalInfo(WireModel):
    """A card as it stands."""

    approval_id: str
    call_id: str
    card: dict[str, Any]
    card_digest: str
    expires_at: int | None


class ApprovalListResult(WireModel):
    """The cards that wait."""

    approvals: tuple[ApprovalInfo, ...]


class ApprovalResolveParams(SessionMutation):
    """Answer a card. `option` is the index of the card's option that is granted; `narrowed_to` may narrow it."""

    approval_id: Name
    card_digest: Digest
    decision: Literal["allow", "deny"]
    option: int = Field(default=0, ge=0, le=32)
    narrowed_to: dict[str, Any] | None = None
    expires_at: int | None = None


class ApprovalResolveResult(WireModel):
    """The grant that was issued, null for a denial."""

    grant_id: str | None
    sentence: str


class GrantInfo(WireModel):
    """A right in force."""

    grant_id: str
    scope: str
    sentence: str
    expires_at: int | None
    uses_left: int | None


class GrantListResult(WireModel):
    """The rights of a session."""

    grants: tuple[GrantInfo, ...]


class GrantRevokeParams(SessionMutation):
    """End a right before its time."""

    grant_id: Name


class WhyParams(SessionParams):
    """Ask why a call ended as it did."""

    call_id: Name


class WhyResult(WireModel):
    """The decision, the evidence of the outcome and what can be done."""

    call_id: str
    tool: str
    decision: str
    outcome: str
    evidence: str
    hint: str
