"""A handle of something in a folder: it is not read, and cannot become another thing meanwhile.

Purpose: change the rights of just what was looked at, also where its own rights let nobody in.
Invariant: no link is followed.
Must never: take a path for what a handle stands for.
"""

import os
from typing import Final

_UNREAD: Final[int] = getattr(os, "O_PATH", os.O_RDONLY)
"""Where a system knows no handles without rights (macOS), what nobody may read is refused."""
PLAIN: Final = _UNREAD | os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER: Final = PLAIN | os.O_DIRECTORY
"""Opening anything but a folder with this fails, a link to one included."""


def set_mode(fd: int, mode: int) -> None:
    """Give what an open handle stands for its rights. Raises OSError."""
    if hasattr(os, "O_PATH"):
        os.chmod(f"/proc/self/fd/{fd}", mode)  # the kernel takes such a handle in no other way
    else:
        os.fchmod(fd, mode)


def set_folder_mode(name: str, mode: int, above: int) -> None:
    """Give a folder in the open folder `above` its rights. Raises OSError, also for what is no folder."""
    fd = os.open(name, FOLDER, dir_fd=above)
    try:
        set_mode(fd, mode)
    finally:
        os.close(fd)
