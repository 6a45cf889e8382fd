"""gloveport run, gloveport resume: a task from the terminal.

Purpose: begin or go on with a session, send a message, and follow the turn.
Invariant: nothing is trusted but what the user trusts, here or earlier.
Must never: accept a change by itself unless `--accept` says so.
"""

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.base import Empty, SessionParams
from gloveport.protocol.wire.place import TrustLevelName, WorkspaceTrustParams
from gloveport.protocol.wire.session import SessionInfo, SessionStartParams
from gloveport.protocol.wire.turn import TurnStartParams
from gloveport.server.cli.cards import Approve
from gloveport.server.cli.changes import accept_all, show_diffs
from gloveport.server.cli.link import Exit, out, pick_session, plain, request_id, with_client
from gloveport.server.cli.turns import Manner, TurnFollower, running_turn
from gloveport.server.client.connect import Client

Root = Annotated[Path, typer.Option("--root", "-C", help="The workspace folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print events as NDJSON.")]
ApproveOption = Annotated[
    str, typer.Option("--approve", help="How to answer: ask, never, once, turn or session.", metavar="HOW")
]
TrustOption = Annotated[str, typer.Option("--trust", help="Trust the folder: trusted, restricted or untrusted.")]
AcceptOption = Annotated[bool, typer.Option("--accept", help="Accept all changes when the turn completed.")]

APPROVE = ("ask", "never", "once", "turn", "session")
LEVELS: tuple[TrustLevelName, ...] = ("trusted", "restricted", "untrusted")


def checked_approve(given: str) -> Approve:
    """The manner named. Raises GloveportError."""
    found: Approve | None = next((one for one in _approves() if one == given), None)
    if found is None:
        raise typer.BadParameter(f"{given!r} is not one of {', '.join(APPROVE)}", param_hint="--approve")
    return found


def _approves() -> tuple[Literal["ask", "never", "once", "turn", "session"], ...]:
    return ("ask", "never", "once", "turn", "session")


def checked_level(given: str) -> TrustLevelName | None:
    """The level named; None for an empty text."""
    if not given:
        return None
    found: TrustLevelName | None = next((one for one in LEVELS if one == given), None)
    if found is None:
        raise typer.BadParameter(f"{given!r} is not one of {', '.join(LEVELS)}", param_hint="--trust")
    return found


async def settle_trust(client: Client, root: Path, level: TrustLevelName | None, *, may_ask: bool) -> None:
    """Give the level told on the command line, or ask once for a folder that has none."""
    known = (await client.call("workspace/list", Empty())).workspaces
    if level is None and any(one.root == str(root) for one in known):
        return
    if level is None:
        if not may_ask:
            return
        level = _ask_level(root)
    params = WorkspaceTrustParams(client_request_id=request_id(), root=str(root), trust_level=level)
    await client.call("workspace/trust", params)


def _ask_level(root: Path) -> TrustLevelName:
    console = out()
    console.print(plain(f"How far do you trust the code in {root}?", "bold yellow"))
    console.print(plain("  [1] restricted: its programs and tests run in a container without network (usual)"))
    console.print(plain("  [2] trusted: its programs may also run as plain processes of yours"))
    console.print(plain("  [3] untrusted: nothing of it runs unless a virtual machine is set up"))
    answers: dict[str, TrustLevelName] = {"": "restricted", "1": "restricted", "2": "trusted", "3": "untrusted"}
    while (typed := input("  answer [1]: ").strip()) not in answers:
        pass
    return answers[typed]


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
    return await client.call("session/start", params)


async def send(client: Client, session_id: str, text: str) -> str:
    """Send a message that begins a turn; the turn's id."""
    params = TurnStartParams(client_request_id=request_id(), session_id=session_id, text=text)
    sent = await client.call("turn/start", params)
    return sent.turn_id or ""


async def follow_and_finish(
    client: Client, session: SessionInfo, turn_id: str, manner: Manner, *, accept: bool, after: str | None = None
) -> Exit:
    """Follow the turn; show what it proposes, and accept it if told so."""
    follower = TurnFollower(client, session.session_id, manner)
    code = await follower.run(turn_id, after)
    if not manner.as_json:
        await show_diffs(client, session.session_id)
    if accept and code is Exit.OK:
        paths = await accept_all(client, session.session_id)
        if not manner.as_json and paths:
            follower.feed.line(f"✓ accepted: {', '.join(paths)}", "green")
    elif not manner.as_json:
        follower.feed.line(f"session {session.session_id}; next: gloveport accept, reject, diff or resume", "dim")
    return code


def run(
    task: Annotated[str, typer.Argument(help="What to do, in your words.")],
    root: Root = Path("."),
    *,
    model: Annotated[str, typer.Option(help="provider/model; see gloveport doctor.")] = "",
    sandbox: Annotated[str, typer.Option(help="Sandbox for this session.")] = "",
    trust: TrustOption = "",
    approve: ApproveOption = "ask",
    accept: AcceptOption = False,
    as_json: AsJson = False,
) -> None:
    """Do a task in a workspace: stream the work, ask when needed, show the diff.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the turn failed, 4 the turn was stopped, 5 an answer is needed,
    6 the daemon cannot be reached, 130 interrupted.
    """
    manner, level = Manner(as_json=as_json, approve=checked_approve(approve)), checked_level(trust)
    folder = Path(os.path.abspath(root))

    async def work(client: Client) -> Exit:
        await settle_trust(client, folder, level, may_ask=sys.stdin.isatty() and not as_json)
        session = await begin(client, folder, model, sandbox)
        if not as_json:
            out().print(plain(f"{session.model_label} · sandbox {session.sandbox} · {session.trust_level}", "dim"))
        turn_id = await send(client, session.session_id, task)
        return await follow_and_finish(client, session, turn_id, manner, accept=accept)

    raise typer.Exit(int(with_client(work)))


def resume(
    session: Annotated[str, typer.Argument(help="A part of the session's id; empty: the newest.")] = "",
    message: Annotated[str, typer.Option("--message", "-m", help="Send this first.")] = "",
    *,
    approve: ApproveOption = "ask",
    accept: AcceptOption = False,
    as_json: AsJson = False,
) -> None:
    """Go on with a session: follow its running turn, or send a message. Exit codes as of run."""
    manner = Manner(as_json=as_json, approve=checked_approve(approve))

    async def work(client: Client) -> Exit:
        info = await pick_session(client, session)
        after = (await client.call("session/show", SessionParams(session_id=info.session_id))).cursor
        turn_id = await running_turn(client, info.session_id)
        if message:
            turn_id = await send(client, info.session_id, message)
        if turn_id is None:
            raise GloveportError(
                ErrorCode.TURN_MISMATCH, "no turn runs in this session", hint="Send a message with --message."
            )
        return await follow_and_finish(client, info, turn_id, manner, accept=accept, after=None if message else after)

    raise typer.Exit(int(with_client(work)))
