"""Cards that are asked about together, in a terminal.

Purpose: show every part of such a question before the first answer, and take one answer for all where that is enough.
Invariant: all parts were printed whole before any is answered; each part is answered under its own digest.
Must never: offer one answer for parts that can't be undone or carry a high risk.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gloveport.protocol.wire.turn import ApprovalInfo
from gloveport.server.cli.cards import Choice, answer, option_of, show_card
from gloveport.server.cli.feed import Feed
from gloveport.server.client.connect import Client

ALL: Final = "all"
NONE: Final = "none"


def row_of(shown: ApprovalInfo, waiting: Iterable[ApprovalInfo]) -> tuple[ApprovalInfo, ...]:
    """This card and those that stand together with it behind it and still wait, in their order."""
    row = shown.card.get("together")
    if not isinstance(row, Mapping):
        return (shown,)
    by_call = {one.call_id: one for one in waiting}
    behind = row["calls"][row["at"] - 1 :]
    return tuple(by_call[name] for name in behind if name in by_call)


def show_row(feed: Feed, row: tuple[ApprovalInfo, ...]) -> None:
    """Print all parts, and how they can be answered; of a row that was begun only the next part."""
    first = row[0].card
    if len(row) == 1 or (must_be_each(first) and first["together"]["at"] > 1):
        show_card(feed, first)
        return
    how = (
        "each is answered by itself"
        if must_be_each(first)
        else f"or type {ALL} (allows each once) or {NONE} (denies each) for all of them"
    )
    feed.line(f"? {len(row)} of one kind are asked about together; {how}", "bold yellow")
    for number, one in enumerate(row, start=1):
        feed.line(f"  — {number} of {len(row)} —", "dim")
        show_card(feed, one.card)


def must_be_each(card: Mapping[str, Any]) -> bool:
    """Whether the parts of this card's row need an answer each."""
    row = card.get("together")
    return not isinstance(row, Mapping) or row["each"] is not False


async def answer_chosen(client: Client, session_id: str, row: tuple[ApprovalInfo, ...], choice: Choice) -> bool:
    """Send what was typed, for the first part of a row or by one word for all; False: one was answered elsewhere."""
    if choice in (ALL, NONE):
        sent = [
            await answer(client, session_id, one, None if choice == NONE else option_of(one.card, "once"))
            for one in row
        ]
        return all(sent)
    return await answer(client, session_id, row[0], choice if isinstance(choice, int) else None)
