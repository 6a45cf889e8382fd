"""Puts a run into a Landlock domain of its own, so that it has no hold on any process but its own.

Purpose: where a rung has no namespace of processes, two runs, and a run and the daemon, are kept apart all the same.
Invariant: from here on this process and its children signal and trace only each other; files and sockets are as before.
Must never: be called in the supervisor, which has to end the run.
"""

import ctypes
import os
import struct
from typing import Final

from gloveport.sandbox.runner.prctl import load

CREATE_CALL: Final = 444
RESTRICT_CALL: Final = 446
ABI_MIN: Final = 6
"""The first whose domains bound signals; tracing is bounded by every domain."""
SCOPE_SIGNALS: Final = 2


def keep_apart() -> None:
    """Enter the domain; raises OSError where the kernel has none. Asks that no new privileges can be gained before."""
    libc = load()
    attributes = struct.pack("<QQQ", 0, 0, SCOPE_SIGNALS)
    fd = _checked(libc.syscall(ctypes.c_long(CREATE_CALL), attributes, ctypes.c_size_t(len(attributes)), 0))
    try:
        _checked(libc.syscall(ctypes.c_long(RESTRICT_CALL), ctypes.c_int(fd), ctypes.c_uint32(0)))
    finally:
        os.close(fd)


def _checked(result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return int(result)
