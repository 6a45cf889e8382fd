"""What editors show of one session's folder.

Purpose: the open documents below a folder, as the workspace takes them.
Invariant: paths are relative to the folder, without links.
Must never: be loaded before the first clients are accepted: the workspace comes with it.
"""

import os
from pathlib import Path

from gloveport.server.engine.editors import Editors
from gloveport.server.workspace.opened import OpenText


def texts_below(editors: Editors, root: Path) -> tuple[OpenText, ...]:
    """What is open below a folder, by relative paths."""
    begin = f"{os.path.realpath(root)}{os.sep}"
    return tuple(
        OpenText(each.name, each.path[len(begin) :], each.text, each.editor, each.can_edit)
        for each in editors.documents()
        if each.path.startswith(begin)
    )
