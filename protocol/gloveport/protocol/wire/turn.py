"""Messages about turns, approvals and grants.

Purpose: start, queue, steer, interrupt, edit, cancel; answer cards; list and revoke grants.
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
    """A typed message of the user that begins a turn; refused while one runs (see queue, steer, interrupt)."""

    text: MessageText


class TurnStartResult(WireModel):
    """The turn that began."""

    turn_id: str
    message_id: str


class TurnQueueParams(SessionMutation):
    """A message for after the running turn; where none runs it begins one at once."""

    text: MessageText


class TurnQueueResult(WireModel):
    """`turn_id`: the turn that began, null while the message waits; `position` counts from 1, null when it began."""

    turn_id: str | None
    message_id: str
    position: int | None


class TurnSteerParams(SessionMutation):
    """Say something to the running turn `expected_turn_id`: a new text, or the queued message `message_id`.

    `kind` null: what it means for the task is read from its words, and shown.
    """

    expected_turn_id: Name
    text: MessageText | None = None
    message_id: Name | None = None
    kind: Literal["supplement", "correct", "replace", "ask"] | None = None


class TurnInterruptParams(SessionMutation):
    """Stop the turn `expected_turn_id` and begin the next one with a new text, or the queued message `message_id`."""

    expected_turn_id: Name
    text: MessageText | None = None
    message_id: Name | None = None


class TurnSteerResult(WireModel):
    """What was decided; `words` say what happens to the work under way.

    `turn_id` is the turn that the message reaches, for an interruption the next one.
    """

    turn_id: str
    message_id: str
    kind: str
    chosen_by: str
    words: str


class TurnEditParams(SessionMutation):
    """Give a waiting message another text. A delivered message is not edited, and no file is ever changed by it."""

    message_id: Name
    text: MessageText


class TurnUnqueueParams(SessionMutation):
    """Take a waiting message back."""

    message_id: Name


class TurnCancelParams(SessionMutation):
    """Stop the running turn; `turn_id` guards against stopping the next one."""

    turn_id: Name | None = None


class TurnCancelResult(WireModel):
    """Whether a turn was running; it is idle once TurnCancelled arrives. `words` name what is waited for until then."""

    turn_id: str | None
    words: str = ""


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
    """Answer a card. `option` is the index of the card's option that is granted; `narrowed_to` may narrow it.

    `unasked`: a client was told beforehand to answer so, and nobody saw the card.
    """

    approval_id: Name
    card_digest: Digest
    decision: Literal["allow", "deny"]
    unasked: bool = False
    option: int = Field(default=0, ge=0, le=32)
    narrowed_to: dict[str, Any] | None = None
    expires_at: int | None = None


class ApprovalResolveResult(WireModel):
    """The grant that was issued, null for a denial."""

    grant_id: str | None
    sentence: str


class GrantInfo(WireModel):
    """A right in force, and in which session it was given, when."""

    grant_id: str
    scope: str
    sentence: str
    expires_at: int | None
    uses_left: int | None
    session_id: str
    issued_at: int


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
    """The decision, the evidence of the outcome, what it reached outside or was refused, and what can be done.

    `first_refused` names the first system call that the sandbox refused; empty when none was. `said`: what the user
    said of a call whose outcome nobody knows, and by which client.
    """

    call_id: str
    tool: str
    decision: str
    outcome: str
    evidence: str
    hint: str
    network: tuple[str, ...] = ()
    first_refused: str = ""
    said: str = ""


class ToolSettleParams(SessionMutation):
    """Say what became of a call whose outcome nobody knows; nothing is run by it, and no turn may run."""

    call_id: Name
    said: Literal["done", "not_done"]


class ToolSettleResult(WireModel):
    """What the model is told of it: the user's word."""

    text: str
