"""Following a turn in the terminal.

Purpose: print a session until its turn ends, answer cards as told, and stop the turn on Ctrl-C.
Invariant: the exit code says how the turn ended; the stream is shown from the turn's first event.
Must never: answer a card by itself unless the user's own option says so.
"""

import asyncio
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.place import DaemonTold
from gloveport.protocol.wire.session import ItemListParams, WireEvent
from gloveport.protocol.wire.turn import ApprovalInfo, TurnCancelParams
from gloveport.server.cli.cards import (
    ELSEWHERE,
    Approve,
    Choice,
    answer,
    choose,
    gone_words,
    option_of,
    show_card,
    show_compact,
)
from gloveport.server.cli.compose import Composer
from gloveport.server.cli.feed import Feed
from gloveport.server.cli.link import Exit, code_of, out, print_json, request_id
from gloveport.server.cli.standing import Standing
from gloveport.server.cli.together import ALL, NONE, answer_chosen, must_be_each, row_of, show_row
from gloveport.server.client.connect import Client
from gloveport.server.client.follow import Follow, Update

_ENDS: Final = MappingProxyType({"completed": Exit.OK, "failed": Exit.TURN_FAILED, "cancelled": Exit.TURN_CANCELLED})
ITEMS_LOOKED_AT: Final = 500


@dataclass(slots=True)
class Manner:
    """How a turn is followed: as NDJSON or for people, and how cards are answered."""

    as_json: bool = False
    approve: Approve = "ask"
    show_output: bool = True
    whole_session: bool = True
    """Show what was before the turn, too."""
    compact: bool = False
    """Show a card in few lines when it is answered as told."""


@dataclass(frozen=True, slots=True)
class _Question:
    row: tuple[ApprovalInfo, ...]
    typing: asyncio.Task[Choice]


class TurnFollower:
    """Follows one turn to its end."""

    def __init__(self, client: Client, session_id: str, manner: Manner) -> None:
        self._client, self._session_id, self._manner = client, session_id, manner
        self.feed = Feed(out(), show_output=manner.show_output)
        self._answered: set[str] = set()
        self._question: _Question | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._shows = manner.whole_session
        self._types = manner.approve == "ask" and not manner.as_json and sys.stdin.isatty()
        self._composer = Composer(client, session_id, self.feed)
        self._standing = Standing(client, session_id, self._told)

    async def run(self, turn_id: str) -> Exit:
        """Print until the turn has ended; the exit code."""
        loop = asyncio.get_running_loop()
        following = asyncio.ensure_future(self._follow(self._client.follow_from_start(self._session_id), turn_id))
        loop.add_signal_handler(signal.SIGINT, self._interrupted, following)
        try:
            await asyncio.wait({following})
            if following.cancelled():
                if not self._manner.as_json:
                    self.feed.line("left; the turn may go on: gloveport cancel", "yellow")
                return Exit.INTERRUPTED
            return following.result()
        finally:
            self._drop_question()
            self._standing.close()
            for task in filter(None, (following, self._stopping, self._composer.typing)):
                task.cancel()
            loop.remove_signal_handler(signal.SIGINT)

    async def _follow(self, follow: Follow, turn_id: str) -> Exit:
        coming = asyncio.ensure_future(anext(follow))
        caught_up = False
        try:
            while True:
                waited = {coming, *self._typing(), *self._standing.listen()}
                done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                self._standing.take()
                await self._composer.take(turn_id)
                if coming in done:
                    update = coming.result()
                    caught_up = update.caught_up
                    self._take(update, turn_id)
                    fields = _turn(follow, turn_id, update)
                    following = _next_turn(follow) if self._composer.follows_on else None
                    if fields.get("state") in _ENDS and following is None:
                        return self._ended(follow, fields)
                    turn_id = turn_id if following is None else following
                    coming = asyncio.ensure_future(anext(follow))
                if not await self._cards(follow, caught_up=caught_up):
                    self._result(follow, "waiting", Exit.APPROVAL_NEEDED)
                    return Exit.APPROVAL_NEEDED
        except GloveportError as error:
            self.feed.leave()
            self._result(follow, str(error.code), code_of(error))
            raise
        finally:
            coming.cancel()

    def _typing(self) -> set[asyncio.Task[Any]]:
        """What may be typed now: the answer to a card, or else words for the turn."""
        if self._question is not None:
            return {self._question.typing}
        if self._types and self._stopping is None:
            self._composer.listen()
        return set() if self._composer.typing is None else {self._composer.typing}

    def _take(self, update: Update, turn_id: str) -> None:
        if update.began_anew and not self._manner.as_json:
            self.feed.line("[a part of the stream was missed; gloveport show has all of it]", "dim")
        for event in update.events:
            self._shows = self._shows or _is_of_turn(event, turn_id)
            if not self._shows:
                continue
            self._print(event.model_dump(mode="json", by_alias=True))
            if not self._manner.as_json:
                self.feed.take(event)

    def _told(self, notice: DaemonTold) -> None:
        """The daemon saves nothing, or saves again."""
        self._print({"type": "daemon/told", **notice.model_dump(mode="json", by_alias=True)})
        if not self._manner.as_json:
            self.feed.line(f"! {notice.words}", "green" if notice.accepting else "bold red")

    def _print(self, event: Mapping[str, Any]) -> None:
        if self._manner.as_json:
            print_json(event)

    def _ended(self, follow: Follow, fields: Mapping[str, Any]) -> Exit:
        self._drop_question()
        self._composer.drop()
        code = _ENDS[str(fields["state"])]
        self._result(follow, str(fields["state"]), code)
        if not self._manner.as_json:
            self.feed.line(f"tokens: {self.feed.input_tokens} in, {self.feed.output_tokens} out", "dim")
        return code

    def _result(self, follow: Follow, words: str, code: Exit) -> None:
        end = {"result": words, "exitCode": int(code), "viewDigest": follow.view.digest()}
        self._print({"type": "result", "sessionId": self._session_id, **end})

    async def _cards(self, follow: Follow, *, caught_up: bool) -> bool:
        """Answer what waits; False when a card waits that nobody here may answer."""
        pending = _pending(follow)
        if self._question is not None and not await self._go_on(self._question, follow):
            return False
        for approval_id, shown in pending.items():
            if self._question is not None or not caught_up or self._stopping is not None:
                break
            if approval_id not in self._answered:
                self._answered.add(approval_id)
                if not await self._card(shown, row_of(shown, pending.values())):
                    return False
        return True

    async def _go_on(self, question: _Question, follow: Follow) -> bool:
        """Look after the open question; False when the terminal gives no answer."""
        if question.typing.done():
            self._question = None
            if question.typing.cancelled():
                return True
            choice = question.typing.result()
            if choice == "unanswered":
                return False
            if choice in (ALL, NONE):
                self._answered |= {one.approval_id for one in question.row}
            if not await answer_chosen(self._client, self._session_id, question.row, choice):
                self.feed.line(ELSEWHERE, "yellow")
        elif (state := str(_item(follow, f"approval/{question.row[0].approval_id}").get("state"))) != "pending":
            self._drop_question()
            await asyncio.wait({question.typing})  # the terminal is free before anything else is printed
            self.feed.line(gone_words(state), "yellow")
        return True

    async def _card(self, shown: ApprovalInfo, row: tuple[ApprovalInfo, ...]) -> bool:
        manner, as_json = self._manner.approve, self._manner.as_json
        if self._types:
            await self._composer.pause()
            show_row(self.feed, row)
            for_all = len(row) > 1 and not must_be_each(shown.card)
            typing = asyncio.ensure_future(choose(self.feed, shown.card, for_all))
            self._question = _Question(row, typing)
            return True
        if not as_json:
            (show_compact if self._manner.compact and manner != "ask" else show_card)(self.feed, shown.card)
        if manner == "ask":
            if not as_json:
                self.feed.line("It waits for your answer: gloveport approve, then gloveport resume", "yellow")
            return False
        option = None if manner == "never" else option_of(shown.card, manner)
        sent = await answer(self._client, self._session_id, shown, option, unasked=True)
        if not as_json:
            words = "refused" if option is None else f"allowed ({shown.card['options'][option]['scope']})"
            told = f"  {words} by this command, as it was told; you were not asked" if sent else ELSEWHERE
            self.feed.line(told, "yellow")
        return True

    def _drop_question(self) -> None:
        question, self._question = self._question, None
        if question is not None:
            question.typing.cancel()

    def _interrupted(self, following: asyncio.Future[Exit]) -> None:
        """The first Ctrl-C ends an open question, stops the turn and waits for its end; a second one leaves."""
        self._drop_question()
        self._composer.drop()
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._stop())
            if not self._manner.as_json:
                self.feed.line("stopping; Ctrl-C again leaves", "dim")
        else:
            following.cancel()

    async def _stop(self) -> None:
        params = TurnCancelParams(client_request_id=request_id(), session_id=self._session_id)
        try:
            await self._client.call("turn/cancel", params)
        except GloveportError as error:
            self.feed.line(f"✗ it could not be stopped: {error.message}", "bold red")


def _is_of_turn(event: WireEvent, turn_id: str) -> bool:
    return any(op.get("item") == f"turn/{turn_id}" or op.get("fields", {}).get("turnId") == turn_id for op in event.ops)


def _pending(follow: Follow) -> dict[str, ApprovalInfo]:
    """The cards that wait, by their ids, in order."""
    found = {}
    for item in follow.view.items():
        fields = item["fields"]
        if item["kind"] == "approval" and fields["state"] == "pending":
            approval_id = item["id"].removeprefix("approval/")
            found[approval_id] = ApprovalInfo(
                approval_id=approval_id,
                call_id=fields["callId"],
                card=fields["card"],
                card_digest=fields["cardDigest"],
                expires_at=fields["expiresAt"],
            )
    return found


def _item(follow: Follow, name: str) -> Mapping[str, Any]:
    return next((item["fields"] for item in follow.view.items() if item["id"] == name), {})


def _turn(follow: Follow, turn_id: str, update: Update) -> Mapping[str, Any]:
    """The turn, as the view has it. Raises TURN_MISMATCH when the log lost it while it was followed."""
    fields = _item(follow, f"turn/{turn_id}")
    if update.began_anew and not fields:
        words = "the record of this turn was lost, with the damaged end of the session's log"
        raise GloveportError(ErrorCode.TURN_MISMATCH, words, hint="See what is left: gloveport show.")
    return fields


def _next_turn(follow: Follow) -> str | None:
    """The turn that runs now, as the view has it."""
    running = [item for item in follow.view.items() if item["kind"] == "turn"]
    if not running or running[-1]["fields"]["state"] in _ENDS:
        return None
    return str(running[-1]["id"]).removeprefix("turn/")


async def last_turn(client: Client, session_id: str) -> str | None:
    """The id of the newest turn among the newest items; None where there is none."""
    params = ItemListParams(session_id=session_id, before=1 << 31, limit=ITEMS_LOOKED_AT)
    items = (await client.call("session/item/list", params)).items
    return next((item.id.removeprefix("turn/") for item in reversed(items) if item.kind == "turn"), None)


async def running_turn(client: Client, session_id: str) -> str | None:
    """The id of the turn that runs now."""
    return (await client.call("session/show", SessionParams(session_id=session_id))).turn_id
