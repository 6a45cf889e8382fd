"""What a session may use and do, as commands take it.

Purpose: the options and values of limits of tokens and of the mode, and sending them.
Invariant: what is given at the beginning of a session stands before its first message is sent.
Must never: choose a limit or a mode for the user.
"""

from types import MappingProxyType
from typing import Annotated, Final

import typer

from gloveport.protocol.wire.session import SessionBudgetParams, SessionModeParams
from gloveport.server.cli.link import Exit, fail, request_id
from gloveport.server.client.connect import Client

TOKENS_MAX: Final = 10**12
"""The most that a limit of tokens may be: more than any model will have answered in."""
MODES: Final = MappingProxyType({"agent": "it works", "plan": "it looks, and says what it would do"})

TurnTokens = Annotated[
    int | None,
    typer.Option("--turn-tokens", min=1, max=TOKENS_MAX, help="The most tokens of one turn, as of gloveport budget."),
]
SessionTokens = Annotated[
    int | None,
    typer.Option("--session-tokens", min=1, max=TOKENS_MAX, help="The most tokens of the session."),
]
Mode = Annotated[str, typer.Option("--mode", help="agent or plan: it works, or looks and says what it would do.")]


def checked_mode(given: str) -> str:
    """The mode named, or an empty text. Ends the command where there is no such mode."""
    if given and given not in MODES:
        fail(f"{given!r} is no mode", f"There are: {', '.join(MODES)}.", Exit.USAGE)
    return given


async def set_mode(client: Client, session_id: str, mode: str) -> None:
    """Let the session work or look from its next call on; nothing for an empty text."""
    if mode:
        raw = {"client_request_id": request_id(), "session_id": session_id, "mode": mode}
        await client.call("session/mode", SessionModeParams.model_validate(raw))


async def set_budget(client: Client, session_id: str, turn: int | None, whole: int | None) -> None:
    """Set both limits of tokens at once; None: no limit."""
    params = SessionBudgetParams(
        client_request_id=request_id(), session_id=session_id, turn_tokens=turn, session_tokens=whole
    )
    await client.call("session/budget", params)
