"""gloveport approve, gloveport why: questions and reasons.

Purpose: answer cards that wait, and say why a call ended as it did.
Invariant: a card is shown whole before it is answered.
Must never: answer without being told how.
"""

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from gloveport.protocol.wire.base import Empty
from gloveport.protocol.wire.session import ItemListParams, SessionInfo, ViewItem
from gloveport.protocol.wire.turn import ApprovalInfo, WhyParams
from gloveport.server.cli.cards import (
    ELSEWHERE,
    Choice,
    answer,
    checked_approve,
    choose,
    gone_words,
    offered_option,
    waiting,
)
from gloveport.server.cli.feed import Feed
from gloveport.server.cli.hints import RERUN_HINT, hint_for_call
from gloveport.server.cli.link import Exit, out, plain, say, with_client
from gloveport.server.cli.phrases import call_title, short_call, short_id
from gloveport.server.cli.pick import HERE, Folder, Session, pick_session, sessions_here, shown_title
from gloveport.server.cli.together import ALL, NONE, answer_chosen, must_be_each, row_of, show_row
from gloveport.server.client.connect import Client

ITEMS_LOOKED_AT = 500
OUTPUT_LINES_SHOWN = 20


def approve(
    session: Annotated[
        str, typer.Option("--session", "-s", help="A part of the session's id; empty: all that wait in this folder.")
    ] = "",
    how: Annotated[
        str, typer.Option("--how", help="ask, never, once, turn, session or workspace, as the card offers it.")
    ] = "ask",
    root: Folder = HERE,
) -> None:
    """Answer what waits for you in this folder's sessions."""
    manner = checked_approve(how, "--how")

    async def work(client: Client) -> int:
        feed, answered = Feed(out()), 0
        newest = await pick_session(client, session, root)
        here = [newest] if session else [one for one in await sessions_here(client, root) if one.phase == "waiting"]
        for info in here:
            seen: set[str] = set()
            while left := [one for one in await waiting(client, info.session_id) if one.approval_id not in seen]:
                title = await shown_title(client, info)
                feed.line(f"session {short_id(info.session_id)} · {title} · {info.root}", "dim")
                row = row_of(left[0], left)
                code = await _answer_one(client, feed, info, row, manner, newest)
                if code is not Exit.OK:
                    return int(code)
                seen.add(left[0].approval_id)
                answered += 1
        if not answered:
            feed.line(f"Nothing waits for an answer in {'this session' if session else newest.root}.")
        return int(Exit.OK)

    raise typer.Exit(with_client(work))


async def _answer_one(
    client: Client, feed: Feed, info: SessionInfo, row: tuple[ApprovalInfo, ...], manner: str, newest: SessionInfo
) -> Exit:
    shown, option = row[0], None
    show_row(feed, row)
    if manner != "ask":
        option = None if manner == "never" else offered_option(shown.card, manner)
    elif not sys.stdin.isatty():
        feed.line("Answer in a terminal, or with --how.", "yellow")
        return Exit.APPROVAL_NEEDED
    else:
        choice = await _choose_while_it_waits(client, feed, info.session_id, row)
        if choice == "unanswered":
            return Exit.APPROVAL_NEEDED
        if choice == "gone":
            return Exit.OK
        if choice in (ALL, NONE):
            done = await answer_chosen(client, info.session_id, row, choice)
            feed.line(f"  {'allowed' if choice == ALL else 'denied'}: all {len(row)}" if done else ELSEWHERE, "yellow")
            return Exit.OK
        option = None if choice == "no" else int(choice)
    if not await answer(client, info.session_id, shown, option):
        feed.line(ELSEWHERE, "yellow")
    elif option is None:
        feed.line("  denied", "yellow")
    else:
        is_followed = (await client.call("daemon/status", Empty())).clients > 1
        name = "" if info.session_id == newest.session_id else f" {short_id(info.session_id)}"
        feed.line("  allowed" if is_followed else f"  allowed; now: gloveport resume{name}", "green")
    return Exit.OK


async def _choose_while_it_waits(
    client: Client, feed: Feed, session_id: str, row: tuple[ApprovalInfo, ...]
) -> Choice | Literal["gone"]:
    shown = row[0]
    typing = asyncio.ensure_future(choose(feed, shown.card, len(row) > 1 and not must_be_each(shown.card)))
    gone = asyncio.ensure_future(_end_of(client, session_id, shown.approval_id))
    try:
        await asyncio.wait({typing, gone}, return_when=asyncio.FIRST_COMPLETED)
        if typing.done():
            return typing.result()
    finally:
        typing.cancel()
        gone.cancel()
        await asyncio.wait({typing, gone})
    feed.line(gone_words(gone.result()), "yellow")
    return "gone"


async def _end_of(client: Client, session_id: str, approval_id: str) -> str:
    """The state of a card, once it does not wait any more."""
    async with client.follow(session_id) as follow:
        async for _ in follow:
            for item in follow.view.items():
                if item["id"] == f"approval/{approval_id}" and item["fields"]["state"] != "pending":
                    return str(item["fields"]["state"])
    return ""


def why(
    call: Annotated[str, typer.Argument(help="The call's id, or a part of it; empty: the last call.")] = "",
    session: Session = "",
    root: Folder = HERE,
) -> None:
    """Say why a call was allowed or refused, how it ended, and what can be done."""

    async def work(client: Client) -> None:
        info = await pick_session(client, session, root)
        params = ItemListParams(session_id=info.session_id, before=1 << 31, limit=ITEMS_LOOKED_AT)
        items = (await client.call("session/item/list", params)).items
        calls = {item.id.removeprefix("tool/"): item for item in items if item.kind == "tool" and call in item.id}
        name = list(calls)[-1] if calls else call
        if not name:
            title = await shown_title(client, info)
            say(f"no calls yet in session {short_id(info.session_id)} · {title}")
            return
        result = await client.call("tool/why", WhyParams(session_id=info.session_id, call_id=name))
        console = out()
        say(f"{_title(calls.get(name), result.tool)} ({short_call(result.call_id)}): {result.outcome}", "bold")
        say(f"decision: {result.decision}")
        if result.evidence:
            say(f"evidence: {result.evidence}")
        if result.said:
            say(f"said of it: {result.said}")
        if result.first_refused:
            say(f"first refused by the sandbox: {result.first_refused}")
        for place in result.network:
            say(f"network: {place}")
        for line in _output(calls.get(name), result.outcome):
            console.print(plain(f"  │ {line}", "dim"))
        level = await _trust_level(client, Path(info.root), info)
        hint = "" if result.said else hint_for_call(result.decision, result.outcome, level)
        if hint:
            say(hint, "yellow")
        if result.first_refused and result.outcome not in ("ok", "running"):
            say(RERUN_HINT, "yellow")

    with_client(work)


async def _trust_level(client: Client, root: Path, info: SessionInfo) -> str:
    known = (await client.call("workspace/list", Empty())).workspaces
    return next((one.trust_level for one in known if one.root == str(root)), info.trust_level)


def _title(item: ViewItem | None, tool: str) -> str:
    if item is None:
        return tool
    title = str(item.fields.get("title") or call_title(tool, str(item.fields.get("arguments", ""))))
    return title if title.startswith(tool) else f"{tool}: {title}"


def _output(item: ViewItem | None, outcome: str) -> list[str]:
    """The end of what a call that went wrong has printed."""
    if item is None or outcome not in ("failed", "timeout", "oom", "killed", "policy"):
        return []
    text = str(item.fields.get("output") or item.fields.get("result") or "")
    return text.strip("\n").splitlines()[-OUTPUT_LINES_SHOWN:]
