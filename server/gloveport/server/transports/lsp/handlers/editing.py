"""textDocument/codeLens, textDocument/codeAction, workspace/executeCommand: pending hunks in any editor.

Purpose: show what waits for a decision in a document, and take the decision, in the words of LSP.
Invariant: a command names the digest of the hunk that was rendered; deciding needs what every decision needs.
Must never: offer an edit or a kind: what an editor applies by itself on save, or for a whole file, decides nothing.
"""

import logging
import secrets
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from pydantic import BaseModel, Field, ValidationError

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.change import (
    ChangeDecideParams,
    ChangeHunksParams,
    ChangeUndoParams,
    PendingHunk,
    Replaced,
    Selection,
)
from gloveport.server.transports.lsp.asks import Asks
from gloveport.server.transports.lsp.handlers.lifecycle import Identity
from gloveport.server.transports.lsp.handlers.names import (
    ACCEPT_FILE,
    ACCEPT_HUNK,
    COMMANDS,
    DECIDING,
    NEXT_HUNK,
    REJECT_FILE,
    REJECT_HUNK,
    TAKE_HUNK,
    UNDO,
)
from gloveport.server.transports.lsp.outbox import OutboxClosed
from gloveport.server.transports.lsp.textsync import Range, SyncModel
from gloveport.server.transports.news import News
from gloveport.server.transports.port import Caller, SessionPort

AUTOMATIC: Final = 2
"""`CodeActionTriggerKind`: nobody asked."""
SHOW_S: Final = 5.0
REFRESH_PAUSE_S: Final = 0.1
"""Changes that come together are shown together."""
REPLY_S: Final = 0.3
"""How long a command is waited for before its sender is answered: some editors stand still until they are."""
_log = logging.getLogger("gloveport.transport")

_Rows = list[dict[str, object]]


class _Document(SyncModel):
    uri: str = Field(max_length=8192)


class DocumentParams(SyncModel):
    """A request about one document."""

    text_document: _Document


class _Context(SyncModel):
    only: tuple[str, ...] | None = None
    trigger_kind: int | None = None


class ActionParams(DocumentParams):
    """What may be done at a place of a document."""

    range: Range
    context: _Context = _Context()


class CommandParams(SyncModel):
    """A command of ours that somebody chose."""

    command: str
    arguments: tuple[Any, ...] = ()


class _Chosen(SyncModel):
    """The argument of our commands: the place that was rendered, and the digests it had."""

    uri: str
    session_id: str = ""
    change_id: str = ""
    digest: str = ""
    hunk_digest: str | None = None
    user_digest: str | None = None
    line: int = 0


@dataclass(frozen=True, slots=True)
class Desk:
    """What the handlers work with; it belongs to one connection."""

    port: SessionPort
    caller: Caller
    identity: Identity
    asks: Asks
    tasks: TaskGroup
    show: Callable[[str], Awaitable[None]]
    """Shows words to the editor's user as a failure."""


async def _hunks(desk: Desk, uri: str) -> Sequence[PendingHunk]:
    found: Any = await desk.port.call("change/hunks", ChangeHunksParams(uri=uri), desk.caller)
    hunks: Sequence[PendingHunk] = found.hunks
    return hunks


async def lenses(params: DocumentParams, desk: Desk) -> _Rows:
    """Above each pending hunk what can be done with it; above the first of a file what can be done with the file."""
    rows: _Rows = []
    met: set[str] = set()
    for hunk in await _hunks(desk, params.text_document.uri):
        place = {"line": hunk.start_line, "character": 0}
        for command in _commands(hunk, whole=hunk.change_id not in met):
            rows.append({"range": {"start": place, "end": place}, "command": command})
        met.add(hunk.change_id)
    return rows


async def actions(params: ActionParams, desk: Desk) -> _Rows:
    """The same as plain commands, for the hunks at the place; none for who asks by kind or by itself."""
    if params.context.only or params.context.trigger_kind == AUTOMATIC:
        return []
    first, last = params.range.start.line, params.range.end.line
    hunks = await _hunks(desk, params.text_document.uri)
    here = [hunk for hunk in hunks if hunk.start_line <= last + 1 and max(hunk.end_line - 1, hunk.start_line) >= first]
    rows: _Rows = [command for hunk in here for command in _commands(hunk, whole=False)]
    for change_id in dict.fromkeys(hunk.change_id for hunk in here):
        first_of_file = next(hunk for hunk in hunks if hunk.change_id == change_id)
        rows += _file_commands(first_of_file)
    return rows or ([] if not hunks else [_command("Gloveport: next change", NEXT_HUNK, hunks[0])])


async def refresh_lenses(asks: Asks, changes: News) -> None:
    """Let the editor ask for its lenses anew whenever proposals changed, until its connection ends."""
    seen = 0
    while True:
        seen = await changes.after(seen)
        await anyio.sleep(REFRESH_PAUSE_S)
        try:
            await asks.ask("workspace/codeLens/refresh", None, SHOW_S)
        except OutboxClosed:
            return
        except (GloveportError, TimeoutError):  # it shows them when it asks the next time
            continue


def _commands(hunk: PendingHunk, *, whole: bool) -> _Rows:
    size = f"+{hunk.new_count} −{hunk.old_count}" if hunk.hunk_digest is not None else hunk.kind
    note = f", {hunk.runs_by_itself}" if hunk.runs_by_itself else ""
    note += f", {'refused' if hunk.rule.verdict == 'deny' else 'asked about'}: {hunk.rule.words}" if hunk.rule else ""
    note += ", conflicted: meets your edit" if hunk.state == "conflicted" else ""
    if hunk.state == "conflicted" and hunk.user_digest is not None:
        rows = [
            _command(f"Gloveport: take this in place of your lines ({size}{note})", TAKE_HUNK, hunk),
            _command("Gloveport: keep mine", REJECT_HUNK, hunk),
        ]
    else:
        rows = [
            _command(f"Gloveport: accept this ({size}{note})", ACCEPT_HUNK, hunk),
            _command("Gloveport: reject this", REJECT_HUNK, hunk),
        ]
    return [*rows, *_file_commands(hunk)] if whole else rows


def _file_commands(hunk: PendingHunk) -> _Rows:
    return [
        _command("Gloveport: accept file", ACCEPT_FILE, hunk),
        _command("Gloveport: reject file", REJECT_FILE, hunk),
        _command("Gloveport: next change", NEXT_HUNK, hunk),
    ]


def _command(title: str, name: str, hunk: PendingHunk) -> dict[str, object]:
    chosen = {
        "uri": hunk.uri,
        "sessionId": hunk.session_id,
        "changeId": hunk.change_id,
        "digest": hunk.digest,
        "hunkDigest": hunk.hunk_digest,
        "userDigest": hunk.user_digest,
        "line": hunk.start_line,
    }
    return {"title": title, "command": name, "arguments": [chosen]}


async def execute(params: CommandParams, desk: Desk) -> object:
    """Do what was chosen; what comes of it later than the reply is told in the editor's own way.

    Raises METHOD_NOT_FOUND, INVALID_PARAMS, DECISION_TOKEN, and what refuses the decision at once.
    """
    if params.command not in COMMANDS:
        raise GloveportError(ErrorCode.METHOD_NOT_FOUND, f"no command {params.command[:100]!r}")
    if params.command in DECIDING and not desk.caller.deciding:
        raise GloveportError(ErrorCode.DECISION_TOKEN, "this connection may look but not decide")
    try:
        chosen = _Chosen.model_validate(params.arguments[0] if params.arguments else None)
    except ValidationError:
        raise GloveportError(ErrorCode.INVALID_PARAMS, "arguments: the object of a code lens or action") from None
    doing = _Doing(_DOERS[params.command](chosen, desk), desk)
    desk.tasks.start_soon(doing.run)
    with anyio.move_on_after(REPLY_S):
        await doing.ended.wait()
    return doing.reply()


class _Doing:
    """A command on its way. An editor may show what it changed only once it has its reply, so that is never waited for
    longer than `REPLY_S`."""

    def __init__(self, doing: Coroutine[object, object, object], desk: Desk) -> None:
        self._doing, self._desk = doing, desk
        self.ended = anyio.Event()
        self._result: object = None
        self._refusal: GloveportError | None = None
        self._replied = False

    async def run(self) -> None:
        """Do it; a refusal after the reply is shown."""
        try:
            self._result = await self._doing
        except GloveportError as error:  # an editor shows the message alone
            self._refusal = GloveportError(error.code, error.advice, hint=error.hint, **error.data)
        except Exception:  # noqa: BLE001 - outer edge: a fault of one command must not end the connection
            ref = secrets.token_hex(6)
            _log.exception("a command of an editor failed, reference %s", ref)
            self._refusal = GloveportError(ErrorCode.INTERNAL, f"internal error, reference {ref}", ref=ref)
        if self._replied and self._refusal is not None:
            await self._desk.show(self._refusal.message)
        self.ended.set()

    def reply(self) -> object:
        """What is known now. Raises the refusal, if there is one by now."""
        self._replied = True
        if self._refusal is not None:
            raise self._refusal
        return self._result


async def _decide(
    method: str, chosen: _Chosen, desk: Desk, *, whole: bool, replaces: tuple[Replaced, ...] = ()
) -> dict[str, object]:
    hunks = None if whole or chosen.hunk_digest is None else (chosen.hunk_digest,)
    params = ChangeDecideParams(
        client_request_id=f"lsp-{uuid.uuid4().hex}",
        session_id=chosen.session_id,
        selections=(
            Selection(change_id=chosen.change_id, digest=chosen.digest, hunk_digests=hunks, replaces=replaces),
        ),
    )
    return _answer(await desk.port.call(method, params, desk.caller))


def _answer(result: BaseModel) -> dict[str, object]:
    return result.model_dump(mode="json", by_alias=True)


async def _accept_hunk(chosen: _Chosen, desk: Desk) -> object:
    return await _decide("change/accept", chosen, desk, whole=False)


async def _reject_hunk(chosen: _Chosen, desk: Desk) -> object:
    return await _decide("change/reject", chosen, desk, whole=False)


async def _take_hunk(chosen: _Chosen, desk: Desk) -> object:
    """What the user has there gives way, if it still is what it was when the command was offered."""
    if chosen.hunk_digest is None or chosen.user_digest is None:
        raise GloveportError(ErrorCode.INVALID_PARAMS, "hunkDigest and userDigest: both sides have to be named")
    try:
        given = Replaced(hunk_digest=chosen.hunk_digest, user_digest=chosen.user_digest)
    except ValidationError:
        raise GloveportError(ErrorCode.INVALID_PARAMS, "hunkDigest and userDigest: no digests") from None
    return await _decide("change/accept", chosen, desk, whole=False, replaces=(given,))


async def _accept_file(chosen: _Chosen, desk: Desk) -> object:
    return await _decide("change/accept", chosen, desk, whole=True)


async def _reject_file(chosen: _Chosen, desk: Desk) -> object:
    return await _decide("change/reject", chosen, desk, whole=True)


async def _undo(chosen: _Chosen, desk: Desk) -> object:
    params = ChangeUndoParams(client_request_id=f"lsp-{uuid.uuid4().hex}", session_id=chosen.session_id)
    return _answer(await desk.port.call("change/undo", params, desk.caller))


async def _next(chosen: _Chosen, desk: Desk) -> object:
    """The next pending hunk of the session after the place, round and round; shown where the editor can."""
    params = ChangeHunksParams(session_id=chosen.session_id)
    found: Any = await desk.port.call("change/hunks", params, desk.caller)
    hunks: Sequence[PendingHunk] = found.hunks
    if not hunks:
        return None
    own = [hunk for hunk in hunks if hunk.change_id == chosen.change_id]
    after = [hunk for hunk in own if hunk.start_line > chosen.line]
    later = [hunk for hunk in hunks if own and hunk.path > own[0].path]
    target = (after or later or list(hunks))[0]
    start = {"line": target.start_line, "character": 0}
    location = {"uri": target.uri, "range": {"start": start, "end": start}}
    if desk.identity.shows_documents:
        shown = {"uri": target.uri, "takeFocus": True, "selection": location["range"]}
        await desk.asks.ask("window/showDocument", shown, SHOW_S)
    return location


_Doer = Callable[[_Chosen, Desk], Coroutine[object, object, object]]
_DOERS: Final[Mapping[str, _Doer]] = MappingProxyType(
    {
        ACCEPT_HUNK: _accept_hunk,
        REJECT_HUNK: _reject_hunk,
        TAKE_HUNK: _take_hunk,
        ACCEPT_FILE: _accept_file,
        REJECT_FILE: _reject_file,
        NEXT_HUNK: _next,
        UNDO: _undo,
    }
)

Handler = Callable[[Any, Desk], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Feature:
    """A request of LSP's own that is served to editors."""

    params: type[BaseModel]
    handler: Handler


FEATURES: Final[Mapping[str, Feature]] = MappingProxyType(
    {
        "textDocument/codeLens": Feature(DocumentParams, lenses),
        "textDocument/codeAction": Feature(ActionParams, actions),
        "workspace/executeCommand": Feature(CommandParams, execute),
    }
)
