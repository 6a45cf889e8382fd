"""Program output made safe to show.

Purpose: turn raw bytes of a program into text that cannot act on a panel, a terminal or a log.
Invariant: no control character but newline and tab survives unescaped; redrawn lines are collapsed.
Must never: drop printable text silently (what is cut is counted by the caller).
"""

import re
from typing import Final

LINE_CHARACTERS_MAX: Final = 4_000

_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # control sequences: colours, cursor, clear
    r"|\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?"  # operating system commands: title, clipboard, links
    r"|\x1b[PX^_][^\x1b]{0,4096}(?:\x1b\\)?"  # device control and privacy strings
    r"|\x1b[@-Z\\-_]?"
)
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_REDRAW: Final = re.compile(r"[^\n]*\r(?=[^\n\r])")


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _cut(line: str) -> str:
    if len(line) <= LINE_CHARACTERS_MAX:
        return line
    return f"{line[:LINE_CHARACTERS_MAX]}[… {len(line) - LINE_CHARACTERS_MAX} characters of this line left out …]"


def clean_output(raw: bytes) -> str:
    """Text to show: UTF-8 with replacement, terminal commands removed, control characters escaped."""
    text = raw.decode("utf-8", "replace").replace("\r\n", "\n")
    text = _ESCAPES.sub("", text)
    text = _REDRAW.sub("", text).replace("\r", "\n" if text.endswith("\r") else "")
    text = _CONTROL.sub(_escape, text)
    return "\n".join(_cut(line) for line in text.split("\n"))
