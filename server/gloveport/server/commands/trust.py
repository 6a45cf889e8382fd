"""How far the user trusts which folder.

Purpose: fold the workspace streams into trust levels, and write new ones.
Invariant: a level is bound to the folder's identity; another folder at the same path has none.
Must never: derive a level from anything inside a folder.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal.events import EventBody, GrantRevoked, SandboxChosen, WorkspaceTrusted
from gloveport.protocol.journal.events.base import storable_body
from gloveport.server.engine.actor import Actor
from gloveport.server.engine.folding import body_of
from gloveport.server.engine.perform import start as start_effects
from gloveport.server.engine.rights import Rights, stream_part
from gloveport.server.engine.tool_run import recheck_others
from gloveport.server.journal.errors import JournalError
from gloveport.server.journal.records import Append, ClientRequest
from gloveport.server.journal.store import Journal
from gloveport.server.session.state import SessionState
from gloveport.server.settings import Settings

READ_EVENTS = 500
READ_BYTES = 1024 * 1024
PREFIX = "workspace/"
TRUST_CHANGED = "trust in the workspace changed"


@dataclass(slots=True)
class Known:
    """A workspace and its level; `seq` is the last event of its stream."""

    workspace_id: str
    root: str
    level: str
    seq: int


class Trust:
    """All trust levels; `default` holds where the user has said nothing."""

    def __init__(self, journal: Journal, default: str, now_us: Callable[[], int], rights: Rights) -> None:
        self._journal, self._default, self._now_us, self._rights = journal, default, now_us, rights
        self._known: dict[str, Known] = {}

    async def load(self) -> None:
        """Read all workspace streams."""
        after = ""
        while names := await self._journal.streams(PREFIX, after=after):
            for name in names:
                await self._load(name)
            after = names[-1]

    async def _load(self, stream: str) -> None:
        try:
            await self._read(stream)
        except JournalError as error:
            if error.code is not ErrorCode.CORRUPT:
                raise
            # What the user said last cannot be read: nothing holds until it is said again.
            self._known.pop(stream.removeprefix(PREFIX), None)
            self._rights.forget(stream.removeprefix(PREFIX))
            await self._journal.set_aside(stream, 1, error.message)

    async def _read(self, stream: str) -> None:
        seq = 0
        while events := await self._journal.read(stream, seq, READ_EVENTS, READ_BYTES):
            for event in events:
                seq = event.seq
                body = body_of(event)
                if isinstance(body, WorkspaceTrusted):
                    self._known[body.workspace_id] = Known(body.workspace_id, body.root, body.trust_level, seq)
                elif body is None:  # erased, or of a newer version: it may have taken the level before it back
                    self._known.pop(stream.removeprefix(PREFIX), None)
                    self._rights.forget(stream.removeprefix(PREFIX))
                else:
                    self._rights.take(stream.removeprefix(PREFIX), body)
            known = self._known.get(stream.removeprefix(PREFIX))
            if known is not None:
                known.seq = seq

    def level(self, workspace_id: str) -> str:
        """The level in force."""
        known = self._known.get(workspace_id)
        return known.level if known is not None else self._default

    def known(self) -> tuple[Known, ...]:
        """Every workspace with a level of its own, by root."""
        return tuple(sorted(self._known.values(), key=lambda known: known.root))

    async def give(self, workspace_id: str, root: str, level: str, by: str, request: ClientRequest) -> None:
        """Write a level; durable when this returns. Rights that were given under another level end with it."""
        said = storable_body(WorkspaceTrusted(workspace_id=workspace_id, root=root, trust_level=level, by=by))
        async with self._rights.lock:
            issued = self._rights.issued(workspace_id) if level != self.level(workspace_id) else ()
            ended = tuple(GrantRevoked(grant_id=one.grant_id, reason=TRUST_CHANGED) for one in issued)
            (part,) = await stream_part(self._journal, workspace_id, (said, *ended))
            await self._journal.append(Append((part,), self._now_us(), request=request))
            for body in ended:
                self._rights.take(workspace_id, body)
        self._known[workspace_id] = Known(workspace_id, root, level, part.expected_next_seq + len(ended))


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
        start_effects(actor, await recheck_others(actor, "user"))
