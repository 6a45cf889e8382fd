"""Which folders a session may begin in.

Purpose: refuse the system's own folders, and those that hold this program's own data and settings.
Invariant: a folder is known by device and inode, by whatever name it is called.
Must never: look into the folder.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.server.workspace.errors import WorkspaceError
from gloveport.server.workspace.state import folder_keys

SYSTEM_ROOT: Final = Path("/")
SYSTEM_FOLDERS: Final = (Path("/proc"), Path("/sys"), Path("/dev"))
MACHINE_FOLDERS: Final = (
    Path("/usr"), Path("/etc"), Path("/bin"), Path("/sbin"), Path("/lib"), Path("/lib64"),
)  # fmt: skip
"""Each a folder that a sandbox has of its own at this very place; a project below one is like any other."""
_HINT: Final = "Begin the session in the folder of one project."


def refuse_root(root: Path, own: Iterable[Path]) -> None:
    """Raise `workspace.protected` for the home folder and a root that is or lies in a folder of `own` or the system.

    A root above one of `own` is fit: what is excluded there is never read.
    """
    real = Path(os.path.realpath(root))
    chain = (real, *real.parents)
    keys = folder_keys(own)
    if real == SYSTEM_ROOT or folder_keys((real,)) == folder_keys((SYSTEM_ROOT,)):
        raise WorkspaceError(ErrorCode.PROTECTED_PATH, f"{root} is the whole system, not a project", hint=_HINT)
    if folder_keys((real,)) & folder_keys((Path(os.path.expanduser("~")),)):
        raise WorkspaceError(ErrorCode.PROTECTED_PATH, f"{root} is your home folder, not a project", hint=_HINT)
    if folder_keys((real,)) & folder_keys(MACHINE_FOLDERS):
        words = f"{root} holds the machine's own programs and settings, not a project"
        raise WorkspaceError(ErrorCode.PROTECTED_PATH, words, hint=_HINT)
    for folder in chain:
        if folder in SYSTEM_FOLDERS and not _is_memory_disk(real):
            raise WorkspaceError(ErrorCode.PROTECTED_PATH, f"{root} lies in {folder}, which holds no files", hint=_HINT)
        if folder_keys((folder,)) & keys:
            raise WorkspaceError(
                ErrorCode.PROTECTED_PATH, f"{root} lies in {folder}, where gloveport keeps its own data", hint=_HINT
            )


def _is_memory_disk(real: Path) -> bool:
    """True below the disk in memory, which is one like any other though it lies among the devices."""
    shared = Path("/dev", "shm")
    return real != shared and real.is_relative_to(shared)
