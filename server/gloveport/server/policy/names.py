"""Paths as strings: where they lie, and which names they could be on any file system.

Purpose: one normal form of a path for containment, and one folded form for comparing names.
Invariant: containment is decided component by component; a path that can't be understood is outside.
Must never: look at a disk; links are resolved by the workspace, which hands in what it found.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

PATH_CHARS_MAX = 4096
PATHS_CACHED_MAX = 4096

# Code points that HFS+ leaves out when it compares names.
_IGNORED: Final = dict.fromkeys(
    [*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x00AD, 0xFEFF], None
)
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class PathFacts:
    """A path taken apart: `exact` components as written, `folded` for comparing, and whether it lies outside."""

    exact: tuple[str, ...]
    folded: tuple[str, ...]
    outside: bool

    @property
    def text(self) -> str:
        """The normal form with `/`; the root is `.`."""
        return "/".join(self.exact) or "."


def fold_name(name: str) -> str:
    """One component as the most forgiving file system would compare it.

    Case and compatibility forms are folded, ignored code points dropped, an NTFS stream name and trailing dots and
    spaces cut, and the short name `git~1` read as `.git`.
    """
    plain = unicodedata.normalize("NFKC", name.translate(_IGNORED)).translate(_IGNORED).casefold()
    plain = plain.split(":", 1)[0].rstrip(". ")
    return ".git" if re.fullmatch(r"git~\d+", plain) else plain


@lru_cache(maxsize=PATHS_CACHED_MAX)
def path_facts(target: str) -> PathFacts:
    """Takes a workspace-relative path apart; `\\` separates too, since it does on some machines.

    Absolute paths, `~`, drive letters, control characters, paths over `PATH_CHARS_MAX` and paths that climb above the
    root are outside. Never raises.
    """
    text = target.replace("\\", "/")
    outside = _unreadable(text)
    exact: list[str] = []
    for part in text[:PATH_CHARS_MAX].split("/"):
        if part in {"", "."}:
            continue
        if part == "..":
            outside = outside or not exact
            exact = exact[:-1]
            continue
        exact.append(part)
    folded = tuple(fold_name(part) for part in exact)
    return PathFacts(tuple(exact), folded, outside or "" in folded)


def is_within(path: PathFacts, folder: PathFacts) -> bool:
    """True if `path` is `folder` or lies beneath it, component by component (`repo-evil` is not in `repo`)."""
    return not path.outside and not folder.outside and path.exact[: len(folder.exact)] == folder.exact


def _unreadable(text: str) -> bool:
    if not text or len(text) > PATH_CHARS_MAX or text[0] in "/~":
        return True
    return _DRIVE.match(text) is not None or _CONTROL.search(text) is not None
