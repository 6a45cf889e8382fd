"""A model that is busy, at the terminal: what the user sees while it is waited for, and how it ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.kit.command_line import SETTINGS, Cli
from tests.kit.model_process import model_process

BUSY = {"error": {"message": "too many requests", "type": "rate_limit_error"}}


@contextmanager
def model(cli: Cli, name: str, *behaviours: dict[str, Any]) -> Iterator[str]:
    """A server that behaves so, named in the settings; the model's name on the command line."""
    with model_process(cli.daemon.home, name, *behaviours) as entry:
        models, sandbox = SETTINGS.format(
            script=cli.daemon.home / "script.json", spent=cli.daemon.home / "spent.json"
        ).split("\n[sandbox]")
        cli.daemon.write_settings(f"{models}{entry}\n[sandbox]{sandbox}")
        yield f"openai/{name}"


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
