"""The few process controls that the standard library does not offer.

Purpose: subreaper, death signal, no new privileges and non-dumpable, by prctl(2).
Invariant: each call either took effect or raised OSError.
Must never: be called in the daemon itself; these change the calling process.
"""

import ctypes
import functools
import os
from typing import Final

_SET_PDEATHSIG: Final = 1
_SET_DUMPABLE: Final = 4
_SET_CHILD_SUBREAPER: Final = 36
_SET_NO_NEW_PRIVS: Final = 38


@functools.cache
def load() -> ctypes.CDLL:
    """The C library; loaded once, before the forks that use it."""
    return ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    libc = load()
    if libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def become_subreaper() -> None:
    """Orphans of the run become children of this process, so that none is lost."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def hide_from_peers() -> None:
    """No other process of the same user may read this one's memory."""
    _prctl(_SET_DUMPABLE, 0)


def die_with_parent(signal_number: int) -> None:
    """Receive the signal when the parent dies."""
    _prctl(_SET_PDEATHSIG, signal_number)


def forbid_new_privileges() -> None:
    """Set-user-id programs give nothing from here on."""
    _prctl(_SET_NO_NEW_PRIVS, 1)
