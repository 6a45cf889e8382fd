"""What programs write over the user's installed dependencies.

Purpose: for each folder of dependencies a place of the session that takes what a jail writes over it.
Invariant: the user's own folder is what lies below; a layer lasts as long as its session, on one boot of the machine,
and is no content: nothing of it is ever proposed.
Must never: lie inside the worktree, or be merged into anything.
"""

import os
import stat
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final

from gloveport.server.workspace.errors import os_failure
from gloveport.server.workspace.removing import remove_tree

LAYERS_NAME: Final = "layers"
LAYERS_MAX: Final = 40
"""A jail has a bound on its mounts, and others need theirs."""
PARTS: Final = ("upper", "work")


def make_layers(session_dir: Path, root: Path, folders: Iterable[str]) -> dict[str, str]:
    """Layer folders by the user's dependency folders (absolute), of those that are there, the outermost first.

    Of more than `LAYERS_MAX` the rest is not shown. Raises WorkspaceError.
    """
    made: dict[str, str] = {}
    for folder in sorted(folders, key=lambda path: (path.count("/"), path))[:LAYERS_MAX]:
        source = root / folder
        if not stat.S_ISDIR(_mode(source)):
            continue
        layer = session_dir / LAYERS_NAME / sha256(os.fsencode(folder)).hexdigest()[:16]
        try:
            for part in PARTS:
                (layer / part).mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise os_failure(error, folder, writing=True) from None
        made[str(source)] = str(layer)
    return made


def drop_layers(session_dir: Path) -> tuple[str, ...]:
    """Remove what was written over dependencies; what stays, as `remove_tree` says it."""
    return remove_tree(session_dir / LAYERS_NAME)


def _mode(path: Path) -> int:
    """The mode of what lies there itself; 0 for nothing."""
    try:
        return path.lstat().st_mode
    except OSError:
        return 0
