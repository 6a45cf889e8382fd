"""gloveport steer, gloveport queue, gloveport interrupt: words for a turn that runs, from another terminal.

Purpose: the three verbs as commands, and the queue's list.
Invariant: what is told is what the daemon decided.
Must never: send a message to another turn than the one that ran when the command was given.
"""

from collections.abc import Sequence
from typing import Annotated, Final

import typer

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.session import ItemListParams, QueuedMessage, SessionDetail
from gloveport.protocol.wire.turn import TurnEditParams, TurnUnqueueParams
from gloveport.server.cli.compose import KINDS, Kind, send_interrupt, send_queue, send_steer
from gloveport.server.cli.link import Exit, fail, request_id, say, warn, with_client
from gloveport.server.cli.phrases import short_id, short_ids
from gloveport.server.cli.pick import HERE, ITEMS_LOOKED_AT, WORDS_SHOWN, Folder, Session, pick_session
from gloveport.server.client.connect import Client

TAKEN_BACK: Final = "taken back"
"""The reason of a message that its user took back."""
Words = Annotated[str, typer.Argument(help="What to say, in quotes.", show_default=False)]


def _checked(text: str) -> str:
    if not text.strip():
        fail("the message is empty", "Say what you mean, in quotes.", Exit.USAGE)
    return text


def _kind(given: str) -> Kind | None:
    found = next((kind for kind in KINDS if kind == given), None)
    if given and found is None:
        raise typer.BadParameter(f"{given!r} is not one of {', '.join(KINDS)}", param_hint="--as")
    return found


def _running(detail: SessionDetail) -> str:
    if detail.turn_id is None:
        words = f"no turn runs in session {short_id(detail.info.session_id)}"
        raise GloveportError(ErrorCode.TURN_MISMATCH, words, hint="Send it: gloveport resume -m '...'")
    return detail.turn_id


async def _detail(client: Client, session: str, root: Folder) -> SessionDetail:
    info = await pick_session(client, session, root)
    return await client.call("session/show", SessionParams(session_id=info.session_id))


def steer(
    text: Words,
    kind: Annotated[str, typer.Option("--as", help="supplement, correct, replace or ask; empty: by its words.")] = "",
    session: Session = "",
    root: Folder = HERE,
) -> None:
    """Say something to the running turn: it adds, corrects, replaces or asks."""
    chosen, said = _kind(kind), _checked(text)

    async def work(client: Client) -> None:
        detail = await _detail(client, session, root)
        turn_id = _running(detail)
        say(await send_steer(client, detail.info.session_id, turn_id, said, chosen))

    with_client(work)


def interrupt(text: Words, session: Session = "", root: Folder = HERE) -> None:
    """Stop the running turn and begin the next one with this."""
    said = _checked(text)

    async def work(client: Client) -> None:
        detail = await _detail(client, session, root)
        turn_id = _running(detail)
        say(await send_interrupt(client, detail.info.session_id, turn_id, said))

    with_client(work)


def queue(
    text: Annotated[str, typer.Argument(help="What to do next, in quotes; empty: list what waits.")] = "",
    *,
    edit: Annotated[str, typer.Option(help="Give the waiting message of this id the new text.", metavar="ID")] = "",
    drop: Annotated[str, typer.Option(help="Take the waiting message of this id back.", metavar="ID")] = "",
    session: Session = "",
    root: Folder = HERE,
) -> None:
    """Queue a message behind the running turn, or list, edit and take back what waits."""
    if (edit and (drop or not text.strip())) or (drop and text):
        fail("give either a text, --edit ID with the new text, or --drop ID", code=Exit.USAGE)

    async def work(client: Client) -> None:
        detail = await _detail(client, session, root)
        name = detail.info.session_id
        if drop:
            params = TurnUnqueueParams(
                client_request_id=request_id(), session_id=name, message_id=_waiting(detail, drop)
            )
            await client.call("turn/unqueue", params)
            say("taken back")
        elif edit:
            new = TurnEditParams(
                client_request_id=request_id(), session_id=name, message_id=_waiting(detail, edit), text=text
            )
            await client.call("turn/edit", new)
            say("changed")
        elif text.strip():
            say(await send_queue(client, name, text))
        else:
            _list(detail)
            if detail.turn_id is None:
                print_returned(await returned_by_stop(client, name))

    with_client(work)


async def returned_by_stop(client: Client, session_id: str) -> tuple[QueuedMessage, ...]:
    """What was said during the newest turn and came back unsent when it ended; what was taken back is not of it."""
    params = ItemListParams(session_id=session_id, before=1 << 31, limit=ITEMS_LOOKED_AT)
    found: list[QueuedMessage] = []
    for item in (await client.call("session/item/list", params)).items:
        if item.id.startswith("turn/"):
            found.clear()
        elif item.fields.get("state") == "returned" and item.fields["reason"] != TAKEN_BACK:
            name = item.id.removeprefix("message/")
            found.append(QueuedMessage(message_id=name, text=str(item.fields["text"])))
    return tuple(found)


def print_returned(messages: Sequence[QueuedMessage]) -> None:
    """Name what was not sent, by id and first words, and how it is sent."""
    short = short_ids(one.message_id for one in messages)
    for one in messages:
        words = " ".join(one.text.split())[:WORDS_SHOWN]
        say(f"not sent, as the turn was stopped: {short[one.message_id]}  {words}", "yellow")
    if messages:
        warn("send one: gloveport resume -m '...'", "dim")


def _waiting(detail: SessionDetail, given: str) -> str:
    found = [one.message_id for one in detail.queue if one.message_id.endswith(given)]
    if len(found) != 1:
        words = f"{given!r} names {len(found)} of the messages that wait"
        raise GloveportError(ErrorCode.TURN_MISMATCH, words, hint="See gloveport queue.")
    return found[0]


def _list(detail: SessionDetail) -> None:
    short = short_ids(one.message_id for one in detail.queue)
    for one in detail.queue:
        say(f"{short[one.message_id]}  {one.text}")
    if detail.queue:
        warn("change one: gloveport queue --edit ID 'new words'; take one back: --drop ID", "dim")
    else:
        say("Nothing waits.")
