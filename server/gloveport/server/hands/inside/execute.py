"""The execution hand: a piece of Python or JavaScript on named inputs, in a scratch folder of its own.

Purpose: lay the inputs out, run the code as a process of its own, and bring back what it printed and wrote.
Invariant: only regular files of the scratch folder that were asked for are brought back, up to a size.
Must never: be imported by the daemon, or believe that what the code reports is true.

Asked: `{"argv": [words before the code's file], "code", "name", "inputs": [[name, size]], "outputs": [name],
"output_bytes_max", "files_bytes_max"}`, the inputs' bytes behind it in order. Answers `{"exit_code", "printed": base64,
"cut", "files": [[name, base64]], "absent": [name]}`.
"""

import base64
import os
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from gloveport.server.hands.inside.frame import Answer, InputFault, serve


def run(asked: dict[str, Any], data: bytes) -> Answer:
    """Run the code to its end."""
    folder = Path(tempfile.mkdtemp())
    at = 0
    for name, size in asked["inputs"]:
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data[at : at + size])
        place.chmod(0o444)
        at += size
    code = Path(tempfile.mkdtemp()) / asked["name"]
    code.write_text(asked["code"], encoding="utf-8")
    with tempfile.TemporaryFile() as printed:
        ended = subprocess.run(
            [*asked["argv"], str(code)], cwd=folder, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT,
            check=False,
        )  # fmt: skip
        size = printed.tell()
        printed.seek(0)
        shown = printed.read(asked["output_bytes_max"])
    files, absent = _collect(folder, asked["outputs"], asked["files_bytes_max"])
    return {
        "exit_code": ended.returncode,
        "printed": base64.b64encode(shown).decode("ascii"),
        "cut": max(0, size - len(shown)),
        "files": files,
        "absent": absent,
    }


def _collect(folder: Path, names: list[str], left: int) -> tuple[list[list[str]], list[str]]:
    files, absent = [], []
    for name in names:
        try:
            fd = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            absent.append(name)
            continue
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            absent.append(name)
            continue
        with os.fdopen(fd, "rb") as file:
            content = file.read(left + 1)
        left -= len(content)
        if left < 0:
            raise InputFault(f"the files that it wrote are too large; {name} is beyond the limit")
        files.append([name, base64.b64encode(content).decode("ascii")])
    return files, absent


def main() -> None:
    """Run one piece of code."""
    serve(run)
