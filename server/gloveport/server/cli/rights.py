"""gloveport grants, gloveport revoke: the rights that your answers gave.

Purpose: list what is allowed without another question, and take one right back.
Invariant: what is listed is what the daemon holds now; a right is taken back by an id that fits one alone.
Must never: give a right.
"""

from collections.abc import Sequence
from typing import Annotated

import typer

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.text import counted
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.session import SessionInfo
from gloveport.protocol.wire.turn import GrantInfo, GrantRevokeParams
from gloveport.server.cli.link import request_id, say, with_client
from gloveport.server.cli.phrases import local_time, short_id, short_ids
from gloveport.server.cli.pick import HERE, Folder, Named, Session, once_named, pick_session
from gloveport.server.client.connect import Client


def grants(session: Named = "", named: Session = "", root: Folder = HERE) -> None:
    """List the rights in force that your answers gave, in a session and its folder."""
    wanted = once_named(session, named)

    async def work(client: Client) -> None:
        info = await pick_session(client, wanted, root)
        found = await _in_force(client, info)
        short = short_ids(one.grant_id for one in found)
        for one in found:
            say(f"{short[one.grant_id]}  {one.scope}  {one.sentence}")
            say(f"        {details(one, info.session_id)}", "dim")
        if found:
            say("Take one back: gloveport revoke ID")
        else:
            say(f"No right is in force in session {short_id(info.session_id)} ({info.root}).")

    with_client(work)


def revoke(
    grant: Annotated[str, typer.Argument(metavar="ID", help="The right's id, or a part of it: gloveport grants.")],
    session: Session = "",
    root: Folder = HERE,
) -> None:
    """Take a right back now; what it allowed is asked about again."""

    async def work(client: Client) -> None:
        info = await pick_session(client, session, root)
        one = named(await _in_force(client, info), grant)
        params = GrantRevokeParams(client_request_id=request_id(), session_id=info.session_id, grant_id=one.grant_id)
        await client.call("grant/revoke", params)
        say(f"taken back: {one.sentence}")

    with_client(work)


def named(found: Sequence[GrantInfo], given: str) -> GrantInfo:
    """The right whose id holds `given`. Raises GloveportError where none or several do."""
    fitting = [one for one in found if given and given in one.grant_id]
    if len(fitting) != 1:
        words = f"{given!r} fits {counted(len(fitting), 'right')}" if fitting else f"no right {given!r} is in force"
        raise GloveportError(ErrorCode.APPROVAL_UNKNOWN, words, hint="See gloveport grants.")
    return fitting[0]


def details(one: GrantInfo, session_id: str) -> str:
    """How long and how often a right still holds, and where it was given."""
    ends = "no end in time" if one.expires_at is None else f"until {local_time(one.expires_at)}"
    uses = "any number of uses" if one.uses_left is None else f"{counted(one.uses_left, 'use')} left"
    where = "in this session" if one.session_id == session_id else f"in session {short_id(one.session_id)}"
    return f"{ends} · {uses} · given {where} at {local_time(one.issued_at)}"


async def _in_force(client: Client, info: SessionInfo) -> Sequence[GrantInfo]:
    return (await client.call("grant/list", SessionParams(session_id=info.session_id))).grants
