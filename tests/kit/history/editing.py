"""A commit's changes made in the worktree, by tools where there is one and as a program would elsewhere.

Purpose: each changed path becomes an edit in one of the formats; a refusal is counted and the bytes are written whole.
Invariant: afterwards the worktree is to hold exactly git's new side, whatever way it went.
Must never: count a tool's success whose bytes are not git's, unless only line ends differ and that is told.
"""

import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.kit.history.formats import FORMATS, NotSayableError
from tests.kit.history.oracle import Folder
from tests.kit.history.pieces import Piece
from tests.kit.history.repository import Changed, Side

from gloveport.protocol.errors import GloveportError
from gloveport.server.edit.replace import hash_of
from gloveport.server.workspace.changing import FileEdit
from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.ignore import DEPENDENCY_FOLDERS

Sides = dict[str, tuple[Side | None, Side | None]]


@dataclass(slots=True)
class Editing:
    """Makes one commit's edits; `agent` is the folder of what the worktree should hold."""

    workspace: SessionWorkspace
    agent: Folder
    chance: random.Random
    counts: Counter[str]
    ignored: frozenset[str]

    async def make(self, changed: Sequence[Changed], sections: Sequence[Sequence[Piece]]) -> Sides:
        """Every change, removals first. The paths that are to be proposed, with both sides."""
        made: Sides = {}
        pairs = [pair for pair in zip(changed, sections, strict=True) if not _is_pointer(pair[0])]
        left_out = {each.path for each in self.workspace.snapshot.not_covered} | self.ignored
        for each, _ in pairs:
            if (
                each.renamed
                and each.old is not None
                and self._may_move(each, left_out, made)
                and await self._move(each)
            ):
                made |= {each.old_path: (each.old, None), each.new_path: (None, each.new)}
                continue
            gone = each.old is not None and (each.new is None or each.renamed)
            if gone and await self._remove(each, left_out):
                made[each.old_path] = (each.old, None)
        for each, pieces in pairs:
            if each.new_path in made and each.renamed:
                continue
            if each.new is not None and await self._bring(each, pieces, left_out):
                made[each.new_path] = (None if each.renamed else each.old, each.new)
        return {path: sides for path, sides in made.items() if sides[0] != sides[1]}

    def _may_move(self, each: Changed, left_out: set[str], made: Sides) -> bool:
        """Half of all renames go by the hand that moves; nothing may lie at the new name, or in the way to it."""
        root = self.workspace.worktree
        above = root / each.new_path
        free = not any(path.is_symlink() or path.is_file() for path in (above, *above.parents) if path != root)
        plain = all(side is not None and not side.is_link for side in (each.old, each.new))
        named = _can_be_named(each.old_path) and _can_be_named(each.new_path)
        fit = free and plain and named and not above.is_dir()
        return fit and each.old_path not in left_out | made.keys() and self.chance.random() < 0.5

    async def _move(self, each: Changed) -> bool:
        assert each.old is not None
        assert each.new is not None
        runnable = None if each.old.permissions == each.new.permissions else each.new.permissions == 0o755
        gone = FileEdit(each.old_path, hash_of(each.old.data), None)
        come = FileEdit(each.new_path, None, each.new.data, each.old_path, runnable)
        try:
            await self.workspace.edit([gone, come])
        except GloveportError as error:
            self.counts[f"edit: move: refused ({error.code.value})"] += 1
            return False
        self.counts["edit: move"] += 1
        self.agent.put(each.old_path, None)
        self.agent.put(each.new_path, each.new)
        return True

    async def _remove(self, each: Changed, left_out: set[str]) -> bool:
        if each.old_path in left_out or not _can_be_named(each.old_path):
            self.counts["path: left out of the snapshot, never edited"] += 1
            return False
        try:
            await self.workspace.delete(each.old_path)
        except GloveportError as error:
            self._refused(each.old_path, error)
            return False
        self.counts["edit: rename" if each.renamed else "edit: delete"] += 1
        self.agent.put(each.old_path, None)
        return True

    def _refused(self, path: str, error: GloveportError) -> None:
        reason = "a dependency folder is in the history" if below_dependencies(path) else error.code.value
        self.counts[f"path: no edit ({reason})"] += 1

    async def _bring(self, each: Changed, pieces: Sequence[Piece], left_out: set[str]) -> bool:
        """Create or change one path."""
        path, new = each.new_path, each.new
        assert new is not None
        if path in left_out or not _can_be_named(path):
            self.counts["path: left out of the snapshot, never edited"] += 1
            return False
        old = None if each.renamed else each.old
        try:
            if new.is_link or (old is not None and old.is_link):
                await self._as_program(path, new)
            else:
                data = new.data if old is None else self._by_format(old, new, pieces, path)
                if old is None or old.data != new.data:
                    await self.workspace.write(path, data)
                self._set_mode(path, old, new)
        except GloveportError as error:
            self._refused(path, error)
            return False
        self.agent.put(path, new)
        return True

    async def _as_program(self, path: str, new: Side) -> None:
        """Links are made by programs in the sandbox; so is what takes the place of one."""
        await self.workspace.check_place(path)
        target = self.workspace.worktree / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_symlink() or target.exists():
            target.unlink()
        if new.is_link:
            target.symlink_to(os.fsdecode(new.data))
        else:
            target.write_bytes(new.data)
            target.chmod(new.permissions)
        self.counts["edit: link"] += 1

    def _set_mode(self, path: str, old: Side | None, new: Side) -> None:
        if (old.permissions if old is not None else 0o644) != new.permissions:
            (self.workspace.worktree / path).chmod(new.permissions)
            self.counts["edit: mode"] += 1

    def _by_format(self, old: Side, new: Side, pieces: Sequence[Piece], path: str) -> bytes:
        """The new bytes by one of the formats, or as they are where it refuses."""
        if old.data == new.data:
            return new.data
        if not pieces:
            self.counts["edit: binary or without a textual patch"] += 1
            return new.data
        name = self.chance.choice(sorted(FORMATS))
        try:
            data = FORMATS[name](old.data, new.data, pieces, path, self.chance)
        except NotSayableError as error:
            self.counts[f"edit: {name}: not sayable ({error})"] += 1
            return new.data
        except GloveportError as error:
            self.counts[f"edit: {name}: refused ({error.code.value})"] += 1
            return new.data
        if data == new.data:
            self.counts[f"edit: {name}: exact"] += 1
        elif _without_ends(data) == _without_ends(new.data):
            self.counts[f"edit: {name}: line ends as in the file, the commit has others"] += 1
        else:
            raise AssertionError(f"{path}: {name} made other bytes than git has")
        return new.data


def _is_pointer(each: Changed) -> bool:
    return any(side is not None and side.is_submodule for side in (each.old, each.new))


def below_dependencies(path: str) -> bool:
    """True for a path that is never in the agent's copy, though somebody committed it."""
    return any(part in DEPENDENCY_FOLDERS for part in path.split("/")[:-1])


def _can_be_named(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _without_ends(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").removeprefix(b"\xef\xbb\xbf")
