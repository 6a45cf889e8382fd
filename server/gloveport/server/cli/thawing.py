"""gloveport thaw: let a frozen session work again.

Purpose: show why it stands still, and take what the user types as the act that lets it go on.
Invariant: the end of the session's id is typed by a person, at a terminal or as an option; a yes alone does nothing.
Must never: thaw more than the one session that is named.
"""

import sys
from typing import Annotated

import typer

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.session import ItemListParams, SessionThawParams
from gloveport.server.cli.link import Exit, fail, out, plain, request_id, say, with_client
from gloveport.server.cli.phrases import short_id
from gloveport.server.cli.pick import FIRST_ITEMS, HERE, Folder, Named, Session, once_named, pick_session, shown_title
from gloveport.server.cli.prompt import read_line
from gloveport.server.client.connect import Client


def thaw(
    session: Named = "",
    named: Session = "",
    root: Folder = HERE,
    typed: Annotated[str, typer.Option("--type", help="The end of its id, where nobody can be asked.")] = "",
) -> None:
    """Let a session that was frozen for safety work again; nothing begins by it."""
    session = once_named(session, named)

    async def work(client: Client) -> None:
        info = await pick_session(client, session, root)
        mark, answer = short_id(info.session_id), typed
        title = await shown_title(client, info)
        if not await _is_frozen(client, info.session_id):
            words = f"session {mark} {title!r} is not frozen"
            raise GloveportError(ErrorCode.TURN_MISMATCH, words, hint="Nothing needs to be done.")
        if not answer:
            if not sys.stdin.isatty():
                words = f"this would let session {mark} {title!r} work again"
                fail(words, f"Say --type {mark}.", Exit.APPROVAL_NEEDED)
            words = f"Session {mark} {title!r} is frozen. Type {mark} to let it work again: "
            out().print(plain(words), end="")
            answer = await read_line() or ""
        params = SessionThawParams(client_request_id=request_id(), session_id=info.session_id, typed=answer or "-")
        await client.call("session/thaw", params)
        say(f"Session {mark} may work again.")

    with_client(work)


async def _is_frozen(client: Client, session_id: str) -> bool:
    """Whether it stands still; the session's own item, which is its first, says so."""
    params = ItemListParams(session_id=session_id, before=FIRST_ITEMS, limit=FIRST_ITEMS)
    items = (await client.call("session/item/list", params)).items
    return any(item.kind == "session" and item.fields.get("frozen") is True for item in items)
