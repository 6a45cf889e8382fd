"""What follows when the audit log does not hold what was written to it: every session stands still, each once.

Purpose: the highest level of failure where the record itself was attacked. The log is followed when a daemon begins,
beside its work; each session that was not told yet is frozen, now or when it is next opened.
Invariant: a session that there was when a damage was told is frozen once for it, by what its own record holds and
never by a clock, and works again when its user has said so; one that began later is not.
Must never: keep the daemon from serving, repair the log, or take a log that cannot be read now for a damaged one.
"""

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.ids import DAEMON_STREAM, SessionId, session_stream
from gloveport.sandbox.monitor.levels import BROKEN_RECORD_WORDS
from gloveport.server.audit.concerned import read_concerned, write_concerned
from gloveport.server.audit.log import AuditLog
from gloveport.server.audit.reading import Damage
from gloveport.server.engine.actor import Actor
from gloveport.server.engine.perform import start
from gloveport.server.journal.store import Journal
from gloveport.server.turn.effects import Effect
from gloveport.server.turn.inputs import FreezeSession

LOOK_AGAIN_S: Final = 60.0
"""After a look that the system refused (no descriptor, no memory, a disk's fault)."""
STREAMS_PAGE: Final = 500
_FROZEN: Final = ("SessionFrozen",)

_log = logging.getLogger("gloveport")


async def tell_missing(journal: Journal, audit: AuditLog) -> None:
    """Tell of a log that is gone, or shorter than the journal knows it to have been; before anything is written to it.

    A home in which no daemon has begun yet has none. Raises JournalError, AuditError (NOT_SAVED, DATA_FULL).
    """
    end = audit.end
    if end.damaged:
        return
    settled = (await journal.unsettled(1)).line
    if end.link.seq < settled:
        reason = f"the log ended at line {end.link.seq}; it had {settled} when the journal was compared with it"
    elif end.new and await journal.head(DAEMON_STREAM) is not None:
        reason = "the log and its checkpoint are gone"
    else:
        return
    await audit.tell_damage({"reason": reason})


class RecordGuard:
    """Knows what was done to the audit log at `path`, and which sessions stand still for it."""

    def __init__(self, audit: AuditLog, path: Path, journal: Journal) -> None:
        self._audit, self._path, self._journal = audit, path, journal
        self._damage: Damage | None = None
        self._concerned: frozenset[str] = frozenset()
        self._told: set[str] = set()

    async def look(self, loaded: Callable[[], Iterable[Actor]]) -> None:
        """Follow the log and freeze what is open; those that are opened later ask for `freeze`."""
        damage: Damage | None = None
        while True:
            try:
                damage = await self._audit.find_damage()
                self._concerned = await self._whom(damage) if damage is not None else frozenset()
                break
            except (GloveportError, OSError):
                _log.exception("the audit log could not be followed; it is tried again")
            await anyio.sleep(LOOK_AGAIN_S)
        self._damage = damage
        for actor in tuple(loaded()) if damage is not None else ():
            start(actor, await self.freeze(actor))

    async def freeze(self, actor: Actor) -> tuple[Effect, ...]:
        """Let a session stand still that was not yet told of the damage; what that asks for."""
        damage, stream = self._damage, actor.stream
        if damage is None or stream not in self._concerned or stream in self._told:
            return ()
        freeze_id = f"audit-{damage.seq}-{damage.digest[:12]}"
        self._told.add(stream)
        if await self._was_told(stream, freeze_id):
            return ()
        evidence = f"audit log, line {damage.seq}: {damage.words}"
        try:
            return await actor.submit(FreezeSession(freeze_id, evidence, BROKEN_RECORD_WORDS))
        except GloveportError:  # read-only, or its journal is stopped: nothing begins there anyway
            return ()

    async def _whom(self, damage: Damage) -> frozenset[str]:
        """The sessions that there were when the damage was told. Raises OSError, JournalError."""
        known = await anyio.to_thread.run_sync(read_concerned, self._path, damage)
        if known is not None:
            return known
        prefix, streams = session_stream(SessionId("")), list[str]()
        while page := await self._journal.streams(prefix, after=streams[-1] if streams else "", limit=STREAMS_PAGE):
            streams += page
        await anyio.to_thread.run_sync(write_concerned, self._path, damage, streams)
        return frozenset(streams)

    async def _was_told(self, stream: str, freeze_id: str) -> bool:
        """Whether the session's record holds this freeze, by its id."""
        seq: int | None = None
        while seq := await self._journal.last_of(stream, _FROZEN, before_seq=seq):
            events = await self._journal.read(stream, seq - 1, 1)
            if events and f'"{freeze_id}"'.encode() in events[0].payload:
                return True
        return False
