"""The archive hand: what lies in a zip or tar file, and the named members of it.

Purpose: list members, or give the bytes of some, within bounds of number and size.
Invariant: only regular files are given, by the names that were asked for; nothing is ever written to a path that an
archive names; sizes are those that were read, not those that are claimed.
Must never: be imported by the daemon.

Asked: `{"members": [name] or null, "list_max", "bytes_max", "member_bytes_max"}`, the archive behind it. Answers
`{"rows": [[name, kind, bytes]], "left_out", "notes"}` or `{"files": [[name, base64]], "refused": [[name, why]]}`.
"""

import base64
import bz2
import gzip
import io
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import IO, Any, Final

from gloveport.server.hands.inside.frame import Answer, InputFault, serve

PIECE_BYTES: Final = 256 * 1024
NAME_CHARACTERS_MAX: Final = 1_000
MEMBERS_MAX: Final = 100_000
TAR_BYTES_MAX: Final = 1024 * 1024 * 1024
"""How much of a packed tar file is unpacked to look for members."""
_PACKS: Final[tuple[tuple[bytes, Callable[[IO[bytes]], Any]], ...]] = (
    (b"\x1f\x8b\x08", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open), (b"\x5d\x00\x00", lzma.open),
)  # fmt: skip
"""How a packed tar file begins, and what unpacks it."""


@dataclass(frozen=True, slots=True)
class Member:
    """One entry. `kind`: file, folder, link, encrypted or special; `size` as claimed."""

    name: str
    kind: str
    size: int
    open: Callable[[], IO[bytes] | None]


def work(asked: dict[str, Any], data: bytes) -> Answer:
    """List or give."""
    try:
        found = _members(data)
        return _list(found, asked) if asked["members"] is None else _give(found, asked)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError) as error:
        raise InputFault(f"it is damaged: {error}") from error


def _members(data: bytes) -> Iterator[Member]:
    if zipfile.is_zipfile(io.BytesIO(data)):
        return _zip(zipfile.ZipFile(io.BytesIO(data)))
    return _tar(data)


def _zip(packed: zipfile.ZipFile) -> Iterator[Member]:
    for info in packed.infolist():
        mode = info.external_attr >> 16
        if info.flag_bits & 1:
            kind = "encrypted"
        elif info.is_dir():
            kind = "folder"
        elif stat.S_IFMT(mode) in (0, stat.S_IFREG):
            kind = "file"
        else:
            kind = "link" if stat.S_ISLNK(mode) else "special"
        yield Member(info.filename, kind, info.file_size, partial(packed.open, info))


def _tar(data: bytes) -> Iterator[Member]:
    """A tar file, packed by gzip, bzip2, xz or not at all, read from its beginning up to a bound.

    It is unpacked piece by piece here: the library's own stream takes a packed piece whole and copies it at each read.
    """
    opened = next((pack for mark, pack in _PACKS if data.startswith(mark)), _unpacked)
    with opened(io.BytesIO(data)) as plain:
        yield from _tar_members(plain)


def _unpacked(data: IO[bytes]) -> IO[bytes]:
    return data


def _tar_members(plain: IO[bytes]) -> Iterator[Member]:
    with tarfile.open(fileobj=plain, mode="r|") as packed:
        for info in packed:
            is_plain = info.isreg() and not info.issparse() and info.size >= 0
            kind = "file" if is_plain else "folder" if info.isdir() else "special"
            kind = "link" if info.issym() or info.islnk() else kind
            yield Member(info.name, kind, info.size, partial(packed.extractfile, info))


def _list(found: Iterator[Member], asked: dict[str, Any]) -> Answer:
    rows: list[list[Any]] = []
    total = left_out = count = 0
    for count, member in enumerate(found, 1):
        if count > MEMBERS_MAX:
            raise InputFault(f"it has more than {MEMBERS_MAX} members")
        total += member.size if member.kind == "file" else 0
        if total > TAR_BYTES_MAX:
            raise InputFault(f"its members are larger than {TAR_BYTES_MAX} bytes together")
        if len(rows) < asked["list_max"]:
            rows.append([member.name[:NAME_CHARACTERS_MAX], member.kind, member.size])
        else:
            left_out += 1
    notes = [f"{left_out} more members are left out"] if left_out else []
    return {"table": "members", "rows": rows, "first_row": 1, "total_rows": count, "notes": notes}


def _give(found: Iterator[Member], asked: dict[str, Any]) -> Answer:
    wanted = dict.fromkeys(asked["members"])
    files: dict[str, bytes] = {}
    refused: dict[str, str] = {}
    left, passed = asked["bytes_max"], 0
    for count, member in enumerate(found, 1):
        passed += member.size
        if count > MEMBERS_MAX or passed > TAR_BYTES_MAX:
            raise InputFault("it is too large to be looked through")
        if member.name not in wanted:
            continue
        if member.name in files or member.name in refused:
            files.pop(member.name, None)
            refused[member.name] = "the archive holds it twice"
        elif member.kind != "file":
            refused[member.name] = f"it is no plain file but: {member.kind}"
        else:
            content = _read(member, min(left, asked["member_bytes_max"]))
            if content is None:
                refused[member.name] = "it is larger than what may be unpacked"
            else:
                files[member.name] = content
                left -= len(content)
    refused |= {name: "there is no such member" for name in wanted if name not in files and name not in refused}
    return {
        "files": [[name, base64.b64encode(content).decode("ascii")] for name, content in files.items()],
        "refused": list(map(list, refused.items())),
    }


def _read(member: Member, most: int) -> bytes | None:
    """The bytes of a member; null where there are more than `most`, whatever the archive claims."""
    link = member.open()
    if link is None:
        return None
    with link:
        found = bytearray()
        while piece := link.read(PIECE_BYTES):
            found += piece
            if len(found) > most:
                return None
    return bytes(found)


def main() -> None:
    """List or give."""
    serve(work)
