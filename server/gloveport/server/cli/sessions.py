"""gloveport sessions, gloveport show: what there is.

Purpose: list sessions and print one.
Invariant: reads only.
Must never: open more of a session than is shown.
"""

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table

from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.session import ItemListParams, SessionListParams, ViewItem
from gloveport.server.cli.link import out, pick_session, plain, with_client
from gloveport.server.client.connect import Client

ITEMS_SHOWN_MAX = 500


def sessions(
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many at most.")] = 50,
    root: Annotated[str, typer.Option(help="Only those of this folder.")] = "",
) -> None:
    """List the sessions, newest first."""

    async def work(client: Client) -> None:
        found = await client.call("session/list", SessionListParams(limit=limit, root=root or None))
        table = Table(box=None, pad_edge=False)
        for name in ("session", "state", "changed", "title", "folder"):
            table.add_column(name, overflow="fold")
        for one in found.sessions:
            changed = datetime.fromtimestamp(one.updated_at / 1e6, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
            cells = (one.session_id, one.phase, changed, one.title, one.root)
            table.add_row(*(plain(cell) for cell in cells))
        if found.sessions:
            out().print(table)
        else:
            out().print(plain("There is no session yet. Begin one: gloveport run 'what to do'"))

    with_client(work)


def _lines(item: ViewItem) -> list[tuple[str, str]]:
    fields = item.fields
    match item.kind:
        case "message.user":
            return [(f"› {fields['text']}", "bold")]
        case "message.assistant":
            mark = "" if fields["state"] == "done" else f" [{fields['state']}]"
            return [(f"{fields['text']}{mark}", "")] if fields["text"] or mark else []
        case "tool":
            title = fields.get("title") or f"{fields['tool']} {fields['arguments']}"
            return [(f"▸ {title}: {fields['state']} ({item.id.removeprefix('tool/')})", "cyan")]
        case "tests":
            return [(f"  {fields['passed']} passed, {fields['failed']} failed, {fields['errors']} errors", "bold")]
        case "change":
            return [(f"± {fields['changeKind']} {fields['path']}: {fields['state']}", "blue")]
        case "approval":
            return [(f"? {fields['card']['title']} {fields['state']}", "yellow")]
        case "turn" if fields["state"] == "failed":
            return [(f"✗ {fields['message']} {fields['hint']}", "red")]
        case "recovery":
            return [(f"↺ {fields['text']}", "magenta")]
        case _:
            return []


def show(
    session: Annotated[str, typer.Argument(help="A part of the session's id; empty: the newest.")] = "",
) -> None:
    """Print a session: its messages, calls, tests and changes."""

    async def work(client: Client) -> None:
        info = await pick_session(client, session)
        detail = await client.call("session/show", SessionParams(session_id=info.session_id))
        params = ItemListParams(session_id=info.session_id, before=1 << 31, limit=ITEMS_SHOWN_MAX)
        page = await client.call("session/item/list", params)
        console = out()
        console.print(plain(f"{detail.info.title} · {detail.info.root}", "bold"))
        where = f"{detail.info.model_label} · sandbox {detail.info.sandbox} · {detail.info.trust_level}"
        console.print(plain(f"{info.session_id} · {detail.info.phase} · {where}", "dim"))
        if page.items_before:
            console.print(plain(f"[{page.items_before} earlier items are not shown]", "dim"))
        for item in page.items:
            for text, style in _lines(item):
                console.print(plain(text, style))
        console.print(plain(f"tokens: {detail.input_tokens} in, {detail.output_tokens} out", "dim"))

    with_client(work)
