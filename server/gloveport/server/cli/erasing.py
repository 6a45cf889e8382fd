"""gloveport erase: take a text out of a session's record for good.

Purpose: ask for the text without showing it, say what goes and what stays, and take the typed mark as the act.
Invariant: the text is no word of the command line, where other programs and the shell's history see it.
Must never: choose a session by itself, or print the text.
"""

import getpass
import sys
from typing import Annotated

import anyio.to_thread
import typer

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.text import counted
from gloveport.protocol.wire.session import ERASED_CHARS_MAX, ERASED_CHARS_MIN, SessionEraseParams
from gloveport.server.cli.link import Exit, fail, out, plain, request_id, say, with_client
from gloveport.server.cli.phrases import short_id
from gloveport.server.cli.pick import pick_session
from gloveport.server.cli.prompt import read_line
from gloveport.server.client.connect import Client


def erase(
    session: Annotated[str, typer.Argument(help="A part of the session's id.")],
    typed: Annotated[str, typer.Option("--type", help="The end of its id; the text is then read from the input.")] = "",
) -> None:
    """Take a text (a secret that came in) out of a session's record for good; it is asked for, and not shown."""

    async def work(client: Client) -> None:
        if not session:
            raise GloveportError(ErrorCode.SESSION_UNKNOWN, "no session is named", hint="See gloveport sessions.")
        info = await pick_session(client, session)
        mark = short_id(info.session_id)
        at_terminal = sys.stdin.isatty()
        if not typed and not at_terminal:
            fail(f"this would erase a text from session {mark}", f"Say --type {mark}.", Exit.APPROVAL_NEEDED)
        text = await anyio.to_thread.run_sync(_read_text, at_terminal)
        if not ERASED_CHARS_MIN <= len(text) <= ERASED_CHARS_MAX:
            words = f"the text to erase has {ERASED_CHARS_MIN} to {ERASED_CHARS_MAX} characters, not {len(text)}"
            raise GloveportError(ErrorCode.INVALID_PARAMS, words, hint="Give more of it, or the part that matters.")
        answer = typed
        if not answer:
            where = f"session {mark} of {info.root}"  # its title may hold the text
            words = f"It is erased wherever {where} holds it, and cannot be brought back. Type {mark}: "
            out().print(plain(words), end="")
            answer = await read_line() or ""
        params = SessionEraseParams(
            client_request_id=request_id(), session_id=info.session_id, text=text, typed=answer or "-"
        )
        done = await client.call("session/erase", params)
        what = f"{counted(done.events, 'event')} and {counted(done.outputs, 'output')}"
        say(f"Erased from session {mark}: {what}. Not erased:")
        for stays in done.stays:
            say(f"  {stays}")

    with_client(work)


def _read_text(at_terminal: bool) -> str:
    if at_terminal:
        return getpass.getpass("The text to erase (it is not shown; one of several lines: --type, and < FILE): ")
    return sys.stdin.read(ERASED_CHARS_MAX + 2).rstrip("\r\n")
