"""Which appends can be appended at all.

Purpose: refuse a batch that breaks a named limit before it waits in the writer's queue.
Invariant: what passes here fits the schema, so that SQLite can only refuse it for the disk's sake.
Must never: look at what is stored.
"""

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal.envelope import INTEGER_MAX, NewEvent
from gloveport.server.journal.errors import JournalError, limit
from gloveport.server.journal.records import (
    APPEND_BYTES_MAX,
    EVENTS_PER_APPEND_MAX,
    INDEX_CHARS_MAX,
    PAYLOAD_BYTES_MAX,
    REQUEST_ID_CHARS_MAX,
    STREAM_CHARS_MAX,
    STREAMS_PER_APPEND_MAX,
    TYPE_CHARS_MAX,
    Append,
    is_digest,
    is_name,
)


def check_append(batch: Append) -> int:
    """Payload bytes of a batch; raises JournalError (LIMIT or INVALID_PARAMS) for one that can never be appended."""
    names = [part.stream for part in batch.streams]
    if len(set(names)) != len(names) or not all(is_name(name, STREAM_CHARS_MAX) for name in names):
        raise JournalError(ErrorCode.INVALID_PARAMS, "streams of an append are distinct printable names")
    _check_rows(batch)
    if len(batch.removed) > STREAMS_PER_APPEND_MAX or any(one.stream in names for one in batch.removed):
        raise JournalError(ErrorCode.INVALID_PARAMS, "few streams are deleted at once, and none that is appended to")
    if not (batch.streams or batch.index):
        raise JournalError(ErrorCode.INVALID_PARAMS, "an append holds at least one event or index row")
    events = [event for part in batch.streams for event in part.events]
    if len(names) > STREAMS_PER_APPEND_MAX or len(events) > EVENTS_PER_APPEND_MAX:
        raise limit("too many streams or events in one append")
    if not all(part.events for part in batch.streams):
        raise JournalError(ErrorCode.INVALID_PARAMS, "a stream of an append holds at least one event")
    if not all(is_digest(digest) for part in batch.streams for digest in part.blobs):
        raise JournalError(ErrorCode.INVALID_PARAMS, "a blob is named by 64 lower-case hex digits")
    return _check_events(events)


def _check_rows(batch: Append) -> None:
    request = batch.request
    if request is not None and not is_name(request.client_request_id, REQUEST_ID_CHARS_MAX):
        raise JournalError(ErrorCode.INVALID_PARAMS, "a client request id is a printable name")
    texts = [request.fingerprint] if request is not None else []
    texts += [text for row in batch.index for text in (row.session_id, row.title, row.state, row.workspace) if text]
    times = [batch.at, *(row.updated_at for row in batch.index)]
    if any(not 0 <= time <= INTEGER_MAX for time in times):
        raise JournalError(ErrorCode.INVALID_PARAMS, "times are microseconds since 1970")
    if any(len(text) > INDEX_CHARS_MAX for text in texts):
        raise limit("a text of the index is too long")
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        raise JournalError(ErrorCode.INVALID_PARAMS, "a text of the index is not valid Unicode") from error


def _check_events(events: list[NewEvent]) -> int:
    total = 0
    for event in events:
        if not is_name(event.type, TYPE_CHARS_MAX) or not 1 <= event.version <= INTEGER_MAX:
            raise JournalError(ErrorCode.INVALID_PARAMS, "an event has a printable type and a version from 1")
        if len(event.payload) > PAYLOAD_BYTES_MAX:
            raise limit("an event's payload is too large; large bodies go to the blob store")
        total += len(event.payload)
    if total > APPEND_BYTES_MAX:
        raise limit("one append carries too many bytes")
    return total
