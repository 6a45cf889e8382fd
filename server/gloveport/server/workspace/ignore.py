"""Which files of a folder are not its content.

Purpose: the ignore rules of a tree (`.gitignore` of every folder), and the folders of installed dependencies.
Invariant: the deepest folder's rules win, in a folder the last rule that matches; a broken rule is skipped alone.
Must never: run a program, read `.git`, or treat a rule as anything but a pattern of names.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

RULES_FILE: Final = ".gitignore"
RULES_BYTES_MAX: Final = 1 << 20
DEPENDENCY_FOLDERS: Final = frozenset({"node_modules", ".venv", "bower_components"})
DEPENDENCY_FOLDERS_IF_IGNORED: Final = frozenset({"venv", "env", "vendor", "virtualenv", ".tox", ".nox"})
CACHE_NAMES: Final = frozenset(
    {"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".DS_Store", ".cache"}
)
"""Made by tools as they run; never content, whether or not the workspace says so."""


@dataclass(frozen=True, slots=True)
class _Level:
    folder: str
    spec: "GitIgnoreSpec"


@dataclass(frozen=True)
class IgnoreRules:
    """The rules in force in one folder, those of the folders above included."""

    levels: tuple[_Level, ...] = ()

    def within(self, folder: str, text: bytes | None) -> "IgnoreRules":
        """The rules in force in `folder`, whose own rules file holds `text`."""
        if not text:
            return self
        return IgnoreRules((*self.levels, _Level(f"{folder}/" if folder else "", _spec(text))))

    def ignores(self, path: str, *, folder: bool) -> bool:
        """True when the file or folder at `path`, itself in an unignored folder, is ignored."""
        for level in self._inner_first:
            verdict = _verdict(level.spec, path[len(level.folder) :], folder=folder)
            if verdict is not None:
                return verdict
        return False

    @cached_property
    def _inner_first(self) -> tuple[_Level, ...]:
        return self.levels[::-1]


NO_RULES: Final = IgnoreRules()
"""Those of a walk's beginning."""


def is_cache_name(name: str) -> bool:
    """True for names that tools make for themselves."""
    return name in CACHE_NAMES or name.endswith((".pyc", ".pyo"))


def _verdict(spec: "GitIgnoreSpec", path: str, *, folder: bool) -> bool | None:
    if not folder:
        return spec.check_file(path).include
    found = spec.check_file(f"{path}/")
    if found.include and found.index is not None and _is_inside_only(spec, found.index):
        # `name/**` covers what is inside; the folder itself is entered, for later rules may take files back.
        return spec.check_file(path).include
    return found.include


def _is_inside_only(spec: "GitIgnoreSpec", index: int) -> bool:
    return str(getattr(spec.patterns[index], "pattern", "")).rstrip().endswith("/**")


def _spec(text: bytes) -> "GitIgnoreSpec":
    from pathspec import GitIgnoreSpec  # a MiB that only a tree with rules needs

    lines = text.decode("utf-8-sig", "replace").splitlines()
    try:
        return GitIgnoreSpec.from_lines(lines)
    except (re.error, ValueError):
        return GitIgnoreSpec.from_lines(line for line in lines if _is_sound(line))


def _is_sound(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except (re.error, ValueError):
        return False
    return True
