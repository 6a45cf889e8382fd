"""Sessions that end for good: deleted by their user, or by the limits the user has set.

Purpose: delete a session whole (log, bodies, copy of the folder), and keep the data within the user's limits.
Invariant: without a limit of the user's nothing is deleted; a session in which something happens or waits for a
decision is never deleted by a limit; what a crash interrupts goes on at the next start.
Must never: touch the user's own folder, or delete a body that a session may still refer to.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import anyio

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import DAEMON_STREAM, SessionId, session_stream
from gloveport.protocol.journal.envelope import NewEvent
from gloveport.protocol.journal.events import SessionDeleted, encode_body
from gloveport.protocol.text import counted
from gloveport.server.engine.actor import Actor
from gloveport.server.engine.sessions import Sessions
from gloveport.server.journal.records import Append, ClientRequest, Removal, SessionRow, StreamAppend
from gloveport.server.settings import RetentionLimits

BLOB_GRACE_US: Final = 24 * 3600 * 1_000_000
"""A body is put before the event that names it; none is removed sooner than this."""
KEPT_NEWEST: Final = 20
"""So many sessions, those changed last, are kept whatever their age: a clock may be wrong."""
DELETED_AT_ONCE_MAX: Final = 100
LOOK_EVERY_S: Final = 6 * 3600.0

_DAY_US: Final = 24 * 3600 * 1_000_000
_log = logging.getLogger("gloveport")


@dataclass(frozen=True, slots=True)
class Folders:
    """The copies of folders that sessions work in: which there are, their bytes on the disk, and how to remove one.

    `left` is what could not be removed, as `path: reason`, by session.
    """

    there: Callable[[], Awaitable[tuple[str, ...]]]
    sizes: Callable[[], Awaitable[Mapping[str, int]]]
    remove: Callable[[str], Awaitable[None]]
    left: Mapping[str, tuple[str, ...]]


class Retention:
    """Deletes sessions. `run` is its life; `look` is called at its beginning and now and then."""

    def __init__(self, sessions: Sessions, limits: Callable[[], RetentionLimits], folders: Folders) -> None:
        self._sessions, self._limits, self._folders = sessions, limits, folders
        self._deleting = anyio.Lock()
        self._wanted = anyio.Event()

    @property
    def left(self) -> tuple[str, ...]:
        """What could not be removed of sessions that are gone, as `path: reason`; it is tried again now and then."""
        return tuple(words for session_id in sorted(self._folders.left) for words in self._folders.left[session_id])

    async def delete(
        self,
        session_id: str,
        reason: str,
        by: str,
        *,
        request: Callable[[int], ClientRequest] | None = None,
        even_undecided: bool = False,
    ) -> int:
        """Delete a session; durable when this returns, with how many events it had.

        Raises GloveportError: SESSION_UNKNOWN, TURN_BUSY (something happens in it), CHANGE_CONFLICT (proposals wait
        for a decision), NOT_SAVED, DATA_FULL.
        """
        async with self._deleting:
            events = 0

            async def write(actor: Actor) -> None:
                nonlocal events
                events = actor.cursor.seq
                refuse_busy(actor)
                if actor.state.changes and not even_undecided:
                    words = (
                        f"this session has {counted(len(actor.state.changes), 'proposal')} that you did not decide on"
                    )
                    raise GloveportError(
                        ErrorCode.CHANGE_CONFLICT, words, hint="Decide them first, or use --undecided."
                    )
                await self._write(actor, reason, by, request)

            await self._sessions.retire(session_id, reason, write)
            await self._folders.remove(session_id)
        self._wanted.set()
        return events

    async def _write(self, actor: Actor, reason: str, by: str, request: Callable[[int], ClientRequest] | None) -> None:
        room, events = self._sessions.room, actor.cursor.seq
        body = SessionDeleted(session_id=actor.session_id, root=actor.state.root, events=events, reason=reason, by=by)
        news = (NewEvent(type(body).__name__, body.version, encode_body(body)),)
        async with room.daemon.writing:
            head = await room.journal.head(DAEMON_STREAM)
            batch = Append(
                streams=(StreamAppend(DAEMON_STREAM, head.next_seq if head is not None else 1, news),),
                at=room.now_us(),
                request=request(events) if request is not None else None,
                removed=(Removal(actor.stream, actor.session_id),),
            )
            appended = await room.journal.append(batch)
        await room.auditor.take(appended.events)

    async def run(self) -> None:
        """Look at the limits and give back what was deleted, until cancelled."""
        while True:
            self._wanted = anyio.Event()
            try:
                await self.look()
            except (GloveportError, OSError) as error:
                _log.warning("deleted data could not be given back: %s", error)
            with anyio.move_on_after(LOOK_EVERY_S):
                await self._wanted.wait()

    async def look(self) -> None:
        """Delete what the limits ask for, then give back everything that belongs to no session.

        Raises GloveportError (NOT_SAVED, DATA_FULL).
        """
        await self._finish()
        await self._delete_all(await self._too_old(), "it was not touched for as many days as your settings say")
        if self._limits().bytes_max is None:
            return
        copies = await self._folders.sizes()  # once: looking at every file takes its time
        for _ in range(DELETED_AT_ONCE_MAX):
            limit = self._limits().bytes_max
            if limit is None or await self.used_bytes(copies) <= limit:
                return
            words = "the data had grown beyond what your settings allow"
            if not await self._delete_all(await self._idle(), words, most=1):
                _log.warning("the data is larger than your settings allow, and no session may be deleted for it")
                return

    async def used_bytes(self, copies: Mapping[str, int]) -> int:
        """What all sessions take, in bytes, about: logs, bodies, and of these copies of folders those still there."""
        room, there = self._sessions.room, await self._folders.there()
        logs = sum(one.size_bytes for one in await room.journal.sizes(""))
        return logs + room.blobs.used_bytes + sum(copies.get(name, 0) for name in there)

    async def _finish(self) -> None:
        room = self._sessions.room
        while await room.journal.purge():
            pass  # each call is one short transaction, and appends go between
        await room.blobs.sweep(room.journal.unused_blobs, (room.now_us() - BLOB_GRACE_US) * 1_000)
        for name in await self._folders.there():
            if await room.journal.is_deleted(session_stream(SessionId(name))):
                await self._folders.remove(name)

    async def _too_old(self) -> list[SessionRow]:
        days = self._limits().days
        if days is None:
            return []
        before = self._sessions.room.now_us() - days * _DAY_US
        return [row for row in await self._idle() if row.updated_at < before]

    async def _idle(self) -> list[SessionRow]:
        """Sessions that may go, the one changed longest ago first."""
        rows: list[SessionRow] = []
        before: int | None = None
        while page := await self._sessions.room.journal.sessions(before=before):
            rows += page
            before = page[-1].order
        return [row for row in reversed(rows[KEPT_NEWEST:]) if row.state == "idle"]

    async def _delete_all(self, rows: Iterable[SessionRow], reason: str, most: int = DELETED_AT_ONCE_MAX) -> int:
        count = 0
        for row in rows:
            if count >= most:
                break
            try:
                await self.delete(row.session_id, reason, "daemon")
            except GloveportError as error:
                if error.code in (ErrorCode.NOT_SAVED, ErrorCode.DATA_FULL):
                    raise
                _log.info("session %s is kept: %s", row.session_id, error.message)
                continue
            count += 1
            _log.info("session %s was deleted: %s", row.session_id, reason)
        if count:
            await self._finish()
        return count


def refuse_busy(actor: Actor) -> None:
    """Raise GloveportError(TURN_BUSY) while something happens in a session. In a read-only one nothing can end what is
    open in its record, and nothing goes on."""
    is_open = not actor.state.read_only and (actor.state.turn is not None or bool(actor.state.applying))
    if is_open or actor.running:
        raise GloveportError(ErrorCode.TURN_BUSY, "something is under way in this session", hint="Stop the turn first.")
