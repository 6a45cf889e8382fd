"""Starts the daemon with named facts or faults of a test's own.

Purpose: `python launcher.py NAME... ` runs the shipped daemon; a NAME says what is different: another boot of the
machine, or a fault that the proof must catch (a negative control).
Invariant: without a fault's name the shipped code runs unchanged.
Must never: be part of the product.
"""

import os
import sqlite3
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

OTHER_BOOT = "0ther000-b007-4000-8000-000000000000"


def put(module: ModuleType | type, name: str, value: object) -> None:
    """Let a name of a module mean something else."""
    setattr(module, name, value)


def other_boot() -> None:
    """The machine was started anew since: process ids and start times of before mean nothing."""
    from gloveport.server.journal import lease, store

    def boot_id() -> str:
        return OTHER_BOOT

    for module in (lease, store):
        put(module, "current_boot_id", boot_id)


def shared_user() -> None:
    """Runs have the daemon's user id: what one with its own writes comes to the tracer by paths of its own mounts."""
    from gloveport.sandbox.backends import bubblewrap

    put(bubblewrap, "has_own_users", lambda: False)


def no_sync() -> None:
    """SQLite never syncs, whatever the class of the append."""
    _say_synchronous("OFF")


def relaxed_commits() -> None:
    """Every commit is as the one of a piece of text: written, not synced; and told as durable."""
    _say_synchronous("NORMAL")


def _say_synchronous(word: str) -> None:
    class Connection(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            if sql.startswith("PRAGMA synchronous="):
                sql = f"PRAGMA synchronous={word}"
            return super().execute(sql, *parameters)

    _connect_by(Connection)


def _connect_by(factory: type[sqlite3.Connection]) -> None:
    """Connections of the journal are of this class."""
    from gloveport.server.journal import schema

    def connect(path: Any, **options: Any) -> sqlite3.Connection:
        return sqlite3.connect(path, factory=factory, **options)

    changed = SimpleNamespace(**{**vars(sqlite3), "connect": connect})
    put(schema, "sqlite3", changed)


def late_intents() -> None:
    """An intent is committed like a piece of text, and truly said to be: its effect begins before it is on disk."""
    from gloveport.protocol.journal.envelope import Durability
    from gloveport.server.journal.writer import Pending, Writer

    real = Writer._group_level

    def level(self: Writer, group: list[Pending]) -> Durability:
        types = {event.type for item in group for part in item.batch.streams for event in part.events}
        return Durability.RELAXED if types & {"ToolExecutionStarted", "ChangeApplyStarted"} else real(self, group)

    put(Writer, "_group_level", level)


def deaf_commits() -> None:
    """A commit that the disk refuses counts as done."""

    class Deaf(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            try:
                return super().execute(sql, *parameters)
            except sqlite3.Error:
                if sql != "COMMIT":
                    raise
                return super().execute("ROLLBACK" if self.in_transaction else "SELECT 1")

    _connect_by(Deaf)


def unsynced_apply() -> None:
    """A new file is not synced before it gets its name."""
    from gloveport.server.workspace import placing

    class Os:
        def __getattr__(self, name: str) -> Any:
            return getattr(os, name) if name != "fsync" else lambda _fd: None

    put(placing, "os", Os())


NAMES: dict[str, Callable[[], None]] = {
    each.__name__: each
    for each in (other_boot, shared_user, no_sync, relaxed_commits, late_intents, deaf_commits, unsynced_apply)
}


def main() -> None:
    """Change what is named, then be the daemon."""
    from gloveport.server.__main__ import main as daemon

    for name in sys.argv[1:]:
        NAMES[name]()
    sys.argv = ["gloveport", "daemon"]
    daemon()


if __name__ == "__main__":
    main()
