"""`gloveport` as a user types it, against a real daemon with a scripted model.

Purpose: one daemon per module, its script, and commands run to their end with their exit code checked.
Invariant: a command's environment is what is given here alone; no command ends with a traceback.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from tests.kit.daemon import Daemon
from tests.kit.terminal import Terminal, terminal
from tests.kit.warm import warm_program

import gloveport

HOSTILE = "\x1b[2J\x1b]52;c;eA==\x07[bold]loud[/bold] \u202etxt.exe\u202c \u009b31m end"
TEXT = "".join(f"line {number}\n" for number in range(1, 31))
RUN_S = 60.0
SPENT = "scripted/spent"
"""A model whose quota is used up: that does not pass by itself, so it is not asked again after pauses."""
SETTINGS = """
[[models]]
provider = "scripted"
model = "test"
script = "{script}"

[[models]]
provider = "scripted"
model = "spent"
script = "{spent}"
input_usd = 1.0
output_usd = 4

[sandbox]
trusted = "process"
"""


def edits() -> list[dict[str, Any]]:
    """Two hunks in one file and a new file."""
    return [
        {"name": "edit_file", "arguments": {"path": "a.txt", "old": "line 2\n", "new": "second\n"}},
        {"name": "edit_file", "arguments": {"path": "a.txt", "old": "line 29\n", "new": "last but one\n"}},
        {"name": "write_file", "arguments": {"path": "b.txt", "content": "new\n"}},
    ]


STEPS: list[dict[str, Any]] = [
    {"when": {"user_contains": "edit", "turn": 0}, "text": "I edit.", "calls": edits()},
    {
        "when": {"user_contains": "run", "turn": 0},
        "calls": [{"name": "run_command", "arguments": {"argv": ["python3", "-c", "print('hello from a program')"]}}],
    },
    {"when": {"user_contains": "hostile"}, "text": HOSTILE},
    {
        "when": {"user_contains": "wait"},
        "text": "I begin and never end.",
        "chunk_chars": 7,
        "wait_after_chunks": 1,
        "wait_for_file": "never",
    },
    {"when": {"result_contains": "said no"}, "text": "Then not."},
    {"when": {"result_contains": "nobody was asked"}, "text": "Then not."},
    {"text": "Done."},
]


class Cli:
    """`gloveport` with a home of its own."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(daemon.home),
            "GLOVEPORT_HOME": str(daemon.home),
            "PYTHONPATH": os.pathsep.join(os.path.dirname(root) for root in gloveport.__path__),
            "COLUMNS": "200",
        }

    def command(self, *words: str) -> list[str]:
        """The words of a command."""
        return [sys.executable, "-P", "-m", "gloveport.server", *words]

    def __call__(
        self, *words: str, code: int = 0, cwd: Path | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, which must have this exit code and never a traceback."""
        run = self.start_cold if environment else self.start_warm
        done = run(*words, cwd=cwd or self.daemon.home, **environment)
        assert done.returncode == code, (words, done.returncode, done.stdout[-800:], done.stderr[-800:])
        assert "Traceback" not in done.stdout + done.stderr
        return done

    def stop_daemon(self) -> None:
        """Say that it is to end, which is answered before it has ended, and wait for that."""
        self("daemon", "stop")
        assert self.daemon.process is not None
        assert self.daemon.process.wait(timeout=RUN_S) == 0

    def start_warm(self, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run a command as a fork of a process that has loaded the program."""
        return warm_program().run(words, self.environment, cwd, RUN_S)

    def start_cold(self, *words: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command as a shell does."""
        return subprocess.run(
            self.command(*words),
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=RUN_S,
            check=False,
            cwd=cwd,
        )

    def at_terminal(
        self, *words: str, cwd: Path, columns: int = 100, **environment: str
    ) -> AbstractContextManager[Terminal]:
        """Run a command at a terminal."""
        return terminal(self.command(*words), self.environment | environment, cwd, columns=columns)


@contextmanager
def running_command_line(steps: list[dict[str, Any]], more: str = "") -> Iterator[Cli]:
    """A daemon in a home of its own whose model plays these steps; `more`: settings behind the usual ones."""
    home = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
    daemon = Daemon(home)
    script = home / "script.json"
    script.write_text(json.dumps({"name": "cli", "steps": steps}))
    spent = home / "spent.json"
    used_up = {"error": {"error_class": "quota", "message": "no money left"}}
    spent.write_text(json.dumps({"name": "spent", "steps": [used_up]}))
    daemon.write_settings(SETTINGS.format(script=script, spent=spent) + more)
    try:
        daemon.start()
        yield Cli(daemon)
    finally:
        try:
            daemon.end()
        finally:
            shutil.rmtree(home, ignore_errors=True)


def lines_of(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Output as NDJSON."""
    return [json.loads(line) for line in done.stdout.splitlines()]


def run_json(cli: Cli, root: Path, task: str, *options: str, code: int = 0) -> list[dict[str, Any]]:
    """`run --json` in a trusted folder; its lines, of which the last is the result and names the exit code."""
    done = cli("run", task, "--root", str(root), "--trust", "trusted", "--json", *options, code=code)
    lines = lines_of(done)
    assert lines[-1]["type"] == "result"
    assert lines[-1]["exitCode"] == code
    assert [line["seq"] for line in lines[:-1]] == list(range(1, len(lines)))
    return lines
