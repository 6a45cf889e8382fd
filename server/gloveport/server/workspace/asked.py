"""What a folder asks for of the tools that open it, read from the user's own folder.

Purpose: find a folder's devcontainer.json where it stands, for a question to the user.
Invariant: a plain file of the folder itself, without a link on the way, within its cap.
Must never: follow what the file says.
"""

from pathlib import Path
from typing import Final

from gloveport.server.workspace.beneath import Root

DEVCONTAINER_PATHS: Final = (".devcontainer/devcontainer.json", ".devcontainer.json")


def read_devcontainer_file(root: Path, limit_bytes: int) -> tuple[str, bytes] | None:
    """Path in the folder and content of the first that is there; None where there is none. Raises WorkspaceError."""
    with Root(root) as opened:
        for path in DEVCONTAINER_PATHS:
            if opened.state(path) is not None:
                return path, opened.read(path, limit_bytes).data
    return None
