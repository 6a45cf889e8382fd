"""Which Python runs a workspace's tests.

Purpose: find the workspace's own environment, and the installation that its interpreter comes from.
Invariant: what is shown to a jail beside the workspace is a Python installation by its own files.
Must never: take a folder's word for where its interpreter lies: a link may lead anywhere.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

SYSTEM: Final = Path("/usr")
ENVIRONMENTS: Final = (".venv", "venv")


@dataclass(frozen=True, slots=True)
class OwnPython:
    """The interpreter of a workspace, and the folders that it needs beside the workspace's own."""

    path: str
    read_only_roots: tuple[str, ...]


def own_python(root: Path) -> OwnPython | None:
    """The interpreter of the workspace's own environment, if it has one with pytest that can be shown to a jail."""
    for name in ENVIRONMENTS:
        environment, python = root / name, root / name / "bin" / "python"
        if environment.is_symlink() or not any(environment.glob("lib/python3*/site-packages/pytest/__init__.py")):
            continue
        installation = python.resolve().parent.parent
        if installation == SYSTEM:
            return OwnPython(str(python), ())
        if is_installation(installation) and not installation.is_relative_to(root.resolve()):
            return OwnPython(str(python), (str(installation),))
    return None


def is_installation(folder: Path) -> bool:
    """Whether a folder is a Python installation and nothing that merely holds one."""
    if folder in (Path("/"), Path.home(), *Path.home().parents):
        return False
    return (folder / "bin").is_dir() and any(folder.glob("lib/python3*/os.py"))
