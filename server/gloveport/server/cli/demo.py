"""gloveport demo: the main job on a small repository.

Purpose: show the whole way once: a failing test, the agent, an approval, the sandbox, the diff, the accept.
Invariant: everything is real but the model where no key is set, and it says so.
Must never: touch a folder that is not the demo's own.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.wire.base import Empty
from gloveport.protocol.wire.place import WorkspaceTrustParams
from gloveport.server.cli.demo_repo import TASK, materialise
from gloveport.server.cli.feed import Feed
from gloveport.server.cli.link import Exit, fail, out, placed, request_id, say, with_client
from gloveport.server.cli.run import begin, follow_and_finish, send
from gloveport.server.cli.turns import Manner
from gloveport.server.client.connect import Client

PYTEST_S: Final = 60.0
SCRIPTED: Final = "scripted/demo"
KEYS: Final = (("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY"))
_WHO_ANSWERS: Final = (
    "The demo answers its one kind of question with yes, and accepts the change, for you. "
    "To answer yourself: make demo DEMO_ARGS=--ask (gloveport demo --ask)",
    "You answer the questions (--ask); the demo accepts the change for you in the end.",
)


def run_tests_here(folder: Path) -> int:
    """Run the demo's tests in the user's folder, outside any sandbox; it is the demo's own code."""
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=folder, env=environment, timeout=PYTEST_S, check=False).returncode


def default_folder() -> Path:
    """Where the demo lays its repository out."""
    cache = os.environ.get("XDG_CACHE_HOME")
    base = Path(cache) if cache and os.path.isabs(cache) else Path.home() / ".cache"
    return base / "gloveport-demo" / "tinystat"


def demo(
    folder: Annotated[Path | None, typer.Option(help="Where to lay the demo's repository out.")] = None,
    model: Annotated[str, typer.Option(help="provider/model; empty: a real one when a key is set here.")] = "",
    ask: Annotated[bool, typer.Option("--ask", help="Answer the approval yourself.")] = False,
) -> None:
    """Mend a small repository with a failing test, from the first question to the accepted change."""
    root = placed(folder or default_folder())
    try:
        materialise(root)
    except GloveportError as error:
        fail(error.message, error.hint)
    say(f"A small repository with one failing test lies in {root}", "bold")

    async def work(client: Client) -> Exit:
        trusted = WorkspaceTrustParams(client_request_id=request_id(), root=str(root), trust_level="trusted")
        await client.call("workspace/trust", trusted)
        chosen = model or await _model(client)
        session = await begin(client, root, chosen, await _sandbox(client))
        say(f"model: {session.model_label} ({_why_model(model, chosen)})")
        say(f"sandbox: {session.sandbox}")
        say("trust: trusted, for this folder of the demo's own")
        Feed(out()).line(_WHO_ANSWERS[ask], "bold yellow")
        turn_id = await send(client, session.session_id, TASK)
        manner = Manner(approve="ask" if ask else "once", compact=True)
        code = await follow_and_finish(client, session, turn_id, manner, accept=True)
        status = await client.call("daemon/status", Empty())
        say(f"journal: {status.journal_path}")
        say(f"audit:   {status.audit_path} (check it: gloveport audit verify)")
        return code

    code = with_client(work)
    if code is not Exit.OK:
        raise typer.Exit(int(code))
    say("The tests in your folder now, outside any sandbox:", "bold")
    if run_tests_here(root) != 0:
        say("The tests are not green.", "bold red")
        raise typer.Exit(int(Exit.FAILED))
    say("Green. See also: gloveport show, gloveport why, gloveport undo, gloveport doctor", "bold green")
    say(f"In VS Code: install the extension from client-vscode (make vsix), then open {root}")
    say("The daemon stays for the next command; gloveport daemon stop ends it.", "dim")


async def _model(client: Client) -> str:
    """A model whose key is set in this environment, else the scripted one; never the user's default by itself."""
    models = (await client.call("model/list", Empty())).models
    wanted = [provider for provider, variable in KEYS if os.environ.get(variable)]
    real = next((f"{one.provider}/{one.model}" for one in models if one.provider in wanted), None)
    return real or SCRIPTED


def _why_model(given: str, chosen: str) -> str:
    if given:
        return "as you said with --model"
    if chosen != SCRIPTED:
        return "its key is set in this environment"
    if any(os.environ.get(variable) for _, variable in KEYS):
        return "the daemon began without your key; after gloveport daemon stop it has it"
    return f"{' and '.join(variable for _, variable in KEYS)} are not set"


async def _sandbox(client: Client) -> str:
    """The strongest rung that works here; which one is shown, and a weaker one is named as such."""
    rungs = (await client.call("sandbox/list", Empty())).sandboxes
    working = [rung for rung in rungs if rung.available]
    chosen = max(working, key=lambda rung: rung.strength, default=None)
    for rung in rungs:
        # An engine of containers is no part of most machines; the doctor tells what it would take.
        if not rung.available and (chosen is None or rung.name == "bubblewrap"):
            say(f"{rung.name} does not work here: {rung.reason} {rung.fix}", "yellow")
    return chosen.name if chosen is not None else ""
