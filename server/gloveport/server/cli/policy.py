"""gloveport policy: the rules in force, and what they would say.

Purpose: print every rule with its source, and the decision on a command before anybody runs it.
Invariant: reads only.
Must never: change a rule.
"""

from typing import Annotated

import typer

from gloveport.protocol.wire.base import Empty
from gloveport.protocol.wire.policy import PolicyExplainParams
from gloveport.server.cli.link import out, plain, print_json, with_client
from gloveport.server.cli.pick import HERE, Folder, Session, pick_session
from gloveport.server.client.connect import Client

policy = typer.Typer(help="The rules in force, and what they would say about a command.", no_args_is_help=True)
_STYLES = (("allow", "green"), ("ask", "yellow"), ("deny", "red"))

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def _style(verdict: str) -> str:
    return next((style for name, style in _STYLES if name == verdict), "")


@policy.command("show")
def show(as_json: AsJson = False) -> None:
    """List every rule of every source, and the checks that no rule changes."""

    async def work(client: Client) -> None:
        result = await client.call("policy/show", Empty())
        if as_json:
            print_json(result.model_dump(mode="json", by_alias=True))
            return
        for rule in result.rules:
            line = f"{rule.verdict:5} {rule.source}:{rule.rule_id}  {rule.justification}"
            out().print(plain(line, _style(rule.verdict)))
        out().print(plain(f"hash {result.rules_hash}"))

    with_client(work)


@policy.command("explain", context_settings={"ignore_unknown_options": True})
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
        console = out()
        console.print(plain(result.words, _style(result.verdict)))
        lines = [f"  {factor.name}: {factor.level}, {factor.words}" for factor in result.factors]
        lines += [f"  {finding}" for finding in result.findings]
        lines += [f"  not taken for granted: {doubt}" for doubt in result.doubts]
        for line in dict.fromkeys(lines):
            console.print(plain(line))
        if result.hint:
            console.print(plain(result.hint, "yellow"))

    with_client(work)
