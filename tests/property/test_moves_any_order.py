"""A user who edits, in files and in an editor, while decisions go forward and back: no line gets lost."""

import asyncio
from hashlib import sha256

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.workspaces import make_tree, quick_folder

from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.opened import OpenText
from gloveport.server.workspace.plan import Plan, Selected

LINES, GAP = 60, 5
AGENTS, USERS = range(2, LINES, 2 * GAP), range(2 + GAP, LINES, 2 * GAP)
MOVES = st.lists(
    st.tuples(st.sampled_from(["accept", "undo", "redo", "user", "save", "open", "refresh"]), st.integers(0, 100)),
    max_size=14,
)


def text_of(lines: dict[int, str]) -> str:
    """The file with these lines in place of its own."""
    return "".join(f"{lines.get(number, f'line {number}')}\n" for number in range(LINES))


class Played:
    """A workspace, and beside it what each line must hold by the simplest reckoning."""

    def __init__(self, workspace: SessionWorkspace) -> None:
        self.workspace, self.mine = workspace, workspace.root / "a.txt"
        self.shown: str | None = None
        self.agent: dict[int, str] = {}
        self.user: dict[int, str] = {}
        self.done: list[tuple[int, dict[str, object]]] = []
        self.undone: list[tuple[int, dict[str, object]]] = []
        workspace.opened = self.texts

    def texts(self) -> tuple[OpenText, ...]:
        """What the editor shows."""
        return () if self.shown is None else (OpenText("d", "a.txt", self.shown, "one", can_edit=True),)

    @property
    def seen(self) -> str:
        """What the user has."""
        return self.mine.read_text() if self.shown is None else self.shown

    def write(self, text: str) -> None:
        """The user's own edit, where they have the file."""
        if self.shown is None:
            self.mine.write_text(text)
        else:
            self.shown = text

    async def carry_out(self, plan: Plan) -> dict[str, object]:
        """As the engine does: the editor's part first, then the files."""
        await self.workspace.check(plan)
        for step in plan.buffers:
            assert self.shown is not None
            assert step.before is not None
            assert step.after is not None
            assert sha256(self.shown.encode()).hexdigest() == step.before.digest
            self.shown = (await self.workspace.content(step.after.digest) or b"").decode()
        return dict((await self.workspace.apply(plan)).record)

    async def move(self, kind: str, which: int) -> None:
        """One thing that happens."""
        if kind == "user":
            number = USERS[which % len(USERS)]
            self.user[number] = f"user {which}"
            self.write(text_of(self.agent | self.user))
        elif kind == "open" and self.shown is None:
            self.shown = self.mine.read_text()
        elif kind == "save" and self.shown is not None:
            self.mine.write_text(self.shown)
            self.shown = None
        elif kind == "refresh":
            await self.workspace.refresh()
        elif kind == "accept":
            await self.accept(which)
        elif kind in ("undo", "redo"):
            await self.back(kind, which)

    async def accept(self, which: int) -> None:
        """One pending hunk."""
        pending = [(each, hunk) for each in await self.workspace.proposals() for hunk in each.hunks]
        pending = [(each, hunk) for each, hunk in pending if hunk.new_lines and hunk.new_lines[0].startswith(b"agent")]
        if not pending:
            return
        proposal, hunk = pending[which % len(pending)]
        chosen = [Selected(proposal.change_id, proposal.digest, (hunk.digest,))]
        record = await self.carry_out(await self.workspace.plan_accept(chosen))
        number = int(hunk.new_lines[0].split()[1])
        self.agent[number] = f"agent {number}"
        self.done.append((number, record))
        self.undone.clear()

    async def back(self, kind: str, which: int) -> None:
        """Any decision in force is undone; the last undo is redone."""
        stack = self.done if kind == "undo" else self.undone
        if not stack:
            return
        number, record = stack.pop(which % len(stack) if kind == "undo" else -1)
        record = await self.carry_out(await self.workspace.plan_undo(record))
        if kind == "undo":
            del self.agent[number]
            self.undone.append((number, record))
        else:
            self.agent[number] = f"agent {number}"
            self.done.append((number, record))


@given(MOVES)
@settings(max_examples=60, deadline=None)
def test_no_line_of_either_side_is_lost(moves: list[tuple[str, int]]) -> None:
    """After each step the user has exactly their own lines, the accepted ones and the base's; in the end all meet."""

    async def play() -> None:
        with quick_folder() as folder:
            root = make_tree(folder / "root", {"a.txt": text_of({}).encode()})
            workspace = await SessionWorkspace.create(root, folder / "session")
            played = Played(workspace)
            await workspace.write("a.txt", text_of({number: f"agent {number}" for number in AGENTS}).encode())
            for kind, which in moves:
                await played.move(kind, which)
                assert played.seen == text_of(played.agent | played.user)
            await played.move("save", 0)
            await workspace.refresh()
            left = await workspace.proposals()
            if left:
                await played.carry_out(
                    await workspace.plan_accept([Selected(each.change_id, each.digest) for each in left])
                )
            everything = {number: f"agent {number}" for number in AGENTS} | played.user
            assert played.seen == text_of(everything)
            assert (await workspace.read("a.txt")).decode() == played.seen
            workspace.close()

    asyncio.run(play())
