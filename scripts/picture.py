#!/usr/bin/env python3
"""Draw what `gloveport demo` and `gloveport doctor` print, as pictures for the README.

Usage: PYTHONPATH=protocol:sandbox:server python scripts/picture.py

Purpose: docs/pictures/demo.svg and doctor.svg from real runs, in a home of their own, in a terminal of fixed width.
Invariant: the text is what was printed; the paths of that home are shortened to `~`, and the demo's second card, equal
to the first, is left out and said to be.
Must never: load a font or anything else from elsewhere, or leave a daemon behind.
"""

import fcntl
import io
import os
import pty
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
COLUMNS = 100
RUN_S = 120
SECOND_CARD, SECOND_CARD_END = "I run all tests again.", "▸ Run all tests"
GLOVEPORT = (sys.executable, "-P", "-m", "gloveport.server")
THEME = TerminalTheme(
    (22, 27, 34),
    (225, 228, 232),
    [(72, 79, 88), (255, 123, 114), (86, 211, 100), (227, 179, 65),
     (121, 192, 255), (210, 168, 255), (118, 227, 234), (225, 228, 232)],
    [(110, 118, 129), (255, 161, 152), (126, 231, 135), (242, 204, 96),
     (165, 214, 255), (226, 197, 255), (179, 240, 255), (255, 255, 255)],
)  # fmt: skip
FORM = """\
<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}">
<title>{unique_id}</title>
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width;
}}
.{unique_id}-title {{ font-family: system-ui, sans-serif; font-size: 18px; font-weight: bold; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix" xml:space="preserve">
{matrix}
</g>
</g>
</svg>
"""


def environment(home: Path) -> dict[str, str]:
    """A home of its own; no key, so that the scripted model plays."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
    return {**kept, "HOME": str(home), "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}


def in_terminal(command: tuple[str, ...], home: Path) -> str:
    """What the command prints when a terminal of `COLUMNS` columns listens."""
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=writer, stderr=writer, cwd=home, env=environment(home)
    ) as child:
        os.close(writer)
        printed = bytearray()
        while chunk := _read(reader):
            printed += chunk
        code = child.wait(timeout=RUN_S)
    os.close(reader)
    text = printed.decode().replace("\r\n", "\n").replace(str(home), "~")
    if code != 0:
        raise SystemExit(f"{' '.join(command)} ended with {code}:\n{text}")
    return text


def shorten(printed: str) -> str:
    """The same without the second card, and said so."""
    head, words, rest = printed.partition(SECOND_CARD)
    card, run, tail = rest.partition(SECOND_CARD_END)
    if not (words and run):
        return printed
    start = card.rfind("\n") + 1  # the next line begins with its colour
    note = f"\x1b[2m[… {len(card[:start].strip().splitlines())} lines left out: the same card again …]\x1b[0m"
    return f"{head}{words}\n{note}\n{card[start:]}{run}{tail}"


def _read(reader: int) -> bytes:
    """The next piece; nothing when the terminal's other side is closed."""
    try:
        return os.read(reader, 1 << 16)
    except OSError:
        return b""


def draw(name: str, printed: str) -> None:
    """Write the picture of what `gloveport NAME` printed."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.assemble(("$ ", "bright_black"), (f"gloveport {name}", "bold")))
    console.print(Text.from_ansi(printed.rstrip("\n")))
    words = f"gloveport {name}"
    picture = console.export_svg(title=words, theme=THEME, code_format=FORM, unique_id=f"gloveport-{name}")
    PICTURES.mkdir(parents=True, exist_ok=True)
    (PICTURES / f"{name}.svg").write_text("\n".join(line.rstrip() for line in picture.splitlines()) + "\n")


def main() -> None:
    """Run both, draw both."""
    home = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
    try:
        for name in ("demo", "doctor"):
            draw(name, shorten(in_terminal((*GLOVEPORT, name), home)))
    finally:
        subprocess.run((*GLOVEPORT, "daemon", "stop"), env=environment(home), capture_output=True, check=False)
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
