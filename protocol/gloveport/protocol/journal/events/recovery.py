"""Facts found after a restart.

Purpose: what became of what was under way when the last daemon ended, with the evidence, and what the user can do.
Invariant: `unknown` is a legal finding and stays one until somebody knows better.
Must never: claim more than the evidence shows.
"""

from typing import ClassVar, Literal

from pydantic import Field

from gloveport.protocol.journal.events.base import CallBody, EventBody, Record, TurnBody


class ToolReconciled(CallBody):
    """The finding about one unmatched execution."""

    finding: Literal["succeeded", "failed", "still_running", "not_started", "unknown"]
    evidence: str


class OutcomeTold(EventBody):
    """The user said what became of a call whose outcome nobody knows; `text` is what the model is told of it."""

    call_id: str
    tool: str
    said: Literal["done", "not_done"]
    text: str
    by: str


class ModelRequestReconciled(TurnBody):
    """What is known of a request cut off with the daemon; `may_be_billed`: asking anew may cost more."""

    request_id: str
    provider_request_id: str | None
    fate: Literal["finished", "never_accepted", "unknown"]
    may_be_billed: bool
    evidence: str


class DriftDetected(EventBody):
    """The user's folder changed since it was last looked at; `paths` are the first of `paths_total`."""

    paths: tuple[str, ...]
    paths_total: int = Field(ge=0)


class FaultsFound(EventBody):
    """The session's record contradicts itself. `read_only`: nothing can be built on it; else it was mended."""

    findings: tuple[str, ...]
    read_only: bool


class RecoveredItem(Record):
    """One thing that a restart found: what it is about, what was found, and what the user can do (may be empty)."""

    kind: Literal["request", "call", "approval", "apply", "drift", "fault", "loss"]
    ref: str
    outcome: str
    text: str
    next: str


class RecoverySummarised(EventBody):
    """What the restart found, in words for the user and item by item; written before the turn goes on."""

    version: ClassVar[int] = 2

    interrupted_requests: int
    reconciled_calls: int
    pending_approvals: int
    unfinished_applies: int
    text: str
    items: tuple[RecoveredItem, ...]
