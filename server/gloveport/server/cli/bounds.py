"""What a session may use and do, as commands take it.

Purpose: the options and values of limits of tokens and money and of the mode, and sending them.
Invariant: what is given at the beginning of a session stands before its first message is sent.
Must never: choose a limit or a mode for the user.
"""

from types import MappingProxyType
from typing import Annotated, Final

import typer

from gloveport.protocol.money import NANO, NANO_USD_MAX, parse_usd, usd_words
from gloveport.protocol.wire.session import MoneyLimits, SessionBudgetParams, SessionDetail, SessionModeParams
from gloveport.server.cli.link import Exit, fail, request_id, say
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
TurnUsd = Annotated[
    str | None, typer.Option("--turn-usd", help="The most US dollars of one turn, such as 0.50.", metavar="USD")
]
SessionUsd = Annotated[
    str | None, typer.Option("--usd", "--session-usd", help="The most US dollars of the session.", metavar="USD")
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


def checked_usd(given: str | None, option: str) -> int | None:
    """An amount in nano-USD as the option has it; None for none. Ends the command where it is no amount."""
    nano_usd = None if given is None else parse_usd(given)
    if given is not None and nano_usd is None:
        words = f"{option} {given!r} is no amount of US dollars"
        fail(words, f"Give one from 0.000000001 to {NANO_USD_MAX // NANO:,}, such as 2 or 0.50.", Exit.USAGE)
    return nano_usd


def money_limits(turn: str | None, whole: str | None) -> MoneyLimits | None:
    """Both limits of money as options name them; None where neither is named. Ends the command for what is none."""
    if turn is None and whole is None:
        return None
    return MoneyLimits(turn_nano_usd=checked_usd(turn, "--turn-usd"), session_nano_usd=checked_usd(whole, "--usd"))


def money_with(known: SessionDetail, wanted: MoneyLimits) -> MoneyLimits:
    """What is wanted, and where a limit is not named the one in force."""
    return MoneyLimits(
        turn_nano_usd=wanted.turn_nano_usd or known.turn_nano_usd_max,
        session_nano_usd=wanted.session_nano_usd or known.session_nano_usd_max,
    )


def print_limits(known: SessionDetail) -> None:
    """What the turn and the session used, and of how much: tokens, and money where it is limited."""
    spent = known.input_tokens + known.output_tokens
    for whose, used, uncounted, limit in (
        ("turn", known.turn_tokens, known.turn_uncounted_tokens, known.turn_tokens_max),
        ("session", spent, known.uncounted_tokens, known.session_tokens_max),
    ):
        of = "no limit" if limit is None else f"of {limit:,} at most"
        say(f"{whose}: {'about ' if uncounted else ''}{used:,} tokens used, {of}")
    if known.uncounted_tokens:
        say(f"About {known.uncounted_tokens:,} of the session's tokens are of requests that ended without a count.")
    for whose, used, limit in (
        ("turn", known.turn_nano_usd, known.turn_nano_usd_max),
        ("session", known.session_nano_usd, known.session_nano_usd_max),
    ):
        if limit is not None:
            say(f"{whose}: {usd_words(used)} spent, of {usd_words(limit)} at most")
    if known.unseen_nano_usd:
        say(f"{usd_words(known.unseen_nano_usd)} of it is the most that uncounted requests may cost.")


async def set_budget(
    client: Client, session_id: str, turn: int | None, whole: int | None, money: MoneyLimits | None = None
) -> None:
    """Set both limits of tokens at once, None: no limit; and both of money where they are given."""
    params = SessionBudgetParams(
        client_request_id=request_id(), session_id=session_id, turn_tokens=turn, session_tokens=whole, money=money
    )
    await client.call("session/budget", params)
