"""Draw the demo as it looks in a terminal: docs/pictures/demo.svg.

Usage: python scripts/picture.py

Purpose: the README's picture is what the program printed, not what somebody drew.
Invariant: the demo ran in a home of its own, its daemon is ended and its folder is gone.
Must never: keep a path of this machine, or name a host for fonts.
"""

import os
import re
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path
from typing import Final

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

ROOT: Final = Path(__file__).resolve().parent.parent
PICTURE: Final = ROOT / "docs" / "pictures" / "demo.svg"
COLUMNS: Final = 110
RUN_S: Final = 120
SECOND_RUN: Final = "I run all tests again."
RUN_END: Final = "  8 passed, 0 failed"
FONT_FACES: Final = re.compile(r"@font-face \{\{.*?\}\}\n", re.DOTALL)


def run_demo() -> str:
    """What `gloveport demo` prints, colours included."""
    with tempfile.TemporaryDirectory(prefix="gp-") as home:
        environment = {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8"}
        environment |= {
            "FORCE_COLOR": "1",
            "TERM": "xterm-256color",
            "COLUMNS": str(COLUMNS),
            "PYTHONPATH": ":".join(sys.path),
        }

        def run(command: str) -> str:
            words = [sys.executable, "-m", "gloveport.server", *command.split()]
            return subprocess.run(
                words, cwd=home, env=environment, check=True, capture_output=True, text=True, timeout=RUN_S
            ).stdout

        try:
            return run("demo").replace(home, "~")
        finally:
            run("daemon stop")


def shorten(printed: str) -> str:
    """The same with the second card and run left out, and said so."""
    head, run, rest = printed.partition(SECOND_RUN)
    if not run:
        raise RuntimeError("the demo printed something else than before")
    return f"{head}{run}\n  …\n" + rest[rest.index(RUN_END) :]


def draw(printed: str) -> str:
    """The text as an SVG of a terminal."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi("$ make demo\n" + printed.rstrip()))
    form = FONT_FACES.sub("", CONSOLE_SVG_FORMAT).replace("Fira Code", "monospace")
    return console.export_svg(title="make demo", code_format=form, unique_id="demo")


if __name__ == "__main__":
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    lines = [line.rstrip() for line in draw(shorten(run_demo())).splitlines()]
    PICTURE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(PICTURE.relative_to(ROOT))
