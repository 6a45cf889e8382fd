"""gloveport settle: say what became of a call whose outcome nobody knows.

Purpose: find the call that is meant, and hand in the user's word about it.
Invariant: where more than one call is open the user names it; what the model will be told is shown.
Must never: say anything that the user did not.
"""

from typing import Annotated, Final, Literal

import typer

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.session import ItemListParams, ViewItem
from gloveport.protocol.wire.turn import ToolSettleParams
from gloveport.server.cli.link import request_id, say, with_client
from gloveport.server.cli.phrases import short_id
from gloveport.server.cli.pick import HERE, Folder, Session, pick_session
from gloveport.server.client.connect import Client

Said = Literal["done", "not-done"]
ITEMS_LOOKED_AT: Final = 500
OPEN: Final = ("lost", "unknown")
"""States of calls of which nobody knows whether they took effect."""


def settle(
    said: Annotated[Said, typer.Argument(help="done: treat it as done; not-done: it did not take effect.")],
    call: Annotated[str, typer.Argument(help="The call's id, or a part of it; empty: the only open one.")] = "",
    session: Session = "",
    root: Folder = HERE,
) -> None:
    """Say what became of a call whose outcome is unknown; the model is told it as your word. Nothing is run by it."""

    async def work(client: Client) -> None:
        info = await pick_session(client, session, root)
        name = await _open_call(client, info.session_id, call)
        word: Literal["done", "not_done"] = "done" if said == "done" else "not_done"
        params = ToolSettleParams(client_request_id=request_id(), session_id=info.session_id, call_id=name, said=word)
        done = await client.call("tool/settle", params)
        say(f"The model will be told: {done.text}")
        say(f"Go on with: gloveport resume {short_id(info.session_id)} -m 'go on'", "yellow")

    with_client(work)


async def _open_call(client: Client, session_id: str, part: str) -> str:
    """The id of the call that is meant. Raises GloveportError where none or more than one fits."""
    params = ItemListParams(session_id=session_id, before=1 << 31, limit=ITEMS_LOOKED_AT)
    items = (await client.call("session/item/list", params)).items
    found = [one for one in items if one.kind == "tool" and part in one.id and _is_open(one)]
    names = [one.id.removeprefix("tool/") for one in found]
    if len(names) == 1:
        return names[0]
    if not names:
        words = f"no call{f' {part}' if part else ''} of session {short_id(session_id)} has an unknown outcome"
        raise GloveportError(ErrorCode.TOOL_UNKNOWN, words, hint="Nothing needs to be said. See gloveport why.")
    titles = (one.fields.get("title") or one.fields["tool"] for one in found)
    lines = "".join(f"\n  {name}  {title}" for name, title in zip(names, titles, strict=True))
    words = f"the outcome of {len(names)} calls is unknown:{lines}"
    raise GloveportError(ErrorCode.TOOL_UNKNOWN, words, hint="Name one.")


def _is_open(item: ViewItem) -> bool:
    return item.fields.get("state") in OPEN and "said" not in item.fields
