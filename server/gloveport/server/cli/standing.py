"""What the daemon tells of itself while a turn is followed.

Purpose: show at once that nothing can be saved; find out whether the session goes on; end the command when it does not.
Invariant: one question to the daemon for each time it stopped, which makes it look again.
Must never: wait for the end of a turn that cannot be written.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.place import DaemonTold
from gloveport.server.client.connect import Client


class Standing:
    """Listens to the daemon beside a session's stream; `show` prints a notice."""

    def __init__(self, client: Client, session_id: str, show: Callable[[DaemonTold], None]) -> None:
        self._client, self._session_id, self._show = client, session_id, show
        self._notices = client.notices()
        self._coming: asyncio.Future[DaemonTold] | None = None
        self._looking: asyncio.Future[Any] | None = None

    def listen(self) -> set[asyncio.Future[Any]]:
        """What may come now."""
        if self._coming is None:
            self._coming = asyncio.ensure_future(anext(self._notices))
        return {self._coming} if self._looking is None else {self._coming, self._looking}

    def take(self) -> None:
        """Show what came. Raises NOT_SAVED or DATA_FULL when the session does not go on, UNREACHABLE."""
        if self._looking is not None and self._looking.done():
            looked, self._looking = self._looking, None
            self._looked(looked)
        if self._coming is not None and self._coming.done():
            notice, self._coming = self._coming.result(), None
            self._show(notice)
            if not notice.accepting and self._looking is None:
                # A command makes the daemon look again: at the journal, and at what became of the turn.
                asked = self._client.call("session/show", SessionParams(session_id=self._session_id))
                self._looking = asyncio.ensure_future(asked)

    def _looked(self, looked: asyncio.Future[Any]) -> None:
        try:
            looked.result()
        except GloveportError as error:
            if error.code in (ErrorCode.NOT_SAVED, ErrorCode.DATA_FULL, ErrorCode.UNREACHABLE):
                raise

    def close(self) -> None:
        """Listen no more."""
        for one in (self._coming, self._looking):
            if one is not None:
                one.cancel()
