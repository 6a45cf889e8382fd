"""Everything that an earlier daemon left, taken up.

Purpose: open each session in which something was under way, several at a time, and tell each that lost events.
Invariant: one damaged session keeps no other from being taken up; what a session still asks about is kept.
Must never: open a session in which nothing was under way, unless it lost something.
"""

import logging
from collections.abc import Sequence
from typing import Final

import anyio

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import SessionId, session_stream
from gloveport.server.engine.sessions import Sessions
from gloveport.server.journal.records import Loss
from gloveport.server.journal.store import Journal
from gloveport.server.session.state import CallStage

PAGE: Final = 100
AT_ONCE_MAX: Final = 8
"""So many sessions are taken up at the same time."""
SESSION_PREFIX: Final = session_stream(SessionId(""))
_log = logging.getLogger("gloveport.recovery")


async def take_up_all(journal: Journal, sessions: Sessions) -> bool:
    """Open every session in which something was under way; False when one of them could not be taken up."""
    places = anyio.CapacityLimiter(AT_ONCE_MAX)
    whole = True

    async def take_up(session_id: str) -> None:
        nonlocal whole
        async with places:
            whole = await _is_taken_up(sessions, session_id) and whole

    before: int | None = None
    while rows := await journal.sessions(PAGE, before=before):
        before = rows[-1].order
        async with anyio.create_task_group() as tasks:
            for row in rows:
                if row.state != "idle":
                    tasks.start_soon(take_up, row.session_id)
    return whole


async def _is_taken_up(sessions: Sessions, session_id: str) -> bool:
    try:
        actor = await sessions.open(session_id)
    except Exception:  # noqa: BLE001 - outer edge: one damaged session must not keep the daemon from serving the others
        _log.exception("session %s could not be recovered", session_id)
        return False
    return not actor.state.read_only


def runs_asked_about(sessions: Sessions) -> frozenset[str]:
    """The runs of all calls whose end is not recorded; a run is named by its call."""
    turns = [actor.state.turn for actor in sessions.all_loaded()]
    calls = [call for turn in turns if turn is not None for call in turn.calls]
    return frozenset(call.call_id for call in calls if call.stage is CallStage.RUNNING)


async def tell_losses(journal: Journal, sessions: Sessions, losses: Sequence[Loss]) -> None:
    """Open every session that lost events, which tells it; the audit log has a line for each already."""
    told: list[Loss] = []
    for loss in losses:
        _log.warning("%s lost %d events from %d on: %s", loss.stream, loss.events, loss.from_seq, loss.reason)
        try:
            if loss.stream.startswith(SESSION_PREFIX):
                await sessions.open(loss.stream.removeprefix(SESSION_PREFIX))
        except GloveportError as error:
            if error.code in (ErrorCode.NOT_SAVED, ErrorCode.DATA_FULL):
                continue
        told.append(loss)
    if told:
        await journal.told(told)
