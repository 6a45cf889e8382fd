"""A part of a test that runs as an ordinary user, whoever runs the test.

Purpose: what is closed to its owner is closed; root alone would pass through.
Invariant: the process is who it was when the block ends.
Must never: be used while other threads of the process need root's rights.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ORDINARY: Final = 65534


@contextmanager
def ordinary_user(folder: Path, *, gives: bool = True) -> Iterator[None]:
    """The block runs as somebody who may not read what is closed; the folder is theirs."""
    root = os.geteuid() == 0
    if root:
        for where in (folder, *folder.rglob("*")) if gives else ():
            os.chown(where, ORDINARY, ORDINARY, follow_symlinks=False)
        for above in folder.parents:
            if not above.stat().st_mode & 0o001:
                above.chmod(above.stat().st_mode | 0o011)
        os.seteuid(ORDINARY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
