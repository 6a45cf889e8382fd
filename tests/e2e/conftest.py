"""What most tests of the command line begin with.

Purpose: one daemon a module with the usual script, and a folder of the user's.
Invariant: a module that needs another script or folder has fixtures of its own under these names.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.command_line import STEPS, TEXT, Cli, running_command_line


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
