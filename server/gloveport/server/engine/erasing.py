"""A text that is taken out of a session's record for good.

Purpose: find the events and outputs of one session that hold a text (a secret that came in), and erase them.
Invariant: events are erased in one transaction with the fact that says so and keeps the session's label; outputs go
before it, so that whatever a crash leaves is found again by asking once more.
Must never: erase what takes a right, a freeze, a limit or a message back, an output that another session holds too, or
write the text anywhere.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

import anyio.to_thread

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import DAEMON_STREAM, WorkspaceId, workspace_stream
from gloveport.protocol.journal.envelope import NewEvent, StoredEvent
from gloveport.protocol.journal.events import (
    ErasedCall,
    EventBody,
    ModelResponseReceived,
    ModelStreamInterrupted,
    ModelTextDelta,
    OpenCall,
    TextErased,
    ToolExecutionFinished,
    ToolExecutionProgress,
    encode_body,
)
from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.protocol.text import counted
from gloveport.server.engine.actor import Actor
from gloveport.server.engine.erase_answers import ERASED, answers_without
from gloveport.server.engine.erase_search import Search
from gloveport.server.engine.folding import body_of
from gloveport.server.engine.retention import refuse_busy
from gloveport.server.engine.sessions import READ_BYTES, READ_EVENTS, Sessions
from gloveport.server.journal.answers import Answer
from gloveport.server.journal.records import Append, ClientRequest, Erasure, StreamAppend
from gloveport.server.policy.labels import PROVENANCE_IDS_MAX
from gloveport.server.session.fold_labels import erased_source, with_erased
from gloveport.server.session.leaving_out import PIECES, choose
from gloveport.server.session.state import SessionState
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
_OF_RIGHTS: Final = "of rights of this folder"
_OF_THE_DAEMON: Final = "of what all sessions share (which file was written with which label), which later ones need"
STAYS: Final = (
    "the log of what programs reached (egress.jsonl), which names hosts and holds nothing of what was sent: deleting "
    "the session takes its lines out",
    "the audit log's lines (secrets that Gloveport knows are cut out there)",
    "answers to requests, which are kept so that none is done twice: they hold names of files, titles and folders",
    "your files",
    "the session's copy of your folder, what its files held before, and its git repository (texts, names and messages "
    "of its commits): deleting the session removes them",
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
    calls: tuple[ErasedCall, ...]
    """Calls whose results are erased, and how they ended."""
    aside: tuple[int, ...]
    """Rows that were set aside of it and hold the text."""
    answers: tuple[Answer, ...]
    """Answers of requests, without the text."""


async def erase_text(
    sessions: Sessions, session_id: str, text: str, by: str, request: Callable[[Erased], ClientRequest]
) -> Erased:
    """Take a text out of a session's record; durable when this returns.

    Raises GloveportError: SESSION_UNKNOWN, TURN_BUSY, SESSION_READ_ONLY, INVALID_PARAMS (its title holds the text),
    NOT_SAVED, DATA_FULL; BUSY: erased, but a reader still holds the old bytes (ask again). DATA_FULL may also mean that
    there is no room to overwrite them; they are overwritten at the next start, or when it is asked again.
    """
    await sessions.room.toolbox.get_ready()
    search = Search(text, sessions.room.toolbox.names)
    done: list[Erased] = []

    async def write(actor: Actor) -> None:
        refuse_busy(actor)
        if actor.state.read_only:
            raise read_only_refusal(actor.state)
        if search.in_text(actor.state.title) or search.in_text(actor.state.root):
            words = "the session's title or folder holds this text"
            raise GloveportError(ErrorCode.INVALID_PARAMS, words, hint="Give it another title, or delete the session.")
        found = await _find(actor, search)
        outputs, shared = await _erase_outputs(actor, search)
        count = len(found.seqs) + len(found.aside)
        done.append(Erased(count, outputs, (*await _beside(actor, search, found, shared), *STAYS)))
        await _write(actor, search, found, done[0], by, request(done[0]))

    actor = await sessions.open(session_id)
    await actor.retire(write)
    await sessions.open(session_id)  # what is known of it in memory is read anew
    return done[0]


async def _events(actor: Actor, stream: str) -> AsyncIterator[StoredEvent]:
    after = 0
    while events := await actor.room.journal.read(stream, after, READ_EVENTS, READ_BYTES):
        after = events[-1].seq
        for event in events:
            yield event


async def _find(actor: Actor, search: Search) -> _Found:
    """Events that hold the text, also where it came in pieces, and what is known of the same messages."""
    seqs: set[int] = set()
    kept: Counter[str] = Counter()
    pieces = _Pieces(search)
    bodies: dict[int, EventBody] = {}
    async for event in _events(actor, actor.stream):
        if event.erased is not None:
            continue
        body = body_of(event)
        if body is None:
            continue
        if not isinstance(body, PIECES):
            bodies[event.seq] = body
        seqs |= pieces.take(event.seq, body)
        if search.in_body(body):
            if event.type in ERASABLE:
                seqs.add(event.seq)
            else:
                kept[event.type] += 1
    seqs |= pieces.end()
    choice = await anyio.to_thread.run_sync(choose, bodies, seqs & bodies.keys())  # a long record takes a while
    kept.update(type(bodies[seq]).__name__ for seq in choice.kept)
    return _Found(
        tuple(sorted(seqs.difference(choice.kept).union(choice.seqs))),
        kept,
        choice.calls,
        await _find_aside(actor, search),
        await answers_without(actor.room.journal, search),
    )


class _Pieces:
    """Text that arrives piece by piece: those of an answer or an output belong together, also between others."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._open: dict[str, list[tuple[int, str]]] = {}

    def take(self, seq: int, body: EventBody) -> set[int]:
        """Note a piece, or an end; the seqs of the pieces that ended, where they hold the text together."""
        if isinstance(body, ModelTextDelta):
            self._open.setdefault(body.request_id, []).append((seq, body.text))
        elif isinstance(body, ToolExecutionProgress):
            self._open.setdefault(body.call_id, []).append((seq, body.text))
        elif isinstance(body, ModelResponseReceived | ModelStreamInterrupted):
            return self._end(body.request_id)
        elif isinstance(body, ToolExecutionFinished):
            return self._end(body.call_id)
        return set()

    def _end(self, key: str) -> set[int]:
        pieces = self._open.pop(key, [])
        return {seq for seq, _ in pieces} if self._search.in_text("".join(text for _, text in pieces)) else set()

    def end(self) -> set[int]:
        """The seqs of those that did not end, where they hold the text."""
        return set[int]().union(*(self._end(key) for key in tuple(self._open)))


async def _find_aside(actor: Actor, search: Search) -> tuple[int, ...]:
    """Rows set aside of the session's stream that hold the text; nobody reads them, so their bytes are searched."""
    found: list[int] = []
    after = 0
    while rows := await actor.room.journal.aside(actor.stream, after):
        after = rows[-1][0]
        found += (number for number, payload in rows if search.in_bytes(payload))
    return tuple(found)


async def _erase_outputs(actor: Actor, search: Search) -> tuple[int, int]:
    """How many outputs that hold the text were erased, and how many stay since another session holds them."""
    room, erased, shared = actor.room, 0, 0
    for digest, is_shared in await room.journal.blobs_used(actor.stream):
        if not await room.blobs.has(digest) or not search.in_bytes(await room.blobs.get(digest)):
            continue
        if is_shared:
            shared += 1
        else:
            erased += await room.blobs.delete(digest)
    return erased, shared


async def _beside(actor: Actor, search: Search, found: _Found, shared: int) -> tuple[str, ...]:
    """What holds the text and is not erased, in words."""
    told = [
        f"{counted(count, 'record')} of the kind {kind}, which the session needs" for kind, count in found.kept.items()
    ]
    if shared:
        told.append(
            f"{counted(shared, 'output')} that another session holds, too: erase it there, or delete that session"
        )
    rights = workspace_stream(WorkspaceId(actor.state.workspace_id))
    for stream, words in ((rights, _OF_RIGHTS), (DAEMON_STREAM, _OF_THE_DAEMON)):
        count = 0
        async for event in _events(actor, stream):
            body = body_of(event)
            count += body is not None and search.in_body(body)
        if count:
            told.append(f"{counted(count, 'record')} {words}")
    if copies := await actor.room.journal.copies():
        told.append(f"copies of earlier data ({', '.join(copies)}): remove them yourself where you need them no more")
    return tuple(told)


def _label(state: SessionState, search: Search) -> LabelRecord:
    """The session's label, with every source that names the text, there or of a file, told by its digest."""
    known = {source for label in (state.label, *state.file_labels.values()) for source in label.provenance}
    erased = sorted(erased_source(source) for source in known if search.in_source(source))
    label = with_erased(state.label, erased)
    others = (source for source in label.provenance if source not in erased)
    return label.model_copy(update={"provenance": tuple(sorted((*erased, *others)[:PROVENANCE_IDS_MAX]))})


async def _write(actor: Actor, search: Search, found: _Found, done: Erased, by: str, request: ClientRequest) -> None:
    room, cursor = actor.room, actor.cursor
    state = actor.state
    body = TextErased(
        erase_id=room.new_id("erase"),
        events=done.events,
        outputs=done.outputs,
        label=_label(state, search),
        by=by,
        calls=found.calls,
        unknowns=tuple(
            OpenCall(call_id=one.call_id, tool=ERASED if search.in_text(one.tool) else one.tool)
            for one in state.unknowns
        ),
        overflows=state.overflows,
    )
    news = (NewEvent(type(body).__name__, body.version, encode_body(body)),)
    erasure = Erasure(actor.stream, found.seqs, found.aside, found.answers)
    batch = Append(
        streams=(StreamAppend(actor.stream, cursor.seq + 1, news),),
        at=room.now_us(),
        request=request,
        erased=(erasure,) if erasure != Erasure(actor.stream, ()) else (),
    )
    appended = await room.journal.append(batch)
    actor.poison()  # what is known of the session in memory holds the text
    room.publisher.publish(actor.stream, appended.events, appended.durable_seq(actor.stream))
    await room.auditor.take(appended.events)
    await room.journal.erase(actor.stream, ())  # the old bytes leave the log as well
