"""Data as the first version of the journal left it, and a process that dies while it brings it up to date.

Usage: journal_first.py DIRECTORY N   (opens the journal; killed at the n-th statement or fsync before the commit)
"""

import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gloveport.protocol.journal.envelope import GENESIS_DIGEST, chain_digest, payload_hash
from gloveport.server.journal import opening, schema
from gloveport.server.journal.filesystem import fsync_directory, fsync_file
from gloveport.server.journal.schema import MIGRATIONS, connect, migrate, set_writer_pragmas
from gloveport.server.journal.store import Journal

STREAMS = ("session/a", "session/b", "daemon")
EVENTS = 40
STAMP = 1_700_000_000_000_000


def write_first(directory: Path, more: int = 0) -> None:
    """Streams with `EVENTS` events each and `more` on top, rows in the index and an answer, closed in good order."""
    directory.mkdir(mode=0o700, exist_ok=True)
    path = directory / "journal.db"
    connection = connect(path)
    migrate(connection, path, STAMP, MIGRATIONS[:1])
    set_writer_pragmas(connection)
    connection.execute("BEGIN IMMEDIATE")
    for number, stream in enumerate(STREAMS):
        _fill(connection, stream, number + 1, EVENTS + more)
    for name in "ab":
        connection.execute(
            "INSERT OR REPLACE INTO session_index VALUES (?,?,'idle','/w',1,?)", (name, f"title {name}", ord(name))
        )
    connection.execute("INSERT OR IGNORE INTO request (id, fingerprint, result) VALUES ('asked', '', x'6f6b')")
    for key, value in (("clean", 1), ("boot_id", "boot-1"), ("generation", 1)):
        connection.execute("INSERT OR IGNORE INTO meta VALUES (?,?)", (key, value))
    connection.execute("COMMIT")
    connection.close()
    path.chmod(0o600)


def _fill(connection: sqlite3.Connection, stream: str, touched: int, count: int) -> None:
    row = connection.execute("SELECT next_seq, digest FROM stream WHERE name=?", (stream,)).fetchone()
    first, digest = (row[0], row[1].hex()) if row is not None else (1, GENESIS_DIGEST)
    for seq in range(first, count + 1):
        payload = b'{"text":"%d of %s"}' % (seq, stream.encode())
        digest = chain_digest(
            digest,
            stream=stream,
            epoch=1,
            seq=seq,
            event_type="Noted",
            version=1,
            at=STAMP,
            payload_hash=payload_hash(payload),
        )
        values = (stream, 1, seq, "Noted", 1, STAMP, payload, bytes.fromhex(digest))
        connection.execute("INSERT INTO event VALUES (?,?,?,?,?,?,?,?,NULL)", values)
    connection.execute(
        "INSERT OR REPLACE INTO stream VALUES (?,1,?,?,?)", (stream, count + 1, bytes.fromhex(digest), touched)
    )


class Countdown:
    """Kills this process at its n-th step; the steps end with the migration's commit."""

    def __init__(self, number: int) -> None:
        self.left, self.over = number, False

    def step(self, sql: str = "") -> None:
        """One step is about to be made."""
        if self.over:
            return
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.over = sql == "COMMIT"

    def before(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """A function that is a step."""

        def counted(*values: Any) -> Any:
            self.step()
            return work(*values)

        return counted


async def main(directory: Path, number: int) -> None:
    """Open with a countdown; a last step after the commit, too."""
    countdown = Countdown(number)

    def watched(path: Path, **options: Any) -> sqlite3.Connection:
        connection = connect(path, **options)
        connection.set_trace_callback(countdown.step)
        return connection

    synced = {"fsync_file": countdown.before(fsync_file), "fsync_directory": countdown.before(fsync_directory)}
    for module, functions in ((opening, {"connect": watched}), (schema, synced)):
        for name, function in functions.items():
            setattr(module, name, function)
    journal, _report = await Journal.open(directory, clock=lambda: STAMP, boot_id="boot-1", ballast_bytes=4096)
    await journal.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
