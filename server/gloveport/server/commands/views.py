"""session/transcript, session/search, task/*, plan/*, usage/*, trace/*, sample/*, metrics/*: projections of sessions.

Purpose: the handlers that read a session's stream and answer from a projection of it.
Invariant: a session is read and not opened: nothing of it is taken up, and no daemon's memory is needed.
Must never: write, or read without a bound for a search.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import anyio

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import SessionId, session_stream
from gloveport.protocol.journal.envelope import StoredEvent
from gloveport.protocol.wire import views as wire
from gloveport.protocol.wire.base import WireModel
from gloveport.protocol.wire.session import FoundSession, SearchHit, SessionSearchParams, SessionSearchResult
from gloveport.server.commands.house import House
from gloveport.server.commands.price_list import prices_of
from gloveport.server.commands.session import row_info, rows_of
from gloveport.server.commands.view_answers import SHOWN, Aids, fields_of, metrics_answer
from gloveport.server.engine.projecting import Read, read_into
from gloveport.server.journal.errors import JournalError
from gloveport.server.journal.records import SessionRow
from gloveport.server.session.views.metrics import Metrics, MetricsProjection
from gloveport.server.session.views.price import PriceBook
from gloveport.server.session.views.samples import SampleProjection
from gloveport.server.session.views.search import SearchProjection, Wanted
from gloveport.server.session.views.transcript import TranscriptProjection
from gloveport.server.session.views.usage import UsageProjection
from gloveport.server.transports.port import Caller

TRANSCRIPT_CHARS: Final = 1 << 20
"""A page of a transcript ends at the first place of rest after so many characters."""
SEARCH_SESSIONS_MAX: Final = 300
SEARCH_BYTES_MAX: Final = 64 << 20
"""A search reads so many of the newest sessions and so much of their logs; what is left is told."""


def models_of(projection: Any) -> frozenset[tuple[str, str]]:
    """The models whose prices a projection wants to know."""
    return projection.models() if isinstance(projection, UsageProjection | SampleProjection) else frozenset()


def page_is_full(transcript: TranscriptProjection) -> bool:
    """Whether a page of a transcript may end here."""
    return transcript.size >= TRANSCRIPT_CHARS and transcript.at_rest


async def _reader(house: House, session_id: str) -> Read:
    """The stream of a known session. Raises SESSION_UNKNOWN."""
    journal = house.sessions.room.journal
    if await journal.session(session_id) is None:
        raise GloveportError(ErrorCode.SESSION_UNKNOWN, f"there is no session {session_id[:100]!r}")
    return _stream(house, session_id)


def _stream(house: House, session_id: str) -> Read:
    journal, stream = house.sessions.room.journal, session_stream(SessionId(session_id))

    async def read(after_seq: int, limit: int, bytes_max: int) -> tuple[StoredEvent, ...]:
        return await journal.read(stream, after_seq, limit, bytes_max)

    return read


async def _prices(house: House, projection: Any) -> PriceBook:
    return await anyio.to_thread.run_sync(prices_of, house.settings(), models_of(projection))


async def show(method: str, house: House, params: Any, caller: Caller) -> WireModel:
    """Answer one of the methods in `SHOWN`."""
    shown = SHOWN[method]
    projection = shown.begin()
    await read_into(await _reader(house, params.session_id), projection)
    aids = Aids(await _prices(house, projection), house.sessions.room.redactor.redact)
    return shown.answer(projection, params, aids)


async def transcript(house: House, params: wire.TranscriptParams, caller: Caller) -> wire.TranscriptResult:
    """A page of the session in words."""
    projection = TranscriptProjection(params.format)
    read = await _reader(house, params.session_id)
    next_seq = await read_into(read, projection, params.after_seq, page_is_full)
    text = projection.drain()
    return wire.TranscriptResult(
        session_id=params.session_id,
        text=house.sessions.room.redactor.redact(text) if params.redacted else text,
        next_seq=next_seq,
    )


async def metrics(house: House, params: wire.MetricsShowParams, caller: Caller) -> wire.MetricsShowResult:
    """Measures of one session, or of the newest ones together."""
    if params.session_id is not None:
        await _reader(house, params.session_id)
        names = [params.session_id]
    else:
        rows = await house.sessions.room.journal.sessions(params.sessions)
        names = [row.session_id for row in rows]
    total = Metrics()
    for name in names:
        projection = MetricsProjection()
        await read_into(_stream(house, name), projection)
        total.join(projection.finish())
    return metrics_answer(total, len(names))


class _Sparing:
    """Reads streams as long as all of them together are not too much."""

    def __init__(self, bytes_max: int) -> None:
        self._left = bytes_max
        self.stopped = False

    def of(self, read: Read) -> Read:
        """The same stream, which ends early when too much was read."""

        async def spared(after_seq: int, limit: int, bytes_max: int) -> tuple[StoredEvent, ...]:
            if self._left <= 0:
                self.stopped = True
                return ()
            events = await read(after_seq, limit, bytes_max)
            self._left -= sum(len(event.payload) for event in events)
            return events

        return spared


async def search(house: House, params: SessionSearchParams, caller: Caller) -> SessionSearchResult:
    """The newest sessions in which words were said. Raises INVALID_PARAMS for a text without a word."""
    wanted = Wanted.of(params.text)
    if not wanted.words:
        raise GloveportError(ErrorCode.INVALID_PARAMS, "text: there is no word in it", hint="Give a word to look for.")
    redact, sparing = house.sessions.room.redactor.redact, _Sparing(SEARCH_BYTES_MAX)
    rows = await rows_of(house, params.root, SEARCH_SESSIONS_MAX + 1)
    found: list[FoundSession] = []
    looked, unread = 0, 0
    for row in rows[:SEARCH_SESSIONS_MAX]:
        if len(found) >= params.limit or sparing.stopped:
            break
        looked += 1
        projection = SearchProjection(wanted, redact)
        try:
            await read_into(sparing.of(_stream(house, row.session_id)), projection)
        except JournalError as error:
            if error.code != ErrorCode.CORRUPT:
                raise
            unread += 1
        one = _found(house, row, wanted, projection)
        found += [one] if one.title_fits or one.messages else []
    complete = looked == len(rows) and not unread and not sparing.stopped
    return SessionSearchResult(found=tuple(found), looked=looked, complete=complete)


def _found(house: House, row: SessionRow, wanted: Wanted, projection: SearchProjection) -> FoundSession:
    return FoundSession(
        session=row_info(house, row),
        title_fits=wanted.are_in(house.sessions.room.redactor.redact(row.title)),
        messages=projection.found,
        hits=tuple(SearchHit(**fields_of(hit)) for hit in projection.finish()),
    )


HANDLERS: Final[Mapping[str, Callable[[House, Any, Caller], Awaitable[WireModel]]]] = MappingProxyType(
    {
        **{method: partial(show, method) for method in SHOWN},
        "session/transcript": transcript,
        "metrics/show": metrics,
        "session/search": search,
    }
)
