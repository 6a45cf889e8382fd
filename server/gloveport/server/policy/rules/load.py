"""Reads rules from TOML text and checks them against their own examples.

Purpose: text in, rules out, or one typed error that names the rule and what is wrong.
Invariant: each rule says why it is there and carries examples that it matches and that it does not match.
Must never: open a file, guess at a misspelt key, or take a rule whose source may not state it.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeVar

from gloveport.server.policy.capability import Scope
from gloveport.server.policy.display import argv_text
from gloveport.server.policy.effects import Effect, EffectKind
from gloveport.server.policy.errors import RulesInvalidError
from gloveport.server.policy.protected_table import PathClass
from gloveport.server.policy.rules.rule import CommandLine, Rule, Source, Subject, Verdict, rule_matches, subject_of
from gloveport.server.policy.shell.understood import understand

N = TypeVar("N", bound=StrEnum)
RULES_TEXT_CHARS_MAX = 262_144
RULES_MAX = 1000
ITEMS_MAX = 256
RULES_VERSION = 1

_CONDITIONS: Final = ("tools", "classes", "paths", "argv", "hosts", "mass", "only_looks")
_KEYS: Final = frozenset(
    {"id", "effects", "verdict", "justification", *_CONDITIONS, "ceiling", "fallback", "match", "not_match"}
)
_EXAMPLE_KEYS: Final = frozenset({"tool", "effect", "target", "argv", "count", "recursive"})


def load_rules(text: str, source: Source) -> tuple[Rule, ...]:
    """The rules of one text; raises RulesInvalidError. An empty text holds no rules."""
    if len(text) > RULES_TEXT_CHARS_MAX:
        raise RulesInvalidError(source, "-", f"the text is longer than {RULES_TEXT_CHARS_MAX} characters")
    import tomllib  # costs more than the whole room when it is imported

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RulesInvalidError(source, "-", f"not TOML: {error}") from error
    if not document:
        return ()
    tables = document.get("rule", [])
    if set(document) - {"version", "rule"} or document.get("version") != RULES_VERSION or not isinstance(tables, list):
        raise RulesInvalidError(source, "-", f"expected version = {RULES_VERSION} and [[rule]] tables only")
    if len(tables) > RULES_MAX:
        raise RulesInvalidError(source, "-", f"more than {RULES_MAX} rules")
    return tuple(_rule(table, source) for table in tables)


def _rule(table: object, source: Source) -> Rule:
    if not isinstance(table, Mapping) or not isinstance(table.get("id"), str) or not table["id"].strip():
        raise RulesInvalidError(source, "?", "every rule has an id")
    rule_id = table["id"]
    try:
        rule = _build(table, source)
        _check_shape(rule)
        _check_examples(rule, table)
    except (ValueError, TypeError, KeyError) as error:
        raise RulesInvalidError(source, rule_id, _words(error)) from error
    return rule


def _build(table: Mapping[str, object], source: Source) -> Rule:
    unknown = sorted(set(table) - _KEYS)
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}")
    return Rule(
        rule_id=_text(table["id"]),
        source=source,
        kinds=frozenset(_one_of(EffectKind, kind) for kind in _texts(table["effects"])),
        verdict=_one_of(Verdict, _text(table["verdict"])),
        justification=_text(table["justification"]),
        tools=_texts(table.get("tools", [])),
        classes=frozenset(_one_of(PathClass, cls) for cls in _texts(table.get("classes", []))),
        paths=_texts(table.get("paths", [])),
        argv=_commands(table.get("argv", [])),
        hosts=_texts(table.get("hosts", [])),
        mass=_flag(table["mass"]) if "mass" in table else None,
        only_looks=_flag(table["only_looks"]) if "only_looks" in table else None,
        ceiling=_one_of(Scope, _text(table.get("ceiling", "once"))),
        fallback=_flag(table.get("fallback", False)),
    )


def _check_shape(rule: Rule) -> None:
    if not rule.justification.strip():
        raise ValueError("a rule says why it is there")
    if rule.fallback and rule.source is not Source.builtin:
        raise ValueError("only built-in rules may be fallbacks")
    if not rule.kinds and not rule.tools:
        raise ValueError("a rule for calls without effects names the tools")
    if rule.verdict is Verdict.allow and rule.source is Source.session:
        raise ValueError("a session may only make rules stricter; use a grant to allow")


def _check_examples(rule: Rule, table: Mapping[str, object]) -> None:
    match, no_match = _items(table.get("match", [])), _items(table.get("not_match", []))
    if not match:
        raise ValueError("a rule carries at least one match example")
    for example in match:
        if not rule_matches(rule, _example(example, rule)):
            raise ValueError(f"its match example does not match: {example!r}")
    for example in no_match:
        if rule_matches(rule, _example(example, rule)):
            raise ValueError(f"its not_match example matches: {example!r}")


def _example(example: object, rule: Rule) -> Subject:
    if not isinstance(example, Mapping) or set(example) - _EXAMPLE_KEYS:
        raise TypeError(f"an example is a table of {sorted(_EXAMPLE_KEYS)}")
    argv = _texts(example["argv"]) if "argv" in example else None
    tool = _text(example.get("tool", rule.tools[0] if rule.tools else "example"))
    if "effect" not in example:
        return subject_of(tool, None)
    target = _text(example.get("target", argv_text(argv or ())))
    detail = [("from", "argv")] if "target" not in example else []
    detail += [("count", str(example["count"]))] if "count" in example else []
    detail += [("recursive", "true")] if example.get("recursive") is True else []
    return subject_of(tool, Effect(EffectKind(_text(example["effect"])), target, tuple(detail)), _line(argv))


def _line(argv: tuple[str, ...] | None) -> CommandLine:
    """An example's command line: without shell text it is understood as on a machine of nobody's."""
    if not argv:
        return CommandLine(argv)
    known = understand(argv, lambda _text: None)
    return CommandLine(argv, known.commands, known.only_looks)


def _items(value: object) -> list[object]:
    if not isinstance(value, list) or len(value) > ITEMS_MAX:
        raise TypeError(f"expected a list of at most {ITEMS_MAX} items, not {value!r:.80}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a string, not {value!r:.80}")
    return value


def _texts(value: object) -> tuple[str, ...]:
    return tuple(_text(item) for item in _items(value))


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"expected true or false, not {value!r:.80}")
    return value


def _commands(value: object) -> tuple[tuple[str, ...], ...]:
    commands = tuple(_texts(item) for item in _items(value))
    if any(not command or not command[0] for command in commands):
        raise ValueError("a command has at least a program")
    return commands


def _one_of(names: type[N], given: str) -> N:
    try:
        return names(given)
    except ValueError:
        raise ValueError(f"{given!r} is not one of {', '.join(names)}") from None


def _words(error: Exception) -> str:
    return f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
