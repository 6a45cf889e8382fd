"""Commits of a git repository as plain data.

Purpose: list commits, the paths each one changed with both sides' bytes, and git's own patch of it.
Invariant: everything comes from the object store; no attribute, filter or hook of the repository is looked at.
Must never: write into the repository, or run it with the user's configuration.
"""

import os
import random
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

GIT_TIMEOUT_S: Final = 120
LINK_MODE: Final = "120000"
SUBMODULE_MODE: Final = "160000"
ABSENT_MODE: Final = "000000"
EXECUTABLE_MODE: Final = "100755"
NEUTRAL: Final = MappingProxyType(
    {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_ATTR_NOSYSTEM": "1", "LC_ALL": "C",
     "PATH": os.environ.get("PATH", "/usr/bin:/bin"), "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
)  # fmt: skip
_SAFE: Final = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*")


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a changed path: git's mode and the exact bytes (a link's target; empty for a submodule)."""

    mode: str
    data: bytes

    @property
    def is_link(self) -> bool:
        """True for a symbolic link."""
        return self.mode == LINK_MODE

    @property
    def is_submodule(self) -> bool:
        """True for the pointer to another repository's commit."""
        return self.mode == SUBMODULE_MODE

    @property
    def permissions(self) -> int:
        """Permission bits as a checkout gives them."""
        return 0o755 if self.mode == EXECUTABLE_MODE else 0o644


@dataclass(frozen=True, slots=True)
class Changed:
    """One path of a commit; `new_path` differs from `old_path` in a rename. None is absence."""

    old_path: str
    new_path: str
    old: Side | None
    new: Side | None

    @property
    def renamed(self) -> bool:
        """True when git found the content under another name."""
        return self.old_path != self.new_path


@dataclass(frozen=True, slots=True)
class Commit:
    """What one commit did to the tree of its first parent."""

    name: str
    changed: tuple[Changed, ...]

    @property
    def bytes_total(self) -> int:
        """Bytes of all sides."""
        return sum(len(side.data) for each in self.changed for side in (each.old, each.new) if side is not None)


class Repository:
    """One local repository, bare or not. Close it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / ".git" if (folder / ".git").is_dir() else folder
        self.name = folder.name if folder.name not in ("repo", ".git") else folder.parent.name
        self._blobs = subprocess.Popen(
            self._argv("cat-file", "--batch"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(NEUTRAL)
        )

    def close(self) -> None:
        """End the program that hands out contents."""
        self._blobs.communicate(timeout=GIT_TIMEOUT_S)

    def sample(self, count: int, seed: int) -> tuple[str, ...]:
        """Names of `count` commits with one parent or none, drawn from all of its history."""
        names = sorted(self._git("rev-list", "--no-merges", "HEAD").decode().split())
        return tuple(random.Random(seed).sample(names, min(count, len(names))))

    def commits(self, names: Sequence[str]) -> Iterator[tuple[str, tuple[tuple[str, ...], ...]]]:
        """For each commit its changed paths as rows: old mode, new mode, old object, new object, old path, new path.

        A commit that this copy cannot tell (a content is missing) has none.
        """
        try:
            yield from self._listed(names)
        except RuntimeError:
            if len(names) == 1:
                yield names[0], ()
                return
            for name in names:
                yield from self.commits((name,))

    def _listed(self, names: Sequence[str]) -> Iterator[tuple[str, tuple[tuple[str, ...], ...]]]:
        options = ("diff-tree", "--stdin", "--root", "-r", "-M", "--raw", "--no-abbrev", "-z", "--no-ext-diff")
        raw = self._git(*options, given="".join(f"{name}\n" for name in names).encode())
        fields = iter(os.fsdecode(raw).split("\0"))
        name, rows = "", list[tuple[str, ...]]()
        for field in fields:
            if not field.startswith(":"):
                if name:
                    yield name, tuple(rows)
                name, rows = field.strip(), []
                continue
            old_mode, new_mode, old, new, status = field[1:].split(" ")
            old_path = next(fields)
            new_path = next(fields) if status[0] in "RC" else old_path
            rows.append((old_mode, new_mode, old, new, old_path, new_path, status[0]))

    def read(self, name: str, rows: Sequence[tuple[str, ...]]) -> Commit:
        """The commit with the bytes of both sides of each path. Raises LookupError where the copy lacks one."""
        return Commit(name, tuple(self._changed(row) for row in rows))

    def patch(self, name: str) -> bytes:
        """Git's own patch of one commit."""
        options = ("diff-tree", "--root", "-r", "-M", "-p", "--no-commit-id", "--no-color", "--no-ext-diff")
        return self._git(*options, "--no-textconv", "--full-index", name)

    def _changed(self, row: tuple[str, ...]) -> Changed:
        old_mode, new_mode, old, new, old_path, new_path, status = row
        sides = [
            None if mode == ABSENT_MODE else Side(mode, b"" if mode == SUBMODULE_MODE else self._blob(blob))
            for mode, blob in ((old_mode, old), (new_mode, new))
        ]
        if status == "C":
            return Changed(new_path, new_path, None, sides[1])
        return Changed(old_path, new_path, sides[0], sides[1])

    def _blob(self, name: str) -> bytes:
        assert self._blobs.stdin is not None
        assert self._blobs.stdout is not None
        self._blobs.stdin.write(name.encode() + b"\n")
        self._blobs.stdin.flush()
        head = self._blobs.stdout.readline().split()
        if len(head) != 3:
            raise LookupError(name)
        data = self._blobs.stdout.read(int(head[2]))
        self._blobs.stdout.read(1)
        return data

    def _git(self, *arguments: str, given: bytes = b"") -> bytes:
        return run_git(self._argv(*arguments), given=given)

    def _argv(self, *arguments: str) -> list[str]:
        return ["git", *_SAFE, f"--git-dir={self.folder}", *arguments]


def run_git(argv: Sequence[str], *, given: bytes = b"", cwd: Path | None = None, also_ok: int = 0) -> bytes:
    """Output of one git program under a neutral configuration. Raises RuntimeError with its words."""
    environment = {**NEUTRAL, "GIT_CEILING_DIRECTORIES": "/" if cwd is None else str(cwd.parent)}
    done = subprocess.run(
        argv, input=given, cwd=cwd, env=environment, capture_output=True, timeout=GIT_TIMEOUT_S, check=False
    )
    if done.returncode not in (0, also_ok):
        raise RuntimeError(f"{argv[1:4]}: {done.returncode}: {done.stderr.decode('utf-8', 'replace')[-500:]}")
    return done.stdout
