"""What this user's terminal has shown of a session's proposals.

Purpose: remember the digests of proposals and hunks that were printed, so that nothing else is accepted unread.
Invariant: a proposal counts as seen when it, or each of its hunks, was printed exactly as it is now.
Must never: decide; a lost or damaged note means unseen.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.change import ChangeInfo
from gloveport.server.client.paths import find_places

FOLDER: Final = "shown"
DIGESTS_MAX: Final = 50_000


def _file(session_id: str) -> Path:
    return find_places().data_dir / FOLDER / f"{session_id}.json"


def _read(path: Path) -> list[str]:
    try:
        noted = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return []
    return [one for one in noted if isinstance(one, str)] if isinstance(noted, list) else []


def note_shown(session_id: str, changes: Sequence[ChangeInfo]) -> None:
    """These proposals were printed whole."""
    if not changes:
        return
    path = _file(session_id)
    shown = [digest for change in changes for digest in (change.digest, *(hunk.digest for hunk in change.hunks))]
    kept = list(dict.fromkeys([*_read(path), *shown]))[-DIGESTS_MAX:]
    path.parent.mkdir(mode=0o700, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(json.dumps(kept))
    fresh.replace(path)


def unseen(session_id: str, changes: Sequence[ChangeInfo]) -> tuple[ChangeInfo, ...]:
    """Those of the proposals that were never printed as they are now."""
    noted = set(_read(_file(session_id)))
    return tuple(change for change in changes if not _is_seen(change, noted))


def _is_seen(change: ChangeInfo, noted: set[str]) -> bool:
    hunks = [hunk.digest for hunk in change.hunks]
    return change.digest in noted or (bool(hunks) and noted.issuperset(hunks))


def check_seen(session_id: str, changes: Sequence[ChangeInfo]) -> None:
    """Raises GloveportError (CHANGE_SUPERSEDED) when something of this was never shown."""
    new = unseen(session_id, changes)
    if new:
        paths = ", ".join(change.path for change in new)
        words = f"not shown to you as it is now, so nothing was accepted: {paths}"
        hint = "Look at it with gloveport diff, then accept; or accept unread with --unseen."
        raise GloveportError(ErrorCode.CHANGE_SUPERSEDED, words, hint=hint)
