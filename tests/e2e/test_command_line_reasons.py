"""What `gloveport why` says can be done next, where no answer of the user's would have allowed the call."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.command_line import STEPS, TEXT, Cli, run_json, running_command_line

RULES = """
version = 1
[[rule]]
id = "user.no-python"
effects = ["execute"]
verdict = "deny"
justification = "No Python here."
match = [{ effect = "execute", target = "python3" }]
"""


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    """One daemon for the commands of this module."""
    with running_command_line(STEPS) as running:
        yield running


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with one file."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text(TEXT)
    return folder


def test_in_plan_mode_the_way_on_is_the_mode(cli: Cli, root: Path) -> None:
    """No answer allows anything there: another one is not what to ask for."""
    run_json(cli, root, "edit", "--mode", "plan")
    told = cli("why", cwd=root).stdout
    assert "gloveport mode agent" in told
    assert "can be answered with yes" not in told


def test_the_file_of_the_users_own_rule_is_named(cli: Cli, root: Path) -> None:
    """A rule of the user's forbids it: which one and where it stands; what he himself refused is as before."""
    cli.daemon.stop()
    rules = cli.daemon.home / "rules.toml"
    rules.write_text(RULES)
    cli.daemon.start()
    try:
        run_json(cli, root, "run")
        told = cli("why", cwd=root).stdout
    finally:
        cli.daemon.stop()
        rules.unlink()
        cli.daemon.start()
    assert f"user.no-python in {rules}" in told
    assert "can be answered with yes" not in told
    run_json(cli, root, "run", "--approve", "never")
    assert "can be answered with yes" in cli("why", cwd=root).stdout
