"""A text that is taken out of a session's record for good.

Purpose: find the events and outputs of one session that hold a text (a secret that came in), and erase them.
Invariant: events are erased in one transaction with the fact that says so and keeps the session's label; outputs go
before it, so that whatever a crash leaves is found again by asking once more.
Must never: erase what takes a right, a freeze, a limit or a message back, an output that another session holds too, or
write the text anywhere.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import WorkspaceId, workspace_stream
from gloveport.protocol.journal.envelope import NewEvent, StoredEvent
from gloveport.protocol.journal.events import (
    EventBody,
    ModelTextDelta,
    TextErased,
    ToolExecutionProgress,
    encode_body,
)
from gloveport.server.engine.actor import Actor
from gloveport.server.engine.folding import body_of
from gloveport.server.engine.retention import refuse_busy
from gloveport.server.engine.sessions import READ_BYTES, READ_EVENTS, Sessions
from gloveport.server.journal.records import Append, ClientRequest, Erasure, StreamAppend
from gloveport.server.secrets.encodings import spell
from gloveport.server.session.leaving_out import PIECES, choose
from gloveport.server.turn.draft import read_only_refusal

ERASABLE: Final = frozenset(
    {
        "ApprovalRequested", "ArtifactSuspected", "EditsTaken", "EgressRecorded", "GrantIssued", "InjectionSuspected",
        "ModelResponseReceived", "ModelTextDelta", "OutcomeTold", "PlanUpdated", "PolicyDecided", "SessionRenamed",
        "SteeringDecided", "TestRunFinished", "ToolCallProposed", "ToolExecutionFinished", "ToolExecutionProgress",
        "ToolExecutionStarted", "ToolReconciled", "UserMessageAdded", "UserMessageEdited", "UserMessageQueued",
        "UserMessageUnqueued",
    }
)  # fmt: skip
"""Types that tell something; without the others the session would be allowed more, or could not be read. Of these, too,
what the session would act differently without is kept (`session/leaving_out.py`)."""
STAYS: Final = (
    "the audit log's lines (secrets that Gloveport knows are cut out there)",
    "your files, and the session's copy of your folder",
    "what a model's provider, another program or another session was given",
    "the digests of what was erased, which prove the rest of the record",
)


@dataclass(frozen=True, slots=True)
class Erased:
    """What was erased, and what stays, in words."""

    events: int
    outputs: int
    stays: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    seqs: tuple[int, ...]
    kept: Counter[str]
    """Events that hold the text and are not erased, by their type."""


async def erase_text(
    sessions: Sessions, session_id: str, text: str, by: str, request: Callable[[Erased], ClientRequest]
) -> Erased:
    """Take a text out of a session's record; durable when this returns.

    Raises GloveportError: SESSION_UNKNOWN, TURN_BUSY, SESSION_READ_ONLY, INVALID_PARAMS (its title holds the text),
    NOT_SAVED, DATA_FULL; BUSY: erased, but a reader still holds the old bytes (ask again).
    """
    forms = _forms(text)
    done: list[Erased] = []

    async def write(actor: Actor) -> None:
        refuse_busy(actor)
        if actor.state.read_only:
            raise read_only_refusal(actor.state)
        if text in actor.state.title or text in actor.state.root:
            words = "the session's title or folder holds this text"
            raise GloveportError(ErrorCode.INVALID_PARAMS, words, hint="Give it another title, or delete the session.")
        found = await _find(actor, forms)
        outputs, shared = await _erase_outputs(actor, forms)
        done.append(Erased(len(found.seqs), outputs, (*await _beside(actor, forms, found, shared), *STAYS)))
        await _write(actor, found, done[0], by, request(done[0]))

    actor = await sessions.open(session_id)
    await actor.retire(write)
    await sessions.open(session_id)  # what is known of it in memory is read anew
    return done[0]


def _forms(text: str) -> frozenset[bytes]:
    """How the text may stand in a record: as it is, in common encodings, and as JSON within JSON."""
    escaped = (json.dumps(text, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False))
    return frozenset(form for one in (text, *escaped) for form in spell(one.encode("utf-8", "surrogatepass")))


def _holds(data: bytes, forms: frozenset[bytes]) -> bool:
    return any(form in data for form in forms)


async def _events(actor: Actor, stream: str) -> AsyncIterator[StoredEvent]:
    after = 0
    while events := await actor.room.journal.read(stream, after, READ_EVENTS, READ_BYTES):
        after = events[-1].seq
        for event in events:
            yield event


async def _find(actor: Actor, forms: frozenset[bytes]) -> _Found:
    """Events that hold the text, also where it came in pieces, and what is known of the same messages."""
    seqs: set[int] = set()
    kept: Counter[str] = Counter()
    pieces = _Pieces(forms)
    bodies: dict[int, EventBody] = {}
    async for event in _events(actor, actor.stream):
        if event.erased is not None:
            continue
        body = body_of(event)
        if body is not None and not isinstance(body, PIECES):
            bodies[event.seq] = body
        seqs |= pieces.take(event)
        if _holds(event.payload, forms):
            if event.type in ERASABLE:
                seqs.add(event.seq)
            else:
                kept[event.type] += 1
    seqs |= pieces.end()
    choice = choose(bodies, seqs & bodies.keys())
    kept.update(type(bodies[seq]).__name__ for seq in choice.kept)
    return _Found(tuple(sorted(seqs.difference(choice.kept).union(choice.seqs))), kept)


class _Pieces:
    """Text that arrives piece by piece: those of an answer or an output belong together."""

    def __init__(self, forms: frozenset[bytes]) -> None:
        self._forms, self._key, self._texts, self._seqs = forms, "", [""], set[int]()

    def take(self, event: StoredEvent) -> set[int]:
        """Note a piece; the seqs of the pieces before it, where they ended and hold the text together."""
        if event.type not in (ModelTextDelta.__name__, ToolExecutionProgress.__name__):
            return set()
        body = body_of(event)
        if isinstance(body, ModelTextDelta):
            key = body.request_id
        elif isinstance(body, ToolExecutionProgress):
            key = body.call_id
        else:
            return set()
        ended = self.end() if key != self._key else set()
        self._key = key
        self._texts.append(body.text)
        self._seqs.add(event.seq)
        return ended

    def end(self) -> set[int]:
        """The seqs of the pieces at hand, where they hold the text."""
        joined, seqs = "".join(self._texts).encode("utf-8", "surrogatepass"), self._seqs
        self._texts, self._seqs = [], set()
        return seqs if _holds(joined, self._forms) else set()


async def _erase_outputs(actor: Actor, forms: frozenset[bytes]) -> tuple[int, int]:
    """How many outputs that hold the text were erased, and how many stay since another session holds them."""
    room, erased, shared = actor.room, 0, 0
    for digest, is_shared in await room.journal.blobs_used(actor.stream):
        if not await room.blobs.has(digest) or not _holds(await room.blobs.get(digest), forms):
            continue
        if is_shared:
            shared += 1
        else:
            erased += await room.blobs.delete(digest)
    return erased, shared


async def _beside(actor: Actor, forms: frozenset[bytes], found: _Found, shared: int) -> tuple[str, ...]:
    """What holds the text and is not erased, in words."""
    told = [f"{count} record(s) of the kind {kind}, which the session needs" for kind, count in found.kept.items()]
    if shared:
        told.append(f"{shared} output(s) that another session holds too: erase it there, or delete that session")
    rights = workspace_stream(WorkspaceId(actor.state.workspace_id))
    count = sum([_holds(event.payload, forms) async for event in _events(actor, rights)])
    if count:
        told.append(f"{count} record(s) of rights of this folder")
    return tuple(told)


async def _write(actor: Actor, found: _Found, done: Erased, by: str, request: ClientRequest) -> None:
    room, cursor = actor.room, actor.cursor
    body = TextErased(
        erase_id=room.new_id("erase"), events=done.events, outputs=done.outputs, label=actor.state.label, by=by
    )
    news = (NewEvent(type(body).__name__, body.version, encode_body(body)),)
    batch = Append(
        streams=(StreamAppend(actor.stream, cursor.seq + 1, news),),
        at=room.now_us(),
        request=request,
        erased=(Erasure(actor.stream, found.seqs),) if found.seqs else (),
    )
    appended = await room.journal.append(batch)
    actor.poison()  # what is known of the session in memory holds the text
    room.publisher.publish(actor.stream, appended.events, appended.durable_seq(actor.stream))
    await room.auditor.take(appended.events)
    await room.journal.erase(actor.stream, ())  # the old bytes leave the log as well
