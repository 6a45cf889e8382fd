"""session/*: start, list, show, rename, older items, export.

Purpose: the handlers of sessions that are not about a connection.
Invariant: listing reads the index alone.
Must never: read a session's whole log to list it.
"""

import json
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import SessionId, session_stream
from gloveport.protocol.journal.envelope import StoredEvent, encode_cursor
from gloveport.protocol.journal.events import ModeChosen, SessionRenamed
from gloveport.protocol.wire.base import Empty, SessionParams
from gloveport.protocol.wire.place import SandboxInfo
from gloveport.protocol.wire.session import (
    ItemListParams,
    ItemListResult,
    QueuedMessage,
    SessionDetail,
    SessionExportParams,
    SessionExportResult,
    SessionInfo,
    SessionListParams,
    SessionListResult,
    SessionModeParams,
    SessionRenameParams,
    SessionStartParams,
    SessionThawParams,
    ViewItem,
)
from gloveport.server.commands.house import House
from gloveport.server.commands.once import Once
from gloveport.server.engine.actor import Actor, index_state
from gloveport.server.engine.perform import start as start_effects
from gloveport.server.engine.sessions import Choice
from gloveport.server.journal.records import SessionRow
from gloveport.server.secrets.parts import redacted_parts
from gloveport.server.session.spending import least_nano_usd, turn_nano_usd, unseen_nano_usd
from gloveport.server.transports.port import Caller
from gloveport.server.turn.inputs import ThawSession
from gloveport.server.workspace.identity import folder_identity

EXPORT_BYTES_MAX = 4 * 1024 * 1024
MARK_CHARACTERS = 6
RUNNING_LEVELS = ("trusted", "restricted")


def checked_root(path: str) -> Path:
    """The folder a session may begin on. Raises WORKSPACE_MISSING, WORKSPACE_UNREADABLE, INVALID_PARAMS."""
    root = Path(path)
    if not root.is_absolute():
        raise GloveportError(ErrorCode.INVALID_PARAMS, f"root: {path!r} is not an absolute path")
    try:
        info = root.stat()
    except FileNotFoundError:
        raise GloveportError(ErrorCode.WORKSPACE_MISSING, f"there is no folder {path}") from None
    except OSError as error:
        raise GloveportError(ErrorCode.WORKSPACE_UNREADABLE, f"{path} cannot be read ({error.strerror})") from None
    if not stat.S_ISDIR(info.st_mode):
        raise GloveportError(ErrorCode.WORKSPACE_MISSING, f"{path} is not a folder")
    if not os.access(root, os.R_OK | os.X_OK):
        raise GloveportError(ErrorCode.WORKSPACE_UNREADABLE, f"{path} cannot be read by this user")
    return root


def check_strength(rung: SandboxInfo, level: str) -> None:
    """A rung that is chosen by name has to do for the folder's level. Raises SANDBOX_REFUSED.

    Where nothing would run at all (an untrusted folder, or one nobody spoke of) any choice is taken.
    """
    if level in RUNNING_LEVELS and level not in rung.trust_levels:
        words = f"{rung.name} is too weak for a folder that is {level}: every program would be refused"
        hint = "Choose a stronger sandbox, or trust the folder further if you know its code."
        raise GloveportError(ErrorCode.SANDBOX_REFUSED, words, hint=hint)


def check_works(rung: SandboxInfo) -> None:
    """A rung that is chosen by name has to work here. Raises SANDBOX_UNAVAILABLE with the trial's reason."""
    if not rung.available:
        words = f"{rung.name} does not work here: {rung.reason or 'a trial of it failed'}"
        hint = f"{rung.fix} See gloveport doctor --sandbox {rung.name}.".strip()
        raise GloveportError(ErrorCode.SANDBOX_UNAVAILABLE, words, hint=hint)


def check_mark(session_id: str, typed: str, outcome: str) -> None:
    """A person typed the end of the session's id; `outcome` is said otherwise. Raises INVALID_PARAMS."""
    if typed != session_id[-MARK_CHARACTERS:]:
        words = f"what was typed is not the end of the session's id; {outcome}"
        raise GloveportError(ErrorCode.INVALID_PARAMS, words, hint=f"Type its last {MARK_CHARACTERS} characters.")


async def thaw(house: House, params: SessionThawParams, caller: Caller, once: Once) -> Empty:
    """Let a frozen session work again, since the user typed its mark. Raises GloveportError."""
    check_mark(params.session_id, params.typed, "it stays frozen")
    actor = await house.sessions.open(params.session_id)
    start_effects(actor, await actor.submit(ThawSession(caller.client_name or "client"), once.request(Empty())))
    return Empty()


async def start(house: House, params: SessionStartParams, caller: Caller, once: Once) -> SessionInfo:
    """Begin a session: snapshot the folder, write the first facts."""
    root = checked_root(params.root)
    workspace_id = folder_identity(root)
    level = house.trust.level(workspace_id)
    model = house.settings().find(params.provider, params.model)
    sandbox = params.sandbox or house.settings().sandbox[level]
    if sandbox not in house.rungs.names:
        known = ", ".join(house.rungs.names)
        raise GloveportError(ErrorCode.SANDBOX_UNAVAILABLE, f"there is no sandbox {sandbox!r}; there are: {known}")
    if params.sandbox is not None:
        rung = await house.rungs.describe(sandbox)
        check_strength(rung, level)
        check_works(rung)
    room = house.sessions.room
    session_id = SessionId(room.new_id("session"))
    choice = Choice(
        workspace_id=workspace_id,
        root=str(root),
        title=params.title or root.name or str(root),
        trust_level=level,
        sandbox=sandbox,
        provider=model.provider,
        model=model.model,
        model_label=house.model_label(model.provider, model.model),
    )
    info = SessionInfo(
        session_id=session_id,
        workspace_id=workspace_id,
        root=choice.root,
        title=choice.title,
        phase="idle",
        model_label=choice.model_label,
        sandbox=sandbox,
        trust_level=level,
        updated_at=room.now_us(),
        provider=model.provider,
        model=model.model,
    )
    await house.sessions.create(choice, once.request(info), session_id)
    return info


def info_of(house: House, actor: Actor, updated_at: int) -> SessionInfo:
    """A loaded session as a row; no known secret stands in its title."""
    state = actor.state
    return SessionInfo(
        session_id=actor.session_id,
        workspace_id=state.workspace_id,
        root=state.root,
        title=house.sessions.room.redactor.redact(state.title),
        phase=index_state(state),
        model_label=state.model_label,
        sandbox=state.sandbox,
        trust_level=state.trust_level,
        updated_at=updated_at,
        provider=state.provider,
        model=state.model,
    )


async def rows_of(house: House, root: str | None, limit: int, before: int | None = None) -> tuple[SessionRow, ...]:
    """A page of the index, changed last first; with `root`, of the sessions of that folder under whatever name.

    A session keeps the name it was begun under, which may lead over links.
    """
    journal = house.sessions.room.journal
    if root is None:
        return await journal.sessions(limit, before=before)
    real: dict[str, str] = {"": ""}

    def of_root(page: Sequence[SessionRow]) -> list[SessionRow]:
        for name in {root, *(row.workspace for row in page)} - real.keys():
            real[name] = os.path.realpath(name)
        return [row for row in page if real[row.workspace] == real[root]]

    found: list[SessionRow] = []
    while len(found) < limit and (page := await journal.sessions(before=before)):
        found += await anyio.to_thread.run_sync(of_root, page)
        before = page[-1].order
    return tuple(found[:limit])


async def listed(house: House, params: SessionListParams, caller: Caller) -> SessionListResult:
    """Sessions, newest first."""
    wanted = params.offset + params.limit + 1
    rows: list[SessionRow] = []
    before: int | None = None
    while len(rows) < wanted:
        page = await rows_of(house, params.root, wanted - len(rows), before)
        if not page:
            break
        rows += page
        before = page[-1].order
    shown = rows[params.offset : params.offset + params.limit]
    more = len(rows) > params.offset + params.limit
    return SessionListResult(
        sessions=tuple(row_info(house, row) for row in shown),
        next_offset=params.offset + params.limit if more else None,
    )


def row_info(house: House, row: SessionRow) -> SessionInfo:
    """A session of the index as a row, with more of it where it is in memory."""
    actor = house.sessions.loaded(row.session_id)
    if actor is not None:
        return info_of(house, actor, row.updated_at)
    return SessionInfo(
        session_id=row.session_id,
        workspace_id="",
        root=row.workspace,
        title=house.sessions.room.redactor.redact(row.title),
        phase=row.state,
        model_label="",
        sandbox="",
        trust_level="",
        updated_at=row.updated_at,
    )


async def show(house: House, params: SessionParams, caller: Caller) -> SessionDetail:
    """Everything about one session that is not its view."""
    actor = await house.sessions.open(params.session_id)
    row = await house.sessions.room.journal.session(params.session_id)
    state = actor.state
    return SessionDetail(
        info=info_of(house, actor, row.updated_at if row is not None else 0),
        turn_id=state.turn.turn_id if state.turn is not None else None,
        goal_revision=state.goal_revision,
        queue=tuple(QueuedMessage(message_id=one.message_id, text=one.text) for one in state.queue),
        pending_approvals=tuple(state.approvals),
        pending_changes=tuple(state.changes),
        read_only=state.read_only,
        cursor=encode_cursor(actor.cursor),
        input_tokens=state.input_tokens,
        output_tokens=state.output_tokens,
        mode=state.mode,
        turn_tokens=(state.turn or state.ended_turn).tokens,
        turn_uncounted_tokens=(state.turn or state.ended_turn).uncounted,
        uncounted_tokens=state.uncounted_tokens,
        turn_tokens_max=state.turn_tokens_max,
        session_tokens_max=state.session_tokens_max,
        next_tokens=state.next_tokens,
        limit_reached=state.last_failure == ErrorCode.BUDGET,
        turn_nano_usd=turn_nano_usd(state),
        turn_nano_usd_max=state.money.turn_nano_usd if state.money is not None else None,
        session_nano_usd=state.nano_usd,
        session_nano_usd_max=state.money.session_nano_usd if state.money is not None else None,
        next_nano_usd=least_nano_usd(state),
        unseen_nano_usd=unseen_nano_usd(state),
    )


async def rename(house: House, params: SessionRenameParams, caller: Caller, once: Once) -> Empty:
    """Give the session another title."""
    actor = await house.sessions.open(params.session_id)
    await actor.record((SessionRenamed(title=params.title),), once.request(Empty()))
    return Empty()


async def mode(house: House, params: SessionModeParams, caller: Caller, once: Once) -> Empty:
    """Choose what the session may do; it counts from the next call on."""
    actor = await house.sessions.open(params.session_id)
    await actor.record((ModeChosen(mode=params.mode, by=caller.client_name or "client"),), once.request(Empty()))
    return Empty()


async def items(house: House, params: ItemListParams, caller: Caller) -> ItemListResult:
    """Items of the view before an index."""
    shown = await house.sessions.look(params.session_id)
    stop = min(params.before, len(shown.view))
    begin = max(0, stop - params.limit)
    page = tuple(map(ViewItem.model_validate, await shown.items(begin, stop)))
    return ItemListResult(items=page, items_before=begin)


async def export(house: House, params: SessionExportParams, caller: Caller) -> SessionExportResult:
    """Events as stored, redacted unless asked otherwise."""
    await house.sessions.open(params.session_id)
    stream = session_stream(SessionId(params.session_id))
    journal = house.sessions.room.journal
    events = await journal.read(stream, params.after_seq, params.limit, EXPORT_BYTES_MAX)
    redact = house.sessions.room.redactor.redact if params.redacted else None
    head = await journal.head(stream)
    more = head is not None and bool(events) and events[-1].seq < head.seq
    return SessionExportResult(
        events=tuple(exported(event, redact) for event in events), next_seq=events[-1].seq if more else None
    )


def exported(event: StoredEvent, redact: Callable[[str], str] | None) -> dict[str, object]:
    """One stored event as a JSON object."""
    try:
        payload = json.loads(event.payload)
    except ValueError:  # damaged: what is not known as text cannot be redacted
        payload = None
    return {
        "stream": event.stream,
        "epoch": event.epoch,
        "seq": event.seq,
        "type": event.type,
        "version": event.version,
        "at": event.at,
        "digest": event.digest,
        "payloadHash": event.payload_hash,
        "erased": event.erased is not None,
        "payload": payload if redact is None else redacted_parts(payload, redact),
    }
