"""A decision about files as data, ready to be journalled before it is carried out.

Purpose: the steps of an accept, reject or undo, each with the state before and after.
Invariant: a plan read back from JSON equals the plan written; contents are named by hash and lie in the store.
Must never: hold a step whose path could leave its tree: paths are checked again when a plan is read.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from pydantic import JsonValue

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.ids import ChangeId, HunkId, Sha256
from gloveport.server.edit.hunks import content_digest
from gloveport.server.edit.names import fold_path, split_path
from gloveport.server.workspace.errors import WorkspaceError
from gloveport.server.workspace.state import FileState

PLAN_VERSION: Final = 2
"""A plan is written as of the oldest version that says it whole: 2 has steps in editors."""

Action = Literal["accept", "reject", "undo", "redo", "restore", "refresh"]
"""`refresh` takes the user's edits into the worktree; it is no decision, is idempotent and need not be journalled."""
Side = Literal["root", "worktree"]


@dataclass(frozen=True, slots=True)
class Selected:
    """What a user decided on: a proposal by the digest that was shown; with `hunk_digests` only those hunks.

    `replaces` names by hunk what of the user's was shown there, and gives way.
    """

    change_id: str
    digest: str
    hunk_digests: tuple[str, ...] | None = None
    replaces: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Decided:
    """What became of one proposal; `whole` when nothing of it stays pending.

    `becomes` is where its hunks stand then (`accepted`, `rejected`, `undone`); empty: as the action says.
    """

    change_id: ChangeId
    path: str
    hunk_ids: tuple[HunkId, ...]
    digests: tuple[Sha256, ...]
    whole: bool
    becomes: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One file of one tree goes from `before` to `after` (None: absent); `new_folders` did not exist before.

    A file that is new here takes owner and attributes from `origin`, the path of the same tree that it was moved from.
    """

    side: Side
    path: str
    before: FileState | None
    after: FileState | None
    new_folders: tuple[str, ...] = ()
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class BufferStep:
    """The text of open documents goes from `before` to `after`, as bytes that saving it would write."""

    path: str
    before: FileState | None
    after: FileState | None
    documents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BaseStep:
    """The base's record of a path goes from `before` to `after`."""

    path: str
    before: FileState | None
    after: FileState | None


@dataclass(frozen=True)
class Plan:
    """All steps of one decision: all are done, or none."""

    action: Action
    steps: tuple[Step, ...]
    base_steps: tuple[BaseStep, ...]
    decided: tuple[Decided, ...]
    buffers: tuple[BufferStep, ...] = ()
    taken_over: tuple[str, ...] = ()
    """Paths whose step in the worktree brings nothing but the user's own edits there: an undo leaves them."""
    undoes: tuple[str, ...] = ()
    """The decisions that this takes back, by apply."""
    partial: bool = False
    """True when it takes back a part of them only: then they still stand."""
    turns: tuple[str, ...] = ()
    """The turns that proposed what is decided."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that is touched, once, ordered."""
        return tuple(sorted({step.path for step in self.steps} | {step.path for step in self.buffers}))

    @property
    def user_steps(self) -> tuple[Step, ...]:
        """What changes on the user's side, be it in a file or in an editor."""
        shown = (Step("root", step.path, step.before, step.after) for step in self.buffers)
        return (*(step for step in self.steps if step.side == "root"), *shown)

    @property
    def in_editors(self) -> tuple[str, ...]:
        """Paths that are changed in editors and wait there to be saved."""
        return tuple(sorted({step.path for step in self.buffers}))

    @cached_property
    def twins(self) -> frozenset[str]:
        """Paths of which the plan has another that some file systems take for the same."""
        folds = Counter(fold_path(path) for path in self.paths)
        return frozenset(path for path in self.paths if folds[fold_path(path)] > 1)

    @cached_property
    def plan_id(self) -> Sha256:
        """A name that depends on every step; made once, as each staged file asks for it."""
        # A step without an origin has the name that it had before there were origins: staged files keep theirs.
        steps = repr(self.steps).replace(", origin=None)", ")")
        return content_digest(*(each.encode() for each in (repr(self.action), steps, repr(self.base_steps))))

    def staged(self, index: int) -> str:
        """Name of the staged file of one step, the same before and after a crash."""
        return f".gloveport-{self.plan_id[:16]}-{index}"

    def as_json(self) -> dict[str, JsonValue]:
        """The plan as plain data."""
        buffers: list[JsonValue] = [
            {
                "path": step.path,
                "before": _state_out(step.before),
                "after": _state_out(step.after),
                "documents": list(step.documents),
            }
            for step in self.buffers
        ]
        return {
            "version": PLAN_VERSION if buffers or self.taken_over else 1,
            **({"buffers": buffers} if buffers else {}),
            **({"taken_over": list(self.taken_over)} if self.taken_over else {}),
            **({"undoes": list(self.undoes), "partial": self.partial} if self.undoes else {}),
            **({"turns": list(self.turns)} if self.turns else {}),
            "action": self.action,
            "steps": [
                {
                    "side": step.side,
                    "path": step.path,
                    "before": _state_out(step.before),
                    "after": _state_out(step.after),
                    "new_folders": list(step.new_folders),
                    "origin": step.origin,
                }
                for step in self.steps
            ],
            "base_steps": [
                {"path": step.path, "before": _state_out(step.before), "after": _state_out(step.after)}
                for step in self.base_steps
            ],
            "decided": [
                {
                    "change_id": each.change_id,
                    "path": each.path,
                    "hunk_ids": list(each.hunk_ids),
                    "digests": list(each.digests),
                    "whole": each.whole,
                    **({"becomes": each.becomes} if each.becomes else {}),
                }
                for each in self.decided
            ],
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "Plan":
        """The plan in plain data. Raises WorkspaceError when it is not one."""
        try:
            if body["version"] > PLAN_VERSION:
                raise WorkspaceError(ErrorCode.NEWER_DATA, "the plan is of a newer version")
            plan = cls(
                _action_in(body["action"]),
                tuple(_step_in(each) for each in body["steps"]),
                tuple(
                    BaseStep(_path_in(each["path"]), _state_in(each["before"]), _state_in(each["after"]))
                    for each in body["base_steps"]
                ),
                tuple(
                    Decided(
                        ChangeId(each["change_id"]),
                        each["path"],
                        tuple(HunkId(name) for name in each["hunk_ids"]),
                        tuple(Sha256(name) for name in each["digests"]),
                        bool(each["whole"]),
                        str(each.get("becomes", "")),
                    )
                    for each in body["decided"]
                ),
                tuple(_buffer_in(each) for each in body.get("buffers", ())),
                tuple(_path_in(path) for path in body.get("taken_over", ())),
                tuple(str(name) for name in body.get("undoes", ())),
                bool(body.get("partial", False)),
                tuple(str(name) for name in body.get("turns", ())),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise WorkspaceError(ErrorCode.CORRUPT, f"not a plan: {type(error).__name__}") from None
        return plan


def _state_out(state: FileState | None) -> JsonValue:
    return None if state is None else [state.kind, state.digest, state.mode]


def _state_in(raw: Any) -> FileState | None:
    if raw is None:
        return None
    kind, digest, mode = raw
    if kind not in ("file", "link") or len(bytes.fromhex(digest)) != 32 or not 0 <= mode <= 0o777:
        raise ValueError(kind)
    return FileState(kind, Sha256(digest), mode)


def _step_in(raw: Mapping[str, Any]) -> Step:
    if raw["side"] not in ("root", "worktree"):
        raise ValueError(raw["side"])
    return Step(
        raw["side"],
        _path_in(raw["path"]),
        _state_in(raw["before"]),
        _state_in(raw["after"]),
        tuple(_path_in(each) for each in raw["new_folders"]),
        None if raw.get("origin") is None else _path_in(raw["origin"]),
    )


def _buffer_in(raw: Mapping[str, Any]) -> BufferStep:
    documents = tuple(str(name) for name in raw["documents"])
    return BufferStep(_path_in(raw["path"]), _state_in(raw["before"]), _state_in(raw["after"]), documents)


def _path_in(raw: str) -> str:
    split_path(raw)
    return raw


def _action_in(raw: str) -> Action:
    match raw:
        case "accept" | "reject" | "undo" | "redo" | "restore" | "refresh":
            return raw
        case _:
            raise ValueError(raw)
