"""gloveport trust, models, budget, mode, cancel: choices that are the user's alone.

Purpose: show and set how far a folder is trusted, which model answers, what a session may use and do; stop a turn from
    outside.
Invariant: what is shown is what the daemon holds.
Must never: choose for the user.
"""

from typing import Annotated, Final

import anyio
import typer

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.base import Empty, SessionParams
from gloveport.protocol.wire.place import ModelChooseParams, WorkspaceTrustParams
from gloveport.protocol.wire.session import MoneyLimits
from gloveport.protocol.wire.turn import TurnCancelParams
from gloveport.server.cli.bounds import (
    MODES,
    TOKENS_MAX,
    SessionUsd,
    TurnUsd,
    checked_mode,
    money_limits,
    money_with,
    print_limits,
    set_budget,
    set_mode,
)
from gloveport.server.cli.demo import SCRIPTED
from gloveport.server.cli.help import Command, Group
from gloveport.server.cli.link import Exit, fail, placed, request_id, say, with_client
from gloveport.server.cli.phrases import short_id
from gloveport.server.cli.pick import HERE, Folder, Root, Session, once_named, pick_running, pick_session
from gloveport.server.cli.run import naming
from gloveport.server.cli.steering import print_returned, returned_by_stop
from gloveport.server.cli.trusting import checked_level, known_level, workspace_here
from gloveport.server.client.connect import Client
from gloveport.server.settings import UNSET

STOP_WAIT_S: Final = 30.0
NO_MODEL: Final = (
    "No model of yours is set up: write a [[models]] entry into config.toml (the README shows one), which is read "
    "again by itself; or set OPENAI_API_KEY or ANTHROPIC_API_KEY, then gloveport daemon stop."
)
_ENDED: Final = ("completed", "failed", "cancelled")


def trust(
    level: Annotated[str, typer.Argument(help="trusted, restricted or untrusted; empty: only show.")] = "",
    root: Root = None,
    *,
    forget: Annotated[bool, typer.Option("--forget", help="Forget what was said: you are asked again.")] = False,
) -> None:
    """Show or set how far you trust the code of this folder, or of the workspace it lies in, as run takes it."""
    if forget and level:
        raise typer.BadParameter("give a level or --forget, not both", param_hint="LEVEL")
    wanted = UNSET if forget else checked_level(level, "LEVEL")
    if root is not None and not placed(root).is_dir():
        fail(f"there is no folder {placed(root)}", "Name an existing folder.")

    async def work(client: Client) -> None:
        folder = await workspace_here(client) if root is None else placed(root)
        if wanted is not None:
            params = WorkspaceTrustParams(client_request_id=request_id(), root=str(folder), trust_level=wanted)
            given = await client.call("workspace/trust", params)
            if given.words:
                say(given.words, "yellow")
        known = await known_level(client, folder)
        if known is None:
            say(f"{folder}: not chosen. Choose: gloveport trust restricted (or trusted, untrusted)")
        else:
            say(f"{folder}: {known}")

    with_client(work)


models = typer.Typer(cls=Group, help="The models that are set up.", invoke_without_command=True)


@models.callback()
def listed(context: typer.Context) -> None:
    """List the models that are set up, and which one is used where none is named."""
    if context.invoked_subcommand is None:
        with_client(_list)


async def _list(client: Client) -> None:
    found = (await client.call("model/list", Empty())).models
    names = [f"{model.provider}/{model.model}" for model in found]
    first = next((name for name in names if name != SCRIPTED), None)
    for name, model in zip(names, found, strict=True):
        notes = {first: "  (used where none is named)", SCRIPTED: "  (only where it is named)"}
        say(f"{name}: {model.label}{notes.get(name, '')}")
    if first is None:
        say(NO_MODEL, "yellow")


@models.command(cls=Command)
def use(
    model: Annotated[str, typer.Argument(help="provider/model, as gloveport models lists it.")],
    session: Session = "",
    root: Folder = HERE,
) -> None:
    """Use another model in a session, from its next request on."""
    provider, _, name = model.partition("/")
    if not provider or not name:
        raise typer.BadParameter("it is provider/model; see gloveport models", param_hint="MODEL")

    async def work(client: Client) -> None:
        info = await pick_session(client, session, root)
        params = ModelChooseParams(
            client_request_id=request_id(), session_id=info.session_id, provider=provider, model=name
        )
        with naming():
            chosen = await client.call("model/choose", params)
        say(f"session {short_id(info.session_id)} uses {chosen.provider}/{chosen.model}: {chosen.label}")

    with_client(work)


def budget(
    turn: Annotated[
        int | None, typer.Option("--turn", "--turn-tokens", min=1, max=TOKENS_MAX, help="The most tokens of one turn.")
    ] = None,
    whole: Annotated[
        int | None,
        typer.Option("--total", "--session-tokens", min=1, max=TOKENS_MAX, help="The most tokens of the session."),
    ] = None,
    turn_usd: TurnUsd = None,
    session_usd: SessionUsd = None,
    none: Annotated[bool, typer.Option("--none", help="No limit of any kind.")] = False,
    session: Session = "",
    root: Folder = HERE,
) -> None:
    """Show or set what a session may use; what is not named stays. A turn that would pass a limit ends, and says so."""
    named = (turn, whole, turn_usd, session_usd)
    if none and named != (None,) * len(named):
        fail("--none is no limit of any kind, and another option is one", "Give the one or the other.", Exit.USAGE)
    wanted = money_limits(turn_usd, session_usd)

    async def work(client: Client) -> None:
        info = await pick_session(client, session, root)
        known = await client.call("session/show", SessionParams(session_id=info.session_id))
        if none:
            await set_budget(client, info.session_id, None, None, MoneyLimits())
        elif named != (None,) * len(named):
            tokens = (turn or known.turn_tokens_max, whole or known.session_tokens_max)
            await set_budget(client, info.session_id, *tokens, wanted and money_with(known, wanted))
        print_limits(await client.call("session/show", SessionParams(session_id=info.session_id)))

    with_client(work)


def mode(
    wanted: Annotated[str, typer.Argument(metavar="MODE", help="agent or plan; empty: only show.")] = "",
    session: Session = "",
    root: Folder = HERE,
) -> None:
    """Show or choose what a session may do: agent works, plan looks and says what it would do."""
    checked_mode(wanted)

    async def work(client: Client) -> None:
        info = await pick_session(client, session, root)
        await set_mode(client, info.session_id, wanted)
        known = await client.call("session/show", SessionParams(session_id=info.session_id))
        say(f"session {short_id(info.session_id)}: {known.mode}, {MODES[known.mode]}")

    with_client(work)


def cancel(
    session: Annotated[
        str, typer.Argument(help="A part of the session's id; empty: the only one of this folder with a running turn.")
    ] = "",
    named: Session = "",
    root: Folder = HERE,
) -> None:
    """Stop the running turn of a session."""
    session = once_named(session, named)

    async def work(client: Client) -> None:
        running = None if session else await pick_running(client, root)
        info = running or await pick_session(client, session, root)
        if not session and running is None:
            say(f"Nothing runs in {info.root}.")
            return
        params = TurnCancelParams(client_request_id=request_id(), session_id=info.session_id)
        told = await client.call("turn/cancel", params)
        turn_id = told.turn_id
        if told.words:
            say(told.words, "yellow")
        if turn_id is None:
            say(f"Nothing runs in session {short_id(info.session_id)} ({info.root}).")
            return
        with anyio.move_on_after(STOP_WAIT_S):
            state = await _end_of(client, info.session_id, turn_id)
            words = "stopped" if state == "cancelled" else f"it ended by itself: {state}"
            say(f"{words}: session {short_id(info.session_id)} ({info.root})")
            print_returned(await returned_by_stop(client, info.session_id))
            return
        raise GloveportError(
            ErrorCode.TURN_BUSY, "the stop is on its way, but something still runs", hint="See gloveport show."
        )

    with_client(work)


async def _end_of(client: Client, session_id: str, turn_id: str) -> str:
    async with client.follow(session_id) as follow:
        async for _ in follow:
            for item in follow.view.items():
                if item["id"] == f"turn/{turn_id}" and item["fields"]["state"] in _ENDED:
                    return str(item["fields"]["state"])
    return "unknown"
