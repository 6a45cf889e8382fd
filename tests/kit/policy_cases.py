"""Requests, contexts and rules for tests of policy.

Purpose: a call in the ordinary case, of which a test changes one thing.
Invariant: the ordinary case is a trusted workspace, a label of the workspace's own text, bubblewrap, our own tools.
Must never: decide.
"""

from functools import cache
from importlib.resources import files
from typing import Any

from gloveport.protocol.ids import CallId, SessionId, Sha256, TurnId, WorkspaceId
from gloveport.server.parsing.bash import parse_bash
from gloveport.server.policy.commands import Argv
from gloveport.server.policy.decide import Decision, decide
from gloveport.server.policy.effects import Effect, EffectKind
from gloveport.server.policy.grant import Grant
from gloveport.server.policy.labels import Integrity, Label
from gloveport.server.policy.request import Context, Request
from gloveport.server.policy.rules.rule import Source
from gloveport.server.policy.rules.ruleset import RuleSet, ruleset_from_texts
from gloveport.server.policy.rung import SandboxFacts, TrustLevel
from gloveport.server.policy.shell.understood import Inside, Understood, understand, with_places

BUBBLEWRAP = SandboxFacts("bubblewrap", 2, False, ("no network",), (), "")
PROCESS = SandboxFacts("process", 1, True, (), ("no network",), "Protects against accidents, not against hostile code.")
MACHINE = SandboxFacts("microvm", 3, False)
USER = Label(Integrity.USER, None, ("message:1",))
WORKSPACE = Label(Integrity.WORKSPACE, None, ("workspace:src/app.py",))
UNTRUSTED = Label(Integrity.UNTRUSTED, None, ("issue:214",))
TOOLS = frozenset(
    {
        "read_file",
        "list_files",
        "search",
        "edit_file",
        "write_file",
        "delete_file",
        "run_command",
        "run_tests",
        "update_plan",
        "http_request",
    }
)

HEAD = "version = 1\n"
RULE = """
[[rule]]
id = "mine"
effects = ["read"]
verdict = "ask"
justification = "Mine."
match = [{ effect = "read", target = "a" }]
"""
"""A text with one rule is HEAD + RULE."""


def builtin_text() -> str:
    """The default rules as shipped."""
    return (files("gloveport.server.policy.rules") / "builtin.toml").read_text(encoding="utf-8")


@cache
def default_rules() -> RuleSet:
    """The default rules alone."""
    return ruleset_from_texts({Source.builtin: builtin_text()})


def with_user_rules(text: str) -> RuleSet:
    """The default rules and the user's."""
    return ruleset_from_texts({Source.builtin: builtin_text(), Source.user: text})


def effect(kind: str, target: str, **detail: str) -> Effect:
    """An effect of this kind."""
    return Effect(EffectKind(kind), target, tuple(detail.items()))


def request(*effects: Effect, tool: str = "edit_file", **changes: Any) -> Request:
    """A call with these effects."""
    given: dict[str, Any] = {
        "call_id": CallId("call-1"),
        "tool": tool,
        "effects": effects,
        "label": WORKSPACE,
        "arguments_digest": Sha256("a" * 64),
        "goal_revision": 1,
    }
    return Request(**{**given, **changes})


def command(*argv: str, tool: str = "run_command", **changes: Any) -> Request:
    """A call that runs a program in bubblewrap."""
    words: Argv = argv
    given = {"argv": words, "sandbox": BUBBLEWRAP, "understood": understood(argv), **changes}
    return request(tool=tool, **given)


def understood(argv: Argv) -> Understood:
    """A command line taken apart on a machine where every program is root's and no path is a link."""
    known = understand(argv, parse_bash, Inside("/project", "/tmp"))
    places = {name: f"/usr/bin/{name}" for name in known.programs if "/" not in name}
    return with_places(known, places, {effect.target: effect.target for effect in known.effects})


def context(**changes: Any) -> Context:
    """The ordinary circumstances."""
    given: dict[str, Any] = {
        "workspace_id": WorkspaceId("w-1"),
        "session_id": SessionId("s-1"),
        "turn_id": TurnId("t-1"),
        "goal_revision": 1,
        "trust_level": TrustLevel.trusted,
        "worktree": Integrity.WORKSPACE,
        "now": 1_000_000,
        "builtin_tools": TOOLS,
    }
    return Context(**{**given, **changes})


def judge(call: Request, *grants: Grant, rules: RuleSet | None = None, **changes: Any) -> Decision:
    """The decision of the default rules in the ordinary circumstances, changed as named."""
    return decide(call, rules or default_rules(), grants, context(**changes))


def verdict(call: Request, *grants: Grant, rules: RuleSet | None = None, **changes: Any) -> str:
    """The verdict alone."""
    return str(judge(call, *grants, rules=rules, **changes).verdict)
