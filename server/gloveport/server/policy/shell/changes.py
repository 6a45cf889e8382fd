"""What a command that is not understood changes at least.

Purpose: find the paths that its program is known to write or remove, wherever its options name them.
Invariant: only ever adds effects to a command that is asked about anyway, so that what is refused stays refused.
Must never: be taken for all that a command does.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from gloveport.server.policy.shell import looks_table
from gloveport.server.policy.shell.looks import Argv, Touched, changed, looks, table_lines

_CHANGING: Final = frozenset({"files", "remove"})
_MODE: Final = re.compile(r"--ref.*|-[rwxXstugo0-7=+,-]+")
"""An option in place of the word before the files: `--reference`, or a mode like `-x`."""
_SCRIPTS: Final = frozenset({"-e", "-E", "-f", "--expression", "--file"})
_EXTRACTS: Final = frozenset({"-x", "--extract", "--get"})
_PACKS: Final = frozenset({"-c", "-r", "-u", "-A", "--create", "--append", "--update", "--concatenate", "--catenate"})


@dataclass(frozen=True, slots=True)
class _Writer:
    """One line of the table."""

    written: frozenset[str]
    valued: frozenset[str]
    form: str


@dataclass(slots=True)
class _Words:
    """A command's words, sorted: options in their order, each with its value if it takes one."""

    options: list[tuple[str, str]] = field(default_factory=list)
    operands: list[str] = field(default_factory=list)

    def named(self, names: frozenset[str]) -> list[str]:
        """The values of these options."""
        return [value for option, value in self.options if option in names]

    def has(self, names: frozenset[str]) -> bool:
        """True if one of these options is there."""
        return any(option in names for option, _ in self.options)


@lru_cache(maxsize=1)
def _writers() -> Mapping[str, _Writer]:
    return MappingProxyType(
        {
            program: _Writer(frozenset(written.split()), frozenset(valued.split()), form.strip())
            for program, written, valued, form in table_lines(looks_table.WRITERS)
        }
    )


def changed_at_least(argv: Argv) -> Touched:
    """What a command that is not understood changes, if its program is one that is known to write."""
    if len(argv) > 1 and _base(argv[0]) in looks_table.WITH_APPLETS.split():
        argv = argv[1:]
    if not argv:
        return Touched()
    program = _base(argv[0])
    writer = _writers().get(program)
    if writer is not None:
        return _written(program, writer, argv[1:])
    grammar = looks().get((program,))
    words = [word for word in argv[1:] if not word.startswith("-")]
    if grammar is None or grammar.operands not in _CHANGING or not words:
        return Touched()
    return changed(program, grammar.operands, words)


def _base(program: str) -> str:
    return program.rpartition("/")[2]


def _written(program: str, writer: _Writer, argv: Argv) -> Touched:
    words = _sorted(writer, _dashed(argv) if writer.form == "tar" else argv)
    named, operands = words.named(writer.written), words.operands
    match writer.form:
        case "copy" | "move" if program == "install" and words.has(frozenset({"-d", "--directory"})):
            return Touched(writes=tuple(operands))
        case "copy" | "move" if operands or named:
            return changed(program, writer.form, (*operands, *named[-1:]))
        case "send":
            paths = [word for word in operands if ":" not in word.partition("/")[0]]  # another machine's is no path
            return changed(program, "copy", paths) if paths[-1:] == operands[-1:] != [] else Touched(tuple(paths))
        case "first":
            return Touched(writes=(*named, *operands[:1]))
        case "files":
            return Touched(writes=tuple(operands))
        case "mode":
            return Touched(writes=tuple(operands if any(map(_MODE.fullmatch, argv)) else operands[1:]))
        case "in-place":
            files = operands if words.has(_SCRIPTS) else operands[1:]
            return Touched(writes=tuple(files) if words.has(frozenset({"-i", "--in-place"})) else ())
        case "tar":
            return Touched(writes=tuple(_of_tar(words, named)))
        case _:
            return Touched(writes=tuple(named))


def _of_tar(words: _Words, folders: Sequence[str]) -> Iterator[str]:
    """The folders it unpacks into, each seen from the one before, or the archive it makes."""
    if words.has(_EXTRACTS):
        folder = ""
        for one in folders:
            folder = one if one.startswith("/") or not folder else f"{folder.rstrip('/')}/{one}"
            yield folder
    if words.has(_PACKS):
        yield from words.named(frozenset({"-f", "--file"}))


def _dashed(argv: Argv) -> Argv:
    """`tar xfC a b` as `-x -f a -C b`; with a dash it is as it was."""
    if not argv or argv[0].startswith("-"):
        return argv
    values = list(argv[1:])
    first: list[str] = []
    takes = _writers()["tar"].valued | _writers()["tar"].written
    for letter in argv[0]:
        first.append(f"-{letter}")
        if f"-{letter}" in takes and values:
            first.append(values.pop(0))
    return (*first, *values)


def _sorted(writer: _Writer, argv: Argv) -> _Words:
    """Options with their values, and operands; a long name may be cut short."""
    words, left = _Words(), list(argv)
    while left:
        word = left.pop(0)
        if word == "--":
            words.operands += left
            break
        if word.startswith("--"):
            _long(writer, word, left, words)
        elif word.startswith("-") and word != "-":
            _short(writer, word[1:], left, words)
        else:
            name, equals, value = word.partition("=")
            is_named = equals != "" and f"{name}=" in writer.written
            if is_named:
                words.options.append((f"{name}=", value))
            else:
                words.operands.append(word)
    return words


def _long(writer: _Writer, word: str, left: list[str], words: _Words) -> None:
    cut, equals, value = word.partition("=")
    takes = sorted(one for one in writer.written | writer.valued if one.startswith(cut) and one.startswith("--"))
    flags = sorted(one for one in ("--in-place", *_EXTRACTS, *_PACKS) if one.startswith(cut))
    name = cut if cut in takes or cut in flags or not (takes or flags) else (takes or flags)[0]
    if equals or name not in takes:
        words.options.append((name, value))
    elif left:
        words.options.append((name, left.pop(0)))


def _short(writer: _Writer, letters: str, left: list[str], words: _Words) -> None:
    for place, letter in enumerate(letters):
        option, rest = f"-{letter}", letters[place + 1 :]
        takes = option in writer.written or option in writer.valued
        if takes and (rest or left):
            words.options.append((option, rest or left.pop(0)))
            return
        words.options.append((option, ""))
        if option == "-i" and writer.form == "in-place":
            return
