"""session/delete, session/erase, and what daemon/status says of the data.

Purpose: the handlers of what is kept, and for how long.
Invariant: what is the matter is told in words that say what to do; all being well, nothing is told. The answer comes
also while the journal has stopped.
Must never: delete what was not named.
"""

from typing import Final

from gloveport.protocol.ids import SessionId, session_stream
from gloveport.protocol.wire.place import DataInfo
from gloveport.protocol.wire.session import (
    SessionDeleteParams,
    SessionDeleteResult,
    SessionEraseParams,
    SessionEraseResult,
)
from gloveport.server.commands.house import House
from gloveport.server.commands.once import Once
from gloveport.server.commands.session import check_mark
from gloveport.server.commands.standing import NO_RESERVE, stopped_words
from gloveport.server.edit.render import visible
from gloveport.server.engine.erasing import Erased, erase_text
from gloveport.server.journal.errors import JournalError
from gloveport.server.journal.records import ClientRequest, JournalHealth, StreamSize
from gloveport.server.journal.store import Journal
from gloveport.server.settings import RetentionLimits
from gloveport.server.transports.port import Caller

LEFT_TOLD_MAX: Final = 3
_SESSIONS = session_stream(SessionId(""))


async def delete(house: House, params: SessionDeleteParams, caller: Caller, once: Once) -> SessionDeleteResult:
    """Delete a session for good."""
    events = await house.retention.delete(
        params.session_id,
        "the user deleted it",
        caller.client_name or "client",
        request=lambda count: once.request(SessionDeleteResult(events=count)),
        even_undecided=params.even_undecided,
    )
    return SessionDeleteResult(events=events)


async def erase(house: House, params: SessionEraseParams, caller: Caller, once: Once) -> SessionEraseResult:
    """Take a text out of a session's record, since the user typed its mark. Raises GloveportError."""
    check_mark(params.session_id, params.typed, "nothing was erased")

    def answer(done: Erased) -> SessionEraseResult:
        return SessionEraseResult(events=done.events, outputs=done.outputs, stays=done.stays)

    def request(done: Erased) -> ClientRequest:
        return once.request(answer(done))

    by = caller.client_name or "client"
    return answer(await erase_text(house.sessions, params.session_id, params.text, by, request))


async def data_info(house: House) -> DataInfo:
    """What there is on the disk, and what is the matter with it."""
    room = house.sessions.room
    sizes = await _sizes(room.journal)
    health = room.journal.health()
    events_bytes = None if sizes is None else sum(one.size_bytes for one in sizes)
    used_bytes = None if events_bytes is None else events_bytes + room.blobs.used_bytes
    return DataInfo(
        sessions=None if sizes is None else sum(1 for one in sizes if one.stream.startswith(_SESSIONS)),
        events_bytes=events_bytes,
        blobs_bytes=room.blobs.used_bytes,
        log_bytes=health.wal_bytes,
        accepting=health.accepting,
        has_reserve=health.has_ballast,
        told=tuple(
            _older(house)
            + house.trust.told
            + _told(health, used_bytes, house.settings().retention)
            + left_words(house.retention.left)
        ),
    )


async def _sizes(journal: Journal) -> tuple[StreamSize, ...] | None:
    """What streams take; None while the journal cannot be read, which its health explains."""
    try:
        return await journal.sizes("")
    except JournalError:
        return None


def _older(house: House) -> list[str]:
    here = house.facts.data_dir
    return [
        f"Found older data at {place}; this daemon uses {here}. To use the older data, end the daemon and set "
        f"GLOVEPORT_HOME={place}."
        for place in house.facts.older_data
    ]


def left_words(stays: tuple[str, ...]) -> list[str]:
    """What could not be removed of sessions that are gone, in words; nothing where nothing stays."""
    if not stays:
        return []
    more = f" and {len(stays) - LEFT_TOLD_MAX} more" if len(stays) > LEFT_TOLD_MAX else ""
    shown = ", ".join(visible(words) for words in stays[:LEFT_TOLD_MAX])
    return [f"Of deleted sessions this cannot be removed: {shown}{more}. Remove it as whoever owns it."]


def _told(health: JournalHealth, used_bytes: int | None, limits: RetentionLimits) -> list[str]:
    told: list[str] = []
    if not health.accepting:
        told.append(stopped_words(health))
    if not health.has_ballast:
        told.append(NO_RESERVE)
    if health.wal_pinned or health.wal_alarm:
        told.append(
            f"The journal's log has grown to {health.wal_bytes} bytes because a program keeps reading it. "
            "End programs that have journal.db open."
        )
    if used_bytes is not None and used_bytes > limits.told_bytes:
        told.append(
            f"Sessions take {used_bytes} bytes. Delete some (gloveport delete), or set [retention] in config.toml."
        )
    return told
