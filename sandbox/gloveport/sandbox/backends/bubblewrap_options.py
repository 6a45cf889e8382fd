"""The options of one bubblewrap run.

Purpose: from a profile to bubblewrap's arguments, in an order in which each step finds its place.
Invariant: the root, /dev and the masks end read-only; the environment is the profile's and nothing else.
Must never: put a value of the environment or a mount on the command line, where every process of the host reads it.
"""

import os
from dataclasses import replace
from typing import Final

from gloveport.protocol.jail.requests import UserPlan
from gloveport.sandbox.backends.view import Cover, Hidden, Placing, plan_covers, plan_mounts, plan_system
from gloveport.sandbox.egress.way import host_lines
from gloveport.sandbox.profile import Limits, Profile
from gloveport.sandbox.programs import PATH_DEFAULT
from gloveport.sandbox.runner.users import STAGE

ROOT_LINKS: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
ETC_SHOWN: Final = tuple(
    f"/etc/{name}"
    for name in (
        "alternatives", "ld.so.cache", "localtime", "mime.types", "pki/tls/certs", "services", "ssl/certs",
        "ssl/openssl.cnf",
    )
)  # fmt: skip
"""What programs need of it; every bind costs a part of a millisecond. Nothing here holds a secret."""
_PROC_READ_ONLY: Final = ("acpi", "fs", "mtrr", "pressure", "scsi", "sys", "sysrq-trigger")
"""Kernel settings that a jail of the host's root could write by its uid alone, without any capability."""
_PROC_ANYBODY: Final = ("pressure", "sys")
"""What of it anybody, or the owner of the jail's own namespaces, could write."""
_HOSTS: Final = b"127.0.0.1 localhost\n::1 localhost\n"
_NAMES: Final = b"passwd: files\ngroup: files\nhosts: files\n"
_TMP, _SHM = "/tmp", "/dev/shm"  # noqa: S108 - places inside the jail
_EMPTY_FILES_MAX: Final = 64
_SHM_BYTES: Final = 64 * 1024 * 1024


class Blobs:
    """Contents that the started program finds under descriptor numbers."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._contents: list[bytes] = []

    def add(self, content: bytes) -> int:
        """Take a content and return its descriptor number."""
        self._contents.append(content)
        return self._first + len(self._contents) - 1

    def contents(self) -> tuple[bytes, ...]:
        """All contents in order."""
        return tuple(self._contents)


class Staging:
    """Where the sources of mounts wait for a jail whose user cannot go to them: see `UserPlan`.

    `with_system`: the machine's programs too; else the jail sees of them what anybody may.
    """

    def __init__(self, *, with_system: bool) -> None:
        self.with_system = with_system
        self._mounts: list[tuple[str, str]] = []

    def place(self, source: str) -> str:
        """Let a source wait; its place."""
        self._mounts.append((source, f"{STAGE}/{len(self._mounts)}"))
        return self._mounts[-1][1]

    def plan(self) -> UserPlan:
        """What waits where."""
        return UserPlan(tuple(self._mounts))


def lay_out(
    profile: Profile,
    hidden: Hidden,
    blobs: Blobs,
    entry: tuple[str, bytes] | None = None,
    staging: Staging | None = None,
) -> list[str]:
    """All options that describe the jail. `entry`: a program and its path inside, which sets the environment itself.

    `staging`: where the sources of mounts are found by a jail under a user id of its own.
    """
    options = [
        "--unshare-user", "--uid", str(os.getuid()), "--gid", str(os.getgid()),
        "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup",
        "--disable-userns", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "gloveport",
    ]  # fmt: skip
    options += _lay_system(profile, hidden, blobs, staging if staging is not None and staging.with_system else None)
    options += ["--proc", "/proc", *_cover_proc(is_root=os.getuid() == 0 and staging is None), "--dev", "/dev"]
    options += _lay_temporary(profile.limits)
    placings = plan_mounts(profile.mounts, hidden, layers=True)
    options += [option for placing in placings for option in _place(_staged(placing, staging))]
    options += _lay_covers(profile, blobs)
    if entry is not None:
        options += ["--perms", "0555", "--file", str(blobs.add(entry[1])), entry[0]]
    options += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", profile.working_dir, "--clearenv"]
    return options if entry is not None else options + _lay_environment(profile)


def plan_environment(profile: Profile) -> dict[str, str]:
    """The whole environment of a command."""
    return {"PATH": PATH_DEFAULT, "LANG": "C.UTF-8", "HOME": _TMP, "TMPDIR": _TMP, **profile.environment}


def describe_view(profile: Profile, hidden: Hidden) -> list[dict[str, str]]:
    """The mounts in force, masks included, for the audit."""
    return [
        {"target": placing.target, "cover": placing.cover.name.lower(), "source": placing.source}
        for placing in (
            *plan_mounts(profile.mounts, hidden, layers=True),
            *plan_covers(profile.mounts, profile.covered),
        )
    ]


def _lay_system(profile: Profile, hidden: Hidden, blobs: Blobs, staging: Staging | None) -> list[str]:
    options: list[str] = []
    for placing in plan_system(("/usr", *ETC_SHOWN), hidden):
        options += _place(_staged(placing, staging))
    for link in ROOT_LINKS:
        if os.path.islink(link):
            options += ["--symlink", os.readlink(link), link]
        else:
            placings = plan_system((link,), hidden)
            options += [option for placing in placings for option in _place(_staged(placing, staging))]
    user, group = os.getuid(), os.getgid()
    files = {
        "/etc/passwd": f"user:x:{user}:{group}::{_TMP}:/bin/sh\n".encode(),
        "/etc/group": f"user:x:{group}:\n".encode(),
        "/etc/hosts": _HOSTS + (b"" if profile.way_out is None else host_lines(profile.way_out)),
        "/etc/nsswitch.conf": _NAMES,
    }
    for path, content in files.items():
        options += ["--perms", "0444", "--file", str(blobs.add(content)), path]
    return options


def _staged(placing: Placing, staging: Staging | None) -> Placing:
    if staging is None or not placing.source:
        return placing
    layer = staging.place(placing.layer) if placing.layer else ""
    return replace(placing, source=staging.place(placing.source), layer=layer)


def _cover_proc(*, is_root: bool) -> list[str]:
    names = _PROC_READ_ONLY if is_root else _PROC_ANYBODY
    existing = (f"/proc/{name}" for name in names if os.path.exists(f"/proc/{name}"))
    return [option for path in existing for option in ("--ro-bind", path, path)]


def _lay_temporary(limits: Limits) -> list[str]:
    size = str(limits.tmp_bytes_max)
    return [
        "--perms", "1777", "--size", str(min(limits.tmp_bytes_max, _SHM_BYTES)), "--tmpfs", _SHM,
        "--perms", "1777", "--size", size, "--tmpfs", _TMP,
        "--perms", "0755", "--dir", "/var", "--symlink", _TMP, "/var/tmp",  # noqa: S108 - places inside the jail
    ]  # fmt: skip


def _place(placing: Placing) -> list[str]:
    match placing.cover:
        case Cover.READ_ONLY:
            return ["--ro-bind", placing.source, placing.target]
        case Cover.READ_WRITE:
            return ["--bind", placing.source, placing.target]
        case Cover.LAYERED:
            written = [f"{placing.layer}/{name}" for name in ("upper", "work")]
            return ["--overlay-src", placing.source, "--overlay", *written, placing.target]
        case Cover.EMPTY_FOLDER:
            return ["--perms", "0555", "--size", "4096", "--tmpfs", placing.target, "--remount-ro", placing.target]
        case Cover.EMPTY_FILE | Cover.COVERED:
            return ["--ro-bind", os.devnull, placing.target]


def _lay_covers(profile: Profile, blobs: Blobs) -> list[str]:
    """An empty file over each; where there are many, one that cannot be opened: each empty one takes a descriptor."""
    options: list[str] = []
    for index, placing in enumerate(plan_covers(profile.mounts, profile.covered)):
        if index < _EMPTY_FILES_MAX:
            options += ["--perms", "0444", "--ro-bind-data", str(blobs.add(b"")), placing.target]
        else:
            options += _place(placing)
    return options


def _lay_environment(profile: Profile) -> list[str]:
    return [option for name, value in plan_environment(profile).items() for option in ("--setenv", name, value)]
