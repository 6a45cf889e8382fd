"""What is remembered of a tree between two looks.

Purpose: for each folder the names and stamps that were met, and what was found there, so that an unchanged folder
costs its listing alone.
Invariant: a record is used again only where every name and stamp is the same, none is younger than the clock's grain,
the rules above are the very same and its links still lead where they may; a stamp is size, both times, inode and mode.
Must never: take a modification time alone as proof, or hold file contents.
"""

import os
import stat
import threading
from array import array
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from operator import attrgetter, methodcaller
from typing import Final

from gloveport.server.workspace.errors import os_failure
from gloveport.server.workspace.glance import CLOCK_GRAIN_NS, COARSE_GRAIN_NS, Glance, is_settled
from gloveport.server.workspace.ignore import IgnoreRules
from gloveport.server.workspace.state import FileState
from gloveport.server.workspace.walk import NotCovered

STAMP_SIZE: Final = 5
_CTIME: Final = 2
_MODE: Final = 4
_KIND: Final = 0o170000
_FOLDER: Final = stat.S_IFDIR
_LSTAT: Final = methodcaller("stat", follow_symlinks=False)
_STAMP: Final = attrgetter("st_size", "st_mtime_ns", "st_ctime_ns", "st_ino", "st_mode")


@dataclass(frozen=True, slots=True)
class Listing:
    """One folder as it is now; `stamps` holds `STAMP_SIZE` numbers a name, in the order of `names`."""

    names: Sequence[str]
    infos: Sequence[os.stat_result]
    stamps: "array[int]"
    at_ns: int

    @property
    def is_settled(self) -> bool:
        """True when nothing in it changed within the clock's grain before it was listed."""
        times = self.stamps[_CTIME::STAMP_SIZE]
        newest = max(times, default=0)
        if newest + COARSE_GRAIN_NS + CLOCK_GRAIN_NS < self.at_ns:
            return True
        return is_settled(newest, self.at_ns) and all(is_settled(each, self.at_ns) for each in times)

    def stamp(self, index: int) -> "array[int]":
        """The stamp of one name."""
        return self.stamps[index * STAMP_SIZE : (index + 1) * STAMP_SIZE]


@dataclass(slots=True)
class FolderSeen:
    """A folder as it was, and what was found in it."""

    names: str
    stamps: "array[int]"
    at_ns: int
    rules_above: IgnoreRules
    rules: IgnoreRules
    rules_text: bytes | None
    content: dict[str, FileState]
    below: tuple[str, ...]
    ruled_out: tuple[str, ...]
    """Plain files that a rule leaves out; they are content where they are known."""

    by_name: tuple[str, ...]
    """Content only because it is known."""

    left_out: tuple[NotCovered, ...]
    dependencies: tuple[str, ...]
    bytes_total: int
    settled: bool
    digest: bytes
    glance: bytes = b""
    """Of a folder that was settled before the glance; empty where nobody has looked so."""

    links: tuple[str, ...] = field(init=False)
    """Those of the content: whether one leads away is another folder's matter too, and is asked at each look."""

    def __post_init__(self) -> None:
        self.links = tuple(path for path, state in self.content.items() if state.kind == "link")

    def still_holds(self, listing: Listing, rules_above: IgnoreRules, known: Container[str]) -> bool:
        """True when nothing that was found here can be otherwise now."""
        return (
            self.stamps == listing.stamps and self.names == joined(listing.names) and self.is_under(rules_above, known)
        )

    def is_under(self, rules_above: IgnoreRules, known: Container[str]) -> bool:
        """True when a settled folder with the same names and stamps has the same content by these rules."""
        return (
            self.settled
            and self.rules_above is rules_above
            and not any(path in known for path in self.ruled_out)
            and all(path in known for path in self.by_name)
        )

    def places(self) -> dict[str, int]:
        """Index of each name."""
        return {name: index for index, name in enumerate(self.names.split("/"))} if self.names else {}

    def stamp(self, index: int) -> "array[int]":
        """The stamp of one name."""
        return self.stamps[index * STAMP_SIZE : (index + 1) * STAMP_SIZE]


@dataclass(frozen=True, slots=True)
class Seen:
    """A file outside the walk's way as it was when it was hashed."""

    stamp: tuple[int, ...]
    state: FileState
    at_ns: int

    def still_holds(self, info: os.stat_result) -> bool:
        """True when the file cannot have changed since."""
        same = self.stamp == stamp_of(info) and is_settled(info.st_ctime_ns, self.at_ns)
        return same and not stat.S_ISLNK(info.st_mode)  # where a link leads is not told by its own times


@dataclass(slots=True)
class Told:
    """What a look told of a tree beside a base, where every path of the base was met."""

    version: int
    base: Mapping[str, FileState]
    forced: int
    current: Mapping[str, FileState]
    differing: tuple[str, ...] | None = None


@dataclass(slots=True)
class Sight:
    """All that is remembered of one tree; `lock` is held by the one who looks."""

    folders: dict[str, FolderSeen] = field(default_factory=dict)
    loose: dict[str, Seen] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    content: dict[str, FileState] = field(default_factory=dict)
    """That of all folders together; `version` is another one when it is."""

    version: int = 0
    told: Told | None = None
    content_folders: frozenset[str] = frozenset()
    """Those of the limits under which it was seen."""

    glance: Glance = field(default_factory=Glance)

    def copy(self) -> "Sight":
        """The same memories, to go on from by itself."""
        return Sight(dict(self.folders), {}, content=self.content.copy(), content_folders=self.content_folders)

    def is_under(self, content_folders: frozenset[str]) -> None:
        """From now on these folders are content; what was seen under others is forgotten."""
        if self.content_folders != content_folders:
            self.folders.clear()
            self.no_content()
            self.content_folders = content_folders

    def moved_to(self, visited: dict[str, FolderSeen]) -> Mapping[str, FileState]:
        """Remember these folders and no others; the content of all of them, which changes with the next look."""
        before = self.folders
        gone = [seen for folder, seen in before.items() if visited.get(folder) is not seen]
        come = [seen for folder, seen in visited.items() if before.get(folder) is not seen]
        if not self.content or len(gone) + len(come) > len(visited):
            self.content, gone, come = {}, [], list(visited.values())
        for seen in gone:
            for path in seen.content:
                self.content.pop(path, None)
        for seen in come:
            self.content.update(seen.content)
        self.version += bool(gone or come)
        self.folders = visited
        return self.content

    def told_of(self, base: Mapping[str, FileState], forced: int) -> Told | None:
        """What was told of the same content beside the same base."""
        told = self.told
        if told is not None and told.base is base and (told.version, told.forced) == (self.version, forced):
            return told
        return None

    def no_content(self) -> None:
        """What is remembered of all folders together is not what they hold any more."""
        self.content.clear()
        self.version += 1

    def forget(self, folder: str) -> None:
        """Look at a folder anew the next time."""
        self.no_content()
        self.folders.pop(folder, None)

    def bytes_total(self) -> int:
        """Bytes of all content files."""
        return sum(each.bytes_total for each in self.folders.values())

    def digest(self) -> bytes:
        """A hash over paths, kinds, contents and modes of all content."""
        total = sha256()
        for folder in sorted(self.folders):
            total.update(folder.encode("utf-8", "surrogateescape") + b"\0" + self.folders[folder].digest)
        return total.digest()


def list_folder(fd: int, folder: str, now_ns: int) -> Listing:
    """Names and stamps of an open folder. Raises WorkspaceError.

    Written for its cost: fifty thousand files pass through here at each look.
    """
    try:
        with os.scandir(fd) as listing:
            entries = list(listing)
        try:
            infos = list(map(_LSTAT, entries))
        except FileNotFoundError:
            entries, infos = _still_there(entries)
    except OSError as error:
        raise os_failure(error, folder) from None
    names = [entry.name for entry in entries]
    stamps = array("q", chain.from_iterable(map(_STAMP, infos)))
    for index, mode in enumerate(stamps[_MODE::STAMP_SIZE]):
        if mode & _KIND == _FOLDER:
            # Its own times say nothing of what lies deeper; whether it is a Python environment, they do.
            info = infos[index]
            times = (info.st_mtime_ns, info.st_ctime_ns) if "env" in names[index].lower() else (0, 0)
            stamps[index * STAMP_SIZE : (index + 1) * STAMP_SIZE] = array("q", (info.st_dev, *times, info.st_ino, mode))
    return Listing(names, infos, stamps, now_ns)


def _still_there(entries: "list[os.DirEntry[str]]") -> "tuple[list[os.DirEntry[str]], list[os.stat_result]]":
    found: list[os.DirEntry[str]] = []
    infos: list[os.stat_result] = []
    for entry in entries:
        with suppress(FileNotFoundError):
            infos.append(entry.stat(follow_symlinks=False))
            found.append(entry)
    return found, infos


def stamp_of(info: os.stat_result) -> tuple[int, ...]:
    """What a stat says about a file's content without reading it."""
    return (info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino, info.st_mode)


def joined(names: Sequence[str]) -> str:
    """Names as one text: no name holds a slash."""
    return "/".join(names)


def content_hash(content: dict[str, FileState]) -> bytes:
    """A hash over what one folder holds itself."""
    rows = (f"{path}\0{state.kind}\0{state.digest}\0{state.mode}\n" for path, state in sorted(content.items()))
    return sha256("".join(rows).encode("utf-8", "surrogateescape")).digest()
