"""What a jail sees of the disk: from mounts and hidden paths to an ordered list of binds and masks.

Purpose: decide the view before anything is mounted, and refuse what cannot be shown safely.
Invariant: nothing hidden is in a view: a source that is hidden or lies in something hidden is refused; one that
contains it is masked when read-only and refused when writable. No bind lands on a path the jail can bend by a link.
Must never: resolve a path inside the jail by following a link that the jail could have planted.
"""

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from pathlib import Path
from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.sandbox.contract import SandboxError
from gloveport.sandbox.profile import Access, Mount, Profile, is_below

_OWN_TARGETS: Final = ("/proc", "/dev", "/sys")
_REPLACED_NEVER: Final = ("/", "/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64")


class Cover(Enum):
    """How a place inside is filled."""

    READ_ONLY = auto()
    READ_WRITE = auto()
    LAYERED = auto()
    EMPTY_FOLDER = auto()
    EMPTY_FILE = auto()
    COVERED = auto()


@dataclass(frozen=True, slots=True)
class Placing:
    """One step of building the view; `source` is empty for an empty cover; `layer` takes what is written over it."""

    cover: Cover
    source: str
    target: str
    layer: str = ""


class Hidden:
    """Paths no jail may see, and the folders below them whose content is meant for jails (worktrees)."""

    def __init__(self, hidden: Iterable[Path], exposed: Iterable[Path] = ()) -> None:
        self.paths = tuple(sorted({os.path.realpath(path) for path in hidden}))
        self.exposed = tuple(os.path.realpath(path) for path in exposed)

    def check_source(self, source: str) -> None:
        """Refuse a source that is hidden itself, by name or by identity."""
        if any(is_below(source, root) and source != root for root in self.exposed):
            return
        ancestors = {_identity(str(path)) for path in (Path(source), *Path(source).parents)}
        for path in self.paths:
            if is_below(source, path) or _identity(path) in ancestors - {None}:
                raise _refuse(f"{source} holds the daemon's own files and is never shown to a sandbox.")

    def below(self, source: str) -> list[str]:
        """Hidden paths that a mount of `source` would show."""
        return [path for path in self.paths if path != source and is_below(path, source)]


def plan_mounts(mounts: tuple[Mount, ...], hidden: Hidden, *, layers: bool = False) -> list[Placing]:
    """Binds in the order in which they must be made, with the masks of what they would show.

    Without `layers` what is to be copied on write is read-only.
    """
    placings: list[Placing] = []
    ordered = sorted(mounts, key=lambda mount: mount.target.count("/"))
    for index, mount in enumerate(ordered):
        _check_target(mount.target)
        source = resolve_source(mount.source, hidden)
        for outer in ordered[:index]:
            _check_nesting(outer, mount)
        layer = resolve_source(mount.layer, hidden) if layers and mount.layer else ""
        cover = Cover.READ_WRITE if mount.access is Access.READ_WRITE else Cover.READ_ONLY
        placings.append(Placing(Cover.LAYERED if layer else cover, source, mount.target, layer))
        placings += _mask(source, mount.target, cover, hidden)
    return placings


def plan_covers(mounts: tuple[Mount, ...], covered: Iterable[str]) -> list[Placing]:
    """Covers of single files below mounts; each must be there as it is, with no link on the way, or it is refused."""
    placings = []
    for path in sorted(set(covered)):
        mount = max((m for m in mounts if is_below(path, m.target)), key=lambda m: len(m.target), default=None)
        if mount is None or path == mount.target:
            raise _refuse(f"{path} lies below no mount and cannot be covered.")
        if not stat.S_ISREG(_mode_without_links(mount, path)):
            raise _refuse(f"{path} is no regular file and cannot be covered.")
        placings.append(Placing(Cover.COVERED, "", path))
    return placings


def find_bendable(profile: Profile) -> frozenset[str]:
    """Sources that a run may write and below which this profile has a target of its own: a mount or a cover.

    What was checked there stays so only as long as no process writes there.
    """
    places = [*(mount.target for mount in profile.mounts), *profile.covered]
    return frozenset(
        os.path.realpath(outer.source)
        for outer in profile.mounts
        if outer.access is Access.READ_WRITE
        and any(place != outer.target and is_below(place, outer.target) for place in places)
    )


def find_written(profile: Profile) -> frozenset[str]:
    """Real paths of what a run of this profile may write."""
    return frozenset(os.path.realpath(mount.source) for mount in profile.mounts if mount.access is Access.READ_WRITE)


def without_layers(profile: Profile) -> Profile:
    """The same with everything read-only that would be copied on write."""
    plain = (
        Mount(each.source, each.target, Access.READ_ONLY) if each.access is Access.COPY_ON_WRITE else each
        for each in profile.mounts
    )
    return replace(profile, mounts=tuple(plain))


def refuse_covers(profile: Profile, rung: str) -> None:
    """Refuse a profile that hides files, for a rung without a view of its own."""
    if profile.covered:
        words = (
            f"{len(profile.covered)} files that may hold secrets cannot be hidden from code in the sandbox {rung!r}."
        )
        raise SandboxError(ErrorCode.SANDBOX_REFUSED, words, hint="Ask again: the files are then named on the card.")


def refuse_image(profile: Profile, rung: str) -> None:
    """Refuse a profile that names an image, for a rung that shows this machine's programs."""
    if profile.image:
        words = f"The sandbox {rung!r} shows this machine's programs and takes no image."
        raise SandboxError(ErrorCode.SANDBOX_REFUSED, words, hint="Choose docker or gvisor, or do without the image.")


def plan_system(paths: Iterable[str], hidden: Hidden) -> list[Placing]:
    """Read-only binds of the machine's own folders and files at their own place; missing ones are left out."""
    placings: list[Placing] = []
    for path in paths:
        if os.path.exists(path) and not os.path.islink(path):
            hidden.check_source(path)
            placings.append(Placing(Cover.READ_ONLY, path, path))
            placings += _mask(path, path, Cover.READ_ONLY, hidden)
    return placings


def resolve_source(source: str, hidden: Hidden) -> str:
    """The real path of a source that may be shown: an existing folder or regular file."""
    real = os.path.realpath(source)
    try:
        mode = os.stat(real).st_mode
    except OSError as error:
        raise _refuse(f"Nothing to mount at {source}: {error.strerror}.") from error
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise _refuse(f"Only folders and regular files are mounted, {source} is neither.")
    hidden.check_source(real)
    return real


def _mask(source: str, target: str, cover: Cover, hidden: Hidden) -> list[Placing]:
    masks = []
    for path in hidden.below(source):
        if cover is Cover.READ_WRITE:
            raise _refuse(f"{source} contains the daemon's own files; it cannot be mounted writable.")
        while not os.path.lexists(path):  # what does not exist yet is covered by the folder it will appear in
            path = os.path.dirname(path)
        if path == source:
            raise _refuse(f"{source} will contain the daemon's own files; it cannot be mounted.")
        inside = target.rstrip("/") + path[len(source.rstrip("/")) :]
        masks.append(Placing(Cover.EMPTY_FOLDER if os.path.isdir(path) else Cover.EMPTY_FILE, "", inside))
    return masks


def _check_target(target: str) -> None:
    if target in _REPLACED_NEVER or any(is_below(target, own) for own in _OWN_TARGETS):
        raise _refuse(f"{target} belongs to the sandbox; nothing is mounted there.")


def _check_nesting(outer: Mount, inner: Mount) -> None:
    """A target below another mount must exist there as it is, with no link on the way: nothing is made on the host."""
    if not is_below(inner.target, outer.target):
        return
    if inner.target == outer.target:
        raise _refuse(f"Two mounts share the target {inner.target}.")
    _mode_without_links(outer, inner.target)


def _mode_without_links(outer: Mount, target: str) -> int:
    """The mode of what lies at a target below a mount; refused where it is missing or reached by a link."""
    path, mode = os.path.realpath(outer.source), 0
    for part in target[len(outer.target) :].strip("/").split("/"):
        path = os.path.join(path, part)
        try:
            mode = os.lstat(path).st_mode
        except OSError as error:
            raise _refuse(f"{target} does not exist below the mount {outer.target}.") from error
        if stat.S_ISLNK(mode):
            raise _refuse(f"{target} leads through a link below the mount {outer.target}.")
    return mode


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _refuse(words: str) -> SandboxError:
    return SandboxError(ErrorCode.SANDBOX_REFUSED, words, hint="Mount a narrower path.")
