"""Typed identifiers.

Purpose: one name per kind of identifier, so that mypy refuses a turn id where a call id is meant.
Invariant: an identifier is an opaque non-empty string minted by the shell; no code reads meaning out of it.
Must never: mint an identifier (that needs randomness, which belongs to the shell) or parse one.
"""

from typing import NewType

SessionId = NewType("SessionId", str)
WorkspaceId = NewType("WorkspaceId", str)
TurnId = NewType("TurnId", str)
CallId = NewType("CallId", str)
ApprovalId = NewType("ApprovalId", str)
GrantId = NewType("GrantId", str)
ChangeId = NewType("ChangeId", str)
HunkId = NewType("HunkId", str)
SnapshotId = NewType("SnapshotId", str)
LeaseId = NewType("LeaseId", str)
SubscriptionId = NewType("SubscriptionId", str)

Sha256 = NewType("Sha256", str)
"""Lower-case hexadecimal SHA-256 of raw bytes (64 characters)."""

StreamName = NewType("StreamName", str)
"""`session/<id>`, `workspace/<id>` or `daemon`."""

DAEMON_STREAM = StreamName("daemon")


def session_stream(session_id: SessionId) -> StreamName:
    """The stream that holds every event of one session."""
    return StreamName(f"session/{session_id}")


def workspace_stream(workspace_id: WorkspaceId) -> StreamName:
    """The stream that holds trust and grants of one workspace identity."""
    return StreamName(f"workspace/{workspace_id}")
