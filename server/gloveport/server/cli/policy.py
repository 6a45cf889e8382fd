"""gloveport policy: the rules in force, and what they would say.

Purpose: print every rule with its source, and the decision on a command before anybody runs it; give a session rules
    of its own.
Invariant: what a session is given only narrows what it may do.
Must never: change a rule of another source.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from gloveport.protocol.wire.policy import PolicyExplainParams, PolicyShowParams, RuleInfo, SessionRulesParams
from gloveport.server.cli.help import Command, Group
from gloveport.server.cli.link import Exit, fail, print_json, request_id, say, with_client
from gloveport.server.cli.phrases import short_id
from gloveport.server.cli.pick import HERE, Folder, Session, pick_session
from gloveport.server.client.connect import Client

policy = typer.Typer(
    cls=Group, help="The rules in force, and what they would say about a command.", no_args_is_help=True
)
_STYLES = (("allow", "green"), ("ask", "yellow"), ("deny", "red"))

Own = Annotated[str, typer.Option("--session", "-s", help="Those of this session; empty: everybody's.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def _style(verdict: str) -> str:
    return next((style for name, style in _STYLES if name == verdict), "")


def _print(rules: Iterable[RuleInfo]) -> None:
    for rule in rules:
        line = f"{rule.verdict:5} {rule.source}:{rule.rule_id}  {rule.justification}"
        say(line, _style(rule.verdict))


@policy.command("show", cls=Command)
def show(session: Own = "", as_json: AsJson = False) -> None:
    """List every rule of every source, and the checks that no rule changes."""

    async def work(client: Client) -> None:
        name = (await pick_session(client, session)).session_id if session else None
        result = await client.call("policy/show", PolicyShowParams(session_id=name))
        if as_json:
            print_json(result.model_dump(mode="json", by_alias=True))
            return
        _print(result.rules)
        say(f"hash {result.rules_hash}")

    with_client(work)


@policy.command("rules", cls=Command)
def rules(
    file: Annotated[Path | None, typer.Argument(help="Rules in the form of rules.toml; they may ask or deny.")] = None,
    *,
    clear: Annotated[bool, typer.Option("--clear", help="Take the session's own rules away.")] = False,
    session: Session = "",
    root: Folder = HERE,
) -> None:
    """Show a session's own rules, give it those of a file in their place, or take them away."""
    if clear and file is not None:
        fail("give either a file or --clear", code=Exit.USAGE)
    text = "" if file is None else _read(file)

    async def work(client: Client) -> None:
        info = await pick_session(client, session, root)
        if clear or file is not None:
            params = SessionRulesParams(client_request_id=request_id(), session_id=info.session_id, text=text)
            own = (await client.call("session/rules", params)).rules
        else:
            shown = await client.call("policy/show", PolicyShowParams(session_id=info.session_id))
            own = tuple(rule for rule in shown.rules if rule.source == "session")
        _print(own)
        if not own:
            say(f"Session {short_id(info.session_id)} has no rules of its own.")

    with_client(work)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        fail(f"{file} cannot be read ({why})", "Name a file with rules.", Exit.USAGE)


@policy.command("explain", cls=Command, context_settings={"ignore_unknown_options": True})
def explain(
    argv: Annotated[list[str], typer.Argument(help="The command, after --, as the model would give it.")],
    session: Session = "",
    as_json: AsJson = False,
    root: Folder = HERE,
) -> None:
    """Say what would be decided about a command, and why; nothing is run."""

    async def work(client: Client) -> None:
        info = await pick_session(client, session, root)
        result = await client.call("policy/explain", PolicyExplainParams(session_id=info.session_id, argv=tuple(argv)))
        if as_json:
            print_json(result.model_dump(mode="json", by_alias=True))
            return
        say(result.words, _style(result.verdict))
        lines = [f"  {factor.name}: {factor.level}, {factor.words}" for factor in result.factors]
        lines += [f"  {finding}" for finding in result.findings]
        lines += [f"  not taken for granted: {doubt}" for doubt in result.doubts]
        for line in dict.fromkeys(lines):
            say(line)
        if result.hint:
            say(result.hint, "yellow")

    with_client(work)
