"""Half of the program that is sent to another machine (`keeper` is the other): what it reads, keeps and lays ready.

Purpose: the way to the supervisor, contents by their hash, and the tree as it is when the command is over.
Invariant: a content is what its name says, each time it is used; only plain files, folders and links are laid ready.
Must never: import anything but the standard library (3.9 and later), or follow a link of the command's.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import stat
import struct
import time
from collections.abc import Iterable, Iterator
from typing import Any

MARK = b"="
STORE = "/gloveport"
"""Where the volume that outlives runs is; its folder is the keeper's alone."""
PIECE = 64 * 1024
FILE_BYTES_MAX = 1024 * 1024 * 1024
BACK_BYTES_MAX = 4 * 1024 * 1024 * 1024
ENTRIES_MAX = 200_000
STORE_BYTES_MAX = 16 * 1024 * 1024 * 1024
LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Broken(Exception):  # noqa: N818 - an outcome, not a fault of this program
    """What was sent cannot be used, or nobody is heard any more."""


class Channel:
    """The way to the supervisor."""

    def __init__(self, away_s: float) -> None:
        self.away_s = away_s
        self.heard = time.monotonic()
        self.held = bytearray()
        self.is_open = True

    def fill(self) -> bool:
        """Take what is there; False at the end."""
        piece = os.read(0, PIECE)
        if piece:
            self.heard = time.monotonic()
            self.held += piece
        else:
            self.is_open = False
        return bool(piece)

    def line(self) -> bytes:
        """The next line, waited for; empty ones are signs of life between them."""
        while True:
            end = self.held.find(b"\n")
            if end >= 0:
                found = bytes(self.held[:end])
                del self.held[: end + 1]
                if found:
                    return found
            else:
                self._wait()

    def pass_mark(self) -> None:
        """Everything up to the mark, behind which no sign of life stands between the bytes."""
        while self.line() != MARK:
            pass

    def pieces(self, size: int) -> Iterator[bytes]:
        """Exactly so many bytes."""
        while size:
            if not self.held:
                self._wait()
            piece = bytes(self.held[:size])
            del self.held[: len(piece)]
            size -= len(piece)
            yield piece

    def _wait(self) -> None:
        if not select.select([0], [], [], self.away_s)[0] or not self.fill():
            raise Broken("nobody is heard any more")

    def tell(self, word: Any) -> None:
        """A JSON frame, written whole."""
        body = json.dumps(word).encode()
        left = memoryview(b"J" + struct.pack(">I", len(body)) + body)
        while left:
            left = left[os.write(1, left) :]


class Store:
    """Contents by their hash, and the folder of this run."""

    def __init__(self, run: str) -> None:
        os.chmod(STORE, 0o700)
        self.blobs, self.out = f"{STORE}/blobs", f"{STORE}/runs/{run}/out"
        for folder in (self.blobs, f"{STORE}/trees", f"{self.out}/b"):
            os.makedirs(folder, mode=0o700, exist_ok=True)

    def path(self, digest: str) -> str:
        """Where a content lies."""
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
            raise Broken("not a hash")
        return f"{self.blobs}/{digest}"

    def holds(self, digest: str, size: int) -> bool:
        """Whether a content is there; it is read again when it is used."""
        try:
            found = os.stat(self.path(digest))
        except OSError:
            return False
        if found.st_size != size:
            return False
        os.utime(self.path(digest))
        return True

    def take(self, digest: str, pieces: Iterable[bytes]) -> None:
        """Keep a content; it must be what its name says."""
        path = self.path(digest)
        aside = f"{path}.{os.getpid()}-{time.monotonic_ns()}"
        seen = hashlib.sha256()
        with open(aside, "wb") as file:
            for piece in pieces:
                seen.update(piece)
                file.write(piece)
        if seen.hexdigest() != digest:
            os.unlink(aside)
            raise Broken("a file changed while it was sent")
        os.rename(aside, path)

    def shrink(self) -> None:
        """Let the oldest contents go beyond the store's limit."""
        found = []
        for entry in os.scandir(self.blobs):
            with contextlib.suppress(OSError):
                status = entry.stat()
                found.append((status.st_mtime, status.st_size, entry.path))
        total = sum(size for _when, size, _path in found)
        for _when, size, path in sorted(found):
            if total <= STORE_BYTES_MAX:
                return
            with contextlib.suppress(OSError):
                os.unlink(path)
            total -= size


Laid = tuple[int, int, int, str]
"""A file as it was unpacked: inode, time of change, size, hash."""


class Back:
    """The tree as it is now, and the contents that are new."""

    def __init__(self, store: Store, laid: dict[str, Laid], known: set[str]) -> None:
        self.store, self.laid, self.known = store, laid, known
        self.left: list[str] = []
        self.whole = True
        self.entries = self.bytes = 0
        self.seen = hashlib.sha256()
        self.file = open(f"{self.store.out}/tree", "wb")  # noqa: SIM115 - closed by `close`

    def close(self) -> tuple[int, str]:
        """How many entries, and the hash of their lines."""
        self.file.close()
        return self.entries, self.seen.hexdigest()

    def walk(self, index: int, root: str, others: set[str]) -> None:
        """One parcel, without what is mounted below it."""

        def fail(error: OSError) -> None:
            raise error  # no end at all is better than one that tells a folder as empty

        for folder, folders, files, fd in os.fwalk(root, follow_symlinks=False, onerror=fail):
            inside = os.path.relpath(folder, root)
            inside = "" if inside == "." else inside + "/"
            unseen = set(others)
            for name in (*sorted(folders), *sorted(files)):
                path = inside + name
                if path not in others and not self.note(index, path, os.path.join(folder, name), name, fd):
                    unseen.add(path)
            folders[:] = [name for name in sorted(folders) if inside + name not in unseen]

    def note(self, index: int, path: str, place: str, name: str, fd: int) -> bool:
        """One line, and the content where it is new. Whether it could be seen: a folder that cannot be listed is not,
        and nothing below it is gone."""
        try:
            found = os.stat(name, dir_fd=fd, follow_symlinks=False)
            mode, when = stat.S_IMODE(found.st_mode), found.st_mtime_ns
            if stat.S_ISDIR(found.st_mode):
                os.close(os.open(name, LISTED, dir_fd=fd))
                self.write([index, "d", path, mode, when, 0, ""])
            elif stat.S_ISLNK(found.st_mode):
                self.write([index, "l", path, 0o777, when, 0, os.readlink(name, dir_fd=fd)])
            elif stat.S_ISREG(found.st_mode):
                digest = self.content(place, name, fd, found)
                self.write([index, "f", path, mode, when, found.st_size, digest])
            else:
                self.left.append(f"{path}: no file, folder or link")
                self.write([index, "?", path, 0, 0, 0, ""])
        except (OSError, Broken) as error:
            self.left.append(f"{path}: {error}")
            self.write([index, "?", path, 0, 0, 0, ""])
            return False
        return True

    def content(self, place: str, name: str, fd: int, found: os.stat_result) -> str:
        """The hash of a file; a content that was not sent from there is laid ready."""
        laid = self.laid.get(place)
        if laid is not None and laid[:3] == (found.st_ino, found.st_ctime_ns, found.st_size):
            return laid[3]
        if found.st_size > FILE_BYTES_MAX or self.bytes + found.st_size > BACK_BYTES_MAX:
            raise Broken("too large to come back")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        seen, copied = hashlib.sha256(), 0
        aside = f"{self.store.blobs}/back.{os.getpid()}-{time.monotonic_ns()}"
        with os.fdopen(os.open(name, flags, dir_fd=fd), "rb") as source, open(aside, "wb") as file:
            while piece := source.read(PIECE):
                seen.update(piece)
                copied += file.write(piece)
        digest = seen.hexdigest()
        if digest in self.known or copied != found.st_size:
            os.unlink(aside)
        else:
            self.known.add(digest)
            os.rename(aside, self.store.path(digest))
            os.link(self.store.path(digest), f"{self.store.out}/b/{digest}")
            self.bytes += copied
        return digest

    def write(self, entry: list[Any]) -> None:
        """One line of the tree."""
        self.entries += 1
        if self.entries > ENTRIES_MAX:
            self.whole = False
            return
        line = json.dumps(entry).encode() + b"\n"
        self.seen.update(line)
        self.file.write(line)


def empty(folder: str) -> None:
    """Remove what lies in a folder."""
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            empty(entry.path)
            os.rmdir(entry.path)
        else:
            os.unlink(entry.path)
