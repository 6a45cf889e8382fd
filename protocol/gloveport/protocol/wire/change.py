"""Messages about proposed changes to the user's files.

Purpose: list, preview, accept, reject, undo, and the hunks of one document.
Invariant: a decision names the digests that were rendered; a changed proposal is refused as superseded.
Must never: write a file whose base hash does not hold.
"""

from typing import Literal

from pydantic import Field

from gloveport.protocol.wire.base import Digest, Name, Path, SessionMutation, SessionParams, WireModel

SELECTIONS_MAX = 10_000


PendingState = Literal["pending", "conflicted"]
EndedState = Literal["accepted", "rejected", "superseded", "undone"]


class HunkInfo(WireModel):
    """One place of a proposal. `state` is looked up by `change/preview`: `conflicted` where the user changed it too."""

    hunk_id: str
    digest: str
    old_start: int
    old_count: int
    new_start: int
    new_count: int
    state: PendingState = "pending"


class EndedHunkInfo(WireModel):
    """A hunk that is pending no more; `superseded`: the agent changed it before it was decided."""

    hunk_id: str
    digest: str
    change_id: str
    path: str
    state: EndedState


class SuspectedPlace(WireModel):
    """A line (from 1) that has the shape of a secret, or reads like words to an agent: those as an excerpt alone."""

    kind: str
    line: int
    excerpt: str = ""


class Suspected(WireModel):
    """What a look found in a file out of a sandbox. `left_out` more secrets; not `looked_at`: too large for a look."""

    secrets: tuple[SuspectedPlace, ...]
    hints: tuple[SuspectedPlace, ...]
    left_out: int
    looked_at: bool


class FileRule(WireModel):
    """A rule about a proposed file, none of those built in: `ask` lets it be accepted by itself alone, `deny` never."""

    rule_id: str
    verdict: Literal["ask", "deny"]
    words: str


class ChangeInfo(WireModel):
    """A pending proposal of one path (relative to the session's root); of a rename it is the new one.

    `kind`: `create`, `modify`, `delete`, `rename`, `case_rename`, `mode`, `symlink` or `binary`. `may_hold_secrets` is
    true for a file that is asked about when it is read: its lines are shown to whoever names it, and not unasked.
    `rule` is as the rules are now; like `runs_by_itself` it keeps the file from being accepted together with others.
    """

    change_id: str
    path: str
    renamed_from: str | None = None
    kind: str
    base_hash: str | None
    result_hash: str | None
    digest: str
    hunks: tuple[HunkInfo, ...]
    runs_by_itself: str | None
    turn_id: str = ""
    may_hold_secrets: bool = False
    suspected: Suspected | None = None
    rule: FileRule | None = None


class ChangeListResult(WireModel):
    """All pending proposals, and the hunks that ended last."""

    changes: tuple[ChangeInfo, ...]
    ended: tuple[EndedHunkInfo, ...] = ()


class ChangeHunksParams(WireModel):
    """The pending hunks of one document, by its `file` URI in any spelling, or of one session, or both."""

    uri: Path | None = None
    session_id: Name | None = None


class PendingHunk(WireModel):
    """One place that waits for a decision, where the user sees it now.

    `start_line` and `end_line` count from 0, the end is exclusive; they speak of the open document's text, else of the
    file's. `hunk_digest` is null where the change can be taken whole only. The texts are null where they are long or
    no text. `meets` is true where the user changed the same lines: then the state is `conflicted`, `user_text` is what
    the user has there, and `user_digest` names it to a decision that replaces it.
    """

    session_id: str
    session_title: str
    change_id: str
    digest: str
    hunk_id: str | None
    hunk_digest: str | None
    path: str
    uri: str
    kind: str
    start_line: int
    end_line: int
    old_count: int
    new_count: int
    old_text: str | None
    new_text: str | None
    runs_by_itself: str | None
    meets: bool
    state: PendingState = "pending"
    user_text: str | None = None
    user_digest: str | None = None
    rule: FileRule | None = None


class ChangeHunksResult(WireModel):
    """In the order of sessions, paths and lines."""

    hunks: tuple[PendingHunk, ...]


class ChangePreviewParams(SessionParams):
    """Show one proposal; `exact` asks for the patch too."""

    change_id: Name
    exact: bool = False


class ChangeDocuments(WireModel):
    """URIs of the sides of a proposal, for `change/document`: the base, the agent's result, what the user has now."""

    base: str
    result: str
    user: str


class ChangePreviewResult(WireModel):
    """The proposal as a unified diff, escaped for people; `patch` is the same for programs, byte for byte in base64.

    `patch` is null unless asked for, and empty where a patch of lines cannot say the change. `ended` are hunks of the
    same proposal that are pending no more.
    """

    change: ChangeInfo
    ended: tuple[EndedHunkInfo, ...] = ()
    diff: str
    patch: str | None = None
    documents: ChangeDocuments | None = None


class Replaced(WireModel):
    """What the user has where a hunk is conflicted, by the `user_digest` that was shown: an accept replaces it."""

    hunk_digest: Digest
    user_digest: Digest


class Selection(WireModel):
    """What is decided: a proposal by its digest; with `hunk_digests` only those hunks.

    A conflicted hunk is accepted where `replaces` names what the user has there; anything newer refuses.
    """

    change_id: Name
    digest: Digest
    hunk_digests: tuple[Digest, ...] | None = None
    replaces: tuple[Replaced, ...] = Field(default=(), max_length=SELECTIONS_MAX)


class ChangeDecideParams(SessionMutation):
    """Accept or reject. All files or none."""

    selections: tuple[Selection, ...] = Field(min_length=1, max_length=SELECTIONS_MAX)


class ChangeDecideResult(WireModel):
    """The apply that was done, to be named in an undo, and the paths it touched.

    Those of `in_editors` were changed in open documents, where they wait to be saved. Of `rejects` an undo or a redo
    took back, or made again, rejects alone: the user's file is as it was.
    """

    apply_id: str
    paths: tuple[str, ...]
    in_editors: tuple[str, ...] = ()
    rejects: tuple[str, ...] = ()


class ChangeUndoParams(SessionMutation):
    """Take decisions back: of an apply, of what a turn proposed, all, or (nothing said) the last one in force.

    `paths` and `hunk_digests` narrow it to files and to hunks; hunks alone name the decisions on them.
    """

    apply_id: Name | None = None
    turn_id: Name | None = None
    all: bool = False
    paths: tuple[Path, ...] | None = Field(default=None, max_length=SELECTIONS_MAX)
    hunk_digests: tuple[Digest, ...] | None = Field(default=None, max_length=SELECTIONS_MAX)


class ChangeRedoParams(SessionMutation):
    """Take an undo back: the named one, or the last one in force."""

    apply_id: Name | None = None


class ChangeDocumentParams(WireModel):
    """One side of a proposal, by the URI that `change/preview` named."""

    uri: Path


class ChangeDocumentResult(WireModel):
    """Its text; null where it is none, with words on why."""

    uri: str
    text: str | None
    words: str
