"""Rights of workspaces: given in one session, in force in every session of the same folder.

Purpose: fold the workspace streams' rights, and write them in one transaction with the session's own events.
Invariant: a right is what its workspace's stream says; a use counts wherever it happens, and none is used oftener than
it says; rights of one folder's identity are no other's.
Must never: give a right that no card offered, or carry one to another folder.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

import anyio

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import WorkspaceId, workspace_stream
from gloveport.protocol.journal.envelope import NewEvent
from gloveport.protocol.journal.events import EventBody, GrantIssued, GrantRevoked, GrantUsed, encode_body
from gloveport.server.journal.records import StreamAppend
from gloveport.server.journal.store import Journal
from gloveport.server.policy.answer import grant_from_issued
from gloveport.server.policy.capability import Scope
from gloveport.server.policy.grant import Grant


class Rights:
    """The rights of all workspaces, as their streams say."""

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        """Held by whoever writes into a workspace's stream, from the look at its head on."""
        self._issued: dict[str, dict[str, GrantIssued]] = {}
        self._uses: dict[str, int] = {}

    def take(self, workspace_id: str, body: EventBody) -> None:
        """Fold one event of the workspace's stream; others than those of rights say nothing here."""
        rights = self._issued.setdefault(workspace_id, {})
        if isinstance(body, GrantIssued):
            rights[body.grant_id] = body
        elif isinstance(body, GrantUsed):
            self._uses[body.grant_id] = self._uses.get(body.grant_id, 0) + 1
        elif isinstance(body, GrantRevoked):
            rights.pop(body.grant_id, None)

    def forget(self, workspace_id: str) -> None:
        """An event cannot be read: it may have ended any right, so none holds."""
        self._issued.pop(workspace_id, None)

    def forget_all(self) -> None:
        """The streams are read again from their beginnings."""
        self._issued.clear()
        self._uses.clear()

    def holds(self, workspace_id: str, grant_id: str) -> bool:
        """True if the right was given here and not taken back."""
        return grant_id in self._issued.get(workspace_id, {})

    def issued(self, workspace_id: str) -> tuple[GrantIssued, ...]:
        """The rights that were given here and not taken back."""
        return tuple(self._issued.get(workspace_id, {}).values())

    def in_force(self, workspace_id: str, now: int) -> tuple[Grant, ...]:
        """The rights that may be used at `now`, after their uses so far."""
        found = (grant_from_issued(one, self._uses.get(one.grant_id, 0)) for one in self.issued(workspace_id))
        return tuple(grant for grant in found if grant is not None and _is_alive(grant, now))

    def footing(self, workspace_id: str) -> tuple[object, ...]:
        """What a judgement stands on, and another session may change meanwhile."""
        rights = self._issued.get(workspace_id, {})
        return tuple((name, self._uses.get(name, 0)) for name in rights)

    @asynccontextmanager
    async def sharing(
        self, journal: Journal, workspace_id: str, bodies: Sequence[EventBody]
    ) -> AsyncIterator[tuple[StreamAppend, ...]]:
        """What of a session's events belongs into its workspace's stream; folded here when the block ends well.

        Raises GloveportError (SUPERSEDED) before anything is written, when a right that is used is gone or used up.
        """
        if not self._shared(workspace_id, bodies):
            yield ()
            return
        async with self.lock:
            shared = self._shared(workspace_id, bodies)
            for body in shared:
                self._check(workspace_id, body)
            yield await stream_part(journal, workspace_id, shared) if shared else ()
            for body in shared:
                self.take(workspace_id, body)

    def _shared(self, workspace_id: str, bodies: Iterable[EventBody]) -> tuple[EventBody, ...]:
        found: list[EventBody] = []
        for body in bodies:
            if isinstance(body, GrantIssued) and body.scope == Scope.workspace:
                found.append(body)
            elif isinstance(body, GrantUsed | GrantRevoked):
                found += [body] if self.holds(workspace_id, body.grant_id) else []
        return tuple(found)

    def _check(self, workspace_id: str, used: EventBody) -> None:
        """Raise where a use is not the next one that the right says."""
        if not isinstance(used, GrantUsed):
            return
        issued = self._issued[workspace_id][used.grant_id]
        grant = grant_from_issued(issued, self._uses.get(used.grant_id, 0))
        left = None if grant is None or grant.uses_left is None else grant.uses_left - 1
        if grant is None or left != used.uses_left or (left is not None and left < 0):
            raise GloveportError(ErrorCode.SUPERSEDED, "the right was used meanwhile", hint="It is judged again.")


def _is_alive(grant: Grant, now: int) -> bool:
    has_uses = grant.uses_left is None or grant.uses_left > 0
    return has_uses and (grant.expires_at is None or grant.expires_at > now)


async def stream_part(journal: Journal, workspace_id: str, bodies: Iterable[EventBody]) -> tuple[StreamAppend, ...]:
    """These events as the next of the workspace's stream; the caller holds the lock."""
    stream = workspace_stream(WorkspaceId(workspace_id))
    head = await journal.head(stream)
    news = tuple(NewEvent(type(body).__name__, body.version, encode_body(body)) for body in bodies)
    return (StreamAppend(stream, head.next_seq if head is not None else 1, news),)
