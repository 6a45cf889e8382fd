"""Whether a simple command only looks, and which paths it touches.

Purpose: hold one command against the allowlist of its program: options, their values, its operands.
Invariant: what is not in the table is a doubt; a command without a doubt does nothing beside what is returned.
Must never: complete, shorten or guess an option.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from gloveport.server.policy.shell import looks_table

Argv = tuple[str, ...]

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,15}[kKmMgGbB]{0,2}")
_DATE_FORM: Final = re.compile(r"\+[^\n]*")
_SED_PRINT: Final = re.compile(r"([0-9]+|\$)?(,([0-9]+|\$|\+[0-9]+))?[pd=]")
_SED_REPLACE: Final = re.compile(r"s/(?:[^/\\\n]|\\[^\n])*/(?:[^/\\\n]|\\[^\n])*/[gpiI0-9]*")
_AWK_FIELD: Final = r"(?:\$[0-9]+|\$NF|NR|NF|\"[^\"\\|<>]*\")"
_AWK_PRINT: Final = re.compile(rf"(?:NR==[0-9]+ ?)?\{{ ?print(?: {_AWK_FIELD}(?:[, ]+{_AWK_FIELD})*)? ?\}}")
_PRINTF: Final = re.compile(r"(?:[^%\\]|\\[^%c]|%%|%[-+ 0#']*[0-9]*(?:\.[0-9]*)?[diouxXeEfFgGaAcsbq])*")
"""What prints only: `%n` sets the variable that it is given in bash, and a width may be taken from a word."""
_GIT_SIGNED: Final = re.compile(r"%[-+ ]?G")
_GIT_ATOM_SIGNED: Final = "signature"
"""What in a format has git start `gpg`."""
_GIT_TRAILER: Final = re.compile(r"trailer:[A-Za-z-]+")
_JQ_LOADS: Final = re.compile(r"\b(?:import|include|modulemeta)\b")
"""What in a program of `jq` reads files that its words do not name."""
CONFIG_WORDS_MAX: Final = 2
"""A name and a pattern; behind more of them a value would be set."""
_TEXT_FORMS: Final = MappingProxyType({"sed": (_SED_PRINT, _SED_REPLACE), "awk": (_AWK_PRINT,)})
_FIND_TESTS: Final = MappingProxyType(
    {
        **dict.fromkeys(
            ("-name", "-iname", "-path", "-ipath", "-regex", "-iregex", "-type", "-size", "-user", "-group", "-perm",
             "-mtime", "-mmin", "-atime", "-amin", "-ctime", "-cmin", "-maxdepth", "-mindepth", "-newermt", "-links",
             "-lname", "-ilname", "-wholename", "-xtype", "-printf", "-regextype"), 1),
        **dict.fromkeys(
            ("-print", "-print0", "-ls", "-empty", "-prune", "-not", "-a", "-and", "-o", "-or", "!", "(", ")", "-true",
             "-false", "-depth", "-mount", "-xdev", "-readable", "-executable", "-writable", "-noleaf", "-daystart",
             "-quit", "-nouser"), 0),
    }
)  # fmt: skip
"""Words of `find` that only look, with how many words each takes."""


class LooksError(Exception):
    """Why a command is not known to do only what it says."""


@dataclass(frozen=True, slots=True)
class Touched:
    """The paths that a command reads, writes and removes, as it names them."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    deletes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Grammar:
    """One line of the table."""

    flags: frozenset[str]
    valued: Mapping[str, str]
    optional: Mapping[str, str]
    wanted: frozenset[str]
    operands: str
    permutes: bool
    """True if options count wherever they stand; else one behind the first operand is another thing to the program."""


@dataclass(slots=True)
class _Taken:
    """What was taken of a command so far."""

    operands: list[str] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    options: set[str] = field(default_factory=set)


@lru_cache(maxsize=1)
def looks() -> Mapping[Argv, Grammar]:
    """The allowlist by program and sub-command."""
    return MappingProxyType(dict(_lines(looks_table.LOOKS)))


@lru_cache(maxsize=1)
def wrappers() -> Mapping[str, Grammar]:
    """The programs that start the command behind them."""
    return MappingProxyType({words[0]: grammar for words, grammar in _lines(looks_table.WRAPPERS)})


@lru_cache(maxsize=1)
def shell_options() -> Grammar:
    """The options that a shell may have before its text."""
    return _grammar(looks_table.SHELL_OPTIONS, "args")


def table_lines(text: str) -> Iterator[list[str]]:
    """The cells of each line of a table, without the blanks around them."""
    for line in re.sub(r"\n +", " ", text).strip().split("\n"):
        yield [cell.strip() for cell in line.split("|")]


def _lines(text: str) -> Iterator[tuple[Argv, Grammar]]:
    for program, options, operands in table_lines(text):
        yield tuple(program.split()), _grammar(options, operands)


def _grammar(options: str, operands: str) -> Grammar:
    words = options.split()
    plain = [word.removeprefix("!") for word in words]
    return Grammar(
        flags=frozenset(word for word in plain if word == "-#" or not ("?" in word or "=" in word)),
        valued=MappingProxyType({word[:-2]: word[-1] for word in plain if word[-2:-1] == "="}),
        optional=MappingProxyType(dict(word.split("?") for word in plain if "?" in word)),
        wanted=frozenset(word.removeprefix("!").split("=")[0] for word in words if word.startswith("!")),
        operands=operands.removeprefix("*"),
        permutes=operands.startswith("*"),
    )


@lru_cache(maxsize=1)
def looks_digest() -> str:
    """SHA-256 of the tables in force; part of the rules' hash."""
    names = sorted(name for name in vars(looks_table) if name.isupper())
    tables = repr(([(name, getattr(looks_table, name)) for name in names], sorted(_FIND_TESTS.items())))
    return hashlib.sha256(tables.encode()).hexdigest()


def touched_by(argv: Argv) -> Touched:
    """The paths that this command touches. Raises LooksError where more may happen."""
    program = argv[0]
    if argv[1:] == ("--version",) and program in _version_of():
        return Touched()
    words = argv[:1] + argv[2:] if argv[:2] == ("git", "--no-pager") else argv
    grammar, rest = _find_grammar(words)
    if grammar.operands == "find":
        return _find(rest)
    if grammar.operands == "plain" and any(word.startswith("@") for word in rest):
        raise LooksError(f"{program} takes its options from a file")
    taken = take_options(grammar, rest, program)
    if grammar.wanted and not grammar.wanted & taken.options:
        raise LooksError(f"{program} does more without {', '.join(sorted(grammar.wanted))}")
    return _operands(program, grammar.operands, taken)


def _find_grammar(argv: Argv) -> tuple[Grammar, Argv]:
    table = looks()
    for length in (3, 2, 1):
        found = table.get(argv[:length]) if len(argv) >= length else None
        if found is not None:
            return found, argv[length:]
    sub = f" {argv[1]}" if len(argv) > 1 and any(known[0] == argv[0] for known in table) else ""
    raise LooksError(f"{argv[0]}{sub} is not known to only look")


def take_options(grammar: Grammar, words: Sequence[str], program: str, *, first_only: bool = False) -> "_Taken":
    """Sort options from operands; `first_only`: options end where the first operand stands. Raises LooksError."""
    taken, at, only_operands = _Taken(), 0, False
    while at < len(words):
        word = words[at]
        at += 1
        if only_operands or word == "-" or not word.startswith("-"):
            taken.operands.append(word)
            only_operands = only_operands or first_only
        elif word == "--":
            only_operands = True
        elif taken.operands and (grammar.wanted or not grammar.permutes):
            raise LooksError(f"{program} may take {word!r:.60} behind its first operand for something else")
        else:
            at = _take_option(grammar, words, at, program, taken)
    return taken


def _take_option(grammar: Grammar, words: Sequence[str], at: int, program: str, taken: _Taken) -> int:
    word = words[at - 1]
    name, equals, value = word.partition("=")
    if word in grammar.flags or (name in grammar.optional and name.startswith("--")):
        _take_value(grammar.optional.get(name, "") if equals else "", value, taken)
        taken.options.add(name)
        return at
    if name in grammar.valued and (equals or at < len(words)) and (name.startswith("--") or not equals):
        _take_value(grammar.valued[name], value if equals else _next_word(words, at, name), taken)
        taken.options.add(name)
        return at if equals else at + 1
    if "-#" in grammar.flags and word[1:].isdecimal() and word.isascii():
        return at
    if word.startswith("--"):
        raise LooksError(f"{program} is given {name!r:.60}, which is not known to only look")
    return _take_cluster(grammar, words, at, program, taken)


def _take_cluster(grammar: Grammar, words: Sequence[str], at: int, program: str, taken: _Taken) -> int:
    """Short options in one word; the last may take what is left of it, or the next word."""
    letters = words[at - 1][1:]
    for place, letter in enumerate(letters):
        option, rest = f"-{letter}", letters[place + 1 :]
        if option in grammar.valued:
            if not rest and at >= len(words):
                raise LooksError(f"{program} lacks a word behind {option!r:.60}")
            _take_value(grammar.valued[option], rest or _next_word(words, at, option), taken)
            taken.options.add(option)
            return at if rest else at + 1
        if option not in grammar.flags:
            raise LooksError(f"{program} is given {words[at - 1]!r:.60}, which is not known to only look")
        taken.options.add(option)
    return at


def _next_word(words: Sequence[str], at: int, option: str) -> str:
    """The value in a word of its own; where a program takes none there, it would be an option that was not judged."""
    if words[at].startswith("-"):
        raise LooksError(f"{words[at]!r:.60} behind {option!r:.60} may be an option of its own")
    return words[at]


def _take_value(kind: str, value: str, taken: _Taken) -> None:
    if kind == "n" and _NUMBER.fullmatch(value) is None:
        raise LooksError(f"{value!r:.60} is no number")
    if (kind == "f" and not _is_git_format(value)) or (kind == "r" and _GIT_ATOM_SIGNED in value.lower()):
        raise LooksError(f"git may start another program for {value!r:.60}")
    if kind == "p":
        taken.reads.append(value)
    if kind == "s":
        taken.scripts.append(value)


def _is_git_format(value: str) -> bool:
    """True for a format, or a name that git itself has, for which it starts nothing."""
    is_spelled = "%" in value or value.startswith(("format:", "tformat:")) or value == ""
    known = value in looks_table.GIT_FORMATS.split() or _GIT_TRAILER.fullmatch(value) is not None
    return known or (is_spelled and _GIT_SIGNED.search(value) is None)


def _operands(program: str, form: str, taken: _Taken) -> Touched:
    words, reads = taken.operands, tuple(taken.reads)
    match form:
        case "text" | "listed" | "format" | "dashless" if _only_says(form, taken):
            return Touched(reads)
        case "config" if len(words) <= (0 if {"--list", "-l"} & taken.options else CONFIG_WORDS_MAX):
            return Touched(reads)
        case "paths" | "plain":
            return Touched((*reads, *words))
        case "jq" if words and _JQ_LOADS.search(words[0]) is None:
            return Touched((*reads, *words[1:]))
        case "none" | "one" if len(words) <= (form == "one"):
            return Touched((*reads, *words))
        case "first":
            pattern = {"-e", "--regexp", "-f", "--files", "--type-list"} & taken.options
            return Touched((*reads, *(words if pattern else words[1:])))
        case "revs":
            return Touched((*reads, *(word.rpartition(":")[2] for word in words if not _is_revision(word))))
        case "sed" | "awk" | "date":
            return _texts(program, form, taken)
        case _:
            return changed(program, form, words)


def _only_says(form: str, taken: _Taken) -> bool:
    """True for operands that are texts to the program, and not what it would set or evaluate."""
    words = taken.operands
    match form:
        case "format":
            return words != [] and _PRINTF.fullmatch(words[0]) is not None
        case "dashless":
            return not any(word.startswith("-") for word in words)
        case _:
            return form == "text" or not words or bool({"--list", "-l"} & taken.options)


def changed(program: str, form: str, words: Sequence[str]) -> Touched:
    """What a command that changes files touches; more rather than less."""
    match form:
        case "files":
            return Touched(writes=tuple(words))
        case "mode":
            return Touched(writes=tuple(words[1:]))
        case "remove":
            return Touched(deletes=tuple(words))
        case "copy" | "move" if words:
            target = words[-1].rstrip("/") or "/"
            inside = tuple(f"{target}/{word.rstrip('/').rpartition('/')[2]}" for word in words[:-1])
            gone = tuple(words[:-1]) if form == "move" else ()
            return Touched(tuple(words[:-1]), (target, *inside), gone)
        case _:
            raise LooksError(f"what {program} does with these words is not known")


def _is_revision(word: str) -> bool:
    """True for what can only be a revision: no path of the workspace needs care under such a name."""
    return (
        re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]*([~^][0-9]*)*(\.\.\.?[A-Za-z0-9_][A-Za-z0-9_~^-]*)?", word) is not None
    )


def _texts(program: str, form: str, taken: _Taken) -> Touched:
    if form == "date" and all(_DATE_FORM.fullmatch(word) for word in taken.operands):
        return Touched(tuple(taken.reads))
    scripts = taken.scripts or taken.operands[:1]
    paths = taken.operands if taken.scripts else taken.operands[1:]
    forms = _TEXT_FORMS.get(form, ())
    if not scripts or not all(any(one.fullmatch(text) for one in forms) for text in scripts):
        raise LooksError(f"what {program} does with these words is not known")
    return Touched((*taken.reads, *paths))


def _find(words: Argv) -> Touched:
    """`find`: paths, then tests, each on the list."""
    start = next((at for at, word in enumerate(words) if word[:1] == "-" or word in {"!", "(", ")"}), len(words))
    while start < len(words) and words[start] in {"-L", "-P", "-H"} and start == 0:
        words = words[1:]
        start = next((at for at, word in enumerate(words) if word[:1] == "-" or word in {"!", "(", ")"}), len(words))
    at = start
    while at < len(words):
        taken = _FIND_TESTS.get(words[at])
        if taken is None or at + taken >= len(words):
            raise LooksError(f"find is given {words[at]!r:.60}, which is not known to only look")
        at += 1 + taken
    return Touched(words[:start])


@lru_cache(maxsize=1)
def _version_of() -> frozenset[str]:
    return frozenset(looks_table.VERSION_OF.split())
