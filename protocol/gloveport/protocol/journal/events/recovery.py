"""Facts found after a restart.

Purpose: what became of executions whose end was not recorded, with the evidence.
Invariant: `unknown` is a legal finding and stays one until somebody knows better.
Must never: claim more than the evidence shows.
"""

from typing import Literal

from gloveport.protocol.journal.events.base import CallBody, EventBody


class ToolReconciled(CallBody):
    """The finding about one unmatched execution."""

    finding: Literal["succeeded", "failed", "still_running", "not_started", "unknown"]
    evidence: str


class RecoverySummarised(EventBody):
    """What the restart found, in words for the user; written before the turn goes on."""

    interrupted_requests: int
    reconciled_calls: int
    pending_approvals: int
    unfinished_applies: int
    text: str
