"""A journal in memory: what a crash leaves behind is bytes and nothing else.

Purpose: store the events of a step in one transaction, chained as the real journal chains them, and read them back.
Invariant: only encoded bytes are kept, so that a reload can use nothing that was not written.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from gloveport.protocol.journal.envelope import (
    ERASED_PAYLOAD,
    ChainPoint,
    StoredEvent,
    chain_digest,
    payload_hash,
    verify_chain,
)
from gloveport.protocol.journal.events import REGISTRY, EventBody, decode_body, encode_body

STREAM = "session/s1"
EPOCH = 1


@dataclass(frozen=True)
class Entry:
    """One stored event, decoded."""

    seq: int
    type: str
    body: EventBody


class Ledger:
    """An append-only list of stored events, of which some may be erased."""

    def __init__(self) -> None:
        self.stored: list[StoredEvent] = []

    @property
    def seq(self) -> int:
        """The last event's number, 0 at the start."""
        return len(self.stored)

    @property
    def digest(self) -> str:
        """Where the chain stands."""
        return self.stored[-1].digest if self.stored else ChainPoint().digest

    def append(self, bodies: Iterable[EventBody], at: int) -> tuple[Entry, ...]:
        """Store the bodies; what is returned was decoded from the stored bytes."""
        return tuple(self._append(body, at) for body in bodies)

    def _append(self, body: EventBody, at: int) -> Entry:
        payload, name, seq = encode_body(body), type(body).__name__, self.seq + 1
        digest = chain_digest(
            self.digest,
            stream=STREAM,
            epoch=EPOCH,
            seq=seq,
            event_type=name,
            version=body.version,
            at=at,
            payload_hash=payload_hash(payload),
        )
        self.stored.append(StoredEvent(STREAM, EPOCH, seq, name, body.version, at, payload, digest))
        return decode_stored(self.stored[-1])

    def erase(self, seqs: Collection[int]) -> None:
        """Overwrite what these events said, as the journal does; their hashes stay."""
        for index, event in enumerate(self.stored):
            if event.seq in seqs:
                self.stored[index] = event._replace(payload=ERASED_PAYLOAD, erased=payload_hash(event.payload))

    def read(self) -> Iterator[Entry]:
        """Every event from the first on that was not erased, decoded from its bytes."""
        return (decode_stored(event) for event in self.stored if event.erased is None)

    def read_whole(self) -> Iterator[tuple[int, str, EventBody | None]]:
        """Every event's seq, type and body; of an erased one nothing is left but its place."""
        for event in self.stored:
            yield event.seq, event.type, None if event.erased is not None else decode_stored(event).body

    def verify(self) -> None:
        """Follow the digest chain; raises AssertionError where it breaks."""
        end = verify_chain(self.stored)
        assert end == ChainPoint(EPOCH if self.stored else 0, self.seq, self.digest), end


def decode_stored(event: StoredEvent) -> Entry:
    """The entry of a stored event."""
    return Entry(event.seq, event.type, decode_body(REGISTRY[event.type], event.payload))
