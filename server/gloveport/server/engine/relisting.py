"""The list of sessions, made again from their logs.

Purpose: give sessions that the index lacks their rows back, as a fold of their logs says.
Invariant: those changed last come last into the index, so that they stand first in the list.
Must never: open a session, or change one.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import SessionId, session_stream
from gloveport.server.engine.actor import index_state
from gloveport.server.engine.folding import Loaded
from gloveport.server.journal.records import Append, IndexUpdate
from gloveport.server.journal.store import Journal

SESSION_PREFIX: Final = session_stream(SessionId(""))

_log = logging.getLogger("gloveport")


async def relist(journal: Journal, fold: Callable[[SessionId], Awaitable[Loaded]]) -> int:
    """List every session of which there is a log and no row; how many. Raises JournalError (NOT_SAVED, DATA_FULL)."""
    names = await journal.unlisted(SESSION_PREFIX)
    for name in names:
        session_id = SessionId(name.removeprefix(SESSION_PREFIX))
        row = await _row(journal, session_id, fold)
        await journal.append(Append((), row.updated_at, index=(row,)))
    if names:
        _log.warning("%d session(s) were missing from the list and were listed again from their logs", len(names))
    return len(names)


async def _row(journal: Journal, session_id: SessionId, fold: Callable[[SessionId], Awaitable[Loaded]]) -> IndexUpdate:
    try:
        loaded = await fold(session_id)
    except GloveportError as error:
        if error.code in (ErrorCode.NOT_SAVED, ErrorCode.DATA_FULL):
            raise
        _log.exception("session %s cannot be read; it is listed by its name", session_id)
        return IndexUpdate(session_id, 0, title=session_id, state="idle", workspace="")
    last = await journal.read(session_stream(session_id), loaded.seq - 1, 1)
    return IndexUpdate(
        session_id=session_id,
        updated_at=last[0].at if last else 0,
        title=loaded.state.title or session_id,
        state=index_state(loaded.state),
        workspace=loaded.state.root,
    )
