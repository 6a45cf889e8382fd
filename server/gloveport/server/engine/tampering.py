"""What follows when the audit log does not hold what was written to it: every session stands still, each once.

Purpose: the highest level of failure where the record itself was attacked. The log is followed whole when a daemon
begins, beside its work; each session that was not told yet is frozen, now or when it is next opened.
Invariant: a session is frozen once for one damage, and works again when its user has said so.
Must never: keep the daemon from serving, or repair the log.
"""

import logging
from collections.abc import Callable, Iterable

from gloveport.protocol.errors import GloveportError
from gloveport.sandbox.monitor.levels import BROKEN_RECORD_WORDS
from gloveport.server.audit.errors import AuditError
from gloveport.server.audit.log import AuditLog
from gloveport.server.audit.reading import Damage
from gloveport.server.engine.actor import Actor
from gloveport.server.engine.perform import start
from gloveport.server.turn.effects import Effect
from gloveport.server.turn.inputs import FreezeSession

_log = logging.getLogger("gloveport")


class RecordGuard:
    """Knows what was done to the audit log, and which sessions stand still for it."""

    def __init__(self, audit: AuditLog, began_us: int) -> None:
        self._audit, self._began_us = audit, began_us
        self._damage: Damage | None = None
        self._told: set[str] = set()

    async def look(self, loaded: Callable[[], Iterable[Actor]]) -> None:
        """Follow the log and freeze what is open; those that are opened later ask for `freeze`."""
        try:
            self._damage = await self._audit.find_damage()
        except AuditError:
            _log.exception("the audit log could not be followed")
            return
        for actor in tuple(loaded()) if self._damage is not None else ():
            start(actor, await self.freeze(actor))

    async def freeze(self, actor: Actor) -> tuple[Effect, ...]:
        """Let a session stand still that was not yet told of the damage; what that asks for."""
        damage = self._damage
        if damage is None or actor.stream in self._told or not await self._is_news(actor, damage):
            return ()
        self._told.add(actor.stream)
        evidence = f"audit log, line {damage.seq}: {damage.words}"
        try:
            return await actor.submit(FreezeSession(f"audit-{damage.seq}", evidence, BROKEN_RECORD_WORDS))
        except GloveportError:  # read-only, or its journal is stopped: nothing begins there anyway
            return ()

    async def _is_news(self, actor: Actor, damage: Damage) -> bool:
        """Found in this daemon's life, or after the last that the session's log holds."""
        if damage.at >= self._began_us:
            return True
        journal = actor.room.journal
        last = await journal.last_seq(actor.stream)
        events = await journal.read(actor.stream, last - 1, 1)
        return bool(events) and events[-1].at < damage.at
