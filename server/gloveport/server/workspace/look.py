"""A look at a whole tree, cheap when it is repeated.

Purpose: the state of every content file of the worktree or of the user's folder, hashed only where it may have changed.
Invariant: what is taken from an earlier look is what `sight` allows; a read file's bytes are offered to `keep` once.
Must never: take a modification time alone as proof, or take what could not be read for a deletion.
"""

import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import Sha256
from gloveport.server.workspace.beneath import Root, read_entry
from gloveport.server.workspace.errors import REASONS, WorkspaceError
from gloveport.server.workspace.glance import is_settled
from gloveport.server.workspace.ignore import NO_RULES, RULES_FILE, IgnoreRules
from gloveport.server.workspace.limits import WorkspaceLimits
from gloveport.server.workspace.sight import (
    FolderSeen,
    Listing,
    Seen,
    Sight,
    Told,
    content_hash,
    joined,
    list_folder,
    stamp_of,
)
from gloveport.server.workspace.state import FileState, WorkspaceState
from gloveport.server.workspace.walk import NotCovered, Walk, rules_text

Keep = Callable[[str, bytes, FileState], None]
"""Is handed the path, the bytes and the state of whatever was read."""


def keep_nothing(_path: str, _data: bytes, _state: FileState) -> None:
    """For looks that need no contents."""


@dataclass(slots=True)
class Unknown:
    """What the last look could not tell: these paths and all below them, or everything that it did not come to."""

    paths: set[str] = field(default_factory=set)
    everything: bool = False

    def __contains__(self, path: object) -> bool:
        if self.everything or path in self.paths:
            return True
        parts = str(path).split("/")
        return bool(self.paths) and any("/".join(parts[:depth]) in self.paths for depth in range(1, len(parts)))


@dataclass(slots=True)
class Look:
    """Looks at one tree again and again; `skip` names folders by device and inode, `hidden` by path.

    `not_covered`, `unknown`, `dependencies` and `folders` speak of the last look.
    """

    tree: Root
    limits: WorkspaceLimits
    sight: Sight = field(default_factory=Sight)
    skip: frozenset[tuple[int, int]] = frozenset()
    hidden: tuple[str, ...] = ()
    keep: Keep = keep_nothing
    not_covered: tuple[NotCovered, ...] = ()
    not_covered_total: int = 0
    unknown: Unknown = field(default_factory=Unknown)
    dependencies: tuple[str, ...] = ()

    def current(self, state: WorkspaceState, *, strict: bool = False) -> Mapping[str, FileState]:
        """Every content file and link of the tree, and whatever lies at the paths of the base.

        What cannot be looked at is named, is `unknown`, and stays as the base has it: a failed look is no deletion.
        Where the whole tree cannot be gone through, only known paths are looked at; `strict` raises there instead.
        The answer may be that of an earlier look, itself: it is not to be changed.
        Raises `workspace.missing` when the tree is no longer the one that was opened.
        """
        with self.sight.lock:
            return self._current(state, strict=strict)

    def differing(self, base: Mapping[str, FileState], current: Mapping[str, FileState]) -> Sequence[str]:
        """Paths whose states differ, ordered. `current` is what was told, or a copy with changes."""
        told = self.sight.told
        if told is None or told.current is not current or told.base is not base:
            return differing(base, current)
        if told.differing is None:
            told.differing = tuple(differing(base, current))
        return told.differing

    def _current(self, state: WorkspaceState, *, strict: bool) -> Mapping[str, FileState]:
        self.tree.check_still_there()
        self.sight.is_under(self.limits.content_folders)
        known = _Known(state.base, state.forced)
        walk = Walk(self.tree, self.limits, skip=self.skip)
        self.unknown = Unknown()
        met = self._met(walk, known, strict=strict)
        self.unknown.paths.update(walk.left_out)
        told = None if self.unknown.everything else self.sight.told_of(state.base, len(state.forced))
        missing: list[str] = []
        if told is None:
            current = dict(met)
            # Below a folder that a rule of today ignores, the walk did not come.
            missing = sorted((state.base.keys() | state.forced) - current.keys())
            self._look_for(missing, walk, current, state)
            told = Told(self.sight.version, state.base, len(state.forced), current)
            self.sight.told = None if missing or self.unknown.everything else told
        self.tree.check_still_there()
        self.not_covered, self.not_covered_total = tuple(walk.not_covered), walk.not_covered_total
        self.dependencies = tuple(sorted(walk.dependencies))
        loose = self.sight.loose
        self.sight.loose = {path: loose[path] for path in missing if path in loose and path in told.current}
        return told.current

    def _look_for(
        self, missing: Sequence[str], walk: Walk, current: dict[str, FileState], state: WorkspaceState
    ) -> None:
        """Look for what the walk did not meet."""
        for path in missing:
            if path not in self.unknown.paths:
                self._take_known(path, walk, current, state.base)
        self.unknown.paths.update(walk.left_out)
        for path in missing:
            if path in state.base and path in self.unknown and path not in current and not _is_replaced(path, current):
                current[path] = state.base[path]

    def leave_out(self, path: str, reason: str) -> None:
        """Name a path that was met but cannot be spoken of."""
        self.unknown.paths.add(path)
        if len(self.not_covered) < self.limits.not_covered_max:
            self.not_covered = (*self.not_covered, NotCovered(path, reason))

    def _met(self, walk: Walk, known: "_Known", *, strict: bool) -> Mapping[str, FileState]:
        """What a walk comes to. Raises WorkspaceError where `strict`."""
        visited: dict[str, FolderSeen] = {}
        waiting: list[tuple[str, IgnoreRules]] = [("", NO_RULES)]
        try:
            while waiting:
                folder, rules = waiting.pop()
                seen = self._folder(folder, rules, walk, known)
                if seen is not None:
                    visited[folder] = seen
                    waiting.extend((path, seen.rules) for path in reversed(seen.below))
        except WorkspaceError as error:
            self.sight.folders.update(visited)
            self.sight.no_content()
            if strict:
                raise
            walk.leave_out(".", str(error.data.get("limit", reason_of(error))))
            self.unknown.everything = True
            return {}
        return self.sight.moved_to(visited)

    def _folder(self, folder: str, rules: IgnoreRules, walk: Walk, known: "_Known") -> FolderSeen | None:
        """What one folder holds; None where it cannot be looked into. Raises for the root, and for a limit."""
        try:
            fd = self.tree.enter(folder)
            try:
                at_ns = time.time_ns()
                before = self.sight.folders.get(folder)
                glance = b""
                if before is not None and before.is_under(rules, known):
                    glance = self.sight.glance.at(fd, before.names, at_ns)
                    if glance and glance == before.glance and self._lead_inside(before.links):
                        return _again(before, walk)
                listing = list_folder(fd, folder, at_ns)
                same = before is not None and before.still_holds(listing, rules, known)
                if before is not None and same and self._lead_inside(before.links):
                    before.glance = glance
                    return _again(before, walk)
                return _Reading(self, walk, known, fd, folder, listing, before).run(rules)
            finally:
                os.close(fd)
        except WorkspaceError as error:
            if not folder or error.code is ErrorCode.LIMIT:
                raise
            walk.leave_out(folder, "gone" if error.code is ErrorCode.FILE_MISSING else "unreadable")
            return None

    def is_hidden(self, path: str) -> bool:
        """True at or below a folder whose content would return into an excluded one."""
        return any(path == each or path.startswith(f"{each}/") for each in self.hidden)

    def _take_known(self, path: str, walk: Walk, current: dict[str, FileState], base: Mapping[str, FileState]) -> None:
        try:
            info = self.tree.state(path)
            if info is None:
                return
            if self.is_hidden(path):
                walk.leave_out(path, "protected")
                return
            found = self._loose(path, info)
        except GloveportError as error:
            if path not in self.unknown and not _is_replaced(path, current):
                walk.leave_out(path, reason_of(error))
            return
        if found is not None:
            current[path] = known_state(base, path, found)
        elif not stat.S_ISDIR(info.st_mode):
            walk.leave_out(path, "special")

    def _loose(self, path: str, info: os.stat_result) -> FileState | None:
        before = self.sight.loose.get(path)
        if before is not None and before.still_holds(info):
            return before.state
        at_ns = time.time_ns()
        folder, _, name = path.rpartition("/")
        with self.tree.folder(folder) as fd:
            read = self.read(fd, name, path, info)
        if read is None:
            return None
        self.keep(path, *read)
        self.sight.loose[path] = Seen(stamp_of(info), read[1], at_ns)
        return read[1]

    def _lead_inside(self, links: Sequence[str]) -> bool:
        """True where each of them leads to a place within the root, through whatever other links."""
        try:
            for path in links:
                self.tree.resolve(path)
        except GloveportError:
            return False
        return True

    def read(self, fd: int, name: str, path: str, info: os.stat_result) -> tuple[bytes, FileState] | None:
        """Bytes and state of one name in an open folder, read now. Raises WorkspaceError."""
        if stat.S_ISLNK(info.st_mode):
            target = os.fsencode(self.tree.link_target(path))
            if not self._lead_inside((path,)):
                raise WorkspaceError(ErrorCode.OUTSIDE_WORKSPACE, f"{path} is a link that leads away")
            return target, FileState("link", Sha256(sha256(target).hexdigest()), 0)
        if not stat.S_ISREG(info.st_mode):
            return None
        read = read_entry(fd, name, path, self.limits.file_bytes_max)
        return read.data, FileState("file", Sha256(sha256(read.data).hexdigest()), read.info.st_mode & 0o777)


def _again(before: FolderSeen, walk: Walk) -> FolderSeen:
    """A folder that is as it was."""
    walk.count(len(before.content))
    walk.remember(before.left_out, before.dependencies)
    return before


@dataclass(slots=True)
class _Reading:
    """One folder gone through name by name."""

    look: Look
    walk: Walk
    known: "_Known"
    fd: int
    folder: str
    listing: Listing
    before: FolderSeen | None
    content: dict[str, FileState] = field(default_factory=dict)
    below: list[str] = field(default_factory=list)
    ruled_out: list[str] = field(default_factory=list)
    by_name: list[str] = field(default_factory=list)
    bytes_total: int = 0
    failed: bool = False

    def run(self, rules_above: IgnoreRules) -> FolderSeen:
        told, dependencies = len(self.walk.left_out), len(self.walk.dependencies)
        rules, text = self._rules(rules_above)
        places = self.before.places() if self.before is not None else {}
        prefix = f"{self.folder}/" if self.folder else ""
        for index in sorted(range(len(self.listing.names)), key=self.listing.names.__getitem__):
            name, info = self.listing.names[index], self.listing.infos[index]
            path = prefix + name
            if self._is_content(path, name, info, rules):
                self._take(path, name, index, places.get(name))
        left_out = islice(self.walk.left_out.items(), told, None)
        return FolderSeen(
            joined(self.listing.names),
            self.listing.stamps,
            self.listing.at_ns,
            rules_above,
            rules,
            text,
            self.content,
            tuple(self.below),
            tuple(self.ruled_out),
            tuple(self.by_name),
            tuple(NotCovered(path, reason) for path, reason in left_out),
            tuple(self.walk.dependencies[dependencies:]),
            self.bytes_total,
            self.listing.is_settled and not self.failed,
            content_hash(self.content),
        )

    def _rules(self, above: IgnoreRules) -> tuple[IgnoreRules, bytes | None]:
        """The rules in force here: the very same object as before where their text is the same."""
        text = rules_text(self.fd) if RULES_FILE in self.listing.names else None
        if self.before is not None and self.before.rules_above is above and self.before.rules_text == text:
            return self.before.rules, text
        return above.within(self.folder, text), text

    def _is_content(self, path: str, name: str, info: os.stat_result, rules: IgnoreRules) -> bool:
        """True for a file or link that is content; folders to be entered are noted."""
        if stat.S_ISDIR(info.st_mode):
            if self.walk.is_content(path, name, info, rules) and self.walk.may_enter(path, info):
                self.below.append(path)
            return False
        if not self.walk.is_content(path, name, info, rules):
            plain = stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode)
            if path not in self.known:
                self.ruled_out.extend([path] if plain else [])
                return False
            self.by_name.append(path)
            if not plain:
                self.walk.leave_out(path, "special")
                return False
        self.walk.count(1)
        if self.look.is_hidden(path):
            self.walk.leave_out(path, "protected")
            return False
        return True

    def _take(self, path: str, name: str, index: int, place: int | None) -> None:
        info = self.listing.infos[index]
        found = self._remembered(path, index, place)
        if found is None:
            try:
                read = self.look.read(self.fd, name, path, info)
            except GloveportError as error:
                self.failed = True
                self.walk.leave_out(path, reason_of(error))
                return
            if read is None:
                return
            found = read[1]
            self.look.keep(path, *read)
        self.content[path] = known_state(self.known.base, path, found)
        self.bytes_total += info.st_size

    def _remembered(self, path: str, index: int, place: int | None) -> FileState | None:
        before = self.before
        if before is None:
            loose = self.look.sight.loose.get(path)
            return loose.state if loose is not None and loose.still_holds(self.listing.infos[index]) else None
        if place is None or (state := before.content.get(path)) is None or state.kind == "link":
            return None
        stamp = self.listing.stamp(index)
        if stamp != before.stamp(place) or not is_settled(stamp[2], before.at_ns):
            return None
        return state


@dataclass(frozen=True, slots=True)
class _Known:
    base: Mapping[str, FileState]
    forced: set[str]

    def __contains__(self, path: object) -> bool:
        return path in self.base or path in self.forced


def known_state(base: Mapping[str, FileState], path: str, found: FileState) -> FileState:
    """The base's own object where it says the same: one object a content, and a comparison that costs nothing."""
    before = base.get(path)
    return before if before is not None and before == found else found


def differing(base: Mapping[str, FileState], current: Mapping[str, FileState]) -> list[str]:
    """Paths whose states differ, ordered."""
    found = [path for path, state in current.items() if (one := base.get(path)) is not state and one != state]
    return sorted([*found, *(base.keys() - current.keys())])


def _is_replaced(path: str, current: Mapping[str, FileState]) -> bool:
    """True when a file or link that is content lies where a folder above `path` was: nothing can lie at `path`."""
    parts = path.split("/")
    return any("/".join(parts[:depth]) in current for depth in range(1, len(parts)))


def reason_of(error: GloveportError) -> str:
    """Why a look failed, in a word."""
    return REASONS.get(error.code, error.code.value)
