"""The supervisor's end of the call filter: what was refused gets a name, what is counted a number.

Purpose: answer the filter's reports (seccomp user notification) with an error and words for the record.
Invariant: a refused call is never let through; a counted one goes on to the kernel's own judgement, unseen by ours.
Must never: decide by what lies in the memory of the run (it can change between our look and the call), or trust it as
more than words.
"""

import errno
import fcntl
import os
import socket
import struct
import sys
import time
from collections import Counter
from types import MappingProxyType
from typing import Final

from gloveport.protocol.jail.requests import WatchPlan

_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_CONTINUE: Final = 1
_REPORT = struct.Struct("<QIIiIQ6Q")
_ANSWER = struct.Struct("<QqiI")
NAMED_MAX: Final = 16
"""Different refusals that are kept in words; more are only counted."""
REPORTS_MAX: Final = 20_000
"""Refusals that are answered one by one; then the listener is let go, and the kernel refuses by itself (ENOSYS)."""
PATH_BYTES_MAX: Final = 256
_SET_ID_BITS: Final = 0o6000
_WRITE_BITS: Final = 3
_AT_FDCWD: Final = (1 << 32) - 100
_ADDRESS_BYTES: Final = 28
_FAMILIES: Final = MappingProxyType({
    16: "netlink", 17: "packet", 29: "can", 31: "bluetooth", 38: "alg", 40: "vsock", 44: "xdp", 15: "key", 9: "x25",
    30: "tipc", 21: "rds",
})  # fmt: skip
_PATH_ARGUMENT: Final = MappingProxyType({
    "mount": 1, "umount2": 0, "pivot_root": 0, "chroot": 0, "swapon": 0, "open_tree": 1, "move_mount": 3, "acct": 0,
    "fspick": 1, "mount_setattr": 1, "open": 0, "openat": 1, "openat2": 1, "execve": 0, "execveat": 1,
})  # fmt: skip


class Watch:
    """Counts of one run. `socket` gives the listener once; `listener` is polled from then on."""

    def __init__(self, plan: WatchPlan, channel: socket.socket) -> None:
        self._refused = {int(number): name for number, name in plan.refused}
        self._counted = {int(number): name for number, name in plan.counted}
        self._set_id = {int(number): int(index) for number, index in plan.set_id}
        self._reaching = {int(number): name for number, name in plan.reaching}
        self._writable = plan.writable
        self.saw_set_id = False
        self._channel = channel
        self.channel_fd = channel.fileno()
        self.listener: int | None = None
        self._denied: Counter[str] = Counter()
        self._refusals = 0
        self._second, self._in_second, self.rate_peak = 0.0, 0, 0
        self._current: Counter[str] = Counter()
        self._busiest = self._current

    def take_listener(self) -> int | None:
        """Receive the filter's listener from the entry program; None when it ended without giving one."""
        try:
            _message, fds, _flags, _address = socket.recv_fds(self._channel, 1, 1)
        except OSError:
            fds = []
        self._channel.close()
        self.channel_fd = -1
        for fd in fds:
            os.set_inheritable(fd, False)
            self.listener = fd
        return self.listener

    def serve(self) -> bool:
        """Answer one report; False when the run needs no listener any more."""
        if self.listener is None:
            return False
        report = bytearray(_REPORT.size)
        try:
            fcntl.ioctl(self.listener, _RECEIVE, report)
        except OSError as error:
            return error.errno in (errno.EINTR, errno.ENOENT)  # ENOENT: the caller died before it was heard
        ident, pid, _flags, number, _arch, _ip, *arguments = _REPORT.unpack(report)
        if number in self._refused:
            self._note(self._refused[number], pid, arguments)
            family = self._refused[number] in ("socket", "socketpair")
            answer = _ANSWER.pack(ident, 0, -(errno.EAFNOSUPPORT if family else errno.EPERM), 0)
        else:
            index = self._set_id.get(number)
            self.saw_set_id |= index is not None and (index < 0 or bool(arguments[index] & _SET_ID_BITS))
            if number in self._counted:
                self._count(self._counted[number])
            if number in self._reaching:
                self._name(describe_reach(self._reaching[number], pid, arguments, self._writable))
            answer = _ANSWER.pack(ident, 0, 0, _CONTINUE)
        try:
            fcntl.ioctl(self.listener, _SEND, bytearray(answer))
        except OSError:
            return True  # the caller was killed meanwhile
        return self._refusals < REPORTS_MAX

    def close(self) -> None:
        """Let go; the kernel refuses what the filter would report."""
        if self.listener is not None:
            os.close(self.listener)
            self.listener = None
        elif self.channel_fd >= 0:
            self._channel.close()
            self.channel_fd = -1

    def denied(self) -> tuple[tuple[str, str], ...]:
        """Refusals in words with how often, in the order in which each was first seen."""
        return tuple((words, str(times)) for words, times in self._denied.items())

    def busiest(self) -> str:
        """The counted calls of the busiest second, in words."""
        return ", ".join(f"{times} {name}" for name, times in self._busiest.most_common(3))

    def _note(self, name: str, pid: int, arguments: list[int]) -> None:
        self._refusals += 1
        self._name(describe_call(name, pid, arguments))

    def _name(self, words: str) -> None:
        if words and (words in self._denied or len(self._denied) < NAMED_MAX):
            self._denied[words] += 1

    def _count(self, name: str) -> None:
        now = time.monotonic()
        if now - self._second >= 1.0:
            self._second, self._in_second = now, 0
            self._current = Counter()
        self._in_second += 1
        self._current[name] += 1
        if self._in_second > self.rate_peak:
            self.rate_peak, self._busiest = self._in_second, self._current


def describe_call(name: str, pid: int, arguments: list[int]) -> str:
    """A refused call in words, such as `mount /mnt` or `socket(vsock)`."""
    if name in ("socket", "socketpair"):
        family = arguments[0] & 0xFFFFFFFF
        return f"{name}({_FAMILIES.get(family, f'family {family}')})"
    if name in ("clone", "ioctl", "ptrace", "keyctl", "bpf"):
        return f"{name}({arguments[1 if name == 'ioctl' else 0] & 0xFFFFFFFF:#x})"
    if name in _PATH_ARGUMENT and (path := _read_path(pid, arguments[_PATH_ARGUMENT[name]])):
        return f"{name} {path}"
    return name


def describe_reach(name: str, pid: int, arguments: list[int], writable: tuple[str, ...]) -> str:
    """What a call reaches for that the jail does not give, such as `connect 192.0.2.1:443` or `write /etc/hosts`.

    Empty for what is inside: the kernel judges each, whatever is said here.
    """
    if name == "connect":
        return _describe_place(_read_memory(pid, arguments[1], min(arguments[2] & 0xFFFFFFFF, _ADDRESS_BYTES)))
    flags, at = (arguments[1], 0) if name == "open" else (arguments[2], 1)
    path = _read_path(pid, arguments[at]) if flags & _WRITE_BITS else ""
    if path and not path.startswith("/"):
        if at and arguments[0] & 0xFFFFFFFF != _AT_FDCWD:
            return ""
        try:
            path = os.path.join(os.readlink(f"/proc/{pid}/cwd"), path)
        except OSError:
            return ""
    path = os.path.normpath(path) if path else ""
    inside = any(path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in writable)
    return "" if not path or inside else f"write {path}"


def _describe_place(address: bytes) -> str:
    """A place that is not of the jail's own loopback; empty for one that is, and for another family."""
    family = int.from_bytes(address[:2], sys.byteorder)
    port = int.from_bytes(address[2:4], "big")
    if family == socket.AF_INET and len(address) >= 8:
        host = socket.inet_ntop(socket.AF_INET, address[4:8])
        is_own = host.startswith("127.") or host == "0.0.0.0"  # noqa: S104 - compared, not bound
    elif family == socket.AF_INET6 and len(address) >= 24:
        host = socket.inet_ntop(socket.AF_INET6, address[8:24])
        is_own = host in ("::1", "::") or host.startswith("::ffff:127.")
        host = f"[{host}]"
    else:
        return ""
    return "" if is_own else f"connect {host}:{port}"


def _read_memory(pid: int, address: int, count: int) -> bytes:
    """What the run says at that address; empty where it cannot be read."""
    try:
        fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(fd, count, address)
        finally:
            os.close(fd)
    except (OSError, ValueError, OverflowError):
        return b""


def _read_path(pid: int, address: int) -> str:
    """A path that the run says, made printable; empty where it cannot be read."""
    raw = _read_memory(pid, address, PATH_BYTES_MAX)
    text = raw.split(b"\0")[0].decode("utf-8", "replace")
    return "".join(char if char.isprintable() else "?" for char in text)
