"""Facts about labels: what written content is labelled with, what was released once, what looks like an injection.

Purpose: keep taint with the content it is in, over sessions; prove that a release left once, with its very bytes.
Invariant: a label of content is on disk before the content can be in a file of the user's; a release is used once.
Must never: hold the content or the bytes themselves (they lie in stores, under their hashes), or lower a label.
"""

from typing import Literal

from pydantic import Field

from gloveport.protocol.journal.events.base import CallBody, EventBody, HexDigest, LabelRecord, Record

HintKind = Literal["hidden_characters", "instruction_like"]


class LabelledFile(Record):
    """A file by its absolute path, and the content it is given; null: none (it is deleted or a link).

    The path may be that of a folder: somewhere in it lies what was labelled.
    """

    path: str
    digest: HexDigest | None
    label: LabelRecord


class ContentLabelled(EventBody):
    """Stream `daemon`: content that a session is about to put into files of the user's, or found there, and its
    labels.
    """

    session_id: str
    files: tuple[LabelledFile, ...]


class ReleaseIssued(CallBody):
    """The user lets these bytes go to this place once.

    `label` is that of what they were made from; `expires_at` is in UTC microseconds.
    """

    approval_id: str
    grant_id: str
    effect: str
    scheme: str
    host: str
    port: int = Field(ge=0, le=65_535)
    payload_blob: HexDigest
    payload_bytes: int = Field(ge=0)
    label: LabelRecord
    expires_at: int | None


class ReleaseUsed(CallBody):
    """The release is used up; written with the call's intent, before its bytes leave."""

    grant_id: str
    payload_digest: HexDigest


class Hint(Record):
    """One thing that looks like an injection: where it stands (a line, from 1) and an excerpt, made visible."""

    kind: HintKind
    line: int = Field(ge=1)
    excerpt: str


class InjectionSuspected(CallBody):
    """A result holds hidden characters or text that speaks like instructions; shown to the user, decides nothing."""

    tool: str
    hints: tuple[Hint, ...]
    left_out: int = Field(ge=0)


class SecretPlace(Record):
    """Where something has the shape of a secret, or is a known one: its kind and its line, from 1. Never the value."""

    kind: str
    line: int = Field(ge=1)


class ArtifactSuspected(CallBody):
    """A file that came out of a sandbox holds what its base did not: likely secrets, or text that speaks to agents.

    Written beside its proposal, whose label says who may read it. `looked_at`: false where it is too large for a look.
    """

    change_id: str
    path: str
    secrets: tuple[SecretPlace, ...]
    hints: tuple[Hint, ...]
    left_out: int = Field(ge=0)
    looked_at: bool


class CopyUnseen(CallBody):
    """A call left files where nothing is proposed that were not looked through: so many, the first of them by name."""

    files: int = Field(ge=1)
    paths: tuple[str, ...]
