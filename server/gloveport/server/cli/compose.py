"""Typing to a running turn, in the terminal that follows it.

Purpose: take a line at any time, ask which of the three verbs is meant, send it, and say what it does.
Invariant: nothing is sent before the verb was chosen; a card's question has the terminal to itself.
Must never: decide what a message means; the daemon reads it and says so.
"""

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.wire.turn import TurnInterruptParams, TurnQueueParams, TurnSteerParams, TurnSteerResult
from gloveport.server.cli.feed import Feed
from gloveport.server.cli.hints import hint_of
from gloveport.server.cli.link import request_id
from gloveport.server.cli.prompt import read_line
from gloveport.server.client.connect import Client

Kind = Literal["supplement", "correct", "replace", "ask"]
KINDS: Final[tuple[Kind, ...]] = ("supplement", "correct", "replace", "ask")
QUESTION: Final = "  steer (Enter), queue (q), interrupt (i), or not at all (x): "
WHICH_VERB: Final = "  your words wait for it: press Enter alone, or type q, i or x"
_VERBS: Final[Mapping[str, str]] = MappingProxyType(
    {"": "steer", "s": "steer", "steer": "steer", "q": "queue", "queue": "queue", "i": "interrupt",
     "interrupt": "interrupt", "x": "drop", "n": "drop", "no": "drop"}
)  # fmt: skip


def told_words(told: TurnSteerResult) -> str:
    """How a message was read and what it does."""
    read = "as you chose" if told.chosen_by == "user" else "by its words"
    return f"{told.kind} ({read}): {told.words}"


async def send_queue(client: Client, session_id: str, text: str) -> str:
    """Queue a message; what became of it, in words."""
    params = TurnQueueParams(client_request_id=request_id(), session_id=session_id, text=text)
    sent = await client.call("turn/queue", params)
    return "nothing ran, so a turn began with it" if sent.position is None else f"queued, number {sent.position}"


async def send_steer(client: Client, session_id: str, turn_id: str, text: str, kind: Kind | None = None) -> str:
    """Say something to the running turn; what it does, in words."""
    params = TurnSteerParams(
        client_request_id=request_id(), session_id=session_id, expected_turn_id=turn_id, text=text, kind=kind
    )
    return told_words(await client.call("turn/steer", params))


async def send_interrupt(client: Client, session_id: str, turn_id: str, text: str) -> str:
    """Stop the running turn for this message; what it does, in words."""
    params = TurnInterruptParams(
        client_request_id=request_id(), session_id=session_id, expected_turn_id=turn_id, text=text
    )
    return (await client.call("turn/interrupt", params)).words


class Composer:
    """One line at a time from the terminal to the turn that is followed."""

    def __init__(self, client: Client, session_id: str, feed: Feed) -> None:
        self._client, self._session_id, self._feed = client, session_id, feed
        self._text: str | None = None
        self._ended = False
        self.typing: asyncio.Task[str | None] | None = None
        self.follows_on = False
        """A message was sent that begins a turn of its own."""

    def listen(self) -> None:
        """Wait for a line, if nobody does yet."""
        if self.typing is None and not self._ended:
            self.typing = asyncio.ensure_future(read_line())

    async def pause(self) -> None:
        """Leave the terminal to somebody else; a message whose verb was not chosen is not sent."""
        typing, self.typing = self.typing, None
        if typing is not None:
            typing.cancel()
            await asyncio.wait({typing})
        self.drop()

    def drop(self) -> None:
        """Say of a message whose verb was not chosen that it is not sent."""
        text, self._text = self._text, None
        if text is not None:
            self._feed.asked(typed=False)
            self._feed.line(f"not sent: {text}", "yellow")

    async def take(self, turn_id: str) -> None:
        """Act on the line that was typed, if one was."""
        if self.typing is None or not self.typing.done():
            return
        typed, self.typing = self.typing.result(), None
        if self._text is not None:
            self._feed.asked(typed=typed is not None)
        if typed is None:
            self._ended, self._text = True, None
        elif self._text is None:
            self._begin(typed)
        else:
            await self._chosen(typed.lower(), turn_id)

    def _begin(self, typed: str) -> None:
        if typed.strip():
            self._text = typed
            self._feed.ask(QUESTION)

    async def _chosen(self, word: str, turn_id: str) -> None:
        verb, text = _VERBS.get(word), self._text or ""
        kind = next((one for one in KINDS if one == word), None)
        if verb is None and kind is None:
            self._feed.line(WHICH_VERB)
            self._feed.ask(QUESTION)
            return
        self._text = None
        try:
            words = await self._send("steer" if verb is None else verb, text, turn_id, kind)
        except GloveportError as error:
            self._feed.line(f"✗ not sent: {error.message}", "yellow")
            self._feed.line(f"  {hint_of(error)}")
        else:
            self._feed.line(words, "dim")

    async def _send(self, verb: str, text: str, turn_id: str, kind: Kind | None) -> str:
        if verb == "steer":
            await send_steer(self._client, self._session_id, turn_id, text, kind)
            return "sent"
        if verb == "drop":
            return "not sent"
        self.follows_on = True
        if verb == "queue":
            return await send_queue(self._client, self._session_id, text)
        await send_interrupt(self._client, self._session_id, turn_id, text)
        return "sent"
