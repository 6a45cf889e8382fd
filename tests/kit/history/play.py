"""One commit of somebody's history, played as a session.

Purpose: the commit becomes edits of the agent; its hunks are accepted, rejected, undone and redone in a random order
while a user edits other places and saves; after every step both trees are held against git's own result.
Invariant: the same commit and seed give the same play; every difference is a fault with words, never passed over.
Must never: take the product's word for what a file holds.
"""

import os
import random
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.kit.history.editing import Editing, below_dependencies
from tests.kit.history.oracle import Folder, Place, merged
from tests.kit.history.pieces import Piece
from tests.kit.history.repository import Changed, Commit, Side
from tests.kit.workspaces import read_tree

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.edit.hunks import Hunk
from gloveport.server.edit.lines import split_lines
from gloveport.server.edit.matching import changed_ranges
from gloveport.server.edit.merge import met_digest
from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.plan import Selected
from gloveport.server.workspace.proposal import Proposal, patch_of

STEPS_MAX: Final = 10
BYSTANDER: Final = "gloveport-bystander.txt"
CANARIES: Final = (".git/config", ".git/hooks/pre-commit", "node_modules/x/index.js")
Tree = dict[str, tuple[int, bytes]]


@dataclass(slots=True)
class Outcome:
    """What one commit showed: counts by class, and faults in words."""

    commit: str
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def check(self, holds: bool, words: str) -> None:
        """Count a comparison; note it when it fails."""
        self.counts["comparisons"] += 1
        if not holds:
            self.faults.append(words)


@dataclass(slots=True)
class Touched:
    """What became of one path, for the comparison at the end."""

    accepted: bool = False
    rejected: bool = False
    edited: bool = False


class Play:
    """The session over one commit; `run` plays it to its end."""

    def __init__(self, commit: Commit, sections: Sequence[tuple[Piece, ...]], folder: Path, seed: int) -> None:
        self.commit, self.folder = commit, folder
        self.chance = random.Random(f"{seed}-{commit.name}")
        self.outcome = Outcome(commit.name)
        self.sections = sections if len(sections) == len(commit.changed) else [()] * len(commit.changed)
        self.user, self.agent, self.aside = (Folder(folder / name) for name in ("user", "agent", "aside"))
        for each in (self.user, self.agent, self.aside):
            each.root.mkdir()
        self.root = folder / "root"
        self.touched: dict[str, Touched] = {}
        self.hidden: frozenset[str] = frozenset()
        self.shown: dict[str, tuple[Side | None, Side | None]] = {}
        self.last_record: object = None
        self._workspace: SessionWorkspace | None = None

    @property
    def workspace(self) -> SessionWorkspace:
        """The open workspace."""
        assert self._workspace is not None
        return self._workspace

    async def run(self) -> Outcome:
        """Play; whatever the product raises unasked is a fault."""
        changed = self._lay_out()
        self._workspace = await SessionWorkspace.create(self.root, self.folder / "session")
        try:
            editing = Editing(self.workspace, self.agent, self.chance, self.outcome.counts, self._ignored(changed))
            self.shown = await editing.make(changed, self.sections)
            await self._begin()
            for _ in range(self.chance.randint(1, STEPS_MAX)):
                if not (proposals := await self._pending()):
                    break
                await self._step(proposals)
            await self._finish()
            self._compare_ends()
        except (GloveportError, RuntimeError, OSError, LookupError, AssertionError) as error:
            self.outcome.faults.append(f"raised {type(error).__name__}: {error} at {_where(error)}"[:600])
        finally:
            self.workspace.close()
        return self.outcome

    def _lay_out(self) -> tuple[Changed, ...]:
        """The user's folder as it was before the commit, with canaries in it."""
        for name in CANARIES:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_bytes(b"canary\n")
        for tree in (Folder(self.root), self.user, self.agent):
            tree.put(BYSTANDER, Side("100644", b"one\ntwo\nthree\n"))
            for each in self.commit.changed:
                mine = tree is not self.agent or not below_dependencies(each.old_path)
                if each.old is not None and not each.old.is_submodule and mine:
                    tree.put(each.old_path, each.old)
        for each in self.commit.changed:
            if any(side is not None and side.is_submodule for side in (each.old, each.new)):
                self.outcome.counts["path: submodule pointer (no content)"] += 1
                inner = self.root / each.old_path
                if not inner.exists():
                    inner.mkdir(parents=True)
                    (inner / ".git").write_text("gitdir: ../.git/modules/inner\n")
        return self.commit.changed

    def _ignored(self, changed: Sequence[Changed]) -> frozenset[str]:
        """Paths that are in the history though its own rules ignore them: no content of ours, and never edited."""
        mine = [each.old_path for each in changed if each.old is not None and not each.old.is_submodule]
        hidden = {path for path in mine if not os.path.lexists(self.workspace.worktree / path)}
        for path in hidden:
            self.agent.put(path, None)
        self.hidden = frozenset(hidden)
        return self.hidden

    def _let_in(self) -> None:
        """What a rule ignored is content from when a decision, or the user, took the rule away: as the user has it."""
        for path in self.hidden:
            found, mine = side_at(self.workspace.worktree / path), side_at(self.root / path)
            if found is not None and found == mine and side_at(self.agent.root / path) is None:
                self.outcome.counts["path: ignored no more"] += 1
                self.agent.put(path, found)

    async def _begin(self) -> None:
        """What was edited is what is proposed, and what is shown is what it does."""
        proposals = {each.path: each for each in await self._pending()}
        moved = {each.renamed_from for each in proposals.values()}
        unseen = {each.path for each in self.workspace.unproposable}
        for path, (old, new) in self.shown.items():
            if path in unseen:
                self.outcome.counts["path: named as not proposable"] += 1
                continue
            proposal = proposals.pop(path, None)
            self.outcome.check(proposal is not None or path in moved, f"{path}: no proposal")
            if proposal is not None:
                self.outcome.counts[f"proposal: {proposal.kind}"] += 1
                self.outcome.counts["hunks"] += len(proposal.hunks)
                before = old if proposal.renamed_from is None else self.shown[proposal.renamed_from][0]
                self._check_shown(proposal, before, new)
        self.outcome.check(not proposals, f"proposed and never edited: {sorted(proposals)[:5]}")
        self._compare("agent", self.workspace.worktree, self.agent)

    def _check_shown(self, proposal: Proposal, old: Side | None, new: Side | None) -> None:
        patch = patch_of(proposal)
        if not patch:
            return
        self.aside.put(_base_path(proposal), old)
        self.aside.apply_shown(patch)
        found = read_tree(self.aside.root).get(proposal.path)
        wanted = None if new is None else (new.permissions & 0o100, new.data)
        same = (None if found is None else (found[0] & 0o100, found[1])) == wanted
        gone = proposal.renamed_from is None or not (self.aside.root / proposal.renamed_from).exists()
        self.outcome.check(same and gone, f"{proposal.path}: the shown patch does something else")
        for path in {proposal.path, _base_path(proposal)}:
            self.aside.put(path, None)

    async def _pending(self) -> tuple[Proposal, ...]:
        return await self.workspace.proposals()

    async def _step(self, proposals: Sequence[Proposal]) -> None:
        roll = self.chance.random()
        if roll < 0.3:
            await self._user_edits(proposals)
        elif roll < 0.36:
            await self._user_is_in_the_way(proposals)
        elif roll < 0.44:
            await self._one_side_is_taken(proposals)
        elif roll < 0.7:
            await self._decide("accept", self._choice(proposals))
        else:
            await self._decide("reject", self._choice(proposals))

    def _choice(self, proposals: Sequence[Proposal]) -> list[tuple[Proposal, tuple[int, ...] | None]]:
        """Some proposals, each whole or by some of its hunks; none inside another."""
        size = self.chance.randint(1, len(proposals))
        chosen: list[tuple[Proposal, tuple[int, ...] | None]] = []
        for proposal in self.chance.sample(list(proposals), size):
            if any(_are_nested(proposal, other) for other in proposals):
                continue
            indices = None
            if len(proposal.hunks) > 1 and self.chance.random() < 0.8:
                count = self.chance.randint(1, len(proposal.hunks))
                indices = tuple(self.chance.sample(range(len(proposal.hunks)), count))
            chosen.append((proposal, indices))
        return chosen

    async def _decide(self, action: str, chosen: Sequence[tuple[Proposal, tuple[int, ...] | None]]) -> bool:
        """One decision, and git's answer to the same."""
        if not chosen:
            return False
        selections = [
            Selected(each.change_id, each.digest, None if at is None else tuple(each.hunks[n].digest for n in at))
            for each, at in chosen
        ]
        before = read_tree(self.root)
        plan = await (self.workspace.plan_accept if action == "accept" else self.workspace.plan_reject)(selections)
        done = await self.workspace.apply(plan)
        self.outcome.counts[f"{action}: decisions"] += 1
        self.outcome.counts[f"{action}: hunks"] += sum(
            len(each.hunks) if at is None else len(at) for each, at in chosen
        )
        for each, _ in chosen:
            for path in {each.path, _base_path(each)}:
                note = self.touched.setdefault(path, Touched())
                note.accepted |= action == "accept"
                note.rejected |= action == "reject"
        self._expect(action, chosen)
        self._compare_both(action)
        if self.chance.random() < 0.25:
            await self._undo_and_redo(action, done.record, before)
        return True

    def _expect(self, action: str, chosen: Sequence[tuple[Proposal, tuple[int, ...] | None]]) -> None:
        tree = self.user if action == "accept" else self.agent
        by_git: list[tuple[str, list[Place]]] = []
        for proposal, at in chosen:
            hunks = proposal.hunks if at is None else [proposal.hunks[n] for n in at]
            # Of a rename hunks are taken under the old name, and left under the new one.
            path = _base_path(proposal) if action == "accept" else proposal.path
            if hunks and at is not None and _is_wide(hunks[0].old_lines + hunks[0].new_lines):
                self.outcome.counts["oracle: two-byte text, hunk by hunk not checked"] += 1
                found = (self.root if tree is self.user else self.workspace.worktree) / path
                tree.write(path, found.read_bytes())
            elif at is None and (proposal.kind != "modify" or _is_wide(hunks[0].old_lines + hunks[0].new_lines)):
                self._expect_whole(tree, proposal)
            else:
                by_git.append((path, [_place(each, action) for each in hunks]))
                if at is None:
                    self._expect_mode(tree, path)
        tree.apply(by_git)

    def _expect_whole(self, tree: Folder, proposal: Proposal) -> None:
        """Kinds that are taken whole: the other tree has the bytes, of a rename also the name that goes."""
        source, path, gone = self.agent, proposal.path, proposal.renamed_from
        if tree is self.agent:
            source, path, gone = self.user, _base_path(proposal), proposal.path
        side = side_at(source.root / path)
        if gone is not None and gone != path:
            tree.put(gone, None)
        tree.put(path, side)

    def _expect_mode(self, tree: Folder, path: str) -> None:
        other = (self.agent if tree is self.user else self.user).root / path
        if other.exists():
            (tree.root / path).chmod(other.stat().st_mode & 0o777)

    async def _undo_and_redo(self, action: str, record: object, before: Tree) -> None:
        assert isinstance(record, dict)
        after = read_tree(self.root)
        undone = await self.workspace.apply(await self.workspace.plan_undo(record))
        self.outcome.check(read_tree(self.root) == before, f"undo of {action} left something else")
        await self.workspace.apply(await self.workspace.plan_undo(undone.record))
        self.outcome.check(read_tree(self.root) == after, f"redo of {action} left something else")
        self.outcome.counts["undo and redo"] += 1
        self._compare_both("redo")

    async def _user_edits(self, proposals: Sequence[Proposal]) -> None:
        """The user changes a line far from what is pending, and saves."""
        free = [each for each in proposals if each.kind in ("modify", "rename") and each.hunks]
        proposal = self.chance.choice(free) if free and self.chance.random() < 0.8 else None
        path, inner = (BYSTANDER, BYSTANDER) if proposal is None else (_base_path(proposal), proposal.path)
        base = (self.root / path).read_bytes()
        lines = split_lines(base)
        at = self.chance.randint(0, len(lines)) if proposal is None else self._far(proposal, len(lines))
        if at is None or _is_wide(lines[:1]):
            return
        ours = (self.agent.root / inner).read_bytes()
        fresh = self._fresh(lines, at)
        theirs = b"".join(fresh(lines, at))
        moved = sum(len(each.new_lines) - len(each.old_lines) for each in _before(proposal, at))
        both = b"".join(fresh(split_lines(ours), at + moved))
        await self._save((path, inner), base, (ours, both), theirs)

    def _far(self, proposal: Proposal, count: int) -> int | None:
        """A line with at least one line between it and every pending hunk."""
        taken = {
            line
            for hunk in proposal.hunks
            for line in range(hunk.old_start - 1, hunk.old_start + len(hunk.old_lines) + 2)
        }
        free = [line for line in range(count) if line not in taken]
        return self.chance.choice(free) if free else None

    def _fresh(self, lines: Sequence[bytes], at: int) -> Callable[[list[bytes], int], list[bytes]]:
        """An edit at one line: a line put in, replaced or taken out, the same on any copy of these lines."""
        ending = b"\r\n" if at < len(lines) and lines[at].endswith(b"\r\n") else b"\n"
        fresh = b"the user's own line %d" % self.chance.getrandbits(40) + ending
        roll = self.chance.random()

        def edited(text: list[bytes], here: int) -> list[bytes]:
            if here == len(text):
                whole = not text or text[-1].endswith(b"\n")
                return [*text, fresh] if whole else [*text[:-1], text[-1] + b"\n", fresh]
            if roll < 0.4:
                return [*text[:here], fresh, *text[here:]]
            if roll < 0.7:
                ended = text[here].endswith(b"\n")
                return [*text[:here], fresh if ended else fresh.rstrip(), *text[here + 1 :]]
            return [*text[:here], *text[here + 1 :]]

        return edited

    async def _save(self, paths: tuple[str, str], base: bytes, ours: tuple[bytes, bytes], theirs: bytes) -> None:
        """Save, let the session look, and hold its merge against git's.

        `paths` are the user's and the agent's name of the file; `ours` is the agent's text and, for where git sees a
        conflict, the same with the user's edit put in by number.
        """
        path, inner = paths
        (self.root / path).write_bytes(theirs)
        self.user.write(path, theirs)
        wanted = merged(self.aside.root, base, ours[0], theirs)
        self._clear_aside()
        told = await self.workspace.refresh()
        self.outcome.counts["user edits"] += 1
        if path in told.conflicted:
            # Legal where git sees one too, or where the line lies too near; then the user takes the edit back.
            self.outcome.counts["user edits: conflict" + ("" if wanted is None else " (git merges)")] += 1
            (self.root / path).write_bytes(base)
            self.user.write(path, base)
            await self.workspace.refresh()
        elif theirs != base:
            self.touched.setdefault(path, Touched()).edited = True
            self.touched.setdefault(inner, Touched()).edited = True
            found = (self.workspace.worktree / inner).read_bytes()
            if wanted is None:
                self.outcome.counts["user edits: git finds a conflict, we merge"] += 1
                wanted = ours[1]
            self.outcome.check(found == wanted, f"{path}: merged otherwise than git does")
            self.agent.write(inner, found)
        self._compare_both("a user's edit")

    async def _user_is_in_the_way(self, proposals: Sequence[Proposal]) -> None:
        """The user changes the very line that a pending hunk changes: nothing may be written."""
        # A hunk of a notebook is a whole cell: some of its lines may be the same on both sides.
        free = [each for each in proposals if each.kind == "modify" and each.hunks and _really_gone(each.hunks[0])]
        if not free:
            return
        proposal = self.chance.choice(free)
        hunk = proposal.hunks[0]
        target = self.root / proposal.path
        base = target.read_bytes()
        lines = split_lines(base)
        if _is_wide(lines[:1]):
            return
        lines[_really_gone(hunk)[0]] = b"the user was here %d\n" % self.chance.getrandbits(40)
        target.write_bytes(b"".join(lines))
        self.user.write(proposal.path, b"".join(lines))
        try:
            selected = Selected(proposal.change_id, proposal.digest, (hunk.digest,))
            plan = await self.workspace.plan_accept([selected])
            await self.workspace.apply(plan)
            self.outcome.faults.append(f"{proposal.path}: accepted over the user's line")
        except GloveportError as error:
            legal = (ErrorCode.CHANGE_CONFLICT, ErrorCode.CHANGE_SUPERSEDED)
            self.outcome.check(error.code in legal, f"{proposal.path}: refused with {error.code}")
        self.outcome.counts["user in the way: refused"] += 1
        self._compare_both("a refused accept")
        target.write_bytes(base)
        self.user.write(proposal.path, base)
        await self.workspace.refresh()

    async def _one_side_is_taken(self, proposals: Sequence[Proposal]) -> None:
        """The user changes what a pending hunk changes; then one side of that place is chosen, the rest waits on."""
        free = [each for each in proposals if each.kind == "modify" and each.hunks]
        proposal = self.chance.choice(free) if free else None
        base = b"" if proposal is None else (self.root / proposal.path).read_bytes()
        lines = split_lines(base)
        if proposal is None or _is_wide(lines[:1]):
            return
        at = self.chance.randrange(len(proposal.hunks))
        hunk, path = proposal.hunks[at], proposal.path
        start = hunk.old_start + (self.chance.randrange(len(hunk.old_lines)) if hunk.old_lines else 0)
        end = self.chance.randint(start, hunk.old_start + len(hunk.old_lines))
        ending = b"\r\n" if start < len(lines) and lines[start].endswith(b"\r\n") else b"\n"
        words = [b"the user's side %d" % self.chance.getrandbits(40) + ending for _ in range(self.chance.randint(1, 3))]
        theirs = b"".join([*lines[:start], *words, *lines[end:]])
        (self.root / path).write_bytes(theirs)
        told = await self.workspace.refresh()
        if path not in told.conflicted:
            # A hunk holds lines that both sides have alike: there the user's words are merged.
            found, wanted = (self.workspace.worktree / path).read_bytes(), self._by_git(base, path, theirs)
            self.outcome.check(found == wanted, f"{path}: the user's lines met a hunk, and nobody was told")
            self.outcome.counts["conflict: none, lines of a hunk that stay"] += 1
            self.user.write(path, theirs)
            self.agent.write(path, found)
            self.touched.setdefault(path, Touched()).edited = True
            return
        if self.chance.random() < 0.6:
            await self._take(proposal, at, base, theirs)
        else:
            moved = sum(len(each.new_lines) - len(each.old_lines) for each in proposal.hunks[:at])
            await self._keep(proposal, at, (base, theirs), (start + moved, end + moved, words))

    def _by_git(self, base: bytes, path: str, theirs: bytes) -> bytes | None:
        wanted = merged(self.aside.root, base, (self.agent.root / path).read_bytes(), theirs)
        self._clear_aside()
        return wanted

    async def _take(self, proposal: Proposal, at: int, base: bytes, theirs: bytes) -> None:
        """The agent's side: what was shown of the user's gives way to the hunk, and nothing else does."""
        hunk, path = proposal.hunks[at], proposal.path
        lines, mine = split_lines(base), split_lines(theirs)
        ranges = changed_ranges(lines, mine)
        shown = met_digest(ranges, mine, hunk.old_start, hunk.old_start + len(hunk.old_lines))
        stale = Selected(proposal.change_id, proposal.digest, (hunk.digest,), ((hunk.digest, hunk.digest),))
        try:
            await self.workspace.plan_accept([stale])
            self.outcome.faults.append(f"{path}: other lines than the shown ones gave way")
        except GloveportError as error:
            legal = error.code is ErrorCode.CHANGE_CONFLICT and (self.root / path).read_bytes() == theirs
            self.outcome.check(legal, f"{path}: refused with {error.code}")
        before = read_tree(self.root)
        named = Selected(proposal.change_id, proposal.digest, (hunk.digest,), ((hunk.digest, shown),))
        done = await self.workspace.apply(await self.workspace.plan_accept([named]))
        # Without the user's words the place is what the proposal was made on: there git takes the hunk.
        self._expect("accept", [(proposal, (at,))])
        self.outcome.counts["conflict: the agent's side taken"] += 1
        self.touched.setdefault(path, Touched()).accepted = True
        self._compare_both("taking the agent's side")
        await self._undo_and_redo("a take", done.record, before)

    async def _keep(
        self, proposal: Proposal, at: int, sides: tuple[bytes, bytes], mine: tuple[int, int, list[bytes]]
    ) -> None:
        """The user's side: the hunk leaves the worktree, and what the user wrote there comes into it."""
        path = proposal.path
        self.user.write(path, sides[1])
        chosen = Selected(proposal.change_id, proposal.digest, (proposal.hunks[at].digest,))
        await self.workspace.apply(await self.workspace.plan_reject([chosen]))
        self._expect("reject", [(proposal, (at,))])
        self.outcome.counts["conflict: the user's side kept"] += 1
        self.touched.setdefault(path, Touched()).rejected = True
        self._compare_both("keeping the user's side")
        start, end, words = mine
        ours = (self.agent.root / path).read_bytes()
        text = split_lines(ours)
        both = b"".join([*text[:start], *words, *text[end:]])
        await self._save((path, path), sides[0], (ours, both), sides[1])

    async def _finish(self) -> None:
        """Everything that is left is decided, all at once or where paths nest one by one."""
        for _ in range(6):
            proposals = await self._pending()
            if not proposals:
                break
            action = self.chance.choice(("accept", "accept", "reject"))
            if any(_are_nested(one, two) for one in proposals for two in proposals):
                order = sorted(proposals, key=lambda each: (each.result is not None) == (action == "accept"))
                for each in order:
                    await self._decide_alone(action, each)
            else:
                await self._decide(action, [(each, None) for each in proposals])
        left = await self._pending()
        self.outcome.check(not left, f"still pending: {[each.path for each in left][:5]}")
        told = await self.workspace.refresh()
        self.outcome.check(not told.conflicted, f"conflicts at the end: {told.conflicted[:5]}")
        self._compare_both("the end")

    async def _decide_alone(self, action: str, proposal: Proposal) -> None:
        try:
            await self._decide(action, [(proposal, None)])
        except GloveportError as error:
            if error.code is not ErrorCode.CHANGE_CONFLICT or "other" not in error.data:
                raise
            self.outcome.counts["one by one: file where a folder is needed"] += 1

    def _compare_ends(self) -> None:
        """What was only accepted is the new content, what was only rejected the old; canaries are as they were."""
        for name in CANARIES:
            self.outcome.check((self.root / name).read_bytes() == b"canary\n", f"{name}: the canary was touched")
        for path, (old, new) in self.shown.items():
            note = self.touched.get(path, Touched())
            if note.edited or note.accepted == note.rejected:
                continue
            found = side_at(self.root / path)
            wanted = new if note.accepted else old
            same = (None if found is None else (found.is_link, found.data)) == (
                None if wanted is None else (wanted.is_link, wanted.data)
            )
            self.outcome.check(same, f"{path}: the end is not git's own content")

    def _compare_both(self, when: str) -> None:
        self._let_in()
        self._compare(f"user, after {when}", self.root, self.user)
        self._compare(f"agent, after {when}", self.workspace.worktree, self.agent)

    def _compare(self, words: str, found: Path, wanted: Folder) -> None:
        here, there = (_plain(read_tree(tree)) for tree in (found, wanted.root))
        wrong = sorted(path for path in here.keys() | there.keys() if here.get(path) != there.get(path))
        unseen = {each.path for each in self.workspace.snapshot.not_covered}
        wrong = [path for path in wrong if path not in unseen or "agent" not in words]
        self.outcome.check(not wrong, f"{words}: {wrong[:5]} differ")

    def _clear_aside(self) -> None:
        for each in self.aside.root.iterdir():
            if each.is_file():
                each.unlink()


def side_at(path: Path) -> Side | None:
    """What lies at a path now."""
    if path.is_symlink():
        return Side("120000", os.fsencode(os.readlink(path)))
    if not path.is_file():
        return None
    return Side("100755" if path.stat().st_mode & 0o100 else "100644", path.read_bytes())


def _plain(tree: Tree) -> Tree:
    """Without what no commit speaks of: canaries, nested repositories, bits beside the owner's right to run."""
    return {
        path: (mode & 0o100, data)
        for path, (mode, data) in tree.items()
        if ".git" not in path.split("/") and path not in CANARIES
    }


def _base_path(proposal: Proposal) -> str:
    return proposal.path if proposal.renamed_from is None else proposal.renamed_from


def _place(hunk: Hunk, action: str) -> Place:
    if action == "accept":
        return hunk.old_start, hunk.old_lines, hunk.new_lines
    return hunk.new_start, hunk.new_lines, hunk.old_lines


def _are_nested(one: Proposal, two: Proposal) -> bool:
    """True when a path of one lies below a path of the other."""
    names = [{each.path, _base_path(each)} for each in (one, two)]
    return any(a.startswith(f"{b}/") or b.startswith(f"{a}/") for a in names[0] for b in names[1])


def _before(proposal: Proposal | None, at: int) -> list[Hunk]:
    return [] if proposal is None else [each for each in proposal.hunks if each.old_start < at]


def _really_gone(hunk: Hunk) -> list[int]:
    """Lines of the base that a hunk has no more."""
    return [hunk.old_start + number for number, line in enumerate(hunk.old_lines) if line not in hunk.new_lines]


def _is_wide(lines: Sequence[bytes]) -> bool:
    return any(line.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in line for line in lines)


def _where(error: BaseException) -> str:
    """The last places of ours and of the product on the way of an error."""
    frames = traceback.extract_tb(error.__traceback__)
    return " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames[-4:]))
