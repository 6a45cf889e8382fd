"""Following a turn in the terminal.

Purpose: print a session until its turn ends, answer cards as told, and stop the turn on Ctrl-C.
Invariant: the exit code says how the turn ended.
Must never: answer a card by itself unless the user's own option says so.
"""

import asyncio
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.turn import ApprovalInfo, TurnCancelParams
from gloveport.server.cli.cards import Approve, answer, ask, option_of, show_card, waiting
from gloveport.server.cli.feed import Feed
from gloveport.server.cli.link import Exit, out, print_json, request_id
from gloveport.server.client.connect import Client
from gloveport.server.client.follow import Follow

_ENDS: Final = MappingProxyType({"completed": Exit.OK, "failed": Exit.TURN_FAILED, "cancelled": Exit.TURN_CANCELLED})


@dataclass(slots=True)
class Manner:
    """How a turn is followed: as NDJSON or for people, and how cards are answered."""

    as_json: bool = False
    approve: Approve = "ask"
    show_output: bool = True


class TurnFollower:
    """Follows one turn to its end."""

    def __init__(self, client: Client, session_id: str, manner: Manner) -> None:
        self._client, self._session_id, self._manner = client, session_id, manner
        self.feed = Feed(out(), show_output=manner.show_output)
        self._answered: set[str] = set()
        self._stopping: asyncio.Task[None] | None = None

    async def run(self, turn_id: str, after: str | None = None) -> Exit:
        """Print until the turn has ended; the exit code."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupted)
        try:
            return await self._follow(self._client.follow(self._session_id, after=after), turn_id)
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    async def _follow(self, follow: Follow, turn_id: str) -> Exit:
        async for update in follow:
            for event in update.events:
                self._show(event.model_dump(mode="json", by_alias=True))
                if not self._manner.as_json:
                    self.feed.take(event)
            fields = _item(follow, f"turn/{turn_id}")
            if fields.get("state") in _ENDS:
                return self._ended(follow, fields)
            if not await self._cards(follow):
                self._result(follow, "waiting", Exit.APPROVAL_NEEDED)
                return Exit.APPROVAL_NEEDED
        return Exit.FAILED

    def _show(self, event: Mapping[str, Any]) -> None:
        if self._manner.as_json:
            print_json(event)

    def _ended(self, follow: Follow, fields: Mapping[str, Any]) -> Exit:
        code = _ENDS[str(fields["state"])]
        self._result(follow, str(fields["state"]), code)
        if not self._manner.as_json:
            self.feed.line(f"tokens: {self.feed.input_tokens} in, {self.feed.output_tokens} out", "dim")
        return code

    def _result(self, follow: Follow, words: str, code: Exit) -> None:
        end = {"result": words, "exitCode": int(code), "viewDigest": follow.view.digest()}
        self._show({"type": "result", "sessionId": self._session_id, **end})

    async def _cards(self, follow: Follow) -> bool:
        """Answer what waits; False when a card waits that nobody here may answer."""
        pending = [
            item
            for item in follow.view.items()
            if item["kind"] == "approval" and item["fields"]["state"] == "pending" and item["id"] not in self._answered
        ]
        if not pending:
            return True
        for shown in await waiting(self._client, self._session_id):
            self._answered.add(f"approval/{shown.approval_id}")
            if not await self._card(shown):
                return False
        return True

    async def _card(self, shown: ApprovalInfo) -> bool:
        manner, as_json = self._manner.approve, self._manner.as_json
        if manner == "ask" and not as_json and sys.stdin.isatty():
            await ask(self.feed, self._client, self._session_id, shown)
            return True
        if not as_json:
            show_card(self.feed, shown.card)
        if manner == "ask":
            if not as_json:
                self.feed.line("It waits for your answer: gloveport approve, then gloveport resume", "yellow")
            return False
        option = None if manner == "never" else option_of(shown.card, manner)
        await answer(self._client, self._session_id, shown, option)
        if not as_json:
            words = "refused" if option is None else f"allowed ({manner})"
            self.feed.line(f"  {words} by this command, as it was told; you were not asked", "yellow")
        return True

    def _interrupted(self) -> None:
        """The first Ctrl-C stops the turn and waits for its end; a second one leaves."""
        loop = asyncio.get_running_loop()
        loop.remove_signal_handler(signal.SIGINT)
        self._stopping = loop.create_task(self._stop())

    async def _stop(self) -> None:
        params = TurnCancelParams(client_request_id=request_id(), session_id=self._session_id)
        try:
            await self._client.call("turn/cancel", params)
        except GloveportError as error:
            self.feed.line(f"✗ it could not be stopped: {error.message}", "bold red")


def _item(follow: Follow, name: str) -> Mapping[str, Any]:
    return next((item["fields"] for item in follow.view.items() if item["id"] == name), {})


async def running_turn(client: Client, session_id: str) -> str | None:
    """The id of the turn that runs now."""
    return (await client.call("session/show", SessionParams(session_id=session_id))).turn_id
