"""The shapes that go in and out of the journal.

Purpose: what an append names, what it answers, and what the journal reports about itself.
Invariant: every record is frozen; limits are checked when a record is made or appended, never half way.
Must never: hold a connection or a path that is not the caller's.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gloveport.protocol.journal.envelope import (
    CURSOR_DIGEST_CHARS,
    Cursor,
    Durability,
    Head,
    NewEvent,
    StoredEvent,
)
from gloveport.server.journal.answers import Answer

STREAM_CHARS_MAX: Final = 200
TYPE_CHARS_MAX: Final = 100
REQUEST_ID_CHARS_MAX: Final = 200
INDEX_CHARS_MAX: Final = 4_096
STREAMS_PER_APPEND_MAX: Final = 16
EVENTS_PER_APPEND_MAX: Final = 20_000
PAYLOAD_BYTES_MAX: Final = 4 * 1024 * 1024
APPEND_BYTES_MAX: Final = 32 * 1024 * 1024

_NAME = re.compile(r"[!-~]+")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def is_name(text: str, chars_max: int) -> bool:
    """Whether `text` may name a stream, type or request: printable ASCII without spaces, at most `chars_max`."""
    return len(text) <= chars_max and _NAME.fullmatch(text) is not None


def is_digest(text: str) -> bool:
    """Whether `text` may name a blob."""
    return _DIGEST.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class StreamAppend:
    """Events for one stream. `expected_next_seq` is the concurrency check; `new_epoch` starts epoch + 1.

    `blobs` are the digests of the blobs that these events refer to; they are kept as long as the stream is.
    """

    stream: str
    expected_next_seq: int
    events: tuple[NewEvent, ...]
    new_epoch: bool = False
    blobs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """Marks an append as the doing of one client request, with the answer to give when it is asked again.

    `fingerprint` (optional) is a digest of the request's content: the same id with another content is refused.
    """

    client_request_id: str
    result: bytes
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class IndexUpdate:
    """New values of a session's row in the index; None keeps what is there. `updated_at` is UTC microseconds."""

    session_id: str
    updated_at: int
    title: str | None = None
    state: str | None = None
    workspace: str | None = None


@dataclass(frozen=True, slots=True)
class Removal:
    """A stream that is deleted with an append, and the session whose row in the index goes with it."""

    stream: str
    session_id: str


@dataclass(frozen=True, slots=True)
class Erasure:
    """Events of a stream whose payloads go with an append; their hashes stay, so the chain still verifies.

    `aside` are the numbers of rows that were set aside of it (`Journal.aside`); `answers` stand from then on in the
    place of recorded ones (`Journal.answers`), of any request.
    """

    stream: str
    seqs: tuple[int, ...]
    aside: tuple[int, ...] = ()
    answers: tuple[Answer, ...] = ()


@dataclass(frozen=True, slots=True)
class Append:
    """One transaction: all of it or nothing. `at` (UTC microseconds) is stamped on every event.

    `takes_back`: something that was allowed before is not any more, so a copy from before is an older journal.
    """

    streams: tuple[StreamAppend, ...]
    at: int
    durability: Durability = Durability.FULL
    request: ClientRequest | None = None
    index: tuple[IndexUpdate, ...] = ()
    removed: tuple[Removal, ...] = ()
    erased: tuple[Erasure, ...] = ()
    takes_back: bool = False


@dataclass(frozen=True, slots=True)
class Appended:
    """What an append did. `answered` is set, and nothing was appended, when the client request was known."""

    events: tuple[StoredEvent, ...]
    heads: dict[str, Head] = field(default_factory=dict)
    answered: bytes | None = None

    def durable_seq(self, stream: str) -> int:
        """Up to which seq of `stream` a power loss takes nothing back."""
        return self.heads[stream].durable_seq


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session in the index. `order` grows with every change of any session; lists are sorted by it."""

    session_id: str
    title: str
    state: str
    workspace: str
    updated_at: int
    order: int


@dataclass(frozen=True, slots=True)
class StreamSize:
    """What a stream takes on the disk, about: its events and their overhead, without blobs."""

    stream: str
    events: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The outcome of following a stream's whole chain. `broken_seq` is None when it holds."""

    stream: str
    events: int
    erased: tuple[int, ...]
    broken_seq: int | None
    reason: str

    @property
    def ok(self) -> bool:
        """Whether every event follows from the one before and the head agrees."""
        return self.broken_seq is None


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Events of a damaged tail that were set aside, from `from_seq` on. Their stream has begun a new epoch.

    `gone`: how many more there were by the head of the stream, of which no row is left.
    """

    stream: str
    from_seq: int
    events: int
    reason: str
    gone: int = 0


@dataclass(frozen=True, slots=True)
class Loss:
    """Acknowledged events of a stream that are gone or set aside, from `from_seq` on; its people are to be told."""

    stream: str
    from_seq: int
    events: int
    reason: str


@dataclass(frozen=True, slots=True)
class OpenReport:
    """What opening found and did.

    `unclean`: the last owner did not close. `other_boot`: it was on another boot of the machine, so the tail of
    relaxed appends may be gone; every stream has begun a new epoch. `restored`: the database is older than the last one
    that was open here (put back from a copy); every stream has begun a new epoch. `lost`: streams whose acknowledged
    relaxed tail is gone after a write error. `salvaged`: name of the damaged file that was set aside.
    `has_ballast`: whether the reserve for a full disk is in place.
    """

    unclean: bool = False
    other_boot: bool = False
    restored: bool = False
    quarantined: tuple[Quarantined, ...] = ()
    lost: tuple[str, ...] = ()
    untold: tuple[Loss, ...] = ()
    mended: tuple[str, ...] = ()
    salvaged: str | None = None
    migrated_from: int | None = None
    has_ballast: bool = True


@dataclass(frozen=True, slots=True)
class JournalHealth:
    """State for doctor and alarms.

    `disk_full`: it stopped for want of room. `has_ballast` False: the reserve is spent or there was no room for one;
    only what ends work (a cancel, a clean-up) should be appended then. `wal_pinned`: a reader of another process holds
    the log and does not end; `wal_alarm`: the log has grown beyond its limit.
    """

    accepting: bool
    stopped_reason: str
    disk_full: bool
    has_ballast: bool
    wal_bytes: int
    wal_alarm: bool
    wal_pinned: bool


def shares_digest(digest: str, cursor: Cursor) -> bool:
    """Whether the full digest at the cursor's place is the one the cursor saw."""
    return digest[:CURSOR_DIGEST_CHARS] == cursor.digest


@dataclass(frozen=True, slots=True)
class Unsettled:
    """Streams written to since everything was last settled, with the seq up to which each is settled all the same.

    `line`: the other book's last line then; it says nothing of these streams' later events up to there. 0: not known.
    """

    streams: Mapping[str, int]
    line: int
