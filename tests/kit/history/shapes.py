"""A generated repository with every shape of change that real histories have.

Purpose: commits with CRLF, mixed ends, binaries, renames, submodules, modes, links, no final newline, UTF-16, legacy
bytes, a byte order mark, files where folders were, odd names, many hunks.
Invariant: the same call makes the same objects.
Must never: need a work tree: the stream goes straight into the object store.
"""

import random
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tests.kit.history.repository import NEUTRAL

Entry = tuple[str, bytes]
"""Git's mode, and the bytes (a submodule: the name of its commit)."""

_PLAIN, _RUN, _LINK, _POINTER = "100644", "100755", "120000", "160000"


def _text(count: int, end: bytes = b"\n", seed: int = 3) -> list[bytes]:
    chance = random.Random(seed)
    words = (b"alpha", b"beta", b"}", b"", b"    return x", b"\tif y", b"value = 1")
    return [chance.choice(words) + b" %d" % (number % 17) + end for number in range(count)]


def _edited(lines: list[bytes], places: Iterable[int], end: bytes = b"\n") -> bytes:
    out = list(lines)
    for number, place in enumerate(sorted(places, reverse=True)):
        kind = number % 3
        fresh = b"new line %d" % place + end
        out[place : place + (0 if kind == 1 else 1)] = [] if kind == 2 else [fresh]
    return b"".join(out)


_LONG = _text(400)
_CRLF = _text(60, b"\r\n")
_MIXED = [line if number % 5 else line.rstrip(b"\n") + b"\r\n" for number, line in enumerate(_text(60))]
_WIDE = "erste\nzweite 漢\ndritte\nvierte\nfünfte\n"

COMMITS: Final[tuple[Mapping[str, Entry | None], ...]] = tuple(
    MappingProxyType(each)
    for each in (
        {
            "long.py": (_PLAIN, b"".join(_LONG)),
            "crlf.txt": (_PLAIN, b"".join(_CRLF)),
            "mixed.txt": (_PLAIN, b"".join(_MIXED)),
            "last": (_PLAIN, b"one\ntwo\nthree"),
            "wide.txt": (_PLAIN, b"\xff\xfe" + _WIDE.encode("utf-16-le")),
            "big-end.txt": (_PLAIN, b"\xfe\xff" + _WIDE.encode("utf-16-be")),
            "legacy.txt": (_PLAIN, b"stra\xdfe\nplain\nm\xfcde\nmore\n" * 6),
            "bom.cs": (_PLAIN, b"\xef\xbb\xbfusing X;\r\nclass A {\r\n}\r\n"),
            "image.png": (_PLAIN, bytes(range(256)) * 9),
            "run.sh": (_PLAIN, b"#!/bin/sh\necho\n"),
            "src/a.c": (_PLAIN, b"".join(_text(80, seed=5))),
            "src/to-folder": (_PLAIN, b"a file\n"),
            "link": (_LINK, b"src/a.c"),
            "tool": (_LINK, b"../outside"),
            "lone.txt": (_PLAIN, b"a\r\nb\nprog 1%\rprog 2%\n"),
            "empty": (_PLAIN, b""),
            "deps/inner": (_POINTER, b"1" * 40),
        },
        {
            "long.py": (_PLAIN, _edited(_LONG, range(5, 390, 13))),
            "crlf.txt": (_PLAIN, _edited(_CRLF, (3, 20, 40), b"\r\n")),
            "mixed.txt": (_PLAIN, _edited(_MIXED, (3, 20, 40))),
            "last": (_PLAIN, b"one\ntwo\nthree\n"),
            "lone.txt": (_PLAIN, b"a\r\nB\nprog 1%\rprog 2%\n"),
            "bom.cs": (_PLAIN, b"\xef\xbb\xbfusing X;\r\nusing Y;\r\nclass A {\r\n}\r\n"),
        },
        {
            "wide.txt": (_PLAIN, b"\xff\xfe" + _WIDE.replace("dritte", "3").encode("utf-16-le")),
            "big-end.txt": (_PLAIN, b"\xfe\xff" + _WIDE.replace("erste\n", "").encode("utf-16-be")),
            "legacy.txt": (_PLAIN, b"stra\xdfe\nplain\nm\xfcde\nmore\n" * 3 + b"ascii\n" + b"stra\xdfe\nx\n" * 3),
            "image.png": (_PLAIN, bytes(range(256)) * 8 + b"\0end"),
            "run.sh": (_RUN, b"#!/bin/sh\necho\n"),
            "empty": (_PLAIN, b"no more\n"),
            "deps/inner": (_POINTER, b"2" * 40),
        },
        {
            "src/a.c": None,
            "lib/b.c": (_PLAIN, b"".join(_text(80, seed=5)) + b"more\n"),
            "src/to-folder": None,
            "src/to-folder/file": (_PLAIN, b"in a folder\n"),
            "link": (_LINK, b"lib/b.c"),
            "name with space é.txt": (_PLAIN, b"odd\n"),
            'quote".txt': (_PLAIN, b"odd\n"),
        },
        {
            "run.sh": (_PLAIN, b"#!/bin/sh\necho changed\n"),
            "link": (_PLAIN, b"a file now\n"),
            "last": (_PLAIN, b"one\n2\nthree"),
            "crlf.txt": (_PLAIN, b"".join(_CRLF).replace(b"\r\n", b"\n")),
            "src/to-folder/file": None,
            "src/to-folder": (_PLAIN, b"a file again\n"),
            "deps/inner": None,
            "bad-\udcff-name": (_PLAIN, b"no UTF-8\n"),
            "long.py": None,
        },
    )
)


def make_repository(folder: Path) -> Path:
    """A bare repository with `COMMITS`, one after the other."""
    run = {"env": dict(NEUTRAL), "check": True, "timeout": 60, "capture_output": True}
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", str(folder)], **run)  # type: ignore[call-overload]  # - one set of options for both calls
    stream = b"".join(_commit(number, each) for number, each in enumerate(COMMITS)) + b"done\n"
    subprocess.run(["git", f"--git-dir={folder}", "fast-import", "--quiet", "--done"], input=stream, **run)  # type: ignore[call-overload]  # - as above
    return folder


def _commit(number: int, entries: Mapping[str, Entry | None]) -> bytes:
    message = b"commit %d" % number
    head = b"commit refs/heads/main\ncommitter A <a@b> %d +0000\ndata %d\n%s\n" % (number, len(message), message)
    gone = [b"D %s\n" % _name(path) for path, entry in entries.items() if entry is None]
    come = [_modified(path, *entry) for path, entry in entries.items() if entry is not None]
    return head + b"".join(gone) + b"".join(come)


def _modified(path: str, mode: str, data: bytes) -> bytes:
    if mode == _POINTER:
        return b"M %s %s %s\n" % (mode.encode(), data, _name(path))
    return b"M %s inline %s\ndata %d\n%s\n" % (mode.encode(), _name(path), len(data), data)


def _name(path: str) -> bytes:
    raw = path.encode("utf-8", "surrogateescape")
    return b'"' + raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'
