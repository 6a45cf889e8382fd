"""Facts about snapshots, proposals and what became of them.

Purpose: every change to the user's files is proposed, decided, intended and confirmed here.
Invariant: base and result hashes are SHA-256 of raw bytes; an apply's intent is durable before the first write.
Must never: hold file contents (they lie in the object store under their hashes).
"""

from typing import ClassVar, Literal

from pydantic import Field, JsonValue

from gloveport.protocol.journal.events.base import CallBody, EventBody, HexDigest, LabelRecord, Record

Decision = Literal["accept", "reject", "undo", "redo", "restore"]


class SnapshotTaken(EventBody):
    """The immutable record of the workspace from which the worktree was made."""

    snapshot_id: str
    files: int
    bytes_total: int
    not_covered: tuple[str, ...]


class EditsTaken(EventBody):
    """Before a turn the user's own edits were taken over; those that meet the agent's, and what could not be seen."""

    turn_id: str
    taken: tuple[str, ...]
    conflicted: tuple[str, ...]
    not_covered: tuple[str, ...]
    text: str


class HunkRecord(Record):
    """One place of a proposal; `digest` is what a decision must name."""

    hunk_id: str
    digest: HexDigest
    old_start: int = Field(ge=0)
    old_count: int = Field(ge=0)
    new_start: int = Field(ge=0)
    new_count: int = Field(ge=0)


class ChangeProposed(CallBody):
    """The worktree's file differs from the workspace's; the proposal of one path as it stands now.

    Of a rename `path` is the new name, and what is said of the base is said of `renamed_from`.
    """

    version: ClassVar[int] = 2

    change_id: str
    path: str
    renamed_from: str | None
    kind: Literal["create", "modify", "delete", "rename", "case_rename", "mode", "symlink", "binary"]
    base_hash: HexDigest | None
    result_hash: HexDigest | None
    base_mode: int | None
    result_mode: int | None
    hunks: tuple[HunkRecord, ...]
    digest: HexDigest
    runs_by_itself: str | None
    label: LabelRecord


class ChangeWithdrawn(EventBody):
    """Nothing of the proposal is left: it was decided whole, or the worktree's file is the workspace's again.

    `superseded`: the path is now part of the proposal of another one, as a rename.
    """

    version: ClassVar[int] = 2

    change_id: str
    path: str
    reason: Literal["accepted", "rejected", "reverted", "superseded"]


class HunkDecided(EventBody):
    """Hunks were accepted or rejected; written with the outcome, never before it."""

    change_id: str
    path: str
    hunk_ids: tuple[str, ...]
    digests: tuple[HexDigest, ...]
    decision: Literal["accepted", "rejected", "undone"]
    by: str


class ChangeApplyStarted(EventBody):
    """Intent of a write into the user's files, durable before the first byte; `plan` names every step's hashes."""

    version: ClassVar[int] = 2
    apply_id: str
    action: Decision
    plan: dict[str, JsonValue]
    by: str


class ChangeApplied(EventBody):
    """All files of the plan have their result hash, read back; `record` is what an undo needs."""

    version: ClassVar[int] = 2
    apply_id: str
    action: Decision
    paths: tuple[str, ...]
    record: dict[str, JsonValue]
    by: str


class PathState(Record):
    """What a path holds now: as before, as intended, neither of them, or perhaps a part of what was intended."""

    path: str
    holds: Literal["before", "after", "other", "suspect"]


class ChangeUnsettled(EventBody):
    """Whether the plan was written is not yet known (`waits`), or it was written in part and cannot be taken back."""

    version: ClassVar[int] = 2
    apply_id: str
    action: Decision
    code: str
    message: str
    states: tuple[PathState, ...]
    waits: bool


class ChangeRefused(EventBody):
    """Nothing was written: a precondition did not hold or the disk refused."""

    version: ClassVar[int] = 2
    apply_id: str
    action: Decision
    code: str
    message: str
    paths: tuple[str, ...]
