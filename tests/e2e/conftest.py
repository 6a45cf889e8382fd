"""What most tests of the command line begin with.

Purpose: one daemon a module with the usual script, and a folder of the user's.
Invariant: a module says in `PLAYED` what its model plays, and in `FILES` what lies in the folder, where that differs.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.kit.command_line import STEPS, TEXT, Cli, running_command_line

USUAL = {"a.txt": TEXT}


@pytest.fixture(scope="module")
def cli(request: pytest.FixtureRequest) -> Iterator[Cli]:
    """One daemon for the commands of this module."""
    with running_command_line(getattr(request.module, "PLAYED", STEPS)) as running:
        yield running


@pytest.fixture
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with one file, or with those of this module."""
    files: Mapping[str, str] = getattr(request.module, "FILES", USUAL)
    for name, text in files.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, newline="")
    return tmp_path / "project"
