"""Requests of ours to a client.

Purpose: match answers to questions, with a deadline.
Invariant: every question ends with an answer, an error or its deadline; after the deadline the client is told, and a
late answer changes nothing.
Must never: believe what a client answers about the world; that is confirmed by content elsewhere.
"""

from dataclasses import dataclass, field
from typing import Final

import anyio

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.transports.lsp.envelope import Response
from gloveport.server.transports.lsp.outbox import Outbox
from gloveport.server.transports.lsp.replies import message_frame

ID_PREFIX: Final = "gloveport-"


@dataclass(slots=True)
class _Ask:
    done: anyio.Event = field(default_factory=anyio.Event)
    response: Response | None = None


class Asks:
    """The open questions of one connection."""

    def __init__(self, outbox: Outbox, asks_max: int) -> None:
        self._outbox = outbox
        self._asks_max = asks_max
        self._open: dict[str, _Ask] = {}
        self._count = 0

    async def ask(self, method: str, params: object, timeout_s: float) -> object:
        """The client's result.

        Raises:
            TimeoutError: no answer within `timeout_s`; the client was sent `$/cancelRequest`.
            GloveportError: LIMIT when too many questions are open, CAPABILITY_MISSING when the client refused.
        """
        if len(self._open) >= self._asks_max:
            raise GloveportError(ErrorCode.LIMIT, f"{self._asks_max} questions to the client are open")
        self._count += 1
        name = f"{ID_PREFIX}{self._count}"
        question = self._open[name] = _Ask()
        try:
            await self._outbox.send(message_frame(method, params, name))
            with anyio.fail_after(timeout_s):
                await question.done.wait()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._outbox.send(message_frame("$/cancelRequest", {"id": name}))
            raise
        finally:
            del self._open[name]
        return _result(question.response)

    def resolve(self, response: Response) -> bool:
        """Hand an answer to its question; False when nobody waits for it."""
        question = self._open.get(response.id) if isinstance(response.id, str) else None
        if question is None or question.done.is_set():
            return False
        question.response = response
        question.done.set()
        return True


def _result(response: Response | None) -> object:
    if response is None or response.error is None:
        return None if response is None else response.result
    words = response.error.get("message") if isinstance(response.error, dict) else None
    raise GloveportError(ErrorCode.CAPABILITY_MISSING, f"the client refused: {str(words)[:200]}")
