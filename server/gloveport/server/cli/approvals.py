"""gloveport approve, gloveport why: questions and reasons.

Purpose: answer cards that wait, and say why a call ended as it did.
Invariant: a card is shown whole before it is answered.
Must never: answer without being told how.
"""

import sys
from typing import Annotated

import typer

from gloveport.protocol.wire.session import ItemListParams
from gloveport.protocol.wire.turn import WhyParams
from gloveport.server.cli.cards import answer, ask, option_of, show_card, waiting
from gloveport.server.cli.changes import Session
from gloveport.server.cli.feed import Feed
from gloveport.server.cli.link import Exit, out, pick_session, plain, with_client
from gloveport.server.cli.run import checked_approve
from gloveport.server.client.connect import Client

ITEMS_LOOKED_AT = 500


def approve(
    session: Session = "",
    how: Annotated[str, typer.Option("--how", help="ask, never, once, turn or session.")] = "ask",
) -> None:
    """Answer what waits for you."""
    manner = checked_approve(how)

    async def work(client: Client) -> int:
        info = await pick_session(client, session)
        feed, cards = Feed(out()), await waiting(client, info.session_id)
        if not cards:
            feed.line("Nothing waits for an answer.")
        for shown in cards:
            if manner == "ask" and sys.stdin.isatty():
                await ask(feed, client, info.session_id, shown)
                continue
            show_card(feed, shown.card)
            if manner == "ask":
                feed.line("Answer in a terminal, or with --how.", "yellow")
                return int(Exit.APPROVAL_NEEDED)
            option = None if manner == "never" else option_of(shown.card, manner)
            await answer(client, info.session_id, shown, option)
            feed.line("  denied" if option is None else "  allowed", "yellow" if option is None else "green")
        return 0

    raise typer.Exit(with_client(work))


def why(
    call: Annotated[str, typer.Argument(help="The call's id, or a part of it; empty: the last call.")] = "",
    session: Session = "",
) -> None:
    """Say why a call was allowed or refused, how it ended, and what can be done."""

    async def work(client: Client) -> None:
        info = await pick_session(client, session)
        params = ItemListParams(session_id=info.session_id, before=1 << 31, limit=ITEMS_LOOKED_AT)
        items = (await client.call("session/item/list", params)).items
        calls = [item.id.removeprefix("tool/") for item in items if item.kind == "tool" and call in item.id]
        name = calls[-1] if calls else call
        result = await client.call("tool/why", WhyParams(session_id=info.session_id, call_id=name))
        console = out()
        console.print(plain(f"{result.tool} ({result.call_id}): {result.outcome}", "bold"))
        console.print(plain(f"decision: {result.decision}"))
        if result.evidence:
            console.print(plain(f"evidence: {result.evidence}"))
        if result.hint:
            console.print(plain(result.hint, "yellow"))

    with_client(work)
