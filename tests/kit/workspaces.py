"""Real folders for tests of the workspace.

Purpose: make a small workspace on disk, open a session's workspace over it, read trees back byte by byte.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.plan import Selected
from gloveport.server.workspace.proposal import Proposal

Files = dict[str, bytes]


def make_tree(root: Path, files: Files) -> Path:
    """Write `files` below `root`."""
    root.mkdir(parents=True, exist_ok=True)
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


def read_tree(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every file and link below `root` with its permission bits (0 for a link) and bytes (a link's target)."""
    found: dict[str, tuple[int, bytes]] = {}
    for folder, folders, names in os.walk(root):
        for name in (*names, *(each for each in folders if Path(folder, each).is_symlink())):
            path = Path(folder, name)
            relative = path.relative_to(root).as_posix()
            if path.is_symlink():
                found[relative] = (0, os.fsencode(os.readlink(path)))
            else:
                found[relative] = (path.stat().st_mode & 0o7777, path.read_bytes())
    return found


def folders_of(root: Path) -> set[str]:
    """Every folder below `root`."""
    return {Path(folder).relative_to(root).as_posix() for folder, _, _ in os.walk(root)}


async def propose(workspace: SessionWorkspace) -> dict[str, Proposal]:
    """The pending proposals by path."""
    return {proposal.path: proposal for proposal in await workspace.proposals()}


def whole(*proposals: Proposal) -> list[Selected]:
    """Select proposals as they are."""
    return [Selected(proposal.change_id, proposal.digest) for proposal in proposals]


def part(proposal: Proposal, *indices: int) -> list[Selected]:
    """Select hunks of one proposal by index."""
    return [Selected(proposal.change_id, proposal.digest, tuple(proposal.hunks[index].digest for index in indices))]


@contextmanager
def quick_folder() -> Iterator[Path]:
    """A folder in memory where there is one: what dies here is a process, never the power."""
    memory = Path("/dev/shm")
    folder = tempfile.mkdtemp(prefix="gloveport-", dir=memory if os.access(memory, os.W_OK) else None)
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
