"""A release: these stored bytes, to this place, once.

Purpose: what a card says of a release becomes a fact with the answer, and is used up with the intent of its call.
Invariant: a release is issued only from a card that showed it, for one use; what is used is bound to its call, its goal
and the hash of the stored bytes.
Must never: make a release of its own, or let one answer for another call.
"""

from collections.abc import Mapping
from typing import Any, Final

from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.server.turn.draft import Draft

ONCE: Final = "once"


def issue_release(draft: Draft, approval: ev.ApprovalRequested, grant: ev.GrantIssued) -> None:
    """Write the release that the answered card showed, if it showed one and the answer is for this call alone."""
    shown: Any = approval.card.get("release")
    if not isinstance(shown, Mapping) or grant.scope != ONCE:
        return
    expires: Any = grant.grant.get("expires_at")
    draft.emit(
        ev.ReleaseIssued(
            turn_id=approval.turn_id,
            goal_revision=approval.goal_revision,
            call_id=approval.call_id,
            approval_id=approval.approval_id,
            grant_id=grant.grant_id,
            effect=shown["effect"],
            scheme=shown["scheme"],
            host=shown["host"],
            port=shown["port"],
            payload_blob=shown["sha256"],
            payload_bytes=shown["bytes"],
            label=LabelRecord.model_validate(shown["label"], strict=False),
            expires_at=expires,
        )
    )


def use_release(draft: Draft, call_id: str, grant_id: str) -> None:
    """Use a release up, with the intent of its call."""
    release = draft.state.releases.get(grant_id)
    if release is None or release.call_id != call_id:
        return
    draft.emit(
        ev.ReleaseUsed(
            turn_id=draft.turn.turn_id,
            goal_revision=release.goal_revision,
            call_id=call_id,
            grant_id=grant_id,
            payload_digest=release.payload_blob,
        )
    )
