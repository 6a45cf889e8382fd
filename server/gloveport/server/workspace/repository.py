"""A repository of the session's own, for the programs that run in its jail.

Purpose: give `git diff`, `git status` and tools that ask git for a version something to work on: one commit that holds
the base, in a folder of the session, reached from the worktree by a gitfile whose place exists in a jail alone.
Invariant: its configuration and its objects are made here; nothing of the user's repository goes in but the name of
the branch; a kept content is not in it; without a jail's mount git finds nothing there.
Must never: be read by the daemon once it was made, be a change, or hold what a rule keeps.
"""

import os
import re
import stat
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.ids import Sha256
from gloveport.server.workspace.beneath import Root, read_entry
from gloveport.server.workspace.errors import WorkspaceError, os_failure
from gloveport.server.workspace.git_pack import Entry, Pack, commit_bytes, index_bytes, object_name, write_trees
from gloveport.server.workspace.removing import remove_tree
from gloveport.server.workspace.state import FileState, WorkspaceState
from gloveport.server.workspace.store import ContentStore
from gloveport.server.workspace.tracked import INDEX_BYTES_MAX

REPOSITORY_NAME: Final = "repository"
NAMES_NAME: Final = "repository.names"
PLACE: Final = "/gloveport/repository"
"""Where it is mounted in a jail."""
POINTER: Final = f"gitdir: {PLACE}\n".encode()
CONTENT_BYTES_MAX: Final = 512 << 20
"""Above this there is none."""
REPOSITORY_BYTES_MAX: Final = 1 << 30
REPOSITORY_FILES_MAX: Final = 100_000
"""A repository that takes more on the disk is lent to be read alone."""
GIT: Final = ".git"
_HEAD_BYTES_MAX: Final = 4096
_OBEYED: Final = frozenset({"commondir", "config.worktree", "modules"})
"""Names in a repository that lead git to settings elsewhere."""
_GITLINK: Final = b"\0\0\xe0\0"
"""The mode of a submodule in an index; git looks into it by its own settings."""
_BRANCH: Final = re.compile(rb"ref: refs/heads/([A-Za-z0-9][A-Za-z0-9._/-]{0,199})\n?\Z")
_SPECIAL: Final = re.compile(r"([][*?!#\\ ])")
_ESCAPED: Final = r"\\\1"
_BRANCH_DEFAULT: Final = "main"
_SECOND_NS: Final = 1_000_000_000
_PERSON: Final = "Gloveport <gloveport@localhost>"
_WORDS: Final = "The folder as the session has it"
_CONFIG: Final = """\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogallrefupdates = true
\tautocrlf = false
\tfsmonitor = false
[gc]
\tauto = 0
[user]
\tname = Gloveport
\temail = gloveport@localhost
"""
_ATTRIBUTES: Final = "* -text !eol -filter -ident !working-tree-encoding\n"
"""The commit holds the bytes that lie in the folder: nothing is converted on the way."""


@dataclass(frozen=True, slots=True)
class LentRepository:
    """The repository as a jail is given it: its folder (empty: none), and what is to be told of it."""

    folder: str = ""
    writable: bool = True
    words: str = ""


NO_REPOSITORY: Final = LentRepository()


@dataclass(slots=True)
class Repository:
    """The repository of one session; `names` are the contents that it holds."""

    session_dir: Path
    names: frozenset[bytes] | None = None

    def lent(
        self,
        root: Path,
        tree: Root,
        state: WorkspaceState,
        store: ContentStore,
        kept: Collection[Sha256],
        is_kept: Callable[[str], bool],
        current: Callable[[], Mapping[str, FileState]],
    ) -> LentRepository:
        """The repository for the next jail, made where there is none; one that grew too large is lent to be read."""
        try:
            with Root(root) as handle:
                folder = self.made(handle, tree, state, store, kept, is_kept, current)
        except OverflowError:
            words = f"this folder's content is larger than a session's own may hold, {CONTENT_BYTES_MAX >> 20} MiB"
            return LentRepository(words=f"git finds no repository here: {words}")
        except WorkspaceError as error:
            return LentRepository(words=f"git finds no repository here: {error.message}")
        from gloveport.sandbox.runner.descent import taken_by  # a session that ran nothing asks for none of it

        if not folder or not (taken := taken_by(folder, REPOSITORY_BYTES_MAX, REPOSITORY_FILES_MAX)):
            return LentRepository(folder)
        words = (
            f"the session's own git repository has grown to {taken}: from now on programs read it and write nothing "
            "more to it. Nothing in it is lost; a new session begins with a small one"
        )
        return LentRepository(folder, writable=False, words=words)

    def made(
        self,
        root: Root,
        tree: Root,
        state: WorkspaceState,
        store: ContentStore,
        kept: Collection[Sha256],
        is_kept: Callable[[str], bool],
        current: Callable[[], Mapping[str, FileState]],
    ) -> str:
        """Its folder, made where it is not there; empty where the user's folder has none.

        One that holds a content which is kept by now is made anew. Raises WorkspaceError; OverflowError for a content
        above `CONTENT_BYTES_MAX`.
        """
        if not _has_git(root):
            return ""
        folder = self.session_dir / REPOSITORY_NAME
        held = self._held() if folder.is_dir() else None
        if held is None or any(bytes.fromhex(digest) in held for digest in kept):
            chosen = {p: each for p, each in state.base.items() if each.digest not in kept and not is_kept(p)}
            left_out = sorted({*(state.base.keys() - chosen.keys()), *state.snapshot.dependency_folders})
            try:
                self._build(folder, tree, chosen, left_out, store, _branch(root), current())
            except OverflowError:
                drop_repository(self.session_dir)
                raise
            except OSError as error:
                raise os_failure(error, REPOSITORY_NAME, writing=True) from None
        return str(folder) if _points(tree) else ""

    def _held(self) -> frozenset[bytes] | None:
        if self.names is None:
            with suppress(OSError):
                raw = (self.session_dir / NAMES_NAME).read_bytes()
                self.names = frozenset(raw[at : at + 32] for at in range(0, len(raw), 32))
        return self.names

    def _build(
        self,
        folder: Path,
        tree: Root,
        files: Mapping[str, FileState],
        left_out: Collection[str],
        store: ContentStore,
        branch: str,
        current: Mapping[str, FileState],
    ) -> None:
        digests = {each.digest for each in files.values()}
        if sum(store.size(digest) or 0 for digest in digests) > CONTENT_BYTES_MAX:
            raise OverflowError(CONTENT_BYTES_MAX)
        if left := drop_repository(self.session_dir):
            words = f"what an earlier one left cannot be removed: {left[0]}"
            raise WorkspaceError(ErrorCode.WORKSPACE_UNWRITABLE, words, hint="Remove it as whoever owns it.")
        self.names = None
        (self.session_dir / NAMES_NAME).write_bytes(b"".join(map(bytes.fromhex, digests)))
        fresh = self.session_dir / f"{REPOSITORY_NAME}.new"
        for name in ("objects/pack", "objects/info", "refs/heads", "refs/tags", "info", "hooks"):
            (fresh / name).mkdir(mode=0o700, parents=True)
        blobs, commit = _write_pack(fresh / "objects/pack", files, digests, store)
        excluded = "".join(f"/{_SPECIAL.sub(_ESCAPED, path)}\n" for path in left_out if "\n" not in path)
        texts = {
            "HEAD": f"ref: refs/heads/{branch}\n",
            "config": _CONFIG,
            "info/attributes": _ATTRIBUTES,
            "info/exclude": excluded,
            f"refs/heads/{branch}": f"{commit.hex()}\n",
        }
        for name, text in texts.items():
            (fresh / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            (fresh / name).write_bytes(text.encode("utf-8", "surrogateescape"))
        entries = (_entry(tree, path, each, blobs[each.digest], current.get(path)) for path, each in files.items())
        (fresh / "index").write_bytes(index_bytes(entries))
        fresh.rename(folder)


def is_pointer(worktree: Path) -> bool:
    """True where what lies at the worktree's `.git` is the gitfile that was put there."""
    with suppress(OSError, WorkspaceError), Root(worktree) as tree:
        return read_entry(tree.fd, GIT, GIT, _HEAD_BYTES_MAX).data == POINTER
    return False


def runs_nothing(session_dir: Path, worktree: Path) -> bool:
    """True where git, at the worktree's top in a jail, obeys what was made here and nothing that a program put there.

    Where no repository is yet, the folder itself must not look like one: git would take it for one.
    """
    folder = session_dir / REPOSITORY_NAME
    if not os.path.lexists(worktree / GIT):
        return not os.path.lexists(worktree / "HEAD")
    if not is_pointer(worktree):
        return False
    try:
        with Root(folder) as root:
            names = set(os.listdir(root.fd))
            hooks = os.listdir(folder / "hooks") if "hooks" in names else []
            settings = read_entry(root.fd, "config", "config", _HEAD_BYTES_MAX).data
            index = read_entry(root.fd, "index", "index", INDEX_BYTES_MAX).data if "index" in names else b""
    except (OSError, WorkspaceError):
        return not os.path.lexists(folder)
    foreign = {name for name in names if name in _OBEYED or name.startswith("sharedindex")}
    return not hooks and not foreign and _GITLINK not in index and settings == _CONFIG.encode()


def drop_repository(session_dir: Path) -> tuple[str, ...]:
    """Remove the session's repository, whatever a program made of it; what stays, as `remove_tree` says it."""
    left = [words for name in (f"{REPOSITORY_NAME}.new", REPOSITORY_NAME) for words in remove_tree(session_dir / name)]
    with suppress(OSError):
        (session_dir / NAMES_NAME).unlink()
    return tuple(left)


def _write_pack(
    folder: Path, files: Mapping[str, FileState], digests: Collection[Sha256], store: ContentStore
) -> tuple[dict[Sha256, bytes], bytes]:
    """Blob names by content, and the commit."""
    with (folder / "pack-new").open("w+b") as file:
        pack = Pack(file)
        blobs = {digest: pack.add("blob", store.get(digest)) for digest in sorted(digests)}
        tree = write_trees(pack, {path: (_mode(each), blobs[each.digest]) for path, each in files.items()})
        commit = pack.add("commit", commit_bytes(tree, _PERSON, int(time.time()), _WORDS))
        index = pack.finish()
    name = f"pack-{object_name('tree', index).hex()}"
    (folder / f"{name}.idx").write_bytes(index)
    (folder / "pack-new").rename(folder / f"{name}.pack")
    return blobs, commit


def _entry(tree: Root, path: str, state: FileState, name: bytes, current: FileState | None) -> Entry:
    """A row of the index; what a stat says is told only of a file that holds the commit's content now."""
    info = tree.state(path) if current == state else None
    if info is None:
        return Entry(path, _mode(state), name)
    changed, written = divmod(info.st_ctime_ns, _SECOND_NS), divmod(info.st_mtime_ns, _SECOND_NS)
    ids = (info.st_dev, info.st_ino, info.st_uid, info.st_gid, info.st_size)
    return Entry(path, _mode(state), name, (*changed, *written, *ids))


def _mode(state: FileState) -> int:
    if state.kind == "link":
        return stat.S_IFLNK
    return stat.S_IFREG | (0o755 if state.runnable else 0o644)


def _has_git(root: Root) -> bool:
    """True where the user's folder is the top of a repository."""
    with suppress(OSError):
        os.stat(GIT, dir_fd=root.fd, follow_symlinks=False)
        return True
    return False


def _branch(root: Root) -> str:
    """The name of the user's branch, read as a plain file; another one where it is none or is not plain."""
    with suppress(OSError, WorkspaceError):
        fd = os.open(GIT, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root.fd)
        try:
            raw = read_entry(fd, "HEAD", "HEAD", _HEAD_BYTES_MAX).data
        finally:
            os.close(fd)
        found = _BRANCH.match(raw)
        name = found[1].decode() if found is not None else ""
        parts = name.split("/")
        if name and ".." not in name and all(part and part[0] != "." and part[-1] != "." for part in parts):
            return _BRANCH_DEFAULT if any(part.endswith(".lock") for part in parts) else name
    return _BRANCH_DEFAULT


def _points(tree: Root) -> bool:
    """Put the gitfile into the worktree; False where a program has put something else there, which stays."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        if _has_git(tree):
            return read_entry(tree.fd, GIT, GIT, _HEAD_BYTES_MAX).data == POINTER
        fd = os.open(GIT, flags, 0o600, dir_fd=tree.fd)
    except (OSError, WorkspaceError):
        return False
    with open(fd, "wb") as file:
        file.write(POINTER)
    return True
