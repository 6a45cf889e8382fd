"""A model that is busy, at the terminal: what the user sees while it is waited for, and how it ends."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.kit.command_line import SETTINGS, STEPS, Cli, running_command_line

BUSY = {"error": {"message": "too many requests", "type": "rate_limit_error"}}
MODEL = '\n[[models]]\nprovider = "openai"\nmodel = "{name}"\nbase_url = "http://127.0.0.1:{port}/v1"\n'


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    """One daemon for the commands of this module."""
    with running_command_line(STEPS) as running:
        yield running


@contextmanager
def model(cli: Cli, name: str, *behaviours: dict[str, Any]) -> Iterator[str]:
    """A server that behaves so, named in the settings; the model's name on the command line."""
    script = cli.daemon.home / f"{name}.json"
    script.write_text(json.dumps(behaviours))
    command = [sys.executable, "-m", "tests.kit.model_server", "--script", str(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as server:
        assert server.stdin is not None
        assert server.stdout is not None
        port = json.loads(server.stdout.readline())["port"]
        plain = SETTINGS.format(script=cli.daemon.home / "script.json")
        models, sandbox = plain.split("\n[sandbox]")
        cli.daemon.write_settings(f"{models}{MODEL.format(name=name, port=port)}\n[sandbox]{sandbox}")
        try:
            yield f"openai/{name}"
        finally:
            server.stdin.close()


def test_a_busy_model_is_waited_for_where_the_user_sees_it(cli: Cli, tmp_path: Path) -> None:
    """The reason, the seconds, the attempt; then the answer, once."""
    busy = {"status": 429, "headers": {"retry-after": "1"}, "body": BUSY, "uses_max": 1}
    with model(cli, "busy", busy, {"text": ["All ", "done."]}) as name:
        shown = cli("run", "go", "--root", str(tmp_path), "--trust", "trusted", "--model", name).stdout
    assert "too many requests; trying again in 2 s, attempt 2 of 5" in shown
    assert shown.count("All done.") == 1
    assert "broke off" not in shown


def test_a_used_up_quota_ends_at_once_with_what_helps(cli: Cli, tmp_path: Path) -> None:
    """No waiting, no second request: the words of the provider, and the command that chooses another model."""
    spent = {"status": 429, "body": {"error": {"message": "no money left", "code": "insufficient_quota"}}}
    with model(cli, "spent", spent) as name:
        shown = cli("run", "go", "--root", str(tmp_path), "--trust", "trusted", "--model", name, code=3).stdout
    assert "no money left; a used-up quota does not come back in a moment" in shown
    assert "gloveport models use" in shown
    assert "trying again" not in shown


def test_a_conversation_that_does_not_fit_names_the_ways_out(cli: Cli, tmp_path: Path) -> None:
    """F03: a window that is too small for anything: one line of what happened, one of what can be done."""
    small = {"status": 400, "body": {"error": {"message": "prompt is too long", "type": "invalid_request_error"}}}
    with model(cli, "small", small) as name:
        shown = cli("run", "go", "--root", str(tmp_path), "--trust", "trusted", "--model", name, code=3).stdout
    assert "does not fit the model's window" in shown
    assert "larger window" in shown
