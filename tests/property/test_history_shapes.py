"""Every shape of change that real histories have, played as sessions and held against git."""

import shutil
from pathlib import Path

import pytest
from tests.kit.history import run
from tests.kit.history.repository import Repository
from tests.kit.history.shapes import COMMITS, make_repository
from tests.kit.require import require

from gloveport.server.edit import changes
from gloveport.server.edit.apply import apply_hunks, revert_hunks
from gloveport.server.edit.hunks import Hunk
from gloveport.server.workspace import drift, planning

SEEDS = 5
TAKEN = ("conflict: the agent's side taken", "conflict: the user's side kept")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generated repository."""
    require(shutil.which("git") is not None, "git is not installed")
    return make_repository(tmp_path_factory.mktemp("shapes") / "shapes.git")


def play(folder: Path, seeds: range) -> run.Report:
    """All commits, once for each seed."""
    repository = Repository(folder)
    try:
        names = repository.sample(len(COMMITS), 1)
    finally:
        repository.close()
    total = run.Report("shapes")
    for seed in seeds:
        total.add(run.play_chunk((str(folder), names, seed)))
    return total


def test_every_shape_is_exact(repository: Path) -> None:
    """Edits, hunks in any order, a user beside: byte for byte what git makes of it."""
    report = play(repository, range(SEEDS))
    assert report.faults == []
    assert report.played == SEEDS * len(COMMITS)
    for name in ("binary", "create", "delete", "mode", "modify", "rename", "symlink"):
        assert report.counts[f"proposal: {name}"] > 0, name
    for name in ("edit: rename", "undo and redo", "user edits", "user in the way: refused", *TAKEN):
        assert report.counts[name] > 0, name


def _shifted(base: bytes, hunks: tuple[Hunk, ...]) -> bytes:
    return apply_hunks(base, hunks).replace(b"new line", b"new  line", 1)


def _eager(result: bytes, hunks: tuple[Hunk, ...]) -> bytes:
    return revert_hunks(result, hunks).replace(b"\r\n", b"\n", 1)


def _ours(base: bytes, ours: bytes, theirs: bytes, *, path: str) -> bytes:
    return ours


def _deaf(base: bytes, hunks: tuple[Hunk, ...], user: bytes, shown: object, *, path: str) -> bytes:
    return apply_hunks(base, hunks)


@pytest.mark.parametrize(
    ("room", "name", "fault"),
    [
        (changes, "apply_hunks", _shifted),
        (changes, "revert_hunks", _eager),
        (drift, "merge_texts", _ours),
        (planning, "take_hunks", _deaf),
    ],
)
def test_a_planted_fault_is_found(
    repository: Path, monkeypatch: pytest.MonkeyPatch, room: object, name: str, fault: object
) -> None:
    """The control: a wrong byte in a hunk, an eaten CR, a dropped edit, a hunk taken unasked are each told."""
    monkeypatch.setattr(room, name, fault)
    assert play(repository, range(3)).faults
