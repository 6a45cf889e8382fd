"""A user id of its own for one run, where this program is root.

Purpose: a run whose user owns nothing on this machine, and whose files belong all the same to whom they belonged: its
mounts map the run's id to root's and back, so no file changes its owner and nothing stays behind.
Invariant: an id is one run's as long as the run's supervisor lives: the kernel holds its lock, and lets go with it;
daemons that see different files, in containers with the machine's ids, hold it against each other by what the kernel
counts for each id.
Must never: give out an id of which this program's user namespace knows nothing, or one that another run has.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import random
import resource
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gloveport.protocol.jail.requests import UserPlan
from gloveport.sandbox.runner import prctl

FIRST: Final = 2_100_000_000
COUNT: Final = 65_536
"""Ids that no convention gives to people, services, containers or directories (systemd's map, sssd's range)."""
LOCK_FILE: Final = "/run/gloveport-users.lock"
"""One for the machine: its i-th byte is locked by whoever has the i-th id."""
TRIES_MAX: Final = 256
NOT_HAD: Final = "map ids"
"""The step of a start that fails for want of a user id or of a mount that maps it, as its end names it."""
STAGE: Final = "/tmp"  # noqa: S108 - in a mount namespace of the run's own, where nothing of the machine's lies
"""Where the run's mounts wait for bubblewrap, which goes there as the run's user and reaches nothing below root's."""
_STAGE_OPTIONS: Final = b"mode=0755,size=256k"
_ID_MAX: Final = 2**32 - 1
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_CLONE, _RECURSIVE, _CLOEXEC, _EMPTY_PATH = 1, 0x8000, 0o2000000, 0x1000
_MOVE_FROM_EMPTY: Final = 4
_NOSUID, _NODEV, _IDMAP = 2, 4, 0x100000
_NEW_MOUNTS, _NEW_QUEUES, _NEW_USER = 0x20000, 0x8000000, 0x10000000
_PRIVATE_ALL: Final = 0x40000 | 0x4000
_HERE: Final = -100
_QUEUE_CALLS: Final = (240, 241) if os.uname().machine == "x86_64" else (180, 181)
"""mq_open and mq_unlink."""
_ONE_QUEUE_BYTES: Final = 160
"""A message queue for one message of one byte counts for 97 bytes of its user's: one is within this, two are not."""


@dataclass(frozen=True, slots=True)
class OwnUser:
    """An id that is taken, and the namespace whose map turns root into it and it into root."""

    uid: int
    map_fd: int
    lock_fd: int
    claim_fd: int = -1


def take_user() -> OwnUser:
    """Take an id that nobody has. Raises OSError where that cannot be had; the id is given back with this process."""
    lock_fd = os.open(LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        for offset in random.sample(range(COUNT), TRIES_MAX):
            try:
                fcntl.lockf(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset)
                claim_fd = _claim(FIRST + offset)
            except (BlockingIOError, PermissionError):
                continue
            return OwnUser(FIRST + offset, _make_map(FIRST + offset), lock_fd, claim_fd)
        raise OSError(errno.EAGAIN, "no user id is free")
    except OSError:
        os.close(lock_fd)
        raise


def stage_mounts(plan: UserPlan, user: OwnUser) -> None:
    """In the run's own process: a mount namespace of its own in which each source waits at its place.

    Raises OSError.
    """
    waiting = [(place, _copy_mount(source, user.map_fd)) for source, place in plan.mounts]
    libc = prctl.load()
    _checked(libc.unshare(ctypes.c_int(_NEW_MOUNTS)))
    _mount(b"none", b"/", None, _PRIVATE_ALL, None)
    _mount(b"tmpfs", os.fsencode(STAGE), b"tmpfs", _NOSUID | _NODEV, _STAGE_OPTIONS)
    for place, fd in waiting:
        _attach(place, fd)


def become(user: OwnUser) -> None:
    """Be that user in this process, without groups or any capability. What dies with the parent is to be said again."""
    os.setgroups([])
    os.setresgid(user.uid, user.uid, user.uid)
    os.setresuid(user.uid, user.uid, user.uid)


def _claim(uid: int) -> int:
    """Hold an id against all on this kernel, whatever files they see; a descriptor, -1 where that cannot be had.

    A nameless message queue of that user's, made under a limit of one: the kernel counts them by user alone, over all
    namespaces of files, processes and queues. It is made in a namespace of this process's own, where that can be had,
    so that its name ends with this process whenever it dies. Raises `BlockingIOError` where somebody has the id.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_MSGQUEUE)
    if 0 <= hard < _ONE_QUEUE_BYTES:
        return -1
    libc, (call, unlink) = prctl.load(), _QUEUE_CALLS
    libc.unshare(ctypes.c_int(_NEW_QUEUES))
    name = f"gloveport-{uid}-{os.urandom(8).hex()}".encode()
    attributes = struct.pack("@8l", 0, 1, 1, 0, 0, 0, 0, 0)
    flags = ctypes.c_int(os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)
    resource.setrlimit(resource.RLIMIT_MSGQUEUE, (_ONE_QUEUE_BYTES, hard))
    os.setresuid(uid, -1, -1)
    try:
        fd = int(libc.syscall(ctypes.c_long(call), name, flags, ctypes.c_uint(0), attributes))
        error = ctypes.get_errno()
    finally:
        os.setresuid(0, -1, -1)
        resource.setrlimit(resource.RLIMIT_MSGQUEUE, (soft, hard))
    if fd < 0 and error == errno.EMFILE:
        raise BlockingIOError(errno.EAGAIN, "another run has this user id")
    if fd >= 0:
        libc.syscall(ctypes.c_long(unlink), name)
    return fd


def _make_map(uid: int) -> int:
    """A user namespace that exists for its map alone: root and this id change places, everybody else stays."""
    ready_read, ready_write = os.pipe()
    go_read, go_write = os.pipe()
    libc = prctl.load()
    pid = os.fork()
    if pid == 0:
        if libc.unshare(ctypes.c_int(_NEW_USER)) == 0:
            os.write(ready_write, b".")
            os.close(go_write)
            os.read(go_read, 1)
        os._exit(0)
    try:
        os.close(ready_write)
        if not os.read(ready_read, 1):
            raise OSError(errno.EPERM, "no user namespace can be made")
        spans = ((0, uid, 1), (1, 1, uid - 1), (uid, 0, 1), (uid + 1, uid + 1, _ID_MAX - uid - 1))
        text = "".join(f"{inside} {outside} {count}\n" for inside, outside, count in _known(spans))
        for name in ("uid_map", "gid_map"):
            _write(f"/proc/{pid}/{name}", text.encode())
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        for fd in (ready_read, go_read, go_write):
            os.close(fd)
        with contextlib.suppress(ChildProcessError):  # where nobody is waited for, the kernel has done it
            os.waitpid(pid, 0)


def _known(spans: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """The spans, cut to what this namespace has: a map that names more is refused."""
    with open("/proc/self/uid_map", encoding="ascii") as file:
        own = [(int(start), int(count)) for start, _outside, count in map(str.split, file)]
    cut = []
    for inside, outside, count in spans:
        for start, length in own:
            low, high = max(outside, start), min(outside + count, start + length)
            if low < high:
                cut.append((inside + low - outside, low, high - low))
    return cut


def _copy_mount(source: str, map_fd: int) -> int:
    """A copy of a mount that is nowhere yet; what is mounted below comes along, unmapped where it cannot be mapped."""
    libc = prctl.load()
    flags = ctypes.c_uint(_CLONE | _RECURSIVE | _CLOEXEC)
    fd = _checked(libc.syscall(ctypes.c_long(_OPEN_TREE), ctypes.c_int(_HERE), os.fsencode(source), flags))
    attributes = struct.pack("<QQQQ", _NOSUID | _NODEV | _IDMAP, 0, 0, map_fd)

    def change(how: int) -> int:
        size = ctypes.c_size_t(len(attributes))
        call = ctypes.c_long(_MOUNT_SETATTR)
        return int(libc.syscall(call, ctypes.c_int(fd), b"", ctypes.c_uint(_EMPTY_PATH | how), attributes, size))

    if change(_RECURSIVE) < 0:
        _checked(change(0))
    return fd


def _attach(place: str, fd: int) -> None:
    if os.path.isdir(f"/proc/self/fd/{fd}"):
        os.mkdir(place, 0o700)
    else:
        os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    call, flags = ctypes.c_long(_MOVE_MOUNT), ctypes.c_uint(_MOVE_FROM_EMPTY)
    moved = prctl.load().syscall(call, ctypes.c_int(fd), b"", ctypes.c_int(_HERE), os.fsencode(place), flags)
    os.close(fd)
    _checked(moved)


def _mount(source: bytes, target: bytes, kind: bytes | None, flags: int, options: bytes | None) -> None:
    _checked(prctl.load().mount(source, target, kind, ctypes.c_ulong(flags), options))


def _write(path: str, content: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, content)
    finally:
        os.close(fd)


def _checked(result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return int(result)
