"""Landlock rules of a jail: what may be written, as rows of the entry program.

Purpose: a second wall behind the mounts, kept by the process itself: writes only where the profile writes, no signal
and no abstract socket beyond the jail.
Invariant: what a kernel of this ABI knows is handled whole; a rule never gives a right that the view does not.
Must never: be relied on alone, or be taken for in force where the kernel's ABI was not asked.
"""

import ctypes
import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gloveport.protocol.jail.requests import DomainPlan
from gloveport.sandbox.backends.entry import AT_FDCWD, Assembly
from gloveport.sandbox.runner.apart import CREATE_CALL, ON_FILES, RULE_PATH_BENEATH, SCOPE_SIGNALS, SCOPES_ABI
from gloveport.sandbox.runner.prctl import load

ABI_MAX: Final = 6
"""The newest whose rights are handled here; a newer kernel is used as this one."""
ABI_BUILD_MIN: Final = 2
"""Before it, Landlock forbids every move between two folders, which builds need."""
_ASK_VERSION: Final = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_HANDLED: Final = ((1 << 13) - 1, (1 << 14) - 1, (1 << 15) - 1, (1 << 15) - 1, (1 << 16) - 1, (1 << 16) - 1)
READ: Final = EXECUTE | READ_FILE | READ_DIR
DEVICES: Final = WRITE_FILE | _TRUNCATE | _IOCTL_DEV
WRITE: Final = ((1 << 15) - 1) & ~(_MAKE_CHAR | _MAKE_BLOCK)
_PLAIN_DEVICES: Final = (
    *("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "mqueue"),
    *("dri", "kfd", "dxg", "accel", "kvm"),
)
"""Of /dev what programs write: no disk, none of the machine's memory or state; then what computes for them."""
_GRAPHICS: Final = "nvidia"
"""How the names of one maker's devices begin; which there are depends on the machine."""
_SCOPED: Final = 3  # abstract sockets, signals
_NETWORK_ABI: Final = 4
_O_PATH: Final = os.O_PATH | os.O_CLOEXEC
RULESET_FD, PATH_FD = 3, 4
"""Lowest free numbers, since the entry program closes everything beyond the three pipes first."""


@dataclass(frozen=True, slots=True)
class PathRule:
    """Rights beneath a path inside; `is_folder` False takes the rights that a single file can have."""

    path: str
    rights: int
    is_folder: bool = True


def find_abi() -> int:
    """The kernel's Landlock ABI; 0 where it has none or refuses the question."""
    none = ctypes.c_void_p(None)
    found = load().syscall(ctypes.c_long(CREATE_CALL), none, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION))
    return max(0, int(found))


def is_used(abi: int, tool_kind: str) -> bool:
    """Whether jails of this tool kind are put under Landlock."""
    return abi >= (ABI_BUILD_MIN if tool_kind == "build" else 1)


def add_rules(assembly: Assembly, abi: int, rules: Iterable[PathRule], on_failure: str) -> None:
    """Rows that make the ruleset, fill it and put this process under it; nothing else may be open below number 5."""
    known = min(abi, ABI_MAX)
    handled = _HANDLED[known - 1]
    size = 24 if known >= SCOPES_ABI else 16 if known >= _NETWORK_ABI else 8
    attributes = struct.pack("<QQQ", handled, 0, _SCOPED if known >= SCOPES_ABI else 0)[:size]
    assembly.call("landlock_create_ruleset", assembly.place(attributes), size, 0, on_failure=on_failure)
    for rule in rules:
        rights = rule.rights & handled & (-1 if rule.is_folder else ON_FILES)
        path = assembly.place_text(os.fsencode(rule.path))
        assembly.call("openat", AT_FDCWD, path, _O_PATH, 0, on_failure=on_failure)
        beneath = assembly.place(struct.pack("<QI", rights, PATH_FD))
        assembly.call("landlock_add_rule", RULESET_FD, RULE_PATH_BENEATH, beneath, 0, on_failure=on_failure)
        assembly.call("close", PATH_FD, on_failure=on_failure)
    assembly.call("landlock_restrict_self", RULESET_FD, 0, on_failure=on_failure)
    assembly.call("close", RULESET_FD, on_failure=on_failure)


def plan_domain(abi: int, writable: Iterable[str]) -> DomainPlan:
    """A domain on this machine itself, without a view: everything may be read, and written only what is named.

    What an older ABI does not know it does not hold: truncating before 3, signals before 6. What changes no content is
    held by none: rights, owner, times and attributes of files. An ordinary user writes below /proc what the kernel
    lets that user; root, whose that is the whole machine's, writes nothing there.
    """
    known = min(abi, ABI_MAX)
    handled = _HANDLED[known - 1] & ~(READ | _IOCTL_DEV)
    rules = [(path, str(DEVICES & handled)) for path in _find_devices()]
    if os.geteuid() != 0:
        rules.append(("/proc", str(DEVICES & handled)))
    rules += [(path, str(WRITE & handled)) for path in dict.fromkeys(writable)]
    return DomainPlan(handled, SCOPE_SIGNALS if known >= SCOPES_ABI else 0, tuple(rules))


def _find_devices() -> list[str]:
    try:
        here = sorted(name for name in os.listdir("/dev") if name.startswith(_GRAPHICS))
    except OSError:
        here = []
    return [f"/dev/{name}" for name in (*_PLAIN_DEVICES, *here)]
