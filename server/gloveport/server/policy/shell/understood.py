"""What a command line would do, as far as it can be proven.

Purpose: from an argument vector, and the tree of its shell text if it has one, to simple commands, effects and doubts.
Invariant: without a doubt the effects are all there are; a doubt never hides a command that was found.
Must never: be the reason why something is refused; rules judge the commands and effects.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from gloveport.server.policy.effects import Effect, EffectKind
from gloveport.server.policy.names import path_facts
from gloveport.server.policy.shell import looks_table
from gloveport.server.policy.shell.changes import changed_at_least
from gloveport.server.policy.shell.looks import (
    LooksError,
    Touched,
    shell_options,
    take_options,
    touched_by,
    wrappers,
)
from gloveport.server.policy.shell.script import Script, Simple, read_script
from gloveport.server.policy.shell.tree import Tree, text_doubt

Argv = tuple[str, ...]
WRAPPERS_DEEP_MAX: Final = 4
PATHS_MAX: Final = 64
NO_FILES: Final = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "-"})
"""Names behind which there is no file."""


@dataclass(frozen=True, slots=True)
class Inside:
    """What a run sees: the workspace's own path, and a folder for temporary files that is the run's alone, if any."""

    root: str = ""
    scratch: str = ""

    def is_scratch(self, path: str) -> bool:
        """True for a path among the run's own temporary files, which end with it."""
        return self.scratch != "" and path.startswith(f"{self.scratch}/") and ".." not in path.split("/")


_LOCALE: Final = re.compile(r"C|POSIX|C\.UTF-8|[a-z]{2}_[A-Z]{2}(\.UTF-8)?")
ANYWHERE: Final = Inside()


@dataclass(frozen=True, slots=True)
class Understood:
    """A command line taken apart.

    `commands` are the simple commands as they would be started, with and without wrappers; `programs` the names that
    are looked for along the search path. `effects` are the paths read, written and removed. `doubts` say why more may
    happen; without any, nothing else does. `is_text`: the command line carries shell text.
    """

    commands: tuple[Argv, ...] = ()
    programs: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()
    doubts: tuple[str, ...] = ()
    is_text: bool = False

    @property
    def only_looks(self) -> bool:
        """True if nothing happens beside the effects."""
        return not self.doubts


def understand(argv: Argv, parse: Callable[[str], Tree | None], place: Inside = ANYWHERE) -> Understood:
    """Take a command line apart. `parse` gives the tree of a text."""
    outer = _behind_wrappers(Simple(argv)) if argv else None
    if outer is None:
        return Understood((argv,), doubts=("what the command starts can't be told",))
    text = _text_of(outer.words)
    if text is None:
        return _joined((Simple(argv),), place, is_text=False)
    doubt = text_doubt(text)
    script = Script((), (doubt,)) if doubt is not None else read_script(parse(text))
    shell = _joined((replace(outer, words=()),), place, is_text=True)
    inner = _joined(script.commands, place, is_text=True)
    return Understood(
        commands=inner.commands,
        programs=tuple(dict.fromkeys((*_names(argv, outer.words, is_text=False), *inner.programs))),
        effects=inner.effects,
        doubts=tuple(dict.fromkeys((*shell.doubts, *script.doubts, *inner.doubts))),
        is_text=True,
    )


def with_places(known: Understood, trusted: Mapping[str, str], leads: Mapping[str, str | None]) -> Understood:
    """What the machine says of it: where programs lie that nobody of the workspace can change, where paths lead.

    `leads`: the link-free path of a path, None where it leads out of the workspace. A program or path that is not named
    is a doubt.
    """
    doubts = [
        f"{name} is not a program of the system" for name in known.programs if not trusted.get(name, "").startswith("/")
    ]
    effects = list(known.effects)
    for effect in known.effects:
        if path_facts(effect.target).outside:
            continue
        real = leads.get(effect.target)
        if real is None:
            doubts.append(f"where {effect.target} leads can't be told")
        elif real != effect.target:
            effects.append(replace(effect, target=real))
    return replace(known, effects=tuple(dict.fromkeys(effects)), doubts=tuple(dict.fromkeys((*known.doubts, *doubts))))


def _text_of(words: Argv) -> str | None:
    """The text behind `-c`; None where it is no shell, or one that is started in another way."""
    if not words or words[0] not in looks_table.SHELLS.split():
        return None
    at = next(
        (at for at, word in enumerate(words) if word[:1] == "-" and word[1:2] != "-" and word.endswith("c")), None
    )
    if at is None or at + 2 != len(words):
        return None
    before = [*words[1:at], *([words[at][:-1]] if len(words[at]) > 2 else [])]
    try:
        taken = take_options(shell_options(), before, words[0])
    except LooksError:
        return None
    return None if taken.operands else words[at + 1]


def _behind_wrappers(simple: Simple) -> Simple | None:
    """The command that is started in the end, with the variables set on the way; None where it can't be told."""
    for _ in range(WRAPPERS_DEEP_MAX):
        grammar = wrappers().get(simple.words[0]) if simple.words else None
        if grammar is None or simple.words[:2] in _NO_WRAPPERS or simple.words == ("env",):
            return simple
        try:
            taken = take_options(grammar, simple.words[1:], simple.words[0], first_only=True)
        except LooksError:
            return None
        rest = taken.operands[1:] if grammar.operands == "1args" else taken.operands
        sets: list[tuple[str, str]] = []
        while simple.words[0] == "env" and rest and "=" in rest[0]:
            name, _, value = rest.pop(0).partition("=")
            sets.append((name, value))
        if not rest:
            return None
        simple = replace(simple, words=tuple(rest), assignments=(*simple.assignments, *sets))
    return None


_IN_SHELL: Final = frozenset({"command", "-p", "--"})
"""Wrappers, with their options, behind which a shell still starts what it has inside."""
_KEYWORDS: Final = frozenset({"command", "exec"})
"""Wrappers that every shell has inside; `time` is a word of its grammar, `builtin` a program to some."""
_NO_WRAPPERS: Final = frozenset({("command", "-v"), ("command", "-V")})


def _joined(found: tuple[Simple, ...], place: Inside, *, is_text: bool) -> Understood:
    """All commands one after the other, in the folder each is started in."""
    commands: list[Argv] = []
    programs: list[str] = []
    effects: list[Effect] = []
    doubts: list[str] = []
    folder, configured = "", False
    for simple in found:
        inner = _behind_wrappers(simple)
        if inner is None:
            commands.append(simple.words)
            doubts.append(f"what {simple.words[0]} starts can't be told")
            continue
        doubts += [
            f"{name} is set, which may choose what runs"
            for name, value in inner.assignments
            if not _is_harmless(name, value)
        ]
        programs += _names(simple.words, inner.words, is_text=is_text)
        try:
            in_shell = is_text and _IN_SHELL.issuperset(_started(simple.words, inner.words))
            entered, touched = _one(inner, folder, in_shell, place)
        except LooksError as doubt:
            doubts.append(str(doubt))
            entered, touched = folder, _with(_redirected(inner), changed_at_least(inner.words))
        if inner.words[:1] == ("git",):
            doubts += ["what git runs may have been chosen before in this line"] if configured else []
            plain = (word for word in inner.words[1:] if not word.startswith("-"))
            configured = configured or next(plain, "") == looks_table.CONFIGURES
        commands += [words for words in (simple.words, inner.words) if words]
        effects += _effects(touched, folder, place)
        if any(place.is_scratch(path) for path in (*touched.writes, *touched.deletes)):
            doubts.append("it writes temporary files, which what runs next may obey")
        folder = entered
    doubts += [f"it would {effect.kind} {effect.target}" for effect in effects if effect.kind is not EffectKind.read]
    if len(effects) > PATHS_MAX:
        doubts.append("it names more files than can be looked at")
    return Understood(
        tuple(dict.fromkeys(commands)),
        tuple(dict.fromkeys(programs)),
        tuple(dict.fromkeys(effects)),
        tuple(dict.fromkeys(doubts)),
    )


def _one(simple: Simple, folder: str, in_shell: bool, place: Inside) -> tuple[str, Touched]:
    """The folder after a command, and what it touches. Raises LooksError."""
    of_shell = _redirected(simple)
    if not simple.words:
        return folder, of_shell
    if simple.words[0] in looks_table.SHELLS.split() and simple.words[1:] != ("--version",):
        raise LooksError(f"{simple.words[0]} runs whatever text it is given")
    if in_shell and simple.words[0] == "cd":
        return _entered(simple, folder, place), of_shell
    if in_shell and simple.words == (":",):
        return folder, of_shell
    if folder and simple.words[0] in looks_table.OBEY_FOLDER.split():
        raise LooksError(f"{simple.words[0]} obeys what it finds in {folder}")
    touched = touched_by(simple.words)
    if touched.writes or touched.deletes:
        raise LooksError(f"{simple.words[0]} changes files")
    return folder, _with(of_shell, touched)


def _with(one: Touched, two: Touched) -> Touched:
    return Touched((*one.reads, *two.reads), (*one.writes, *two.writes), (*one.deletes, *two.deletes))


def _entered(simple: Simple, folder: str, place: Inside) -> str:
    if len(simple.words) != 2 or not simple.is_step or simple.words[1][:1] in {"-", ""}:
        raise LooksError("where the commands after cd run can't be told")
    target = _in_folder(simple.words[1], folder, place)
    if path_facts(target).outside or ".." in target.split("/"):
        raise LooksError("it goes to a folder outside the workspace")
    return "" if target == "." else target


def _redirected(simple: Simple) -> Touched:
    named = [(one.kind, "./-" if one.target == "-" else one.target) for one in simple.redirects]  # a file for a shell
    reads = tuple(target for kind, target in named if kind == "read")
    return Touched(reads, tuple(target for kind, target in named if kind == "write"))


def _started(outer: Argv, inner: Argv) -> Argv:
    """The words of the wrappers before a command."""
    return outer[: len(outer) - len(inner)]


def _names(outer: Argv, inner: Argv, *, is_text: bool) -> list[str]:
    """The programs that are looked for: wrappers and the command; not what a shell has inside and starts itself."""
    names: list[str] = []
    in_shell = is_text
    for word in (word for word in _started(outer, inner) if word in wrappers()):
        names += [] if in_shell and word in _KEYWORDS else [word]
        in_shell = in_shell and word in _IN_SHELL
    names += [word for word in inner[:1] if not (in_shell and word in looks_table.BUILTINS.split())]
    return list(dict.fromkeys(names))


def _effects(touched: Touched, folder: str, place: Inside) -> list[Effect]:
    kinds = (
        (EffectKind.read, touched.reads),
        (EffectKind.write, touched.writes),
        (EffectKind.delete, touched.deletes),
    )
    named = ((kind, path) for kind, paths in kinds for path in paths if path not in NO_FILES)
    return [Effect(kind, _in_folder(path, folder, place)) for kind, path in named if not place.is_scratch(path)]


def _in_folder(path: str, folder: str, place: Inside) -> str:
    """A path of a command relative to the workspace, as it would be resolved from `folder`; others as they are."""
    root = place.root.rstrip("/")
    if root and (path == root or path.startswith(f"{root}/")):
        path = path[len(root) :].lstrip("/") or "."
    elif path[:1] in {"/", "~", ""}:
        return path
    else:
        path = f"{folder}/{path}" if folder else path
    # `..` stays: behind a link it leads elsewhere than its name says, and the workspace is asked where
    return "/".join(part for part in path.split("/") if part not in {"", "."}) or "."


@lru_cache(maxsize=1)
def _harmless() -> frozenset[str]:
    return frozenset(looks_table.HARMLESS_VARIABLES.split())


def _is_harmless(name: str, value: str) -> bool:
    is_locale = name in looks_table.LOCALE_VARIABLES.split() and _LOCALE.fullmatch(value) is not None
    return is_locale or name in _harmless()
