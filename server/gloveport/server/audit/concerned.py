"""Whom a damage of the log concerns: the sessions that there were when it was told.

Purpose: keep that list beside the log, so that a session that begins later does not stand still for it.
Invariant: the list is of one damage, and is replaced whole or not at all.
Must never: say that a session was told; its own record does.
"""

from collections.abc import Iterable
from pathlib import Path

from gloveport.server.audit.checkpoint import put_file
from gloveport.server.audit.line import canonical, read_object
from gloveport.server.audit.reading import Damage


def concerned_path(log: Path) -> Path:
    """Where the list lies."""
    return log.with_name(log.name + ".concerned")


def read_concerned(log: Path, damage: Damage) -> frozenset[str] | None:
    """The streams that this damage concerns; None when no list of it is there. Raises OSError."""
    try:
        values = read_object(concerned_path(log).read_bytes())
    except FileNotFoundError:
        return None
    if values is None or values.get("digest") != damage.digest:
        return None
    streams = values.get("streams")
    return frozenset(streams) if isinstance(streams, list) and all(isinstance(one, str) for one in streams) else None


def write_concerned(log: Path, damage: Damage, streams: Iterable[str]) -> None:
    """Keep the list of a damage in place of an earlier one's. Raises OSError."""
    put_file(concerned_path(log), canonical({"digest": damage.digest, "streams": sorted(streams)}))
