"""Puts a run into a Landlock domain of its own.

Purpose: where a rung has no namespaces, two runs, and a run and the daemon, are kept apart all the same, and what a
run writes by accident stays where it works.
Invariant: from here on this process and its children trace only each other, and what the plan handles is held to its
rules; reading and sockets are as before.
Must never: be called in the supervisor, which has to end the run.
"""

import ctypes
import os
import stat
import struct
from typing import Final

from gloveport.protocol.jail.requests import DomainPlan
from gloveport.sandbox.runner.prctl import load

CREATE_CALL: Final = 444
ADD_CALL: Final = 445
RESTRICT_CALL: Final = 446
RULE_PATH_BENEATH: Final = 1
SCOPES_ABI: Final = 6
"""The first whose domains bound signals; tracing is bounded by every domain."""
SCOPE_SIGNALS: Final = 2
ON_FILES: Final = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
"""Rights that a single file can have: execute, write, read, truncate, ioctl."""


def keep_apart(plan: DomainPlan) -> None:
    """Enter the domain; raises OSError where the kernel has none. Asks that no new privileges can be gained before."""
    libc = load()
    size = ctypes.c_size_t(24 if plan.scoped else 8)
    attributes = struct.pack("<QQQ", plan.handled, 0, plan.scoped)
    ruleset = _checked(libc.syscall(ctypes.c_long(CREATE_CALL), attributes, size, 0))
    try:
        for path, rights in plan.rules:
            _add_rule(ruleset, path, int(rights))
        _checked(libc.syscall(ctypes.c_long(RESTRICT_CALL), ctypes.c_int(ruleset), ctypes.c_uint32(0)))
    finally:
        os.close(ruleset)


def _add_rule(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= ON_FILES
        rule = struct.pack("<QI", rights, fd)
        call, kind = ctypes.c_long(ADD_CALL), ctypes.c_int(RULE_PATH_BENEATH)
        _checked(load().syscall(call, ctypes.c_int(ruleset), kind, rule, ctypes.c_uint32(0)))
    finally:
        os.close(fd)


def _checked(result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return int(result)
