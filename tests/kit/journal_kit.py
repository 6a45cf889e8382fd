"""Short ways to open a journal and to write into it.

Purpose: tests of the journal and its neighbours speak of events and streams, not of records.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gloveport.protocol.journal.envelope import Durability, NewEvent
from gloveport.server.journal.records import Append, Appended, ClientRequest, IndexUpdate, OpenReport, StreamAppend
from gloveport.server.journal.store import Journal

BALLAST_BYTES = 64 * 1024
"""A reserve that fits any test folder."""

STAMP = 1_700_000_000_000_000


def clock() -> int:
    """A clock that stands still."""
    return STAMP


async def open_journal(directory: Path, **options: Any) -> tuple[Journal, OpenReport]:
    """Open with a standing clock, a named boot and a small reserve."""
    return await Journal.open(
        directory, **{"clock": clock, "boot_id": "boot-1", "ballast_bytes": BALLAST_BYTES, **options}
    )


@asynccontextmanager
async def opened(directory: Path, **options: Any) -> AsyncIterator[Journal]:
    """An open journal that is closed at the end."""
    journal, _report = await open_journal(directory, **options)
    try:
        yield journal
    finally:
        await journal.close()


def event(text: str = "x", type_: str = "Noted") -> NewEvent:
    """An event whose payload says `text`."""
    return NewEvent(type_, 1, f'{{"text":"{text}"}}'.encode())


def batch(
    stream: str,
    expected: int,
    *texts: str,
    durability: Durability = Durability.FULL,
    request: ClientRequest | None = None,
    index: tuple[IndexUpdate, ...] = (),
    new_epoch: bool = False,
) -> Append:
    """One append of one stream."""
    part = StreamAppend(stream, expected, tuple(event(text) for text in texts), new_epoch)
    return Append((part,), STAMP, durability, request, index)


async def write(journal: Journal, stream: str, *texts: str, durability: Durability = Durability.FULL) -> Appended:
    """Append at the end of a stream, wherever it is."""
    head = await journal.head(stream)
    return await journal.append(batch(stream, head.next_seq if head else 1, *texts, durability=durability))


async def texts(journal: Journal, stream: str) -> list[bytes]:
    """All payloads of a stream."""
    return [stored.payload for stored in await journal.read(stream, 0)]
