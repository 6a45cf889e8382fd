"""A connection's life.

Purpose: read frames, decode, hand on; end everything when the client is gone.
Invariant: reading never waits for a request's work; the connection's tasks end with it.
Must never: end the daemon or touch another connection.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import anyio

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.wire.framing import Body, Broken, FrameItem, FrameReader, Refused
from gloveport.server.transports.bulletin import Bulletin
from gloveport.server.transports.hub import Hub
from gloveport.server.transports.lsp.asks import Asks
from gloveport.server.transports.lsp.dispatch import Desk, Dispatcher
from gloveport.server.transports.lsp.documents import Documents
from gloveport.server.transports.lsp.editor import ClientEditor
from gloveport.server.transports.lsp.envelope import Fault, Notification, Request, decode
from gloveport.server.transports.lsp.follows import Follows
from gloveport.server.transports.lsp.handlers.lifecycle import About, Lifecycle
from gloveport.server.transports.lsp.limits import Limits
from gloveport.server.transports.lsp.outbox import Outbox, OutboxClosed
from gloveport.server.transports.lsp.replies import error_frame
from gloveport.server.transports.news import News
from gloveport.server.transports.port import BufferSink, MethodShape, SessionPort
from gloveport.server.transports.subscription import Subscription

_log = logging.getLogger("gloveport.transport")

READ_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Service:
    """What every connection of a daemon shares."""

    methods: Mapping[str, MethodShape]
    port: SessionPort
    hub: Hub
    buffers: BufferSink
    about: About
    limits: Limits = field(default_factory=Limits)
    bulletin: Bulletin = field(default_factory=Bulletin)
    changes: News = field(default_factory=News)
    """Rings when proposals changed."""


class Connection:
    """One client, from its first byte to its last."""

    def __init__(
        self,
        service: Service,
        connection_id: str,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        *,
        may_decide: bool = True,
    ) -> None:
        self._service = service
        self._connection_id = connection_id
        self._reader = streams[0]
        self._outbox = Outbox(connection_id, streams[1], service.limits.stall_s_max)
        self._lifecycle = Lifecycle(service.about, may_decide=may_decide)
        self.asks = Asks(self._outbox, service.limits.asks_max)

    async def serve(self) -> None:
        """Serve until the client leaves, says exit or breaks the framing; returns with nothing left running."""
        service = self._service
        editor = ClientEditor(self.asks, self._lifecycle)
        documents = Documents(self._connection_id, service.buffers, service.limits.documents_max, editor)
        async with anyio.create_task_group() as tasks:
            follows = Follows(service.hub, tasks, self._follow, service.limits.subscriptions_max)
            desk = Desk(
                connection_id=self._connection_id,
                methods=service.methods,
                port=service.port,
                lifecycle=self._lifecycle,
                follows=follows,
                outbox=self._outbox,
                tasks=tasks,
                limits=service.limits,
                documents=documents,
                bulletin=service.bulletin,
                asks=self.asks,
                changes=service.changes,
            )
            dispatcher = Dispatcher(desk)
            try:
                await self._read(dispatcher)
            except (OutboxClosed, ConnectionError):
                _log.debug("connection %s lost", self._connection_id)
            finally:
                follows.release_all()
                documents.close()
                await self._end(dispatcher)
                tasks.cancel_scope.cancel()

    async def _end(self, dispatcher: Dispatcher) -> None:
        """Answer what can be answered at once, then close; a client that takes nothing is not waited for."""
        with anyio.move_on_after(self._service.limits.finish_grace_s, shield=True):
            try:
                await dispatcher.abandon()
            except OutboxClosed:
                _log.debug("connection %s left while requests were under way", self._connection_id)
        with anyio.CancelScope(shield=True):
            await self._outbox.finish(self._service.limits.finish_grace_s)

    async def _read(self, dispatcher: Dispatcher) -> None:
        frames = FrameReader(self._service.limits.message_bytes_max, self._service.limits.skip_bytes_max)
        while chunk := await self._reader.read(READ_BYTES):
            for item in frames.feed(chunk):
                if not await self._take(item, dispatcher):
                    return
        with anyio.move_on_after(self._service.limits.finish_grace_s):
            await dispatcher.wait_idle()  # a client that said all it has to say may still listen

    async def _take(self, item: FrameItem, dispatcher: Dispatcher) -> bool:
        """Handle one item; False ends the connection."""
        if isinstance(item, Body):
            return await self._message(item.data, dispatcher)
        if isinstance(item, Refused):
            words = f"a message of {item.length_bytes} bytes is over the limit of {item.limit_bytes}"
            await self._outbox.send(error_frame(None, ErrorCode.TOO_LARGE, words))
            return True
        await self._outbox.send(error_frame(None, ErrorCode.INVALID_REQUEST, _broken_words(item)))
        return False

    async def _message(self, body: bytes, dispatcher: Dispatcher) -> bool:
        message = decode(body)
        if isinstance(message, Request):
            await dispatcher.request(message)
        elif isinstance(message, Notification):
            if message.method == "exit":
                return False
            await dispatcher.notice(message)
        elif isinstance(message, Fault):
            await self._outbox.send(error_frame(message.id, message.code, message.message))
        else:
            self.asks.resolve(message)
        return True

    async def _follow(self, subscription: Subscription) -> None:
        """Run one subscription; when it can't go on the client reconnects from its cursor."""
        try:
            await subscription.run(self._outbox.send)
        except OutboxClosed:
            return
        except Exception:  # noqa: BLE001 - the outer edge: a subscription that fails ends its connection, not the daemon
            _log.exception("subscription %s of connection %s failed", subscription.name, self._connection_id)
            self._outbox.abort()


def _broken_words(item: Broken) -> str:
    return f"{item.reason}; the connection ends"
