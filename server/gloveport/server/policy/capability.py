"""What a grant lets through: a tool, kinds of effect, and a pattern over their targets.

Purpose: the value objects of grants, and the order "at most as wide as".
Invariant: a pattern covers exactly what its sentence says; narrowing never widens.
Must never: match by prefix of characters; paths and argv are compared component by component, word by word.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, unique

from gloveport.server.policy.commands import (
    asks_each_time,
    derived_effects,
    is_plain_name,
    offered_prefix,
)
from gloveport.server.policy.display import command_display, escape_display
from gloveport.server.policy.effects import PATH_KINDS, Effect, EffectKind
from gloveport.server.policy.names import is_within, path_facts
from gloveport.server.policy.words import key_words, listed

PATTERN_ITEMS_MAX = 4096


@unique
class Scope(StrEnum):
    """How long a grant lives, from the shortest."""

    once = "once"
    turn = "turn"
    session = "session"
    workspace = "workspace"

    @property
    def width(self) -> int:
        """0 for once to 3 for workspace."""
        return list(Scope).index(self)


@unique
class PatternKind(StrEnum):
    """The ways a pattern can name targets."""

    path_exact = "path_exact"
    path_prefix = "path_prefix"
    argv_exact = "argv_exact"
    argv_prefix = "argv_prefix"
    test_class = "test_class"
    call_exact = "call_exact"


@dataclass(frozen=True, slots=True)
class Pattern:
    """Targets by name.

    `path_exact`: the paths. `path_prefix`: one folder. `argv_exact`: the words. `argv_prefix`: the leading words, with
    plain names allowed behind. `test_class`: the framework. `call_exact`: `kind:target` of every effect.
    """

    kind: PatternKind
    value: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Capability:
    """One tool, some kinds of effect, one pattern. Only one exact call may be without a kind that is known."""

    tool: str
    kinds: frozenset[EffectKind]
    pattern: Pattern

    def to_plain(self) -> dict[str, object]:
        """JSON form: `{tool, kinds: [..], pattern: {kind, value: [..]}}`."""
        pattern = {"kind": str(self.pattern.kind), "value": list(self.pattern.value)}
        return {"tool": self.tool, "kinds": sorted(self.kinds), "pattern": pattern}


def capability_from_plain(plain: Mapping[str, object]) -> Capability:
    """Reads the JSON form; raises ValueError, KeyError or TypeError when it is not one."""
    pattern = plain["pattern"]
    if not isinstance(pattern, Mapping):
        raise TypeError("pattern is an object")
    value = _strings(pattern["value"])
    kinds = frozenset(EffectKind(kind) for kind in _strings(plain["kinds"]))
    tool = plain["tool"]
    pattern_kind = PatternKind(pattern["kind"])
    nameless = not kinds and pattern_kind is not PatternKind.call_exact
    if not isinstance(tool, str) or not tool or nameless or not value or len(value) > PATTERN_ITEMS_MAX:
        raise ValueError("a capability names a tool, at least one kind and a bounded pattern")
    return Capability(tool, kinds, Pattern(pattern_kind, value))


def pattern_covers(pattern: Pattern, effect: Effect, argv: tuple[str, ...] | None) -> bool:
    """True if the pattern names the target of this effect; argv is the one the call runs, if any."""
    match pattern.kind:
        case PatternKind.call_exact:
            return effect.key in pattern.value
        case PatternKind.path_exact:
            facts = path_facts(effect.target)
            return effect.kind in PATH_KINDS and not facts.outside and facts.text in pattern.value
        case PatternKind.path_prefix:
            inside = is_within(path_facts(effect.target), path_facts(pattern.value[0]))
            return effect.kind in PATH_KINDS and inside
        case PatternKind.argv_exact:
            derived = argv is not None and effect in derived_effects(argv)
            return argv == pattern.value and (effect.kind is EffectKind.execute or derived)
        case PatternKind.argv_prefix:
            runs = effect.kind is EffectKind.execute and argv is not None
            return runs and _has_prefix(argv or (), pattern.value)
        case PatternKind.test_class:
            return effect.kind is EffectKind.execute and effect.fact("test_class") == pattern.value[0]


def narrowed_within(narrowed: Capability, offered: Capability) -> bool:
    """True if everything `narrowed` lets through is let through by `offered` too, and it lets through something."""
    same_tool = narrowed.tool == offered.tool
    fewer_kinds = narrowed.kinds <= offered.kinds and bool(narrowed.kinds) == bool(offered.kinds)
    return same_tool and fewer_kinds and _pattern_within(narrowed.pattern, offered.pattern)


def overbroad(capability: Capability) -> str | None:
    """Why no lasting grant may hold this capability, in words, or None."""
    pattern = capability.pattern
    if not capability.kinds or not pattern.value:
        return "a grant names kinds of effect and targets"
    match pattern.kind:
        case PatternKind.argv_exact:
            return asks_each_time(pattern.value)
        case PatternKind.argv_prefix:
            known = offered_prefix(pattern.value) is not None
            return asks_each_time(pattern.value) or (None if known else "this command has no safe beginning")
        case PatternKind.path_prefix:
            folder = path_facts(pattern.value[0])
            return "the folder lies outside the workspace" if folder.outside else None
        case _:
            return None


def pattern_words(capability: Capability) -> str:
    """What the capability lets through, in words, whole and escaped."""
    verbs = ", ".join(sorted(kind.replace("_", " ") for kind in capability.kinds))
    value = capability.pattern.value
    match capability.pattern.kind:
        case PatternKind.argv_exact:
            return f"run exactly `{command_display(value)}`" + _beyond_running(capability.kinds)
        case PatternKind.argv_prefix:
            return f"run `{command_display(value)}`, also with names of files or tests behind it (no further options)"
        case PatternKind.test_class:
            return f"run the tests of this workspace with {escape_display(value[0])} in the sandbox"
        case PatternKind.path_prefix:
            return f"{verbs} ordinary files under `{escape_display(value[0])}/`"
        case PatternKind.path_exact:
            return f"{verbs} " + ", ".join(f"`{escape_display(one)}`" for one in value)
        case PatternKind.call_exact:
            return listed(key_words(key) for key in value)


def _beyond_running(kinds: frozenset[EffectKind]) -> str:
    others = sorted(kind.replace("_", " ") for kind in kinds - {EffectKind.execute})
    return f" ({', '.join(others)})" if others else ""


def _pattern_within(narrowed: Pattern, offered: Pattern) -> bool:
    if narrowed == offered:
        return bool(narrowed.value)
    match offered.kind, narrowed.kind:
        case (PatternKind.path_exact, PatternKind.path_exact) | (PatternKind.call_exact, PatternKind.call_exact):
            return bool(narrowed.value) and set(narrowed.value) <= set(offered.value)
        case PatternKind.path_prefix, PatternKind.path_exact:
            folder = path_facts(offered.value[0])
            return bool(narrowed.value) and all(is_within(path_facts(one), folder) for one in narrowed.value)
        case PatternKind.path_prefix, PatternKind.path_prefix:
            return len(narrowed.value) == 1 and is_within(path_facts(narrowed.value[0]), path_facts(offered.value[0]))
        case PatternKind.argv_prefix, (PatternKind.argv_exact | PatternKind.argv_prefix):
            return _has_prefix(narrowed.value, offered.value)
        case _:
            return False


def _has_prefix(argv: tuple[str, ...], prefix: tuple[str, ...]) -> bool:
    rest = argv[len(prefix) :]
    return bool(prefix) and argv[: len(prefix)] == prefix and all(is_plain_name(word) for word in rest)


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise TypeError("a list of strings is expected here")
    return tuple(value)
