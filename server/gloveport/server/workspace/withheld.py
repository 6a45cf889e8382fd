"""Files that are kept from those who may not read them, wherever they were moved to.

Purpose: find the files of the worktree that a caller's rule keeps: by their name, by a link's name, by their content.
Invariant: a file that was kept under one name stays kept under any other as long as it holds the same bytes; what
cannot be looked at is kept too.
Must never: follow a link on the disk, leave out an ignored folder, or know why a name is kept.
"""

import os
import stat
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.ids import Sha256
from gloveport.server.workspace.beneath import LINKS_MAX
from gloveport.server.workspace.errors import WorkspaceError
from gloveport.server.workspace.repository import GIT, is_pointer
from gloveport.server.workspace.state import WorkspaceState
from gloveport.server.workspace.store import ContentStore

Rule = Callable[[str], bool]
_PIECE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class KeptContent:
    """Contents of the base that are kept: hash → the path under which it is; `sizes` in bytes."""

    origins: Mapping[Sha256, str]
    sizes: frozenset[int]

    def __or__(self, other: "KeptContent") -> "KeptContent":
        """What either keeps; the other's names count."""
        return KeptContent({**self.origins, **other.origins}, self.sizes | other.sizes)


@dataclass(slots=True)
class Links:
    """The links of the base and where each leads, as text: nothing on the disk is looked at."""

    targets: Mapping[str, str]
    leads: list[tuple[str, str]] | None = None

    @classmethod
    def of(cls, state: WorkspaceState, store: ContentStore) -> "Links":
        """Read the links of a base."""
        links = {path for path, each in state.base.items() if each.kind == "link"}
        return cls({path: os.fsdecode(store.get(state.base[path].digest)) for path in links})

    def lead(self, path: str) -> str | None:
        """Where a path leads; None when it leaves the workspace or goes round in a circle."""
        waiting, done, followed = list(reversed(path.split("/"))), list[str](), 0
        while waiting:
            part = waiting.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if not done:
                    return None
                done.pop()
                continue
            target = self.targets.get("/".join([*done, part]))
            if target is None:
                done.append(part)
                continue
            followed += 1
            if followed > LINKS_MAX or target.startswith("/"):
                return None
            waiting.extend(reversed(target.split("/")))
        return "/".join(done)

    def _leads(self) -> list[tuple[str, str]]:
        if self.leads is None:
            leads = ((link, self.lead(link)) for link in self.targets)
            self.leads = [(link, real) for link, real in leads if real is not None]
        return self.leads

    def aliases(self, path: str) -> tuple[str, ...]:
        """Other names of a link-free path: through links that lead to it or to a folder above it."""
        found = []
        for link, real in self._leads():
            if path == real or path.startswith(f"{real}/") or not real:
                found.append(f"{link}/{path[len(real) :].lstrip('/')}".rstrip("/"))
        return tuple(sorted(found))


def kept_content(state: WorkspaceState, store: ContentStore, links: Links, is_kept: Rule) -> KeptContent:
    """The contents that lie under a kept name in the base, or that a kept link leads to."""
    origins: dict[Sha256, str] = {}
    names = sorted(path for path, each in state.base.items() if each.kind == "file")
    for path in names:
        if is_kept(path):
            origins.setdefault(state.base[path].digest, path)
    for link in links.targets:
        real = links.lead(link)
        for path in () if real is None else _below(names, real):
            if is_kept(f"{link}/{path[len(real or '') :].lstrip('/')}".rstrip("/")):
                origins.setdefault(state.base[path].digest, path)
    sizes = {digest: store.size(digest) or 0 for digest in origins}
    # An empty file tells nothing, and many files are empty.
    kept = {digest: path for digest, path in origins.items() if sizes[digest]}
    return KeptContent(kept, frozenset(sizes[digest] for digest in kept))


@dataclass(slots=True)
class Names:
    """What the base says of links and of kept content, remembered as long as the base is the same."""

    store: ContentStore
    links_known: tuple[object, Links] | None = None
    content_known: tuple[object, object, KeptContent] | None = None

    def links(self, state: WorkspaceState) -> Links:
        """The links of the base."""
        if self.links_known is None or self.links_known[0] is not state.base:
            self.links_known = (state.base, Links.of(state, self.store))
        return self.links_known[1]

    def aliases(self, state: WorkspaceState, paths: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Other names of link-free paths, through links; paths without any are left out."""
        links = self.links(state)
        found = {path: links.aliases(path) for path in paths} if links.targets else {}
        return {path: names for path, names in found.items() if names}

    def kept(self, state: WorkspaceState, is_kept: Rule) -> KeptContent:
        """The contents that a rule keeps; what it kept before stays kept."""
        known = self.content_known
        if known is None or known[0] is not state.base or known[1] is not is_kept:
            found = kept_content(state, self.store, self.links(state), is_kept)
            # What was kept before the user changed or moved it may still lie somewhere in the worktree.
            former = known[2] if known is not None and known[1] is is_kept else found
            known = self.content_known = (state.base, is_kept, former | found)
        return known[2]


def find_withheld(worktree: Path, content: KeptContent, is_kept: Rule) -> frozenset[str]:
    """Every file of the worktree that is kept, by name or by content, in ignored folders too.

    What points to the session's own repository is no secret.
    """
    own = {GIT} if is_pointer(worktree) else set()
    return frozenset(
        path
        for path, info in _files(worktree)
        if (is_kept(path) and path not in own) or (info.st_size in content.sizes and _holds(worktree / path, content))
    )


def _below(names: Sequence[str], folder: str) -> Iterator[str]:
    """The names that are `folder` or lie in it; `names` are sorted."""
    if not folder:
        yield from names
        return
    at = bisect_left(names, folder)
    if at < len(names) and names[at] == folder:
        yield folder
    at = bisect_left(names, f"{folder}/")
    while at < len(names) and names[at].startswith(f"{folder}/"):
        yield names[at]
        at += 1


def _files(worktree: Path) -> Iterator[tuple[str, os.stat_result]]:
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        for name, info in _listed(worktree, folder):
            path = f"{folder}/{name}" if folder else name
            if stat.S_ISDIR(info.st_mode):
                waiting.append(path)
            elif stat.S_ISREG(info.st_mode):
                yield path, info


def _listed(worktree: Path, folder: str) -> list[tuple[str, os.stat_result]]:
    """What lies in a folder. One that a program closed is opened again: the copy is the session's own."""
    try:
        with suppress(PermissionError):
            return _scanned(worktree / folder)
        os.chmod(worktree / folder, stat.S_IRWXU)
        return _scanned(worktree / folder)
    except OSError as error:
        words = f"{folder[:200] or '.'}: this folder of the session's copy cannot be looked into"
        hint = "Nothing runs or is searched while a part of the copy may hide secrets; begin a new session."
        raise WorkspaceError(ErrorCode.WORKSPACE_UNREADABLE, words, hint=hint) from error


def _scanned(folder: Path) -> list[tuple[str, os.stat_result]]:
    with os.scandir(folder) as listing:
        return [(entry.name, entry.stat(follow_symlinks=False)) for entry in listing]


def _holds(file: Path, content: KeptContent) -> bool:
    total = sha256()
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            while piece := os.read(fd, _PIECE):
                total.update(piece)
        finally:
            os.close(fd)
    except OSError:
        return True
    return total.hexdigest() in content.origins
