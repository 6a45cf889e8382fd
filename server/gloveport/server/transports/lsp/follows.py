"""The subscriptions of one connection.

Purpose: own their tasks, find them by name, end them with the connection.
Invariant: a subscription found here belongs to this connection.
Must never: outlive the connection.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from anyio.abc import TaskGroup

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.transports.hub import Hub
from gloveport.server.transports.subscription import Subscription

RunSubscription = Callable[[Subscription], Coroutine[Any, Any, None]]


class Follows:
    """What one connection follows."""

    def __init__(self, hub: Hub, tasks: TaskGroup, run: RunSubscription, subscriptions_max: int) -> None:
        self.hub = hub
        self._tasks = tasks
        self._run = run
        self._subscriptions_max = subscriptions_max
        self._open: dict[str, Subscription] = {}

    def check_room(self) -> None:
        """Raises LIMIT when this connection follows as much as it may."""
        if len(self._open) >= self._subscriptions_max:
            raise GloveportError(ErrorCode.LIMIT, f"a connection follows at most {self._subscriptions_max} streams")

    def adopt(self, subscription: Subscription) -> None:
        """Take responsibility for a subscription that does not run yet."""
        self._open[subscription.name] = subscription

    def start(self, subscription: Subscription) -> None:
        """Let it run."""
        self._tasks.start_soon(self._run, subscription)

    def find(self, name: str) -> Subscription | None:
        """The subscription of that name, if it is this connection's."""
        return self._open.get(name)

    def release(self, subscription: Subscription) -> None:
        """End one."""
        self._open.pop(subscription.name, None)
        self.hub.unsubscribe(subscription)

    def release_all(self) -> None:
        """End all, with the connection."""
        for subscription in tuple(self._open.values()):
            self.release(subscription)
