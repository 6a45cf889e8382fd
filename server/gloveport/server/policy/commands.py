"""What an argument vector is known to do.

Purpose: see through wrappers, tell shells and inline code, and derive effects the tool could not declare.
Invariant: an argv is judged by every program it may start; nothing here makes an answer milder.
Must never: read a shell string as if it were understood: it is only searched for words that forbid it.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from gloveport.protocol.ids import Sha256
from gloveport.server.policy import command_table
from gloveport.server.policy.command_table import (
    CODE_MODULES,
    COMMANDS,
    INTERPRETERS,
    LOADER_VARIABLES,
    PLAIN_OPTIONS,
    PREFIXES,
    SHELLS,
    WRAPPERS,
)
from gloveport.server.policy.display import argv_text
from gloveport.server.policy.effects import Effect, EffectKind
from gloveport.server.policy.names import PATH_CHARS_MAX, path_facts
from gloveport.server.policy.protected import is_sensitive
from gloveport.server.policy.wildcard import name_matches

ARGV_CHARS_MAX = 32_768
VIEWS_MAX = 1024
VIEW_WORDS_MAX = 128
ARGV_CACHED_MAX = 16
PROGRAMS_CACHED_MAX = 1024
SECRETS_MAX = 64

_BETWEEN_WORDS: Final = re.compile(r"[\s;&|()<>{}`$\"'\\=]+")
# A scheme has few characters: without a bound each of them would be tried as a beginning of the whole rest.
_URL_HOST: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]{0,31}://(?:[^/@\s]*@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::(\d+))?"
)
_DEVICES: Final = "/dev/"
_DEFAULT_PORTS: Final = MappingProxyType({"https": "443", "http": "80", "ssh": "22", "git": "9418", "ftp": "21"})

Argv = tuple[str, ...]


def commands_digest() -> Sha256:
    """SHA-256 of the tables in force; part of the rules' hash. The order of a set does not count."""
    tables = ((name, _ordered(value)) for name, value in sorted(vars(command_table).items()) if name.isupper())
    return Sha256(hashlib.sha256(repr(tuple(tables)).encode()).hexdigest())


def _ordered(value: object) -> object:
    if isinstance(value, Mapping):
        return tuple((key, _ordered(inner)) for key, inner in sorted(value.items()))
    return tuple(sorted(value)) if isinstance(value, frozenset) else value


def program_of(argv: Sequence[str]) -> str:
    """Folded base name of the program, without `.exe` or a version; may be empty.

    `/bin/Python3.11` and `python3.13t` are both `python3`.
    """
    return _program(argv[0]) if argv else ""


@lru_cache(maxsize=PROGRAMS_CACHED_MAX)
def _program(word: str) -> str:
    name = re.split(r"[/\\]", word[:PATH_CHARS_MAX].strip())[-1].casefold().removesuffix(".exe")
    return re.sub(r"(?<=[a-z]\d)(\.\d+)+[dt]{0,2}$|(?<=[a-z])(-\d+|\d\d+)(\.\d+)+$", "", name)


def is_empty(argv: Sequence[str]) -> bool:
    """True if there is no program to start."""
    return not argv or not argv[0].strip()


def is_oversized(argv: Sequence[str]) -> bool:
    """True if the command is too long to be shown whole on a card."""
    return sum(len(word) + 1 for word in argv) > ARGV_CHARS_MAX


@lru_cache(maxsize=ARGV_CACHED_MAX)
def views(argv: Argv) -> tuple[Argv, ...]:
    """The argv and every command it may start, as far as that can be seen; at most `VIEWS_MAX`.

    Behind a wrapper every later word may be the program; in a shell string or inline code every word may be. What lies
    behind the last view is not looked at; such a command is asked about each time in any case.
    """
    return tuple(view for _, view in zip(range(VIEWS_MAX), _views(argv), strict=False))


def _views(argv: Argv) -> Iterator[Argv]:
    yield argv
    if not asks_each_time(argv):
        return
    for at in range(1, len(argv)):
        yield argv[at : at + VIEW_WORDS_MAX]
    words = [word for text in argv[1:] if _BETWEEN_WORDS.search(text) for word in _BETWEEN_WORDS.split(text) if word]
    for at in range(len(words)):
        yield tuple(words[at : at + VIEW_WORDS_MAX])


def asks_each_time(argv: Sequence[str]) -> str | None:
    """Why this argv can't be covered by a lasting grant, in words, or None."""
    program = program_of(argv)
    names = {program, _family(program)}
    if names & SHELLS:
        return f"{program} runs whatever text it is given"
    if names & WRAPPERS or program.startswith("ld-linux"):
        return f"{program} can start other programs named in its arguments"
    if names & INTERPRETERS and _carries_code(program, argv[1:]):
        return f"{program} is given code, or an option that may carry code"
    return None


def loader_variable(names: Sequence[str]) -> str | None:
    """The first variable that chooses what is loaded, run or believed, or None."""
    for name in names:
        if any(name_matches(pattern, name.upper()) for pattern in LOADER_VARIABLES):
            return name
    return None


@lru_cache(maxsize=ARGV_CACHED_MAX)
def derived_effects(argv: Argv) -> tuple[Effect, ...]:
    """Effects that the table knows this argv to have, beside being run; one per kind, the target in words.

    Sensitive files that the command names are read, as far as anybody can tell.
    """
    if is_oversized(argv):
        return ()  # nobody could judge it, and nothing will run it
    found: dict[EffectKind, Effect] = {}
    known = _commands_by_program()
    for view in views(argv):
        program = program_of(view)
        for kind, words in (*known.get(program, ()), *known.get(_family(program), ())):
            if kind not in found and command_matches(words, view):
                found[kind] = Effect(kind, _target(kind, argv), (("from", " ".join(words)),))
    return (*found.values(), *_named_secrets(argv))


@lru_cache(maxsize=1)
def _commands_by_program() -> Mapping[str, tuple[tuple[EffectKind, Argv], ...]]:
    found: dict[str, list[tuple[EffectKind, Argv]]] = {}
    for kind, text in COMMANDS:
        words = tuple(text.split())
        found.setdefault(words[0], []).append((kind, words))
    return MappingProxyType({program: tuple(commands) for program, commands in found.items()})


def run_effect(argv: Argv) -> Effect:
    """The effect of starting this program."""
    return Effect(EffectKind.execute, argv_text(argv), (("from", "argv"),))


def _named_secrets(argv: Argv) -> tuple[Effect, ...]:
    """Reading of every sensitive file that is named in the command, in a shell string too."""
    pieces = {piece for word in argv[1:] for piece in (word, *_BETWEEN_WORDS.split(word))}
    paths = {piece for piece in pieces if piece and not piece.startswith(("-", _DEVICES)) and is_sensitive(piece)}
    return tuple(Effect(EffectKind.secret_read, path) for path in sorted(paths)[:SECRETS_MAX])


def command_matches(pattern: Sequence[str], argv: Sequence[str]) -> bool:
    """True if argv is this command: same program, then its sub-command, then the further words anywhere behind.

    Options may stand before the sub-command; where they do, every later word may be it.
    """
    if not pattern or not _same_program(pattern[0], argv):
        return False
    rest = list(argv[1:])
    for at, word in enumerate(pattern[1:]):
        first_only = at == 0 and not word.startswith("-") and bool(rest) and not rest[0].startswith("-")
        if word not in (rest[:1] if first_only else rest):
            return False
        rest = rest[rest.index(word) + 1 :] if not word.startswith("-") else rest
    return True


def offered_prefix(argv: Sequence[str]) -> Argv | None:
    """The command that may be offered with further names behind it, or None.

    It is the whole argv up to the last option, so that options stay as shown.
    """
    if is_empty(argv) or not any(tuple(argv[: len(known)]) == known for known in PREFIXES):
        return None
    known = max((known for known in PREFIXES if tuple(argv[: len(known)]) == known), key=len)
    last_option = max((at for at, word in enumerate(argv) if not is_plain_name(word)), default=0)
    return tuple(argv[: max(len(known), last_option + 1)])


def is_plain_name(word: str) -> bool:
    """True if a word can only be a name within the workspace: no option, assignment, response file or way out."""
    return word[:1] not in {"", "-", "+", "@", "~"} and "=" not in word and not path_facts(word).outside


def _same_program(name: str, argv: Sequence[str]) -> bool:
    program = program_of(argv)
    return name != "" and name in (program, _family(program))


def _family(program: str) -> str:
    return program.rstrip("0123456789.-")


def _carries_code(program: str, arguments: Sequence[str]) -> bool:
    plain = PLAIN_OPTIONS.get(_family(program), frozenset())
    for at, word in enumerate(arguments):
        if word == "-m" and word in plain:
            return at + 1 >= len(arguments) or arguments[at + 1] in CODE_MODULES
        if not word.startswith("-"):
            return False
        if word not in plain:
            return True
    return not arguments


def _target(kind: EffectKind, argv: Argv) -> str:
    """`host:port` for a network effect where an address can be seen, else the whole command."""
    text = argv_text(argv)
    if kind is not EffectKind.network:
        return text
    found = _URL_HOST.search(text)
    if found is None:
        return text
    scheme = found.group(0).split(":", 1)[0].lower()
    return f"{found.group(1).lower()}:{found.group(2) or _DEFAULT_PORTS.get(scheme, '443')}"
