"""gloveport delete: a session and everything of it, for good.

Purpose: name the session, say what goes, and delete it when the user says so.
Invariant: a session is named by its id; at a terminal the user is asked, elsewhere `--yes` is needed.
Must never: choose a session by itself, or touch the user's folder.
"""

import sys
from typing import Annotated

import typer

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.session import SessionDeleteParams
from gloveport.server.cli.link import Exit, fail, out, plain, request_id, say, with_client
from gloveport.server.cli.phrases import local_time, short_id
from gloveport.server.cli.pick import pick_session, shown_title
from gloveport.server.cli.prompt import read_line
from gloveport.server.client.connect import Client


def delete(
    session: Annotated[str, typer.Argument(help="A part of the session's id.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    undecided: Annotated[bool, typer.Option("--undecided", help="Also with proposals that wait for you.")] = False,
) -> None:
    """Delete a session for good: its log, its outputs, its copy of the folder. Your folder is not touched."""

    async def work(client: Client) -> None:
        if not session:
            raise GloveportError(ErrorCode.SESSION_UNKNOWN, "no session is named", hint="See gloveport sessions.")
        info = await pick_session(client, session)
        title = await shown_title(client, info)
        named = f"{short_id(info.session_id)} {title!r} in {info.root}, changed {local_time(info.updated_at)}"
        if not yes:
            if not sys.stdin.isatty():
                fail(f"this would delete {named}", "Say --yes to delete it.", Exit.APPROVAL_NEEDED)
            out().print(plain(f"Delete session {named}? It cannot be brought back. [y/N] "), end="")
            answer = await read_line()
            if (answer or "").lower() not in ("y", "yes"):
                say("Nothing was deleted.")
                return
        params = SessionDeleteParams(
            client_request_id=request_id(), session_id=info.session_id, even_undecided=undecided
        )
        done = await client.call("session/delete", params)
        say(f"Deleted session {named}: {done.events} events.")

    with_client(work)
