"""The system call filter of the jail, assembled as classic BPF.

Purpose: refuse calls that reach beyond the jail or widen the kernel's surface; refused means EPERM, not death.
Invariant: a foreign architecture ends the program; every jump target lies inside the filter.
Must never: allow by argument what it denies by number, or rely on the filter alone (namespaces stand behind it).
"""

import errno
import platform
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

_LOAD, _JUMP_EQUAL, _JUMP_ABOVE, _JUMP_ANY, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL, _NOTIFY = 0x7FFF0000, 0x00050000, 0x80000000, 0x7FC00000
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16
_X32_FIRST: Final = 0x40000000
_INSTRUCTION = struct.Struct("=HBBI")

NEW_NAMESPACE_FLAGS: Final = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
_TERMINAL_INJECTIONS: Final = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_FAMILIES_ALLOWED: Final = (1, 2, 10)  # UNIX, INET, INET6
_NETLINK, _NETLINK_ROUTE = 16, 0
_FAMILY_LAST: Final = 63
"""No family has a higher number (AF_MAX is 46); engines' filters are told each one."""
_LOW_BITS: Final = 0xFFFFFFFF
_NEW_NAMESPACE_BITS: Final = tuple(1 << bit for bit in range(32) if NEW_NAMESPACE_FLAGS >> bit & 1)

_ALWAYS_DENIED: Final = (
    "mount", "umount2", "pivot_root", "chroot", "swapon", "swapoff", "reboot", "init_module", "delete_module",
    "finit_module", "kexec_load", "kexec_file_load", "add_key", "request_key", "keyctl", "unshare", "setns",
    "perf_event_open", "open_by_handle_at", "bpf", "userfaultfd", "io_uring_setup", "io_uring_enter",
    "io_uring_register", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr",
    "acct", "quotactl", "syslog", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "sethostname",
    "setdomainname", "vhangup", "fanotify_init", "quotactl_fd", "lookup_dcookie",
)  # fmt: skip
_DENIED_TO_SMALL: Final = ("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp")

_LATE_NUMBERS: Final = MappingProxyType(
    {"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
     "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "clone3": 435, "pidfd_getfd": 438,
     "mount_setattr": 442, "quotactl_fd": 443, "openat2": 437, "fchmodat2": 452}
)  # fmt: skip
_X86_64: Final = MappingProxyType(
    {"mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "swapon": 167, "swapoff": 168, "reboot": 169,
     "init_module": 175, "delete_module": 176, "finit_module": 313, "kexec_load": 246, "kexec_file_load": 320,
     "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272, "setns": 308, "perf_event_open": 298,
     "open_by_handle_at": 304, "bpf": 321, "userfaultfd": 323, "acct": 163, "quotactl": 179, "syslog": 103,
     "settimeofday": 164, "clock_settime": 227, "adjtimex": 159, "clock_adjtime": 305, "sethostname": 170,
     "setdomainname": 171, "vhangup": 153, "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311,
     "kcmp": 312, "clone": 56, "ioctl": 16, "socket": 41, "socketpair": 53, "fanotify_init": 300,
     "lookup_dcookie": 212, "open": 2, "openat": 257, "execve": 59, "execveat": 322, "creat": 85, "chmod": 90,
     "fchmod": 91, "fchmodat": 268, "mknod": 133, "mknodat": 259, "connect": 42}
)  # fmt: skip
_AARCH64: Final = MappingProxyType(
    {"mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "swapon": 224, "swapoff": 225, "reboot": 142,
     "init_module": 105, "delete_module": 106, "finit_module": 273, "kexec_load": 104, "kexec_file_load": 294,
     "add_key": 217, "request_key": 218, "keyctl": 219, "unshare": 97, "setns": 268, "perf_event_open": 241,
     "open_by_handle_at": 265, "bpf": 280, "userfaultfd": 282, "acct": 89, "quotactl": 60, "syslog": 116,
     "settimeofday": 170, "clock_settime": 112, "adjtimex": 171, "clock_adjtime": 266, "sethostname": 161,
     "setdomainname": 162, "vhangup": 58, "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271,
     "kcmp": 272, "clone": 220, "ioctl": 29, "socket": 198, "socketpair": 199, "fanotify_init": 262,
     "lookup_dcookie": 18, "openat": 56, "execve": 221, "execveat": 281, "fchmod": 52, "fchmodat": 53, "mknodat": 33,
     "connect": 203}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Architecture:
    """What differs between processors: the kernel's audit number and the call numbers."""

    audit: int
    numbers: Mapping[str, int]
    has_x32: bool


ARCHITECTURES: Final[Mapping[str, Architecture]] = MappingProxyType(
    {
        "x86_64": Architecture(0xC000003E, MappingProxyType({**_LATE_NUMBERS, **_X86_64}), has_x32=True),
        "aarch64": Architecture(0xC00000B7, MappingProxyType({**_LATE_NUMBERS, **_AARCH64}), has_x32=False),
    }
)


@dataclass(frozen=True, slots=True)
class Answers:
    """What the filter answers to a refused call, to a refused socket family, and to a counted call."""

    refused: int = _ERRNO | errno.EPERM
    family: int = _ERRNO | errno.EAFNOSUPPORT
    counted: int = _ALLOW


SILENT: Final = Answers()
REPORTED: Final = Answers(_NOTIFY, _NOTIFY, _NOTIFY)
"""Every refusal goes to a supervisor that names it and answers with the error; counted calls go on from there."""
BY_ARGUMENT: Final = ("clone", "ioctl", "socket", "socketpair")
_COUNTED: Final = MappingProxyType(
    {"small": ("open", "openat", "openat2", "execve", "execveat"), "build": ("execve", "execveat")}
)


SET_ID_BITS: Final = 0o6000
MODE_ARGUMENT: Final = MappingProxyType(
    {"creat": 1, "open": 2, "openat": 3, "chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mknod": 1,
     "mknodat": 2}
)  # fmt: skip
"""Where each call that can set the set-user-id and set-group-id bits says so."""


FLAGS_ARGUMENT: Final = MappingProxyType({"open": 1, "openat": 2})
"""Where a call that opens a file says whether it is to be written; of openat2 it lies in memory."""
WRITE_BITS: Final = 3


def name_reaching(machine: str | None = None) -> Mapping[str, int]:
    """The calls by which a program reaches for a place outside, or for a file to write it, with their numbers."""
    architecture = ARCHITECTURES.get(machine or platform.machine())
    numbers = {} if architecture is None else architecture.numbers
    return {name: numbers[name] for name in ("connect", *FLAGS_ARGUMENT) if name in numbers}


def name_calls(tool_kind: str, machine: str | None = None) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """The calls that a filter for this kind refuses (some by argument) and those that it counts, with their numbers."""
    architecture = ARCHITECTURES.get(machine or platform.machine())
    numbers = {} if architecture is None else architecture.numbers
    denied = _ALWAYS_DENIED + (_DENIED_TO_SMALL if tool_kind == "small" else ()) + BY_ARGUMENT
    return (
        {name: numbers[name] for name in denied if name in numbers},
        {name: numbers[name] for name in _COUNTED[tool_kind] if name in numbers},
    )


def name_set_id_calls(machine: str | None = None) -> Mapping[int, int]:
    """Number -> argument that holds the mode; -1 where it lies in memory."""
    architecture = ARCHITECTURES.get(machine or platform.machine())
    numbers = {} if architecture is None else architecture.numbers
    where = {**MODE_ARGUMENT, "openat2": -1}
    return {numbers[name]: index for name, index in where.items() if name in numbers}


def build_filter(tool_kind: str, machine: str | None = None, answers: Answers = SILENT) -> bytes | None:
    """The filter for a tool kind on this machine; None where the architecture is not known here."""
    architecture = ARCHITECTURES.get(machine or platform.machine())
    if architecture is None:
        return None
    numbers = architecture.numbers
    refused, counted = name_calls(tool_kind, machine)
    program = [_op(_LOAD, _ARCH_AT), _op(_JUMP_EQUAL, architecture.audit, 1, 0), _op(_RETURN, _KILL)]
    program.append(_op(_LOAD, _NUMBER_AT))
    if architecture.has_x32:
        program += [_op(_JUMP_ABOVE, _X32_FIRST, 0, 1), _op(_RETURN, _ERRNO | errno.ENOSYS)]
    for name, number in refused.items():
        if name not in BY_ARGUMENT:
            program += _when_number(number, [_op(_RETURN, answers.refused)])
    # Its flags lie in memory, where a filter cannot look; programs fall back to clone.
    program += _when_number(numbers["clone3"], [_op(_RETURN, _ERRNO | errno.ENOSYS)])
    program += _when_number(numbers["clone"], _deny_namespaces(answers.refused))
    program += _when_number(numbers["ioctl"], _deny_terminal_injection(answers.refused))
    for name in ("socket", "socketpair"):
        program += _when_number(numbers[name], _allow_families(answers.family))
    if answers.counted != _ALLOW:
        program += _report(numbers, counted, answers.counted)
    program.append(_op(_RETURN, _ALLOW))
    return b"".join(program)


def _report(numbers: Mapping[str, int], counted: Mapping[str, int], answer: int) -> list[bytes]:
    """Counted calls, what reaches for a place or a file to write, and what sets a set-id bit.

    Of openat2 every call, since its flags and its mode lie in memory.
    """
    program: list[bytes] = []
    for number in counted.values():
        program += _when_number(number, [_op(_RETURN, answer)])
    program += _when_number(numbers["connect"], [_op(_RETURN, answer)])
    for name, index in MODE_ARGUMENT.items():
        if name in numbers and name not in counted:
            writing = _report_bits(FLAGS_ARGUMENT[name], WRITE_BITS, answer) if name in FLAGS_ARGUMENT else []
            program += _when_number(numbers[name], [*writing, *_report_set_id(index, answer)])
    if "openat2" not in counted:
        program += _when_number(numbers["openat2"], [_op(_RETURN, answer)])
    return program


def describe_filter(
    tool_kind: str, machine: str | None = None, *, has_clone3: bool = True
) -> Mapping[str, object] | None:
    """The same filter as a profile for container engines, JSON-ready; None where the architecture is not known.

    Without `has_clone3` that call is left to the kernel: gVisor has none and answers EPERM to all that is refused,
    on which no program falls back to clone.

    Arguments are compared by the 32 bits that the kernel looks at: what lies above them would slip past an equality.
    """
    name = machine or platform.machine()
    if name not in ARCHITECTURES:
        return None
    denied = _ALWAYS_DENIED + (_DENIED_TO_SMALL if tool_kind == "small" else ())
    families = [family for family in range(_FAMILY_LAST + 1) if family not in (*_FAMILIES_ALLOWED, _NETLINK)]
    both = ("socket", "socketpair")
    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": [f"SCMP_ARCH_{name.upper()}"],
        "syscalls": [
            _refuse(denied, errno.EPERM),
            *[_refuse(("clone3",), errno.ENOSYS)] * has_clone3,
            *(_refuse(("clone",), errno.EPERM, _masked(0, flag, flag)) for flag in _NEW_NAMESPACE_BITS),
            *(_refuse(("ioctl",), errno.EPERM, _masked(1, _LOW_BITS, call)) for call in _TERMINAL_INJECTIONS),
            *(_refuse(both, errno.EAFNOSUPPORT, _masked(0, _LOW_BITS, family)) for family in families),
            _refuse(both, errno.EAFNOSUPPORT, {"index": 0, "value": _FAMILY_LAST, "op": "SCMP_CMP_GT"}),
            _refuse(
                both,
                errno.EAFNOSUPPORT,
                _masked(0, _LOW_BITS, _NETLINK),
                {"index": 2, "value": _NETLINK_ROUTE, "op": "SCMP_CMP_NE"},
            ),
        ],
    }


def _refuse(names: tuple[str, ...], error: int, *conditions: Mapping[str, object]) -> Mapping[str, object]:
    """All conditions must be met; two on the same argument would be taken as alternatives."""
    return {"names": list(names), "action": "SCMP_ACT_ERRNO", "errnoRet": error, "args": list(conditions)}


def _masked(index: int, mask: int, value: int) -> Mapping[str, object]:
    return {"index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return _INSTRUCTION.pack(code, if_true, if_false, value)


def _when_number(number: int, body: list[bytes]) -> list[bytes]:
    """Run `body`, which always returns, for one call number; it is loaded before and kept for the next test."""
    return [_op(_JUMP_EQUAL, number, 0, len(body)), *body]


def _argument(index: int) -> bytes:
    """Load the low half of an argument (both architectures are little-endian)."""
    return _op(_LOAD, _ARGUMENTS_AT + 8 * index)


def _deny_namespaces(refused: int) -> list[bytes]:
    return [
        _argument(0),
        _op(_JUMP_ANY, NEW_NAMESPACE_FLAGS, 0, 1),
        _op(_RETURN, refused),
        _op(_RETURN, _ALLOW),
    ]


def _deny_terminal_injection(refused: int) -> list[bytes]:
    first, second = _TERMINAL_INJECTIONS
    return [
        _argument(1),
        _op(_JUMP_EQUAL, first, 1, 0),
        _op(_JUMP_EQUAL, second, 0, 1),
        _op(_RETURN, refused),
        _op(_RETURN, _ALLOW),
    ]


def _allow_families(refused: int) -> list[bytes]:
    """UNIX and INET; netlink for routes alone, which programs use to list interfaces."""
    unix, inet, inet6 = _FAMILIES_ALLOWED
    return [
        _argument(0),
        _op(_JUMP_EQUAL, unix, 5, 0),
        _op(_JUMP_EQUAL, inet, 4, 0),
        _op(_JUMP_EQUAL, inet6, 3, 0),
        _op(_JUMP_EQUAL, _NETLINK, 0, 3),
        _argument(2),
        _op(_JUMP_EQUAL, _NETLINK_ROUTE, 0, 1),
        _op(_RETURN, _ALLOW),
        _op(_RETURN, refused),
    ]


def _report_bits(index: int, bits: int, answer: int) -> list[bytes]:
    return [_argument(index), _op(_JUMP_ANY, bits, 0, 1), _op(_RETURN, answer)]


def _report_set_id(index: int, answer: int) -> list[bytes]:
    return [*_report_bits(index, SET_ID_BITS, answer), _op(_RETURN, _ALLOW)]
