"""How far the user trusts which folder.

Purpose: fold the workspace streams into trust levels, and write new ones.
Invariant: a level is bound to the folder's identity; another folder at the same path has none, nor one that was made
anew in its place.
Must never: derive a level from anything inside a folder.
"""

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal.events import EventBody, GrantRevoked, SandboxChosen, WorkspaceTrusted
from gloveport.protocol.journal.events.base import storable_body
from gloveport.server.engine.actor import Actor
from gloveport.server.engine.folding import body_of
from gloveport.server.engine.perform import start as start_effects
from gloveport.server.engine.rights import Rights, stream_part
from gloveport.server.engine.room import Auditor
from gloveport.server.engine.tool_run import recheck_others
from gloveport.server.journal.errors import JournalError
from gloveport.server.journal.records import Append, ClientRequest, StreamAppend
from gloveport.server.journal.store import Journal
from gloveport.server.session.state import SessionState
from gloveport.server.settings import UNSET, Settings
from gloveport.server.workspace.errors import WorkspaceError
from gloveport.server.workspace.identity import (
    folder_identity,
    has_generation,
    identity_without_generation,
    stood_at,
)

READ_EVENTS = 500
READ_BYTES = 1024 * 1024
PREFIX = "workspace/"
TRUST_CHANGED = "trust in the workspace changed"
TRUST_CHOSEN: Final = "the trust you chose"
UNTOLD_APART: Final = (
    "The file system keeps nothing that tells this folder from one that is made anew in its place: its trust and the "
    "rights for it end with this daemon, and are asked for again after."
)
VOIDED: Final = (
    "the journal was put back from an older copy, or lost events, so a right or trust that you took back might hold "
    "again. Rights and trust from before are void; say again how far you trust the folder."
)
RIGHT_VOIDED: Final = "the journal was put back from an older copy, or lost events"
_log = logging.getLogger("gloveport")


@dataclass(frozen=True, slots=True)
class Known:
    """A workspace and its level, given at `at` (UTC microseconds)."""

    workspace_id: str
    root: str
    level: str
    at: int


class Trust:
    """All trust levels; `default` holds where the user has said nothing.

    `told`: what of earlier words does not hold any more, in words for the user.
    """

    def __init__(
        self, journal: Journal, default: str, now_us: Callable[[], int], rights: Rights, auditor: Auditor
    ) -> None:
        self._journal, self._default, self._now_us, self._rights = journal, default, now_us, rights
        self._auditor = auditor
        self._known: dict[str, Known] = {}
        self._held: dict[str, int] = {}
        """Open folders whose names tell no generation: their inodes are not given to others while they are held."""
        self.told: list[str] = []

    async def load(self) -> None:
        """Read all workspace streams; what was known is forgotten."""
        self._known.clear()
        self._rights.forget_all()
        self.told.clear()
        after = ""
        while names := await self._journal.streams(PREFIX, after=after):
            for name in names:
                await self._load(name)
            after = names[-1]
        for known in [one for one in self._known.values() if not has_generation(one.workspace_id)]:
            self._carry(known)

    async def _load(self, stream: str) -> None:
        try:
            await self._read(stream)
        except JournalError as error:
            if error.code is not ErrorCode.CORRUPT:
                raise
            # What the user said last cannot be read: nothing holds until it is said again.
            self._forget(stream.removeprefix(PREFIX))
            await self._journal.set_aside(stream, 1, error.message)

    async def _read(self, stream: str) -> None:
        seq, workspace_id = 0, stream.removeprefix(PREFIX)
        voided, void_root = await self._journal.voided(stream), ""
        while events := await self._journal.read(stream, seq, READ_EVENTS, READ_BYTES):
            for event in events:
                seq = event.seq
                body = body_of(event)
                if seq <= voided:
                    void_root = body.root if isinstance(body, WorkspaceTrusted) else void_root
                elif isinstance(body, WorkspaceTrusted):
                    self._learn(Known(workspace_id, body.root, body.trust_level, event.at))
                elif body is None:  # erased, or of a newer version: it may have taken the level before it back
                    self._forget(workspace_id)
                elif has_generation(workspace_id):
                    self._rights.take(workspace_id, body)
        if void_root and workspace_id not in self._known:
            self._tell(f"{void_root}: {VOIDED}")

    def _learn(self, said: Known) -> None:
        if said.level == UNSET:
            self._known.pop(said.workspace_id, None)
        else:
            self._known[said.workspace_id] = said

    def _forget(self, workspace_id: str) -> None:
        self._known.pop(workspace_id, None)
        self._rights.forget(workspace_id)

    def _carry(self, known: Known) -> None:
        """A level whose record does not tell the folder's generation holds where that can be proven, else not at all.

        It can where the folder there was made before the level was given. Rights from such a time have ended.
        """
        root = Path(known.root)
        if not stood_at(root, known.workspace_id, known.at):
            del self._known[known.workspace_id]
            self._tell(f"{known.root} is not known to be the folder you trusted: say how far you trust it again.")
            return
        today = folder_identity(root)
        self._known.setdefault(today, replace(known, workspace_id=today))
        self._known[known.workspace_id] = replace(known, level=self._known[today].level)

    def _tell(self, words: str) -> None:
        _log.warning("%s", words)
        self.told.append(words)

    def level(self, workspace_id: str) -> str:
        """The level in force."""
        known = self._known.get(workspace_id)
        return known.level if known is not None else self._default

    def known(self) -> tuple[Known, ...]:
        """Each folder with a level of its own, by root: of several at one place the one that is there now."""
        shown: dict[str, Known] = {}
        for known in sorted(self._known.values(), key=lambda known: known.at):
            try:
                is_there = folder_identity(Path(known.root)) == known.workspace_id
            except WorkspaceError:
                is_there = True  # away, with the last that was said of it
            if is_there:
                shown[known.root] = known
        return tuple(shown[root] for root in sorted(shown))

    async def give(self, workspace_id: str, root: str, level: str, by: str, request: ClientRequest) -> None:
        """Write a level, or `unset`; durable when this returns. Rights of another level end with it."""
        named = tuple(dict.fromkeys((workspace_id, *self.names_before(workspace_id, Path(root)))))
        parts: list[StreamAppend] = []
        ended: list[tuple[str, GrantRevoked]] = []
        now = self._now_us()
        async with self._rights.lock:
            for name in named:
                said = storable_body(WorkspaceTrusted(workspace_id=name, root=root, trust_level=level, by=by))
                issued = self._rights.issued(name) if level == UNSET or level != self.level(name) else ()
                revoked = tuple(GrantRevoked(grant_id=one.grant_id, reason=TRUST_CHANGED) for one in issued)
                ended += [(name, body) for body in revoked]
                parts += await stream_part(self._journal, name, (said, *revoked))
            batch = Append(tuple(parts), now, request=request, takes_back=True)
            written = (await self._journal.append(batch)).events
            for name, body in ended:
                self._rights.take(name, body)
        for name in named:
            self._learn(Known(name, root, level, now))
        self._hold(workspace_id, root)
        await self._auditor.take(written)

    def names_before(self, workspace_id: str, root: Path) -> tuple[str, ...]:
        """The name that sessions of an earlier version know this folder by, where it has a level."""
        before = identity_without_generation(root)
        return (before,) if before != workspace_id and before in self._known else ()

    def _hold(self, workspace_id: str, root: str) -> None:
        if has_generation(workspace_id) or workspace_id in self._held:
            return
        with suppress(OSError):
            fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._held[workspace_id] = fd

    def close(self) -> None:
        """Let go of the folders that were held."""
        while self._held:
            os.close(self._held.popitem()[1])


async def adopt_trust(actor: Actor, trust: Trust, settings: Settings) -> None:
    """Let a session take over its workspace's level, with the sandbox set for it; older rights end there."""
    level = trust.level(actor.state.workspace_id)
    if level == actor.state.trust_level or actor.state.read_only:
        return
    sandbox = settings.sandbox[level]
    statement = actor.room.sandboxes.backend(sandbox).statement
    chosen = SandboxChosen(sandbox=sandbox, trust_level=level, statement=statement, image="")

    def facts(state: SessionState) -> tuple[EventBody, ...]:
        ended = (GrantRevoked(grant_id=name, reason=TRUST_CHANGED) for name in state.grants)
        return (chosen, *ended)

    await actor.record(facts)
    if actor.state.approvals:  # what they say of the sandbox is not so any more
        start_effects(actor, await recheck_others(actor, TRUST_CHOSEN))


async def void_rights(actor: Actor) -> None:
    """End the rights that a session's log gave before it was put back or lost events; each is told as revoked."""
    if actor.state.read_only or not await actor.room.journal.voided(actor.stream):
        return

    def facts(state: SessionState) -> tuple[EventBody, ...]:
        return tuple(GrantRevoked(grant_id=name, reason=RIGHT_VOIDED) for name in state.grants)

    await actor.record(facts)
    await actor.room.journal.forget_void(actor.stream)
