"""From messages to replies.

Purpose: run each request as a task of its connection and answer it once.
Invariant: exactly one reply per request, whatever happens: bad, unknown, busy, cancelled, failed, unwritable.
Must never: wait in `receive` for a request to finish, or tell a client more of a failure than code, hint, reference.
"""

import logging
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.transports.bulletin import Bulletin
from gloveport.server.transports.lsp.asks import Asks
from gloveport.server.transports.lsp.documents import Documents
from gloveport.server.transports.lsp.envelope import MessageId, Notification, Request
from gloveport.server.transports.lsp.follows import Follows
from gloveport.server.transports.lsp.handlers.lifecycle import Lifecycle, Phase, read_opening
from gloveport.server.transports.lsp.limits import Limits
from gloveport.server.transports.lsp.outbox import Outbox, OutboxClosed
from gloveport.server.transports.lsp.reading import read_params
from gloveport.server.transports.lsp.replies import (
    Result,
    error_frame,
    message_frame,
    result_frame,
    typed_error_frame,
)
from gloveport.server.transports.news import News
from gloveport.server.transports.port import Caller, MethodShape, SessionPort

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gloveport.protocol.wire.place import DaemonTold
    from gloveport.server.transports.lsp.handlers import editing

_log = logging.getLogger("gloveport.transport")

METHOD_CHARS_SHOWN = 100
DOCUMENT_PREFIX = "textDocument/"
PROVE = "$/gloveport/prove"
SHOWN_AS_ERROR = 1
SHOWN_AS_INFO = 3
"""Kinds of `window/showMessage`, as LSP numbers them."""


@dataclass(slots=True)
class _Flight:
    """A request under way; `scope` ends it, wherever it stands. `replying`: its reply waits for room or is written."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    replying: bool = False


@dataclass(frozen=True, slots=True)
class Desk:
    """What a dispatcher works with; all of it belongs to one connection except the port and the table."""

    connection_id: str
    methods: Mapping[str, MethodShape]
    port: SessionPort
    lifecycle: Lifecycle
    follows: Follows
    outbox: Outbox
    tasks: TaskGroup
    limits: Limits
    documents: Documents
    bulletin: Bulletin
    asks: Asks
    changes: News


class Dispatcher:
    """Answers the requests of one connection."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._flights: dict[MessageId, _Flight] = {}
        self._landed = anyio.Event()
        self._abandoned = False
        self._running = anyio.Semaphore(desk.limits.running_max, fast_acquire=True)

    async def wait_idle(self) -> None:
        """Wait until every request that was taken is answered."""
        while self._flights:
            self._landed = anyio.Event()
            await self._landed.wait()

    async def abandon(self) -> None:
        """Tell every sender that still waits that its answer will not come, after the replies already on their way."""
        self._abandoned = True
        for name in [name for name, flight in self._flights.items() if not flight.replying]:
            del self._flights[name]
            await self._desk.outbox.send(error_frame(name, ErrorCode.SHUTTING_DOWN, "the connection ends"))
        await self.wait_idle()

    async def request(self, request: Request) -> None:
        """Take one request: refuse it now or start its task."""
        refusal = self._refusal(request)
        if refusal is not None:
            await self._desk.outbox.send(typed_error_frame(request.id, refusal))
        elif request.method in ("initialize", "shutdown"):
            before = self._desk.lifecycle.phase
            await self._desk.outbox.send(self._lifecycle(request))
            if before is Phase.NEW and self._desk.lifecycle.phase is Phase.SERVING:
                self._desk.tasks.start_soon(self._tell_notices)
                if self._desk.lifecycle.identity.refreshes_lenses:
                    from gloveport.server.transports.lsp.handlers import editing  # for editors alone

                    self._desk.tasks.start_soon(editing.refresh_lenses, self._desk.asks, self._desk.changes)
        else:
            flight = self._flights[request.id] = _Flight()
            self._desk.tasks.start_soon(self._fly, request, flight)

    async def notice(self, notification: Notification) -> None:
        """Take one notification; what is unknown or comes too early is ignored."""
        if notification.method == "$/cancelRequest":
            self._cancel(notification.params)
        elif notification.method == "session/ack":
            await self._ack(notification)
        elif notification.method.startswith(DOCUMENT_PREFIX):
            if self._desk.lifecycle.identity.speaks_documents:
                self._desk.documents.take(notification)
        elif notification.method == PROVE:
            self._desk.lifecycle.prove(notification.params)

    def _refusal(self, request: Request) -> GloveportError | None:
        if request.id in self._flights:
            return GloveportError(
                ErrorCode.INVALID_REQUEST,
                "this id is in use by a request under way",
                hint="Give every request its own id.",
            )
        if request.method == "initialize":
            return None
        try:
            self._desk.lifecycle.check_serving()
        except GloveportError as refusal:
            return refusal
        if request.method == "shutdown":
            return None
        method = self._desk.methods.get(request.method)
        if method is None and self._feature(request.method) is None:
            return GloveportError(ErrorCode.METHOD_NOT_FOUND, f"no method {request.method[:METHOD_CHARS_SHOWN]!r}")
        if method is not None and method.decides and not self._desk.lifecycle.identity.deciding:
            return GloveportError(ErrorCode.DECISION_TOKEN, "this connection may look but not decide")
        limits = self._desk.limits
        if len(self._flights) >= limits.running_max + limits.waiting_max:
            return GloveportError(ErrorCode.BUSY, "too many requests of this connection are under way")
        return None

    def _feature(self, name: str) -> "editing.Feature | None":
        """What is served to editors, and to them alone."""
        if not self._desk.lifecycle.identity.speaks_documents:
            return None
        from gloveport.server.transports.lsp.handlers import editing

        return editing.FEATURES.get(name)

    def _lifecycle(self, request: Request) -> bytes:
        lifecycle = self._desk.lifecycle
        try:
            if request.method == "shutdown":
                lifecycle.shut_down()
                return result_frame(request.id, None)
            return result_frame(request.id, lifecycle.initialize(read_opening(request.params)))
        except GloveportError as error:
            return typed_error_frame(request.id, error)

    async def _tell_notices(self) -> None:
        """Pass on what the daemon tells everybody, in the client's own language, until the connection ends."""
        with suppress(OutboxClosed):
            await self._desk.bulletin.run(self._tell)

    async def _tell(self, notice: "DaemonTold") -> None:
        if self._desk.lifecycle.identity.speaks_ours:
            frame = message_frame("daemon/told", notice.model_dump(mode="json", by_alias=True))
        else:
            kind = SHOWN_AS_INFO if notice.accepting else SHOWN_AS_ERROR
            frame = message_frame("window/showMessage", {"type": kind, "message": notice.words})
        await self._desk.outbox.send(frame)

    async def _fly(self, request: Request, flight: _Flight) -> None:
        """A request's task: the reply is made under the flight's scope and sent outside of it.

        A flight that is cut short by the connection's end stays listed, and `abandon` replies in its place.
        """
        frame, then = error_frame(request.id, ErrorCode.CANCELLED, "cancelled"), None
        with flight.scope:
            async with self._running:
                frame, then = await self._answer(request, flight)
        if self._abandoned:
            return
        flight.replying = True
        try:
            with anyio.CancelScope(shield=True):  # ends with the outbox at the latest
                await self._desk.outbox.send(frame)
        except OutboxClosed:
            return
        finally:
            del self._flights[request.id]
            self._landed.set()
        if then is not None:
            then()

    async def _answer(self, request: Request, flight: _Flight) -> tuple[bytes, Callable[[], None] | None]:
        feature = self._feature(request.method)
        shape = self._desk.methods[request.method] if feature is None else feature
        try:
            params = read_params(shape.params, {} if request.params is None else request.params)
            if feature is not None:
                return result_frame(request.id, await feature.handler(params, self._editing())), None
            result, then = await self._perform(request.method, params)
            return result_frame(request.id, result), then
        except anyio.get_cancelled_exc_class() as error:
            if flight.scope.cancel_called or self._desk.tasks.cancel_scope.cancel_called:
                raise
            return self._failure(request, error), None  # the engine cancelled itself; its client did not
        except Exception as error:  # noqa: BLE001 - the outer edge: whatever fails, the client gets its one reply
            return self._failure(request, _leaf(error)), None

    async def _perform(self, method: str, params: "BaseModel") -> tuple[Result, Callable[[], None] | None]:
        from gloveport.server.transports.lsp.handlers import subscription  # with the wire's shapes, as each request

        handler = subscription.HANDLERS.get(method)
        if handler is not None:
            answer = await handler(params, self._desk.follows)
            return answer.result, answer.then
        return await self._desk.port.call(method, params, self._caller()), None

    def _caller(self) -> Caller:
        identity = self._desk.lifecycle.identity
        return Caller(self._desk.connection_id, identity.client_name, identity.deciding)

    def _editing(self) -> "editing.Desk":
        from gloveport.server.transports.lsp.handlers import editing

        desk = self._desk
        return editing.Desk(desk.port, self._caller(), desk.lifecycle.identity, desk.asks, desk.tasks, self._show)

    async def _show(self, words: str) -> None:
        with suppress(OutboxClosed):
            frame = message_frame("window/showMessage", {"type": SHOWN_AS_ERROR, "message": words})
            await self._desk.outbox.send(frame)

    def _failure(self, request: Request, error: BaseException) -> bytes:
        if isinstance(error, GloveportError) and error.code is not ErrorCode.INTERNAL:
            return typed_error_frame(request.id, error)
        ref = secrets.token_hex(6)
        _log.error("%s failed, reference %s", request.method, ref, exc_info=error)
        return error_frame(request.id, ErrorCode.INTERNAL, "internal error", data={"ref": ref})

    def _cancel(self, params: object) -> None:
        wanted = params.get("id") if isinstance(params, dict) else None
        if isinstance(wanted, int | str) and (flight := self._flights.get(wanted)) is not None:
            flight.scope.cancel()

    async def _ack(self, notification: Notification) -> None:
        method = self._desk.methods.get("session/ack")
        if method is None or notification.params is None:
            return
        from gloveport.server.transports.lsp.handlers import subscription

        try:
            params = read_params(method.params, notification.params)
        except GloveportError:
            return
        await subscription.HANDLERS["session/ack"](params, self._desk.follows)


def _leaf(error: BaseException) -> BaseException:
    """The one failure inside a group of one."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
