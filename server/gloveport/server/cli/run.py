"""gloveport run, gloveport resume: a task from the terminal.

Purpose: begin or go on with a session, send a message, and follow the turn.
Invariant: nothing is trusted but what the user trusts, here or earlier.
Must never: accept a change by itself unless `--accept` says so.
"""

import asyncio
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.base import Empty
from gloveport.protocol.wire.session import SessionInfo, SessionStartParams
from gloveport.protocol.wire.turn import TurnStartParams
from gloveport.server.cli.bounds import (
    Mode,
    SessionTokens,
    SessionUsd,
    TurnTokens,
    TurnUsd,
    checked_mode,
    money_limits,
    set_budget,
    set_mode,
)
from gloveport.server.cli.cards import checked_approve
from gloveport.server.cli.changes import decide, decided_words
from gloveport.server.cli.diffs import pending, show_diffs
from gloveport.server.cli.first_copy import copy_words
from gloveport.server.cli.hints import hint_of
from gloveport.server.cli.link import Exit, fail, placed, request_id, say, warn, with_client
from gloveport.server.cli.phrases import short_id
from gloveport.server.cli.pick import (
    HERE,
    Folder,
    Named,
    Root,
    Session,
    once_named,
    pick_session,
    shown_title,
)
from gloveport.server.cli.trusting import (
    TRUST_NOT_CHOSEN,
    checked_level,
    place_words,
    settle_trust,
    workspace_here,
)
from gloveport.server.cli.turns import Manner, TurnFollower, last_turn, running_turn
from gloveport.server.client.connect import Client
from gloveport.server.settings import UNSET

AsJson = Annotated[bool, typer.Option("--json", help="Print events as NDJSON.")]
ApproveOption = Annotated[
    str,
    typer.Option(
        "--approve",
        help="How to answer: ask, never, once, turn, session or workspace; narrower where a card offers no more.",
        metavar="HOW",
    ),
]
TrustOption = Annotated[str, typer.Option("--trust", help="Trust the folder: trusted, restricted or untrusted.")]
AcceptOption = Annotated[bool, typer.Option("--accept", help="Accept all changes when the turn completed.")]


async def begin(client: Client, root: Path, model: str, sandbox: str) -> SessionInfo:
    """Start a session; `model` is `provider/name` or empty."""
    provider, _, name = model.partition("/")
    params = SessionStartParams(
        client_request_id=request_id(),
        root=str(root),
        provider=provider or None,
        model=name or None,
        sandbox=sandbox or None,
    )
    with naming(named=bool(model or sandbox)):
        return await client.call("session/start", params)


async def tell_broken(client: Client, *, named: bool) -> None:
    """Say which sandbox of the settings does not work here; one that was `named` was tried before."""
    if not named:
        for words in (await client.call("daemon/status", Empty())).sandboxes_told:
            warn(words, "yellow")


@contextmanager
def naming(*, named: bool = True) -> Iterator[None]:
    """A model or a sandbox that the user `named` in it and that there is not is wrong usage."""
    try:
        yield
    except GloveportError as error:
        if named and error.code in (ErrorCode.MODEL_UNKNOWN, ErrorCode.SANDBOX_UNAVAILABLE):
            fail(error.message, hint_of(error), Exit.USAGE)
        raise


async def send(client: Client, session_id: str, text: str) -> str:
    """Send a message that begins a turn; the turn's id."""
    params = TurnStartParams(client_request_id=request_id(), session_id=session_id, text=text)
    sent = await client.call("turn/start", params)
    return sent.turn_id


async def follow_and_finish(
    client: Client, session: SessionInfo, turn_id: str, manner: Manner, *, accept: bool
) -> Exit:
    """Follow the turn; show what it proposes, and accept it if told so."""
    follower = TurnFollower(client, session.session_id, manner)
    code = await follower.run(turn_id)
    if code is Exit.INTERRUPTED:
        return code
    changes = () if code is Exit.APPROVAL_NEEDED else await pending(client, session, None, HERE)
    if not manner.as_json:
        await show_diffs(client, session, changes)
    accepts = accept and code is Exit.OK and bool(changes)
    if accepts:
        result = await decide(client, session.session_id, True, changes)
        if result is not None and result.paths and not manner.as_json:
            follower.feed.line(f"✓ {decided_words('accepted', result.paths, session)}", "green")
    if not manner.as_json:
        goes_on = code is not Exit.APPROVAL_NEEDED and await running_turn(client, session.session_id) is not None
        words = _next_words(session, code, is_open=bool(changes) and not accepts, goes_on=goes_on)
        follower.feed.line(words, "dim")
    return code


def _next_words(session: SessionInfo, code: Exit, *, is_open: bool, goes_on: bool) -> str:
    """What makes sense to do after a turn that ended so."""
    words = f"session {short_id(session.session_id)}; next: "
    if code is Exit.APPROVAL_NEEDED:
        return words + "gloveport approve"
    go_on = "gloveport resume follows the turn that runs now" if goes_on else "gloveport resume -m '...' to go on"
    return words + (f"gloveport accept, reject or diff; {go_on}" if is_open else go_on)


def run(
    task: Annotated[list[str], typer.Argument(help="What to do, in your words, in quotes.", show_default=False)],
    root: Root = None,
    *,
    model: Annotated[str, typer.Option(help="provider/model; see gloveport models.")] = "",
    sandbox: Annotated[str, typer.Option(help="Sandbox for this session.")] = "",
    trust: TrustOption = "",
    approve: ApproveOption = "ask",
    accept: AcceptOption = False,
    as_json: AsJson = False,
    mode: Mode = "",
    turn_tokens: TurnTokens = None,
    session_tokens: SessionTokens = None,
    turn_usd: TurnUsd = None,
    session_usd: SessionUsd = None,
) -> None:
    """Do a task in a workspace: stream the work, ask when needed, show the diff.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the turn failed, 4 the turn was stopped, 5 an answer is needed,
    6 the daemon cannot be reached, 130 interrupted.
    """
    manner, level = Manner(as_json=as_json, approve=checked_approve(approve)), checked_level(trust)
    text, chosen_mode = _one_task(task), checked_mode(mode)
    money = money_limits(turn_usd, session_usd)

    async def work(client: Client) -> Exit:
        folder = await workspace_here(client) if root is None else placed(root)
        await settle_trust(client, folder, level, may_ask=sys.stdin.isatty() and not as_json)
        if not as_json and (size_words := await asyncio.to_thread(copy_words, folder)):
            warn(size_words, "yellow")
        session = await begin(client, folder, model, sandbox)
        if not as_json:
            level_words = "trust not chosen" if session.trust_level == UNSET else session.trust_level
            say(f"{session.model_label} · {await place_words(client, session)} · {level_words}", "dim")
            await tell_broken(client, named=bool(sandbox))
        if session.trust_level == UNSET:
            warn(f"trust not chosen; {TRUST_NOT_CHOSEN}", "yellow")
        await set_mode(client, session.session_id, chosen_mode)
        if turn_tokens is not None or session_tokens is not None or money is not None:
            await set_budget(client, session.session_id, turn_tokens, session_tokens, money)
        turn_id = await send(client, session.session_id, text)
        return await follow_and_finish(client, session, turn_id, manner, accept=accept)

    raise typer.Exit(int(with_client(work)))


def _one_task(words: list[str]) -> str:
    if len(words) > 1:
        fail(f"quote the task: gloveport run {shlex.quote(' '.join(words))}", code=Exit.USAGE)
    return _not_blank(words[0], "the task")


def _not_blank(text: str, what: str) -> str:
    if not text.strip():
        fail(f"{what} is empty", "Say what to do: gloveport run 'Mend the failing test'", Exit.USAGE)
    return text


def resume(
    session: Named = "",
    message: Annotated[str | None, typer.Option("--message", "-m", help="Send this first.")] = None,
    *,
    named: Session = "",
    root: Folder = HERE,
    approve: ApproveOption = "ask",
    accept: AcceptOption = False,
    as_json: AsJson = False,
) -> None:
    """Go on with a session: follow its running turn, or send a message; else show how the last turn went.

    Exit codes as of run.
    """
    session = once_named(session, named)
    manner = Manner(as_json=as_json, approve=checked_approve(approve), whole_session=False)
    text = None if message is None else _not_blank(message, "the message")

    async def work(client: Client) -> Exit:
        info = await pick_session(client, session, root)
        if not as_json:
            title = await shown_title(client, info)
            say(f"session {short_id(info.session_id)} · {title} · {info.root}", "dim")
        turn_id = await running_turn(client, info.session_id)
        if text is not None:
            turn_id = await send(client, info.session_id, text)
        if turn_id is None:
            turn_id = await last_turn(client, info.session_id)
            if turn_id is not None and not as_json:
                say("no turn runs now; this is how the last one went", "dim")
        if turn_id is None:
            raise GloveportError(
                ErrorCode.TURN_MISMATCH,
                "this session has no turn yet",
                hint="Begin one: gloveport resume -m '...'",
            )
        return await follow_and_finish(client, info, turn_id, manner, accept=accept)

    raise typer.Exit(int(with_client(work)))
