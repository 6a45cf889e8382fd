"""Making a program's output safe to show.

Purpose: remove terminal commands, escape control characters and what hides or turns text, cut overlong lines.
Invariant: what is returned holds no terminal command and no invisible direction mark; time is linear in the input;
    the parts of a stream joined are the same however it was cut.
Must never: change the output that is kept as evidence.
"""

import re
from typing import Final

from gloveport.protocol.text import UNSEEN, escape_of

LINE_CHARACTERS_MAX: Final = 4_000
LINE_BYTES_HELD_MAX: Final = 64 * 1024
"""An unfinished line longer than this is let go in pieces of this size."""

# None goes over the end of a line: what a stream shows must not depend on how far it was read.
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # control sequences: colours, cursor, clear
    r"|\x1b\][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)?"  # operating system commands: title, clipboard, links
    r"|\x1b[PX^_][^\x1b\n]{0,4096}(?:\x1b\\)?"  # device control and privacy strings
    r"|\x1b[@-Z\\-_]?"
)


def _last_drawn(line: str) -> str:
    """What a terminal would show of a line that was drawn over again and again."""
    return line.rstrip("\r").rpartition("\r")[2]


def _cut(line: str) -> str:
    if len(line) <= LINE_CHARACTERS_MAX:
        return line
    return f"{line[:LINE_CHARACTERS_MAX]}[… {len(line) - LINE_CHARACTERS_MAX} characters of this line left out …]"


def clean_output(raw: bytes) -> str:
    """Text to show: UTF-8 with replacement, terminal commands removed, control characters escaped."""
    text = _ESCAPES.sub("", raw.decode("utf-8", "replace"))
    return "\n".join(_cut(UNSEEN.sub(escape_of, _last_drawn(line))) for line in text.split("\n"))


class OutputCleaner:
    """`clean_output` over a stream: a line is shown when it is finished, so that nothing is judged by its half."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, piece: bytes) -> str:
        """The finished lines so far that were not returned yet."""
        self._held += piece
        end = self._held.rfind(b"\n") + 1
        ready = clean_output(self._take(end)) if end else ""
        while len(self._held) > LINE_BYTES_HELD_MAX:
            ready += clean_output(self._take(_before_character(self._held, LINE_BYTES_HELD_MAX)))
        return ready

    def finish(self) -> str:
        """The rest; the stream has ended."""
        return clean_output(self._take(len(self._held)))

    def _take(self, end: int) -> bytes:
        taken = bytes(self._held[:end])
        del self._held[:end]
        return taken


def _before_character(data: bytearray, at: int) -> int:
    """The last place up to `at` where no character is cut in two."""
    back = next((count for count in range(4) if data[at - count] & 0xC0 != 0x80), 0)
    return at - back
