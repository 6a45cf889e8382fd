"""What the files should hold, worked out by git alone.

Purpose: two plain folders, the user's and the agent's, moved by `git apply` and `git merge-file`.
Invariant: no code of the product is called here; hunks come in as numbers and lines.
Must never: read what the product wrote.
"""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.kit.history.pieces import zero_patch
from tests.kit.history.repository import NEUTRAL, Side, run_git

Place = tuple[int, Sequence[bytes], Sequence[bytes]]
APPLY: Final = ("git", "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn")


@dataclass(frozen=True, slots=True)
class Folder:
    """One plain folder of expected files."""

    root: Path

    def put(self, path: str, side: Side | None) -> None:
        """Make `path` hold one side of a commit; None removes it and the folders that it leaves empty."""
        target = self.root / path
        if target.is_symlink() or target.exists():
            target.unlink()
        if side is None:
            self._prune(target.parent)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        if side.is_link:
            target.symlink_to(os.fsdecode(side.data))
            return
        target.write_bytes(side.data)
        target.chmod(side.permissions)

    def write(self, path: str, data: bytes) -> None:
        """Make an existing or new file hold `data`, in place."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(data)

    def apply(self, changes: Sequence[tuple[str, Sequence[Place]]]) -> None:
        """Let git take the given places into the files. Raises RuntimeError with git's words."""
        patch = b"".join(zero_patch(path, sorted(places, key=lambda each: each[0])) for path, places in changes)
        if patch:
            run_git((*APPLY, "--unidiff-zero", "-"), given=patch, cwd=self.root)

    def apply_shown(self, patch: bytes) -> None:
        """Let git take a whole patch as it was shown. Raises RuntimeError with git's words."""
        run_git((*APPLY, "-"), given=patch, cwd=self.root)

    def _prune(self, folder: Path) -> None:
        while folder != self.root and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent


def merged(folder: Path, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Both changes of `base` in one text, by `git merge-file`; None where git finds a conflict."""
    names = []
    for name, data in (("ours", ours), ("base", base), ("theirs", theirs)):
        (folder / name).write_bytes(data)
        names.append(str(folder / name))
    done = subprocess.run(
        ["git", "merge-file", "-p", *names], capture_output=True, env=dict(NEUTRAL), cwd=folder, timeout=60, check=False
    )
    return done.stdout if done.returncode == 0 else None
