"""Up to where a log was followed whole, remembered beside it.

Purpose: spare a start the whole log where it lies just as its last daemon left it.
Invariant: the mark (HMAC-SHA256 with the checkpoints' key) covers every field, and holds for one state of one file:
any write to it changes its ctime; after `SEEN_FOR_US` the log is followed anew in any case.
Must never: keep a log that was touched from being followed.
"""

import contextlib
import hashlib
import hmac
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from gloveport.server.audit.checkpoint import put_file
from gloveport.server.audit.line import Link, canonical, read_object
from gloveport.server.audit.reading import Damage

SEEN_FOR_US: Final = 24 * 3600 * 1_000_000
SETTLED_NS: Final = 20_000_000
"""Clocks of file systems stand still for some milliseconds: a state is remembered when it is older than that."""
_SEEN_BYTES_MAX: Final = 4096
_DAMAGES: Final = tuple({"seq": int, "digest": str, "broken_line": line, "words": str} for line in (int, type(None)))


@dataclass(frozen=True, slots=True)
class Seen:
    """What the whole log told (`damage`, its newest) when it was followed at `at` (UTC microseconds)."""

    at: int
    damage: Damage | None


def seen_path(log: Path) -> Path:
    """Where it lies."""
    return log.with_name(log.name + ".seen")


def read_seen(path: Path, fd: int, key: bytes, link: Link, now: int) -> Seen | None:
    """What is remembered of the open log, where that is this very state of it and not too old. Raises OSError."""
    try:
        with seen_path(path).open("rb") as file:
            values = read_object(file.read(_SEEN_BYTES_MAX)) or {}
    except FileNotFoundError:
        return None
    mark, at, damage = values.pop("mark", None), values.get("at"), values.get("damage")
    if not isinstance(mark, str) or type(at) is not int or not _is_damage(damage):
        return None
    known = Seen(at, Damage(**damage) if damage is not None else None)
    wanted = _values(known, fd, link)
    whole = wanted == values and hmac.compare_digest(mark.encode(), _mark(wanted, key).encode())
    return known if whole and 0 <= now - at < SEEN_FOR_US else None


def _is_damage(told: Any) -> bool:
    if told is None:
        return True
    return isinstance(told, dict) and {name: type(value) for name, value in told.items()} in _DAMAGES


def write_seen(path: Path, fd: int, key: bytes, link: Link, seen: Seen) -> None:
    """Remember the open log as it is now; one that is not written costs time alone."""
    with contextlib.suppress(OSError):
        while 0 <= time.time_ns() - os.fstat(fd).st_ctime_ns < SETTLED_NS:
            time.sleep(SETTLED_NS / 1e9)
        values = _values(seen, fd, link)
        put_file(seen_path(path), canonical({**values, "mark": _mark(values, key)}))


def _values(seen: Seen, fd: int, link: Link) -> dict[str, Any]:
    status = os.fstat(fd)
    place = {"seq": link.seq, "head": link.digest, "inode": status.st_ino, "size": status.st_size}
    damage = asdict(seen.damage) if seen.damage is not None else None
    return {**place, "ctime_ns": status.st_ctime_ns, "at": seen.at, "damage": damage}


def _mark(values: dict[str, Any], key: bytes) -> str:
    return hmac.new(key, canonical(values), hashlib.sha256).hexdigest()
