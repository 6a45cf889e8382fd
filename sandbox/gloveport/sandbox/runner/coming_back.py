"""What another machine sends back, read as the word of a stranger.

Purpose: an engine's archive of a run's results, checked to the last byte before anything is written, then written.
Invariant: only names that we expect, plain files, sizes within the caps and contents whose hash we computed ourselves;
what does not fit refuses the whole. Nothing is written outside the folders that were sent, nor through a link.
Must never: unpack an archive by its own words, set set-id bits, or write over what was changed here meanwhile.
"""

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import stat
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from gloveport.sandbox.runner import handles
from gloveport.sandbox.runner.parcels import EMPTY, Entry, Parcel, read_content

END_BYTES_MAX: Final = 1024 * 1024
TREE_BYTES_MAX: Final = 128 * 1024 * 1024
RING_BYTES_MAX: Final = 16 * 1024 * 1024
BACK_BYTES_MAX: Final = 4 * 1024 * 1024 * 1024
FILES_MAX: Final = 200_000
PATH_BYTES_MAX: Final = 4096
DEPTH_MAX: Final = 128
LINK_BYTES_MAX: Final = 4096
PIECE: Final = 256 * 1024
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_FIELDS: Final = 7


class Refused(ValueError):  # noqa: N818 - an outcome, not a fault of this program
    """What came back is not what may come back; nothing of it was written."""


class Tampered(Refused):
    """It is what no keeper of ours sends: another content than its hash says, a path that leads out, a second end."""


@dataclass(slots=True)
class Arrived:
    """A whole, checked archive: the end's words, lines of the tree, contents by their hash, the output's ring."""

    folder: Path
    end: dict[str, Any]
    tree: list[list[Any]]
    contents: dict[str, Path]
    ring: Path | None


@dataclass(slots=True)
class Change:
    """What a parcel's folder is to become, beside what stays. `unseen`: paths below which nobody could look there."""

    parcel: Parcel
    gone: list[Entry] = field(default_factory=list)
    made: list[Entry] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)


class Joined(io.RawIOBase):
    """A stream whose first bytes were read already."""

    def __init__(self, rest: bytes, file: IO[bytes]) -> None:
        super().__init__()
        self._rest, self._file = rest, file

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        if not self._rest:
            return self._file.read(size)
        piece, self._rest = self._rest[:size], self._rest[size:]
        return piece


def receive(stream: Joined, folder: Path, marker: str) -> Arrived:
    """Read an archive of the folder `out` into `folder` (new). Raises `Refused`, `OSError`."""
    folder.mkdir(mode=0o700)
    files: dict[str, Path] = {}
    total = 0
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                if len(files) > FILES_MAX:
                    raise Refused("more files than may come back")
                name = _check_member(member, total)
                if name is None:
                    continue
                if name in files:
                    raise Tampered(f"{name!r} comes twice")
                total += member.size
                source = archive.extractfile(member)
                if source is None:
                    raise Refused(f"{name!r} has no content")
                files[name] = _store(source, folder, name, member.size)
    except (tarfile.TarError, EOFError) as error:
        raise Refused(f"the archive is broken: {error}") from error
    return _check_whole(folder, files, marker)


def _check_member(member: tarfile.TarInfo, total: int) -> str | None:
    """The name below `out`, None for a folder. Raises `Refused` for everything that we did not ask for."""
    name = member.name.removeprefix("./")
    if member.isdir() and name.rstrip("/") in ("out", "out/b"):
        return None
    if not member.isreg() or member.issparse() or member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
        raise Tampered(f"{member.name!r} is no plain file")
    inside = name.removeprefix("out/")
    limit = {"end.json": END_BYTES_MAX, "tree": TREE_BYTES_MAX, "output": RING_BYTES_MAX}.get(inside)
    if limit is None and inside.startswith("b/") and _HASH.fullmatch(inside[2:]):
        limit = BACK_BYTES_MAX
    if limit is None or not name.startswith("out/"):
        raise Tampered(f"{member.name!r} was not asked for")
    if not 0 <= member.size <= limit or total + member.size > BACK_BYTES_MAX + TREE_BYTES_MAX:
        raise Refused(f"{member.name!r} is larger than may come back")
    return inside


def _store(source: IO[bytes], folder: Path, name: str, size: int) -> Path:
    """Keep a member under a name of ours; a content is what its name says, by our own count and hash."""
    path = folder / name.replace("/", "-")
    seen, copied = hashlib.sha256(), 0
    with open(path, "xb") as file:
        while piece := source.read(PIECE):
            seen.update(piece)
            copied += file.write(piece)
    if copied != size:
        raise Refused(f"{name!r} ends before its length")
    if name.startswith("b/") and seen.hexdigest() != name[2:]:
        raise Tampered(f"{name!r} is not what its hash says")
    return path


def _check_whole(folder: Path, files: dict[str, Path], marker: str) -> Arrived:
    """The end bears our marker, and the tree is the one that it names."""
    if "end.json" not in files or "tree" not in files:
        raise Refused("the end is missing")
    try:
        end = json.loads(files["end.json"].read_bytes())
        raw = files["tree"].read_bytes()
        tree = [json.loads(line) for line in raw.splitlines()]
    except (ValueError, RecursionError) as error:
        raise Refused(f"the end cannot be read: {error}") from error
    if not isinstance(end, dict) or end.get("marker") != marker:
        raise Tampered("the end bears another run's marker")
    if end.get("tree") != hashlib.sha256(raw).hexdigest() or end.get("entries") != len(tree):
        raise Tampered("the tree is not the one that the end names")
    contents = {name[2:]: path for name, path in files.items() if name.startswith("b/")}
    return Arrived(folder, end, tree, contents, files.get("output"))


def compare(parcels: list[Parcel], covered: list[frozenset[str]], arrived: Arrived) -> list[Change]:
    """What is to be done, for each folder that was sent writable. Raises `Refused`; nothing was written."""
    changes = {index: Change(parcel) for index, parcel in enumerate(parcels) if parcel.plan.is_writable}
    now: dict[int, dict[str, Entry]] = {index: {} for index in changes}
    unseen: dict[int, set[str]] = {index: set() for index in changes}
    for line in arrived.tree:
        index, entry = _read_line(line)
        if index not in changes or entry.path in now[index]:
            raise Tampered(f"{entry.path!r} belongs to nothing that was sent")
        above = os.path.dirname(entry.path)
        if above and (above not in now[index] or now[index][above].kind != "d"):
            raise Tampered(f"{entry.path!r} lies in no folder")
        if any(entry.path == other or entry.path.startswith(other + "/") for other in parcels[index].others):
            raise Tampered(f"{entry.path!r} lies where another folder stands")
        now[index][entry.path] = entry
        if entry.kind == "?":
            unseen[index].add(entry.path)
    there = {EMPTY, *arrived.contents, *_list_own(parcels)}
    for index, change in changes.items():
        _compare_one(change, now[index], covered[index], unseen[index])
        for entry in change.made:
            if entry.kind == "f" and entry.what not in there:
                raise Refused(f"the content of {entry.path!r} did not come")
    return [change for change in changes.values() if change.gone or change.made or change.unseen]


def _read_line(line: object) -> tuple[int, Entry]:
    if not isinstance(line, list) or len(line) != _FIELDS:
        raise Refused("a line of the tree is none")
    index, kind, path, mode, mtime, size, what = line
    for number in (index, mode, mtime, size):
        if type(number) is not int or not 0 <= number < 1 << 63:
            raise Refused("a line of the tree has no number where one belongs")
    if not isinstance(path, str) or not isinstance(what, str) or kind not in ("d", "f", "l", "?"):
        raise Refused("a line of the tree is none")
    parts = path.split("/")
    if "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise Tampered(f"{path!r} is no path inside")
    try:
        too_long = len(os.fsencode(path)) > PATH_BYTES_MAX or len(os.fsencode(what)) > LINK_BYTES_MAX
    except UnicodeEncodeError as error:
        raise Refused(f"{path!r} is no path") from error
    if too_long or len(parts) > DEPTH_MAX or (kind == "l" and (not what or "\0" in what)):
        raise Refused(f"{path!r} is longer or deeper than a path may be, or leads nowhere")
    if kind == "f" and (not _HASH.fullmatch(what) or size > BACK_BYTES_MAX):
        raise Refused(f"{path!r} has no hash")
    return index, Entry(kind, path, mode & 0o777, mtime, size, what)


def _compare_one(change: Change, now: dict[str, Entry], covered: frozenset[str], unseen: set[str]) -> None:
    before = change.parcel.by_path
    hiding: set[str] = set()
    for path, entry in before.items():
        if not path or path in now or path in covered:
            continue
        if (above := _find_unseen(path, unseen)) is None:
            change.gone.append(entry)
        else:
            hiding.add(above)
    change.unseen = sorted(hiding)
    for path, entry in now.items():
        old = before.get(path)
        if path in covered or path in unseen:
            continue  # what was never shown cannot be changed; what cannot come back stays as it is here
        if old is None or (old.kind, old.what, old.mode) != (entry.kind, entry.what, entry.mode):
            change.made.append(entry)


def _find_unseen(path: str, unseen: set[str]) -> str | None:
    """The folder above a path into which nobody could look: what is not told from there is not gone."""
    while path := os.path.dirname(path):
        if path in unseen:
            return path
    return None


def _list_own(parcels: list[Parcel]) -> dict[str, tuple[str, Entry]]:
    """Contents that we sent ourselves, under whatever name: folder and entry by hash."""
    return {
        entry.what: (parcel.plan.source, entry)
        for parcel in parcels
        for entry in parcel.entries
        if entry.kind == "f" and entry.what != EMPTY
    }


def bring(parcels: list[Parcel], changes: list[Change], arrived: Arrived) -> list[str]:
    """Write what was checked; words about paths that were changed here meanwhile and stay as they are."""
    own = _list_own(parcels)
    for change in changes:
        for entry in change.made:
            if entry.kind == "f" and entry.what not in arrived.contents:
                arrived.contents[entry.what] = _copy_own(own.get(entry.what), entry, arrived.folder)
    told: list[str] = []
    for change in changes:
        told += _Writing(change, arrived).perform()
    return told


def _copy_own(own: tuple[str, Entry] | None, entry: Entry, folder: Path) -> Path:
    """A file that was moved or copied over there: its content is one of ours, read before anything is written."""
    path, seen = folder / f"own-{entry.what}", hashlib.sha256()
    with open(path, "wb") as file:
        if own is not None:
            source, other = own
            for piece in read_content(source, other.path, other.size):
                seen.update(piece)
                file.write(piece)
    if seen.hexdigest() != entry.what:
        raise Refused(f"the content of {entry.path!r} was changed here meanwhile")
    return path


class _Writing:
    """One folder's changes, each made below an open folder, component by component, never through a link."""

    def __init__(self, change: Change, arrived: Arrived) -> None:
        self._change, self._arrived = change, arrived
        self._source = change.parcel.plan.source
        self._before = change.parcel.by_path
        self._kept: set[str] = set()
        self.told: list[str] = []

    def perform(self) -> list[str]:
        """Remove, then make; folders get their modes last."""
        for path in self._change.unseen:
            self._keep(path, "what lies below it could not be seen")
        made = {entry.path: entry for entry in self._change.made}
        turned = [old for path, old in self._before.items() if path in made and made[path].kind != old.kind]
        for entry in sorted([*self._change.gone, *turned], key=lambda one: one.path, reverse=True):
            self._remove(entry)
        for entry in sorted(self._change.made, key=lambda one: (one.path.count("/"), one.path)):
            if entry.path not in self._kept:
                self._make(entry)
        folders = [entry for entry in self._change.made if entry.kind == "d" and entry.path not in self._kept]
        for entry in sorted(folders, key=lambda one: one.path, reverse=True):
            self._finish_folder(entry)
        return self.told

    def _keep(self, path: str, words: str) -> None:
        self._kept.add(path)
        self.told.append(f"{path}: {words}; what the other machine has was not taken")

    @contextlib.contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int, str]]:
        """The folder of a path, opened without following a link."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self._source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            *above, name = path.split("/")
            for part in above:
                inner = os.open(part, flags, dir_fd=fd)
                os.close(fd)
                fd = inner
            yield fd, name
        finally:
            os.close(fd)

    def _is_as_sent(self, path: str, fd: int, name: str) -> bool:
        """Whether what lies here is what was sent, or nothing was sent and nothing lies here."""
        sent = self._before.get(path)
        try:
            found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            return True
        if sent is None:
            return stat.S_ISDIR(found.st_mode)
        if sent.kind == "d":
            return stat.S_ISDIR(found.st_mode)
        if sent.kind == "l":
            return stat.S_ISLNK(found.st_mode) and os.readlink(name, dir_fd=fd) == sent.what
        return stat.S_ISREG(found.st_mode) and (found.st_size, found.st_mtime_ns) == (sent.size, sent.mtime_ns)

    def _remove(self, entry: Entry) -> None:
        try:
            with self._parent(entry.path) as (fd, name):
                if not self._is_as_sent(entry.path, fd, name):
                    self._keep(entry.path, "changed here meanwhile")
                elif entry.kind == "d":
                    os.rmdir(name, dir_fd=fd)
                else:
                    os.unlink(name, dir_fd=fd)
        except FileNotFoundError:
            return
        except OSError as error:
            self._keep(entry.path, f"it could not be removed ({error.strerror})")

    def _make(self, entry: Entry) -> None:
        try:
            with self._parent(entry.path) as (fd, name):
                if not self._is_as_sent(entry.path, fd, name):
                    self._keep(entry.path, "changed here meanwhile")
                elif entry.kind == "d":
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, 0o755, dir_fd=fd)
                else:
                    self._replace(entry, fd, name)
        except OSError as error:
            self._keep(entry.path, f"it could not be written ({error.strerror})")

    def _finish_folder(self, entry: Entry) -> None:
        """The folder's own rights; whatever else lies there by now keeps its own."""
        try:
            with self._parent(entry.path) as (fd, name):
                handles.set_folder_mode(name, entry.mode | stat.S_IRWXU, fd)
        except OSError as error:
            self._keep(entry.path, f"its rights could not be set ({error.strerror})")

    def _replace(self, entry: Entry, fd: int, name: str) -> None:
        aside = f".gloveport-{os.getpid()}-{time.monotonic_ns()}"
        try:
            if entry.kind == "l":
                os.symlink(entry.what, aside, dir_fd=fd)
            else:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                with (
                    open(self._arrived.contents[entry.what], "rb") as source,
                    os.fdopen(os.open(aside, flags, 0o600, dir_fd=fd), "wb") as file,
                ):
                    shutil.copyfileobj(source, file, PIECE)
                    os.fchmod(file.fileno(), entry.mode)
                when = min(entry.mtime_ns, time.time_ns())
                os.utime(aside, ns=(when, when), dir_fd=fd)
            os.rename(aside, name, src_dir_fd=fd, dst_dir_fd=fd)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(aside, dir_fd=fd)
            raise
