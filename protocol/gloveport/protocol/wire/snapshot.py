"""Messages about going back to an earlier state of the user's files.

Purpose: the points one can go back to, what that would change, and doing it.
Invariant: a restore names the digest of the preview that was shown.
Must never: name a path that no decision touched.
"""

from typing import Literal

from gloveport.protocol.wire.base import Digest, Name, SessionMutation, SessionParams, WireModel


class RestorePoint(WireModel):
    """The files as they were before a turn began (`point` is its id), or when the session began (`start`).

    `at`: UTC microseconds. `decisions`: how many in force would be taken back.
    """

    point: str
    title: str
    at: int
    decisions: int


class SnapshotListResult(WireModel):
    """Oldest first."""

    points: tuple[RestorePoint, ...]


class SnapshotPreviewParams(SessionParams):
    """Ask what a restore would do; nothing is changed."""

    point: Name


class RestoredFile(WireModel):
    """One path: of the user's files (`yours`) or of the agent's copy alone (`agent`), and how it would change."""

    path: str
    side: Literal["yours", "agent"]
    action: Literal["restore", "remove", "recreate"]
    in_editor: bool
    diff: str


class CannotUndo(WireModel):
    """Something that was done since and stays done."""

    call_id: str
    title: str
    words: str


class SnapshotPreviewResult(WireModel):
    """`digest` is what a restore must name; it is null where there is nothing to restore."""

    point: str
    digest: str | None
    files: tuple[RestoredFile, ...]
    cannot_undo: tuple[CannotUndo, ...]


class SnapshotRestoreParams(SessionMutation):
    """Do what the preview showed."""

    point: Name
    digest: Digest
