"""snapshot/*: back to how the files were before a turn.

Purpose: list the points, preview what going back changes and what stays done, and do it as one decision.
Invariant: only paths that a decision touched since change; a restore is a decision that can be undone; done twice it
changes nothing the second time.
Must never: touch a file, a ref or a folder that no decision touched, or restore what was not previewed.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

import orjson

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.events import (
    ChangeApplied,
    SessionCreated,
    ToolExecutionStarted,
    TurnStarted,
    UserMessageAdded,
)
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.change import ChangeDecideResult
from gloveport.protocol.wire.snapshot import (
    CannotUndo,
    RestoredFile,
    RestorePoint,
    SnapshotListResult,
    SnapshotPreviewParams,
    SnapshotPreviewResult,
    SnapshotRestoreParams,
)
from gloveport.server.commands.change import check_quiet, decide
from gloveport.server.commands.house import House
from gloveport.server.commands.once import Once
from gloveport.server.commands.undoing import back_to, in_force
from gloveport.server.edit.hunks import content_digest, diff_hunks
from gloveport.server.edit.render import unified_diff
from gloveport.server.engine.actor import Actor
from gloveport.server.engine.folding import body_of
from gloveport.server.transports.port import Caller
from gloveport.server.workspace.plan import Plan
from gloveport.server.workspace.state import FileState

START: Final = "start"
TITLE_CHARS_MAX: Final = 100
DIFF_CHARS_MAX: Final = 100_000
READ_EVENTS: Final = 500
READ_BYTES: Final = 4 << 20
_LASTING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "execute": "a command ran; what it did outside the agent's copy of your folder stays",
        "install": "something was installed",
        "network": "something was sent over the network",
        "publish": "something was published",
        "message": "a message was sent",
        "git_history": "git history was changed",
        "memory_write": "something was remembered",
        "configure": "settings were changed",
    }
)
"""Effects that going back does not take back, in words."""
_KEPT: Final = (SessionCreated, TurnStarted, UserMessageAdded, ChangeApplied, ToolExecutionStarted)
_KEPT_NAMES: Final = frozenset(kind.__name__ for kind in _KEPT)


@dataclass(slots=True)
class _Since:
    """What happened from a point on: turns, decisions, and calls with effects that stay."""

    point: str
    at: int
    title: str = ""
    turns: list[str] = field(default_factory=list)
    applied: set[str] = field(default_factory=set)
    calls: list[ToolExecutionStarted] = field(default_factory=list)


async def _points(house: House, actor: Actor) -> list[_Since]:
    """All points, oldest first, each with what happened since."""
    points: list[_Since] = []
    titles: dict[str, str] = {}
    journal, after = house.sessions.room.journal, 0
    while events := await journal.read(actor.stream, after, READ_EVENTS, READ_BYTES):
        after = events[-1].seq
        for event in events:
            if event.type not in _KEPT_NAMES or (body := body_of(event)) is None:
                continue
            match body:
                case SessionCreated():
                    points.append(_Since(START, event.at, "the beginning of the session"))
                case TurnStarted():
                    points.append(_Since(body.turn_id, event.at))
                case UserMessageAdded():
                    titles.setdefault(body.turn_id, " ".join(body.text.split())[:TITLE_CHARS_MAX])
                case _:
                    pass
            for point in points:
                _note(point, body)
    for point in points:
        point.title = titles.get(point.point, point.title)
    return points


def _note(point: _Since, body: object) -> None:
    match body:
        case TurnStarted():
            point.turns.append(body.turn_id)
        case ChangeApplied():
            point.applied.add(body.apply_id)
        case ToolExecutionStarted() if any(effect.kind in _LASTING for effect in body.effects):
            point.calls.append(body)
        case _:
            pass


async def listed(house: House, params: SessionParams, caller: Caller) -> SnapshotListResult:
    """The points, oldest first."""
    actor = await house.sessions.open(params.session_id)
    made = {each.apply_id for each in in_force(actor.state.applied).made}
    return SnapshotListResult(
        points=tuple(
            RestorePoint(point=one.point, title=one.title, at=one.at, decisions=len(one.applied & made))
            for one in await _points(house, actor)
        )
    )


async def preview(house: House, params: SnapshotPreviewParams, caller: Caller) -> SnapshotPreviewResult:
    """What going back would change, and what it would not."""
    actor = await house.sessions.open(params.session_id)
    since = await _since(house, actor, params.point)
    plan = await _plan(actor, since)
    return SnapshotPreviewResult(
        point=params.point,
        digest=None if plan is None else _digest(params.point, plan),
        files=() if plan is None else tuple([row async for row in _rows(actor, plan)]),
        cannot_undo=tuple(_lasting(since.calls)),
    )


async def restore(house: House, params: SnapshotRestoreParams, caller: Caller, once: Once) -> ChangeDecideResult:
    """Go back, as it was previewed."""
    actor = await house.sessions.open(params.session_id)
    check_quiet(actor)
    house.buffers.heard(caller.connection_id)
    plan = await _plan(actor, await _since(house, actor, params.point))
    if plan is None or _digest(params.point, plan) != params.digest:
        raise GloveportError(ErrorCode.CHANGE_SUPERSEDED, "what would be restored changed since it was shown")
    return await decide(actor, "restore", plan, caller, once)


async def _since(house: House, actor: Actor, point: str) -> _Since:
    found = [one for one in await _points(house, actor) if one.point == point]
    if not found:
        hint = "List the points with snapshot/list, or gloveport restore."
        raise GloveportError(ErrorCode.INVALID_PARAMS, f"point: there is no point {point[:100]!r}", hint=hint)
    return found[0]


async def _plan(actor: Actor, since: _Since) -> Plan | None:
    """What going back would do; None when nothing is to be done."""
    decisions = back_to(actor.state.applied, since.applied)
    dropped = sorted(each.path for each in actor.state.changes.values() if each.turn_id in since.turns)
    try:
        return await actor.workspace.plan_restore([(one.apply_id, one.record) for one in decisions], dropped)
    except GloveportError as error:
        if error.code is ErrorCode.CHANGE_UNKNOWN:
            return None
        raise


def _digest(point: str, plan: Plan) -> str:
    return content_digest(point.encode(), orjson.dumps(plan.as_json(), option=orjson.OPT_SORT_KEYS))


async def _rows(actor: Actor, plan: Plan) -> AsyncIterator[RestoredFile]:
    mine = {step.path: step for step in plan.user_steps}
    shown = frozenset(plan.in_editors)
    alone = {step.path: step for step in plan.steps if step.side == "worktree" and step.path not in mine}
    for path in sorted(mine.keys() | alone.keys()):
        step = mine.get(path) or alone[path]
        action: Literal["remove", "recreate", "restore"] = "restore"
        if step.after is None or step.before is None:
            action = "remove" if step.after is None else "recreate"
        yield RestoredFile(
            path=path,
            side="yours" if path in mine else "agent",
            action=action,
            in_editor=path in shown,
            diff=await _diff(actor, path, step.before, step.after),
        )


async def _diff(actor: Actor, path: str, before: FileState | None, after: FileState | None) -> str:
    old, new = [b"" if end is None else await actor.workspace.content(end.digest) or b"" for end in (before, after)]
    names = (None if before is None else path, None if after is None else path)
    return unified_diff(names, diff_hunks(old, new, path), joined=True)[:DIFF_CHARS_MAX]


def _lasting(calls: Sequence[ToolExecutionStarted]) -> Iterator[CannotUndo]:
    for call in calls:
        kinds = dict.fromkeys(effect.kind for effect in call.effects if effect.kind in _LASTING)
        words = "; ".join(_LASTING[kind] for kind in kinds)
        yield CannotUndo(call_id=call.call_id, title=call.title, words=words)
