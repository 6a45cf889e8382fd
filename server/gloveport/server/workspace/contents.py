"""The contents of all folders that sessions were begun in, kept once.

Purpose: one content store that the snapshots of all sessions share, and for each folder what was last seen of it, so
that the next snapshot reads only what changed.
Invariant: what a session's snapshot named stays until that session is gone; what no session names is given back.
Must never: let a content go while a snapshot is being taken, or take what was seen for what is there: a content that is
not in the store is read again.
"""

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.ids import Sha256
from gloveport.server.workspace.errors import WorkspaceError, os_failure
from gloveport.server.workspace.sight import Sight
from gloveport.server.workspace.store import ContentStore
from gloveport.server.workspace.syscalls import sync_folder

PINS_NAME: Final = "snapshot.pins"
HASH_BYTES: Final = 32
CONTENTS_BYTES_MAX: Final = 16 << 30
"""Above this no new snapshot is taken."""
SIGHTS_MAX: Final = 16
"""Of so many folders it is remembered what was seen."""


class Contents:
    """The shared store of one data directory. One owner at a time; safe for threads; close it.

    `sessions` is the folder whose subfolders hold the pins of each session.
    """

    def __init__(self, folder: Path, sessions: Path, *, bytes_max: int = CONTENTS_BYTES_MAX) -> None:
        self._sessions, self._bytes_max = sessions, bytes_max
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._store = ContentStore(folder)
            for each in (folder, folder.parent):  # the store's own names, or a power loss takes all that is in it
                sync_folder(each)
        except OSError as error:
            raise os_failure(error, folder.name, writing=True) from None
        self._lock = threading.Lock()
        self._taking = 0
        self._owed = False
        self._sights: dict[str, Sight] = {}
        # Handles go back with the last user of this object, also where nobody closes it.
        weakref.finalize(self, self._store.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the handles back."""
        self._store.close()

    @contextmanager
    def taking(self, identity: str) -> Iterator[Sight]:
        """While a snapshot is taken nothing is given back; what was seen of the folder before.

        Raises `limit.reached` when the store holds more than its limit.
        """
        with self._lock:
            if self._store.bytes_total > self._bytes_max:
                raise WorkspaceError(
                    ErrorCode.LIMIT,
                    f"the snapshots of all sessions hold more than contents_bytes_max = {self._bytes_max}",
                    hint="Delete sessions that are no longer needed.",
                    limit="contents_bytes_max",
                )
            self._taking += 1
            sight = self._sights.pop(identity, None) or Sight()
            self._sights[identity] = sight
            while len(self._sights) > SIGHTS_MAX:
                del self._sights[next(iter(self._sights))]
        try:
            yield sight
        finally:
            with self._lock:
                self._taking -= 1
                owed = self._owed and not self._taking
            if owed:
                self.collect()

    def put(self, data: bytes) -> Sha256:
        """Keep `data`; durable after the next `sync`."""
        with self._lock:
            return self._store.put(data)

    def get(self, digest: str) -> bytes:
        """The bytes named `digest`. Raises WorkspaceError `journal.blob_missing`."""
        return self._store.get(digest)

    def has(self, digest: str) -> bool:
        """True when `get` would find the name."""
        return self._store.has(digest)

    def size(self, digest: str) -> int | None:
        """How many bytes the name stands for; None when it is not here."""
        return self._store.size(digest)

    def share(self, digest: str, fd: int) -> bool:
        """Make an empty file hold the bytes of a name without a copy; False where that cannot be had."""
        return self._store.share(digest, fd)

    def sync(self) -> None:
        """Make everything put so far durable."""
        with self._lock:
            self._store.sync()

    def collect(self) -> int | None:
        """Give back what no session's snapshot names; the bytes freed.

        While a snapshot is taken it gives None: then it is done at that one's end.
        """
        with self._lock:
            self._owed = self._taking > 0
            if self._owed:
                return None
            wanted: set[bytes] = set()
            for pins in self._sessions.glob(f"*/{PINS_NAME}"):
                wanted |= load_pins(pins.parent)
            freed = self._store.keep_only(wanted)
            if freed:
                self._sights.clear()  # names of files are a memory too
            return freed


def save_pins(session_dir: Path, digests: set[Sha256]) -> None:
    """Write down what the session's snapshot names, durably. Raises WorkspaceError."""
    try:
        with (session_dir / PINS_NAME).open("wb") as file:
            file.write(b"".join(sorted(map(bytes.fromhex, digests))))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise os_failure(error, PINS_NAME, writing=True) from None


def load_pins(session_dir: Path) -> frozenset[bytes]:
    """The raw hashes that a session's snapshot names; none where it shares nothing."""
    try:
        raw = (session_dir / PINS_NAME).read_bytes()
    except FileNotFoundError:
        return frozenset()
    except OSError as error:
        raise os_failure(error, PINS_NAME) from None
    return frozenset(raw[at : at + HASH_BYTES] for at in range(0, len(raw), HASH_BYTES))
