"""What `strace -f -y -xx` wrote, as calls.

Purpose: one `Call` for each finished system call, with bytes where the program gave bytes.
Invariant: calls come in the order in which they ended; `began` and `ended` are line numbers of the whole recording;
a cut string or an unreadable line is an error, never a guess.
Must never: interpret what a call does to a disk.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

_DETACHED: Final = "<detached ...>"
_UNFINISHED: Final = "<unfinished ...>"
_RESUMED = re.compile(r"^(\d+) +<\.\.\. (\w+) resumed>(.*)$")
_BEGUN = re.compile(r"^(\d+) +(\w+)\((.*)$")
_ENDED = re.compile(r"^(\d+) +\+\+\+ (exited with|killed by) .*$")
_RESULT = re.compile(r"\) += (-?\d+|\?|0x[0-9a-f]+)(.*)$")
_DECORATED = re.compile(r"^(AT_FDCWD|-?\d+)(?:<(.*)>(\(deleted\))?)?$")
_OTHER_NAMESPACE = re.compile(r"/\* (\d+) in strace's PID NS \*/")


class TraceError(Exception):
    """The recording cannot be read."""


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A descriptor argument and the path that stood behind it when the call began."""

    number: int
    path: str
    """Empty where there was none; `AT_FDCWD` has the number -100."""


@dataclass(frozen=True, slots=True)
class Call:
    """One system call. `strings` are its quoted arguments in order; `words` all arguments, with empty quotes."""

    began: int
    ended: int
    pid: int
    name: str
    words: tuple[str, ...]
    strings: tuple[bytes, ...]
    result: int | None
    result_words: str

    @property
    def succeeded(self) -> bool:
        """Whether the system said so."""
        return self.result is not None and self.result >= 0

    def descriptor(self, index: int) -> Descriptor:
        """The descriptor at an argument's place."""
        return descriptor_of(self.words[index])

    @property
    def result_path(self) -> str:
        """The path behind the descriptor that the call gave."""
        found = re.search(r"<([^>]*)>", self.result_words)
        return unhex(found[1]).decode("utf-8", "surrogateescape") if found else ""

    @property
    def child(self) -> int:
        """The process that a clone made, in the tracer's own numbering."""
        other = _OTHER_NAMESPACE.search(self.result_words)
        return int(other[1]) if other else (self.result or 0)


@dataclass(frozen=True, slots=True)
class Ended:
    """A process (or thread) is gone."""

    at: int
    pid: int


def unhex(text: str) -> bytes:
    """The bytes of a string in strace's `\\x..` form."""
    return bytes.fromhex(text.replace("\\x", ""))


def descriptor_of(word: str) -> Descriptor:
    """Parse `5<path>` or `AT_FDCWD<path>`."""
    found = _DECORATED.match(word)
    if found is None:
        raise TraceError(f"no descriptor: {word[:80]}")
    number = -100 if found[1] == "AT_FDCWD" else int(found[1])
    return Descriptor(number, unhex(found[2] or "").decode("utf-8", "surrogateescape"))


@dataclass(slots=True)
class _Pending:
    began: int
    name: str
    text: str


def parse(lines: Iterable[str], first: int = 0) -> Iterator[Call | Ended]:
    """The calls of a trace; `first` is the number of its first line."""
    waiting: dict[int, _Pending] = {}
    for number, line in enumerate(lines, first):
        line = line.rstrip("\n")
        if line.endswith(_DETACHED):
            continue
        if (ended := _ENDED.match(line)) is not None:
            waiting.pop(int(ended[1]), None)
            yield Ended(number, int(ended[1]))
        elif (resumed := _RESUMED.match(line)) is not None:
            pid = int(resumed[1])
            begun = waiting.pop(pid, None)
            if begun is not None:
                yield _call(begun.began, number, pid, begun.name, begun.text + resumed[3])
        elif (begin := _BEGUN.match(line)) is not None:
            pid, name, rest = int(begin[1]), begin[2], begin[3]
            if rest.endswith(_UNFINISHED):
                waiting[pid] = _Pending(number, name, rest.removesuffix(_UNFINISHED).rstrip())
            else:
                yield _call(number, number, pid, name, rest)


def _call(began: int, ended: int, pid: int, name: str, text: str) -> Call:
    parts = text.split('"')
    if any(part.startswith("...") for part in parts[2::2]):
        raise TraceError(f"line {began}: a string was cut; raise the limit")
    strings = tuple(unhex(part) for part in parts[1::2])
    skeleton = '""'.join(parts[0::2])
    found = _RESULT.search(skeleton)
    if found is None:
        raise TraceError(f"line {began}: no result: {skeleton[:120]}")
    raw = found[1]
    result = None if raw == "?" else int(raw, 0)
    return Call(began, ended, pid, name, _split(skeleton[: found.start()]), strings, result, found[2])


def _split(text: str) -> tuple[str, ...]:
    words, depth, start = [], 0, 0
    for place, char in enumerate(text):
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth == 0:
            words.append(text[start:place].strip())
            start = place + 1
    words.append(text[start:].strip())
    return tuple(words)
