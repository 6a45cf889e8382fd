"""Decisions and rules in words and data.

Purpose: answer "why was this allowed, asked or refused, and what can I do", and list what is in force.
Invariant: what is shown is what decides: every rule of every source, and the kernel's own checks.
Must never: judge again; a recorded decision is explained as it was recorded.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol

from gloveport.server.policy.display import command_display, escape_display
from gloveport.server.policy.findings import KERNEL
from gloveport.server.policy.rules.rule import Rule, Verdict
from gloveport.server.policy.rules.ruleset import RuleSet

KERNEL_CHECKS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "empty-command": ("deny", "A command without a program is never run."),
        "oversized-command": ("deny", "A command too long to be shown whole is never run."),
        "too-many-effects": ("deny", "A call with more effects than anybody can judge is never run."),
        "folder-outside": ("deny", "Nothing runs in a folder outside the workspace."),
        "old-goal": ("deny", "A call proposed for an earlier goal never acts on the present one."),
        "no-effect": ("ask", "A tool that does not say what it does is asked about."),
        "no-rule": ("ask", "What no rule speaks of is asked about."),
        "unknown-effect": ("ask", "An effect nobody knows is asked about."),
        "unknown-tool": ("ask", "A tool that is not ours is asked about."),
        "trust-unset": ("ask", "Changes are asked about until you say how far you trust the workspace."),
        "no-sandbox": ("deny", "Nothing runs without a sandbox."),
        "rung": ("deny", "Nothing runs in a sandbox weaker than its trust level needs; untrusted text alone is asked."),
        "each-time": ("ask", "Shells, wrappers and inline code that may do more than look are asked about each time."),
        "loader-variable": ("ask", "Variables that choose what is loaded or run are asked about each time."),
        "not-your-word": ("ask", "What leaves, is remembered or configures follows your own words or is asked about."),
        "confidential": ("deny", "Confidential data never goes where it can't be previewed; else it is asked about."),
        "could-carry": ("ask", "What could take along something confidential is asked about, with where it would go."),
        "not-looked-through": ("ask", "What programs left and nobody could look through does not leave unasked."),
        "another-machine": ("ask", "A program that runs on another machine is asked about, with that machine's name."),
        "open-network": ("ask", "A program that could send out confidential data is asked about."),
        "intent": ("ask", "What matters and was not asked for by you is asked about."),
        "irreversible": ("ask", "What can't be undone is asked about each time."),
    }
)
"""The kernel's own checks: the strictest verdict and why."""

_NEXT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "kernel:rung": "Choose a stronger sandbox (sandbox/choose), or change the trust level (workspace/trust).",
        "kernel:no-sandbox": "Run gloveport doctor to see which sandboxes work here and what is missing.",
        "kernel:trust-unset": "Say how far you trust the workspace: workspace/trust.",
        "kernel:old-goal": "Nothing to do; it was proposed for a goal that has changed.",
        "kernel:confidential": "Send it yourself, or start a session that has read nothing confidential.",
    }
)


class Decided(Protocol):
    """A decision, or its record in the journal (`PolicyDecided`)."""

    @property
    def verdict(self) -> str:
        """allow, ask or deny."""

    @property
    def risk(self) -> str:
        """low, medium or high."""

    @property
    def reason(self) -> str:
        """Why, in words."""

    @property
    def rule_ids(self) -> Sequence[str]:
        """What decided, `source:id`."""

    @property
    def grant_id(self) -> str | None:
        """The grant that answered, if one did."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision in words, and what can be done about it."""

    decision: str
    hint: str


def explain(decided: Decided) -> Explanation:
    """Words for "why"."""
    verb = {"allow": "Allowed", "ask": "Asked about", "deny": "Refused"}[decided.verdict]
    grant = "" if decided.grant_id is None else f" Grant {decided.grant_id} answered."
    by = ", ".join(decided.rule_ids)
    return Explanation(f"{verb}: {decided.reason}{grant} Risk {decided.risk}. Decided by {by}.", _hint(decided))


def show(rules: RuleSet) -> dict[str, Any]:
    """The data of `policy/show`: the hash and every rule with its source, the kernel's checks last."""
    kernel = [_info(check, KERNEL, verdict, words) for check, (verdict, words) in KERNEL_CHECKS.items()]
    return {"rules_hash": str(rules.hash), "rules": [*map(_stated, rules.rules), *kernel]}


def _info(rule_id: str, source: str, verdict: str, words: str) -> dict[str, Any]:
    return {"rule_id": rule_id, "source": source, "verdict": verdict, "justification": words}


def _stated(rule: Rule) -> dict[str, Any]:
    is_ask = rule.verdict is Verdict.ask
    return {
        **_info(rule.rule_id, str(rule.source), str(rule.verdict), rule.justification),
        "effects": sorted(rule.kinds),
        "conditions": list(_conditions(rule)),
        "ceiling": str(rule.ceiling) if is_ask else "",
    }


def _conditions(rule: Rule) -> Iterator[str]:
    named = (
        ("tool", rule.tools),
        ("class of path", sorted(rule.classes)),
        ("path", rule.paths),
        ("command", tuple(command_display(words) for words in rule.argv)),
        ("host", rule.hosts),
    )
    yield from (f"{name}: {escape_display(', '.join(values))}" for name, values in named if values)
    if rule.mass is not None:
        yield "many files at once" if rule.mass else "few files"
    if rule.only_looks is not None:
        yield "a command that only looks" if rule.only_looks else "a command that may do more than look"
    if rule.fallback:
        yield "no other rule speaks"


def _hint(decided: Decided) -> str:
    known = next((words for rule_id, words in _NEXT.items() if rule_id in decided.rule_ids), None)
    if decided.verdict == "allow":
        return "" if decided.grant_id is None else "Revoke the grant to be asked again."
    if known is not None:
        return known
    if decided.verdict == "deny":
        return "No answer can allow it; do it yourself if you want it done."
    return "You would be asked when it is called; the narrowest answer holds for that one call."
