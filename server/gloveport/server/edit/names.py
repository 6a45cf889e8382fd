"""Which names a change may have.

Purpose: validate relative paths and recognise the spellings under which some file system would open `.git`.
Invariant: a path that passes `split_path` has no `..`, no empty part, no NUL and no part that can reach `.git`.
Must never: touch a disk, or accept a name because this machine's file system would keep it apart.
"""

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.server.edit.errors import EditError

PATH_BYTES_MAX: Final = 4096
NAME_BYTES_MAX: Final = 255
TEMP_PREFIX: Final = ".gloveport-"
"""Names that begin so are our own staged files; they are never content."""

# The short names of `.git`: the plain ones, and those with a hash that are given when four are taken.
_SHORT_NAME: Final = re.compile(r"(?:git|gi[0-9a-f]{4})~[0-9]+\Z")
_IGNORABLE_RANGES: Final = (
    (0x034F, 0x034F),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFFA0, 0xFFA0),
    (0xE0000, 0xE0FFF),
)


def fold_name(name: str) -> str:
    """The form under which two names may be one file somewhere: ignorables dropped, normalised, case folded."""
    if name.isascii():
        return name.lower()
    kept = "".join(char for char in name if not _is_ignorable(char))
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", kept).casefold())


def fold_path(path: str) -> str:
    """A path whose parts are folded: two paths with one fold may be one file somewhere."""
    return "/".join(fold_name(part) for part in path.split("/"))


def collision(paths: Iterable[str]) -> tuple[str, str] | None:
    """Two of these paths, or folders above them, that are spelled differently and one name on some file systems."""
    spelled: dict[tuple[str, ...], str] = {}
    for path in paths:
        parts = path.split("/")
        folded = tuple(fold_name(part) for part in parts)
        for depth in range(1, len(parts) + 1):
            here = "/".join(parts[:depth])
            other = spelled.setdefault(folded[:depth], here)
            if other != here:
                return other, here
    return None


def is_git_name(name: str) -> bool:
    """True when one path part opens `.git` on some file system (case, ignorables, streams, short names)."""
    if name.isascii() and "git" not in name.lower() and "~" not in name:
        return False
    return any(_part_is_git(part) for part in re.split(r"[\\/]", fold_name(name)))


def is_temp_name(name: str) -> bool:
    """True for the names of our own staged files, in any case."""
    return fold_name(name).startswith(TEMP_PREFIX)


def split_path(path: str) -> tuple[str, ...]:
    """Parts of a relative `/`-separated path.

    Raises EditError: `workspace.outside` for an absolute, empty, dotted or malformed path,
    `workspace.protected` when a part is `.git` in any spelling or one of our staged files.
    """
    parts = tuple(path.split("/"))
    if not path or any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise EditError(ErrorCode.OUTSIDE_WORKSPACE, f"not a plain relative path: {path!r}", path=path)
    try:
        sizes = [len(part.encode()) for part in parts]
    except UnicodeEncodeError:
        raise EditError(ErrorCode.OUTSIDE_WORKSPACE, f"not a UTF-8 path: {path!r}", path=path) from None
    if max(sizes) > NAME_BYTES_MAX or sum(sizes) + len(parts) > PATH_BYTES_MAX:
        raise EditError(ErrorCode.OUTSIDE_WORKSPACE, f"the path is too long: {path[:80]!r}…", path=path[:80])
    if any(is_git_name(part) or is_temp_name(part) for part in parts):
        raise EditError(ErrorCode.PROTECTED_PATH, f"{path!r} is never changed by the agent", path=path)
    return parts


def _part_is_git(folded: str) -> bool:
    # ".git::$INDEX_ALLOCATION" is the folder itself, ".git. ." loses its tail on NTFS.
    bare = folded.split(":", 1)[0].rstrip(". ")
    return bare == ".git" or _SHORT_NAME.match(bare) is not None


def _is_ignorable(char: str) -> bool:
    if unicodedata.category(char) == "Cf":
        return True
    point = ord(char)
    return any(low <= point <= high for low, high in _IGNORABLE_RANGES)
