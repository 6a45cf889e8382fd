"""session/subscribe, session/unsubscribe, session/ack.

Purpose: the verbs of following a session.
Invariant: the first batch is sent after the reply that names its subscription.
Must never: touch more than the connection's own subscriptions and the hub.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import SessionId, session_stream
from gloveport.protocol.wire.base import Empty, WireModel
from gloveport.protocol.wire.reducer import PAGE_ITEMS, page_start
from gloveport.protocol.wire.session import AckParams, SubscribeParams, SubscriptionParams, WidenParams
from gloveport.server.transports.lsp.follows import Follows


@dataclass(frozen=True, slots=True)
class Answer:
    """A result, and what begins once it is on its way."""

    result: WireModel
    then: Callable[[], None] | None = None


async def subscribe(params: SubscribeParams, follows: Follows) -> Answer:
    """Follow a session. Raises SESSION_UNKNOWN or LIMIT."""
    follows.check_room()
    stream = session_stream(SessionId(params.session_id))
    check_items_from(params.items_from)
    subscription, result = await follows.hub.subscribe(
        stream,
        params.after,
        params.window_bytes,
        newest_only=params.newest_only,
        items_from=params.items_from,
    )
    follows.adopt(subscription)
    return Answer(result, lambda: follows.start(subscription))


def check_items_from(index: int) -> None:
    """Raises INVALID_PARAMS for an index at which no page of the view begins."""
    if index != page_start(index):
        raise GloveportError(ErrorCode.INVALID_PARAMS, f"itemsFrom: not a multiple of {PAGE_ITEMS}")


async def widen(params: WidenParams, follows: Follows) -> Answer:
    """Follow older items too. Raises INVALID_PARAMS."""
    check_items_from(params.items_from)
    subscription = follows.find(params.subscription_id)
    if subscription is None:
        raise GloveportError(ErrorCode.INVALID_PARAMS, "subscriptionId: not a subscription of this connection")
    subscription.widen(params.items_from)
    return Answer(Empty())


async def unsubscribe(params: SubscriptionParams, follows: Follows) -> Answer:
    """Stop following. Raises INVALID_PARAMS for a subscription that is not this connection's."""
    subscription = follows.find(params.subscription_id)
    if subscription is None:
        raise GloveportError(ErrorCode.INVALID_PARAMS, "subscriptionId: not a subscription of this connection")
    follows.release(subscription)
    return Answer(Empty())


async def ack(params: AckParams, follows: Follows) -> Answer:
    """Open the window; an ack that crosses an unsubscribe is no error."""
    subscription = follows.find(params.subscription_id)
    if subscription is not None:
        subscription.ack(params.seq)
    return Answer(Empty())


Handler = Callable[[Any, Follows], Awaitable[Answer]]

HANDLERS: Final[Mapping[str, Handler]] = MappingProxyType(
    {
        "session/subscribe": subscribe,
        "session/widen": widen,
        "session/unsubscribe": unsubscribe,
        "session/ack": ack,
    }
)
