"""change/hunks: what waits for a decision, where the user sees it.

Purpose: place the pending hunks of a document, or of a session, in the text that its user has before them.
Invariant: each names the digests that a decision must name; where the user changed the same lines, it says so.
Must never: write, or hold what it read.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, cast

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.events import ChangeProposed, HunkRecord
from gloveport.protocol.wire.change import ChangeHunksParams, ChangeHunksResult, PendingHunk, PendingState
from gloveport.server.commands.house import House
from gloveport.server.edit.hunk_states import HunkState, shown_state
from gloveport.server.edit.lines import split_lines
from gloveport.server.edit.matching import changed_ranges
from gloveport.server.edit.merge import met_digest
from gloveport.server.edit.shift import Placed, place_lines
from gloveport.server.engine.accepting import rule_info, rules_on
from gloveport.server.engine.actor import Actor
from gloveport.server.transports.port import Caller

SESSIONS_LOOKED_MAX: Final = 8
"""Of the sessions whose folder holds the document, the last changed ones are looked at."""
HUNK_TEXT_BYTES_MAX: Final = 64 << 10
_LINE_END: Final = re.compile(r"\r\n|\n|\r")


async def hunks(house: House, params: ChangeHunksParams, caller: Caller) -> ChangeHunksResult:
    """What is pending in a document, a session, or a document for one session."""
    if params.uri is None and params.session_id is None:
        raise GloveportError(ErrorCode.INVALID_PARAMS, "uri or sessionId: one of them is needed")
    wanted = None if params.uri is None else house.buffers.real_path(params.uri)
    if params.uri is not None and wanted is None:
        return ChangeHunksResult(hunks=())
    found: list[PendingHunk] = []
    for actor in await _actors(house, params.session_id, wanted):
        rules = await rules_on(actor, actor.state.changes.values())
        for change in sorted(actor.state.changes.values(), key=lambda each: each.path):
            target = actor.workspace.root / (change.renamed_from or change.path)
            if wanted is None or os.path.realpath(target) == wanted:
                rule = rule_info(rules.get(change.change_id))
                placed = await _placed(actor, change, params.uri or target.as_uri())
                found += [hunk.model_copy(update={"rule": rule}) for hunk in placed]
    return ChangeHunksResult(hunks=tuple(found))


async def _actors(house: House, session_id: str | None, wanted: str | None) -> list[Actor]:
    """The sessions to look at, those changed last first; one whose folder is away is left out."""
    if session_id is not None:
        return [await house.sessions.open(session_id)]
    rows = await house.sessions.room.journal.sessions()
    here = [row for row in rows if wanted is not None and _is_below(wanted, row.workspace)]
    actors = [await house.sessions.open(row.session_id) for row in here[:SESSIONS_LOOKED_MAX]]
    return [actor for actor in actors if actor.opened_workspace is not None]


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{os.path.realpath(folder)}{os.sep}")


@dataclass(frozen=True, slots=True)
class _Sides:
    """The contents that a hunk speaks of; None where a side is absent or out of reach."""

    base: bytes
    result: bytes
    user: bytes


async def standing(actor: Actor, change: ChangeProposed) -> tuple[HunkState, ...]:
    """Where each pending hunk of a proposal stands beside what the user has now, in order."""
    sides = await _sides(actor, change)
    return tuple(shown_state(meets=placed.meets) for hunk, placed in _places(change, sides) if hunk is not None)


async def _sides(actor: Actor, change: ChangeProposed) -> _Sides:
    workspace = actor.workspace
    base = await workspace.content(change.base_hash)
    result = await workspace.content(change.result_hash)
    user = await workspace.user_bytes(change.renamed_from or change.path)
    return _Sides(base or b"", result or b"", user or b"")


async def _placed(actor: Actor, change: ChangeProposed, uri: str) -> list[PendingHunk]:
    return list(_each(actor, change, await _sides(actor, change), uri))


def _places(change: ChangeProposed, sides: _Sides) -> Iterator[tuple[HunkRecord | None, Placed]]:
    """Each hunk with its lines in the user's text; what can be taken whole only stands at the beginning.

    Where the user made the very same change, nothing meets.
    """
    if not change.hunks:
        yield None, Placed(0, 0, meets=sides.user not in (sides.base, sides.result))
        return
    result, user = split_lines(sides.result), split_lines(sides.user)
    changes = changed_ranges(split_lines(sides.base), user)
    for hunk in change.hunks:
        placed = place_lines(changes, hunk.old_start, hunk.old_start + hunk.old_count)
        new = result[hunk.new_start : hunk.new_start + hunk.new_count]
        same = placed.inside and user[placed.start : placed.end] == new
        yield hunk, replace(placed, meets=placed.meets and not same)


def _each(actor: Actor, change: ChangeProposed, sides: _Sides, uri: str) -> Iterator[PendingHunk]:
    places = _Lines(sides.user)
    user = split_lines(sides.user)
    changes = changed_ranges(split_lines(sides.base), user)
    for hunk, placed in _places(change, sides):
        start = 0 if hunk is None else hunk.old_start
        yield PendingHunk(
            session_id=actor.session_id,
            session_title=actor.state.title,
            change_id=change.change_id,
            digest=change.digest,
            hunk_id=None if hunk is None else hunk.hunk_id,
            hunk_digest=None if hunk is None else hunk.digest,
            path=change.path,
            uri=uri,
            kind=change.kind,
            start_line=places.number(placed.start),
            end_line=places.number(placed.end),
            old_count=0 if hunk is None else hunk.old_count,
            new_count=0 if hunk is None else hunk.new_count,
            old_text=None if hunk is None else _text(sides.base, start, hunk.old_count),
            new_text=None if hunk is None else _new_text(sides.result, hunk),
            runs_by_itself=change.runs_by_itself,
            meets=placed.meets,
            state=cast("PendingState", shown_state(meets=placed.meets).value),
            user_text=_text(sides.user, placed.start, placed.end - placed.start) if placed.meets else None,
            user_digest=None
            if hunk is None or not placed.meets
            else met_digest(changes, user, hunk.old_start, hunk.old_start + hunk.old_count),
        )


def _new_text(result: bytes, hunk: HunkRecord) -> str | None:
    return _text(result, hunk.new_start, hunk.new_count)


def _text(data: bytes, start: int, count: int) -> str | None:
    part = b"".join(split_lines(data)[start : start + count])
    if len(part) > HUNK_TEXT_BYTES_MAX:
        return None
    try:
        return part.decode()
    except UnicodeDecodeError:
        return None


class _Lines:
    """Numbers of lines as editors count them: a lone CR ends a line there, too."""

    def __init__(self, data: bytes) -> None:
        self._lines = split_lines(data)
        self._extra = b"\r" in data.replace(b"\r\n", b"")

    def number(self, line: int) -> int:
        """The editor's number of our line; both count from 0."""
        if not self._extra:
            return line
        return len(_LINE_END.findall(b"".join(self._lines[:line]).decode("utf-8", "replace")))
