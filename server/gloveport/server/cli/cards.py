"""Approval cards in a terminal.

Purpose: show a card whole, ask, and send the answer with the digest of what was shown.
Invariant: no answer is sent that a person (or the command's own option) did not give.
Must never: shorten a command.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Literal

from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.turn import ApprovalInfo, ApprovalResolveParams
from gloveport.server.cli.feed import Feed
from gloveport.server.cli.link import request_id
from gloveport.server.client.connect import Client

Approve = Literal["ask", "never", "once", "turn", "session"]


def show_card(feed: Feed, card: Mapping[str, Any]) -> None:
    """Print everything a person must see."""
    feed.line(f"? {card['title']}", "bold yellow")
    if card["summary"]:
        feed.line(f"  {card['summary']}")
    if card["command"] is not None:
        feed.line(f"  $ {card['command']['text']}", "bold")
        if card["command"]["hidden_characters"]:
            feed.line(f"  {card['command']['hidden_characters']} hidden characters are shown escaped", "red")
    for effect in card["effects"]:
        feed.line(f"  · {effect['words']}" + "".join(f" ({note})" for note in effect["notes"]))
    if card["sandbox"] is not None:
        feed.line(f"  in {card['sandbox']['name']} ({card['sandbox']['strength_words']})")
    feed.line(f"  risk {card['risk']}: {card['reason']}")
    for number, option in enumerate(short_options(card), start=1):
        feed.line(f"  [{number}] allow: {card['options'][option]['sentence']}")
    feed.line("  [n] no")


def short_options(card: Mapping[str, Any]) -> tuple[int, ...]:
    """The first option of each scope: what a terminal offers. Clients with more room show all."""
    scopes = [option["scope"] for option in card["options"]]
    return tuple(scopes.index(scope) for scope in dict.fromkeys(scopes))


def option_of(card: Mapping[str, Any], scope: str) -> int | None:
    """The first option of a scope."""
    return next((at for at, option in enumerate(card["options"]) if option["scope"] == scope), None)


async def answer(client: Client, session_id: str, shown: ApprovalInfo, option: int | None) -> None:
    """Send an answer: the option's index, or None for no."""
    params = ApprovalResolveParams(
        client_request_id=request_id(),
        session_id=session_id,
        approval_id=shown.approval_id,
        card_digest=shown.card_digest,
        decision="deny" if option is None else "allow",
        option=option or 0,
    )
    await client.call("approval/resolve", params)


async def waiting(client: Client, session_id: str) -> tuple[ApprovalInfo, ...]:
    """The cards that wait."""
    return (await client.call("approval/list", SessionParams(session_id=session_id))).approvals


async def ask(feed: Feed, client: Client, session_id: str, shown: ApprovalInfo) -> None:
    """Show a card and take the answer from the terminal."""
    show_card(feed, shown.card)
    options = short_options(shown.card)
    while True:
        typed = (await asyncio.to_thread(input, "  answer: ")).strip().lower()
        if typed in ("n", "no"):
            return await answer(client, session_id, shown, None)
        if typed in ("y", "yes"):
            typed = "1"
        if typed.isdecimal() and 1 <= int(typed) <= len(options):
            return await answer(client, session_id, shown, options[int(typed) - 1])
        feed.line(f"  type a number from 1 to {len(options)}, or n")
