"""One rule, and the facts about an effect that a rule can ask for.

Purpose: a rule is data: kinds, tools, path classes, globs, commands, and a verdict with its justification.
Invariant: every condition given must hold; an allow rule is matched against the whole command only, a stricter rule
against every command that can be seen inside.
Must never: hold a function, a regular expression, or a value from the workspace.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum, unique
from typing import Final

from gloveport.server.policy.capability import Scope
from gloveport.server.policy.commands import Argv, command_matches, views
from gloveport.server.policy.effects import PATH_KINDS, Effect, EffectKind
from gloveport.server.policy.names import path_facts
from gloveport.server.policy.protected import path_classes
from gloveport.server.policy.protected_table import PathClass
from gloveport.server.policy.wildcard import name_matches, path_matches

MASS_FILES_MIN = 10


@unique
class Verdict(StrEnum):
    """What becomes of a call."""

    allow = "allow"
    ask = "ask"
    deny = "deny"

    @property
    def strictness(self) -> int:
        """0 for allow to 2 for deny."""
        return list(Verdict).index(self)


@unique
class Source(StrEnum):
    """Where a rule comes from; the workspace is not among them."""

    builtin = "builtin"
    managed = "managed"
    user = "user"
    session = "session"


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A call's command line: its words, the simple commands in it, and whether it does no more than is declared."""

    argv: Argv | None
    commands: tuple[Argv, ...] = ()
    only_looks: bool = False

    @property
    def views(self) -> Iterator[Argv]:
        """Every command that may be started. Where all is understood, the commands that were found and no others."""
        whole = () if self.argv is None else (self.argv,)
        lines = self.commands if self.only_looks else (*whole, *self.commands)
        yield from whole
        for line in lines:
            yield from views(line)


NO_COMMAND: Final = CommandLine(None)


@dataclass(frozen=True, slots=True)
class Subject:
    """One effect of one call, as rules see it. `mass`: many files at once, or a folder with what is in it."""

    tool: str
    effect: Effect | None
    line: CommandLine
    classes: frozenset[PathClass]
    parts: tuple[str, ...]
    mass: bool


@dataclass(frozen=True, slots=True)
class Rule:
    """Conditions and a verdict. Empty conditions ask for nothing; `kinds` empty means a call without effects.

    `ceiling` is the longest grant that may answer an ask. A `fallback` rule speaks only where no other rule does.
    """

    rule_id: str
    source: Source
    kinds: frozenset[EffectKind]
    verdict: Verdict
    justification: str
    tools: tuple[str, ...] = ()
    classes: frozenset[PathClass] = frozenset()
    paths: tuple[str, ...] = ()
    argv: tuple[Argv, ...] = ()
    hosts: tuple[str, ...] = ()
    mass: bool | None = None
    only_looks: bool | None = None
    ceiling: Scope = Scope.once
    fallback: bool = False
    globs: tuple[tuple[str, ...], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "globs", tuple(tuple(path.casefold().split("/")) for path in self.paths))

    @property
    def qualified_id(self) -> str:
        """`source:id`, as decisions name it."""
        return f"{self.source}:{self.rule_id}"


def subject_of(tool: str, effect: Effect | None, line: CommandLine | None = None, total: int = 1) -> Subject:
    """The facts about one effect; `total` is the number of targets of its kind in the call."""
    if effect is None:
        return Subject(tool, None, line or NO_COMMAND, frozenset(), (), False)
    # a command that deletes or reads is no path; what it touches can't be told from its words
    is_path = effect.kind in PATH_KINDS and effect.fact("from") is None
    return Subject(
        tool=tool,
        effect=effect,
        line=line or NO_COMMAND,
        classes=path_classes(effect.target) if is_path else frozenset(),
        parts=path_facts(effect.target).folded if is_path else (),
        mass=_is_mass(effect, total),
    )


def rule_matches(rule: Rule, subject: Subject) -> bool:
    """True if every condition of the rule holds for the subject."""
    if subject.effect is None:
        return not rule.kinds and (not rule.tools or subject.tool in rule.tools)
    return (
        subject.effect.kind in rule.kinds
        and (not rule.tools or subject.tool in rule.tools)
        and (rule.mass is None or rule.mass == subject.mass)
        and (rule.only_looks is None or rule.only_looks == subject.line.only_looks)
        and _classes_match(rule, subject)
        and (not rule.globs or any(path_matches(glob, subject.parts) for glob in rule.globs))
        and (not rule.hosts or any(_host_matches(host, subject.effect.target) for host in rule.hosts))
        and (not rule.argv or _argv_matches(rule, subject.line))
    )


def _classes_match(rule: Rule, subject: Subject) -> bool:
    """An allow rule must name every class of the path; a stricter rule one of them."""
    if not rule.classes:
        return True
    if rule.verdict is Verdict.allow:
        return bool(subject.classes) and subject.classes <= rule.classes
    return bool(subject.classes & rule.classes)


def _argv_matches(rule: Rule, line: CommandLine) -> bool:
    if line.argv is None:
        return False
    if rule.verdict is Verdict.allow:
        return line.argv in rule.argv
    return any(command_matches(pattern, view) for view in line.views for pattern in rule.argv)


def _host_matches(pattern: str, target: str) -> bool:
    """A pattern with a port asks for that port; one without takes every port. `*` first takes all that is before."""
    name, _colon, port = target.rpartition(":")
    wanted_name, _colon, wanted_port = pattern.rpartition(":")
    if wanted_name and wanted_port.isdecimal():
        if wanted_port != port:
            return False
        pattern = wanted_name
    host = (name or target).casefold().rstrip(".")
    labels, wanted = host.split("."), pattern.casefold().split(".")
    if wanted[0] == "*":
        return len(labels) >= len(wanted) and labels[len(labels) - len(wanted) + 1 :] == wanted[1:]
    return len(labels) == len(wanted) and all(map(name_matches, wanted, labels))


def _is_mass(effect: Effect, total: int) -> bool:
    count = effect.fact("count") or "1"
    # a count that can't be read is taken to be large
    many = not count.isdecimal() or int(count[:9]) >= MASS_FILES_MIN
    return many or total >= MASS_FILES_MIN or effect.fact("recursive") == "true"
