"""A line that only looks leaves the shell as it was: bash itself says what it set, and whether it ran a hidden word."""

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.kit.policy_cases import understood
from tests.kit.require import require

LINES = int(os.environ.get("GLOVEPORT_SHELL_LINES", "6000"))
COMPARED_MAX = 500
DANGEROUS = ("PATH", "HOME", "CDPATH", "IFS", "ENV", "BASH_ENV", "LD_PRELOAD", "GIT_DIR", "PAGER", "PS4", "x", "a")
"""What a later program, or the shell itself, would obey."""
MARK = "--shell-state--"
CANARY = "'a[$(touch canary)]'"
BEGINS = (
    "printf", "printf", "printf --", "test", "test --", "test x --", "echo", "echo -e", "type", "command -v", "pwd",
    "true", "false", "cd", "cd sub &&", "command printf", "builtin printf", "command test", "exec", "CI=1", "LC_ALL=C",
    "read", "getopts a", "mapfile", "let", "declare", "export", "wait -p", "hash -p sub", "[[ -v", "[", "unset", ":",
    "!", "env", "nice",
)  # fmt: skip
WORDS = (
    *DANGEROUS, CANARY, "sub", "'%n'", "'a%n'", "'%5n'", "'%ln'", "'%*n'", "'%hhn'", "'%-n'", r"'\%n'", r"'\x25n'",
    "'%%n'", "'%s'", r"'%s\n'", "'%d'", "'%.3s%n'", "'%(%n)T'", "'%b'", "'%q'", "-v", "-n", "-a", "-o", "-R", "-z",
    "-eq", "-f", "--", "!", "'('", "')'", "=", "'<'", "1", "''", "]", "]]", "-p", "<<<4", "</dev/null", ">/dev/null",
    "{HOME}</dev/null", "2>&1", "PATH=4", '"x%nx"', "a=4",
)  # fmt: skip
JOINS = ("; ", " && ", " || ", " | ", "\n")


def lines(count: int, seed: int) -> Iterator[str]:
    """Lines of one to three commands, of builtins and words that may set or run something."""
    rng = random.Random(seed)
    for _ in range(count):
        text = ""
        for at in range(rng.choice((1, 1, 2, 3))):
            words = (rng.choice(WORDS) for _ in range(rng.randrange(5)))
            text += (rng.choice(JOINS) if at else "") + " ".join((rng.choice(BEGINS), *words))
        yield text


def left_by(text: str, folder: Path) -> str:
    """What the shell tells of the variables behind the text; empty where the text ended the shell."""
    folder.joinpath("sub").mkdir(exist_ok=True)
    told = "; ".join(f"builtin declare -p {name}" for name in DANGEROUS)
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere", "LC_ALL": "C"}
    ran = subprocess.run(
        ["/bin/bash", "-c", f"{text}\nbuiltin echo {MARK}; {{ {told}; }} 2>&1"],
        cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=100,
    )  # fmt: skip
    return ran.stdout.decode("utf-8", "replace").partition(MARK)[2]


def plain(told: str) -> list[str]:
    """The declarations alone; complaints of what is not set name the line of the text."""
    return [line for line in told.splitlines() if line.startswith("declare")]


def is_harmless(text: str, folder: Path) -> bool:
    """True if bash set none of the variables and ran nothing that was hidden in a word."""
    told, before = left_by(text, folder), left_by(":", folder)
    ran = (folder / "canary").exists()
    (folder / "canary").unlink(missing_ok=True)
    return not ran and (not told or plain(told) == plain(before))


def test_what_only_looks_sets_no_variable_and_runs_no_word(tmp_path: Path) -> None:
    """Many are taken apart, or nothing would have been tried; others are really harmful, or nothing would be shown."""
    require(shutil.which("bash", path="/bin") is not None, "bash is not installed")
    tried = [text for text in lines(LINES, 3) if understood(("bash", "-c", text)).only_looks]
    assert len(tried) > LINES / 100
    for text in tried[:COMPARED_MAX]:
        assert is_harmless(text, tmp_path), text


def test_the_shell_really_tells_what_such_a_line_does(tmp_path: Path) -> None:
    """The control: each of these is harmful in this shell, and asked about."""
    require(shutil.which("bash", path="/bin") is not None, "bash is not installed")
    for text in (
        "printf 'abcd%n' PATH",
        "printf -v HOME 4",
        f"test -- -a -v {CANARY}",
        f"test -v {CANARY}",
        "read IFS <<<4",
        "exec {HOME}</dev/null",
    ):
        assert not is_harmless(text, tmp_path), text
        assert not understood(("bash", "-c", text)).only_looks, text
