"""A hunk that meets the user's own lines is settled by itself, while another one of the file still waits."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.kit.room import Home, Kit, call, new_home
from tests.kit.shown import ShownEditor
from tests.kit.workspaces import make_tree, propose

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.wire.change import (
    ChangeDecideParams,
    ChangeHunksParams,
    ChangeUndoParams,
    PendingHunk,
    Replaced,
)
from gloveport.server.app.daemon import new_id
from gloveport.server.workspace.errors import WorkspaceError
from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.plan import Selected

TEXT = "".join(f"line {number}\n" for number in range(1, 31))
MINE = TEXT.replace("line 2\n", "mine 2\nmore\n").replace("line 20\n", "mine 20\n").replace("line 11\n", "")
THEIRS = TEXT.replace("line 2\n", "agent 2\n").replace("line 20\n", "agent 20\n")


@pytest.fixture
def home() -> Iterator[Home]:
    """A home whose model changes two places of one file."""
    with new_home() as made:
        made.write(a__txt=TEXT)
        calls = [call("edit_file", path="a.txt", old=f"line {n}\n", new=f"agent {n}\n") for n in (2, 20)]
        made.play({"when": {"turns_total": 0}, "calls": calls}, {"text": "Done."})
        yield made


class User:
    """The user's text, in the file or unsaved in an editor."""

    def __init__(self, kit: Kit, session: str, mine: Path, editor: ShownEditor | None) -> None:
        self.kit, self.session, self.mine, self.editor = kit, session, mine, editor

    @property
    def text(self) -> str:
        """What the user sees."""
        return self.mine.read_text() if self.editor is None else self.editor.text(self.mine)

    def types(self, text: str) -> None:
        """The user's text is another one."""
        if self.editor is None:
            self.mine.write_text(text)
        else:
            self.editor.type(self.mine.as_uri(), text)

    async def hunks(self) -> dict[int, PendingHunk]:
        """What waits, by the line of the proposal's base."""
        found = await self.kit.call("change/hunks", ChangeHunksParams(session_id=self.session))
        change = (await self.kit.changes(self.session))["a.txt"]
        lines = {hunk.digest: hunk.old_start + 1 for hunk in change.hunks}
        return {lines[hunk.hunk_digest]: hunk for hunk in found.hunks}

    async def states(self) -> dict[int, str]:
        """Where each stands."""
        return {line: hunk.state for line, hunk in (await self.hunks()).items()}

    async def decision(self, *lines: int, **shown: str | None) -> ChangeDecideParams:
        """On the hunks of these lines of the base; `l2="…"` names the user's side of one."""
        change = (await self.kit.changes(self.session))["a.txt"]
        at = {hunk.old_start + 1: number for number, hunk in enumerate(change.hunks)}
        params = self.kit.decision(self.session, change, hunks=tuple(at[line] for line in lines))
        named = tuple(
            Replaced(hunk_digest=change.hunks[at[int(line[1:])]].digest, user_digest=digest or "")
            for line, digest in shown.items()
        )
        (chosen,) = params.selections
        return params.model_copy(update={"selections": (chosen.model_copy(update={"replaces": named}),)})


@asynccontextmanager
async def proposed(home: Home, *, is_open: bool) -> AsyncIterator[User]:
    """Both hunks wait, and the user changed both places, and took a line out between them."""
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.idle(session)
        mine = home.root / "a.txt"
        editor = ShownEditor(kit.house.buffers, "one") if is_open else None
        if editor is not None:
            editor.open(mine)
        user = User(kit, session, mine, editor)
        user.types(MINE)
        assert await user.states() == {2: "conflicted", 20: "conflicted"}
        yield user


OPEN = pytest.mark.parametrize("is_open", [False, True], ids=["in the file", "unsaved"])


@OPEN
async def test_lines_that_are_as_before_again_are_accepted(home: Home, is_open: bool) -> None:
    """The place is what the proposal was made on again: it goes in, the other one stays conflicted, undo is exact."""
    async with proposed(home, is_open=is_open) as user:
        assert (await user.kit.refused("change/accept", await user.decision(2))).code is ErrorCode.CHANGE_CONFLICT
        back = MINE.replace("mine 2\nmore\n", "line 2\n")
        user.types(back)
        await user.kit.call("change/accept", await user.decision(2))
        assert user.text == back.replace("line 2\n", "agent 2\n")
        assert await user.states() == {20: "conflicted"}
        undone = await user.kit.undo(user.session)
        assert user.text == back
        assert await user.states() == {2: "pending", 20: "conflicted"}
        await user.kit.undo(user.session, undone.apply_id)
        assert user.text == back.replace("line 2\n", "agent 2\n")
        assert await user.states() == {20: "conflicted"}


@OPEN
async def test_lines_that_are_the_proposal_already_are_accepted(home: Home, is_open: bool) -> None:
    """Nothing is written, and the hunk waits no more."""
    async with proposed(home, is_open=is_open) as user:
        same = MINE.replace("mine 2\nmore\n", "agent 2\n")
        user.types(same)
        done = await user.kit.call("change/accept", await user.decision(2))
        assert (user.text, done.in_editors) == (same, ())
        assert user.editor is None or user.editor.asked == []
        assert await user.states() == {20: "conflicted"}
        await user.kit.undo(user.session)
        assert user.text == same
        assert await user.states() == {2: "pending", 20: "conflicted"}


@OPEN
async def test_shown_lines_give_way_and_come_back(home: Home, is_open: bool) -> None:
    """Take Gloveport's: exactly what was shown is replaced; undo brings the user's lines and the conflict back."""
    async with proposed(home, is_open=is_open) as user:
        shown = (await user.hunks())[2]
        assert shown.user_text == "mine 2\nmore\n"
        taken = MINE.replace("mine 2\nmore\n", "agent 2\n")
        await user.kit.call("change/accept", await user.decision(2, l2=shown.user_digest))
        assert user.text == taken
        assert await user.states() == {20: "conflicted"}
        undone = await user.kit.undo(user.session)
        assert user.text == MINE
        assert await user.states() == {2: "conflicted", 20: "conflicted"}
        await user.kit.undo(user.session, undone.apply_id)
        assert user.text == taken
        user.types(taken.replace("line 30\n", "later\n"))
        params = ChangeUndoParams(
            client_request_id=new_id("r"), session_id=user.session, hunk_digests=(shown.hunk_digest or "",)
        )
        await user.kit.call("change/undo", params)
        assert user.text == MINE.replace("line 30\n", "later\n")
        assert await user.states() == {2: "conflicted", 20: "conflicted"}


@OPEN
async def test_all_of_a_conflict_is_taken_at_once(home: Home, is_open: bool) -> None:
    """Both named: what the user changed elsewhere stays, and one undo brings all of it back."""
    async with proposed(home, is_open=is_open) as user:
        shown = await user.hunks()
        named = {f"l{line}": hunk.user_digest for line, hunk in shown.items()}
        await user.kit.call("change/accept", await user.decision(2, 20, **named))
        assert user.text == THEIRS.replace("line 11\n", "")
        assert await user.kit.changes(user.session) == {}
        await user.kit.undo(user.session)
        assert user.text == MINE
        assert await user.states() == {2: "conflicted", 20: "conflicted"}


@OPEN
@pytest.mark.parametrize("first", [2, 20])
async def test_one_hunk_of_all_that_was_taken_comes_back(home: Home, is_open: bool, first: int) -> None:
    """Its lines are the user's again and it is met again; the other stays taken, until it is taken back too."""
    async with proposed(home, is_open=is_open) as user:
        shown = await user.hunks()
        named = {f"l{line}": hunk.user_digest for line, hunk in shown.items()}
        await user.kit.call("change/accept", await user.decision(2, 20, **named))
        taken, sides = user.text, {2: ("mine 2\nmore\n", "agent 2\n"), 20: ("mine 20\n", "agent 20\n")}
        user.types(taken.replace("line 30\n", "later\n"))
        for line in (first, 22 - first):
            params = ChangeUndoParams(
                client_request_id=new_id("r"), session_id=user.session, hunk_digests=(shown[line].hunk_digest or "",)
            )
            undone = await user.kit.call("change/undo", params)
            if line == first:
                mine, theirs = sides[first]
                assert user.text == taken.replace("line 30\n", "later\n").replace(theirs, mine)
                assert await user.states() == {first: "conflicted"}
                await user.kit.undo(user.session, undone.apply_id)
                assert user.text == taken.replace("line 30\n", "later\n")
                assert await user.kit.changes(user.session) == {}
                await user.kit.call("change/undo", params.model_copy(update={"client_request_id": new_id("r")}))
        assert user.text == MINE.replace("line 30\n", "later\n")
        assert await user.states() == {2: "conflicted", 20: "conflicted"}


@OPEN
async def test_anything_newer_than_what_was_shown_refuses(home: Home, is_open: bool) -> None:
    """Other words, more of them beside the place, the old words again, a hunk that was not named: nothing moves."""
    async with proposed(home, is_open=is_open) as user:
        digest = (await user.hunks())[2].user_digest
        for newer in ("mine 2\nmore\nnewer\n", "mine 2\n", "line 2\n", "mine 2 \nmore\n"):
            user.types(MINE.replace("mine 2\nmore\n", newer))
            before = user.text
            refused = await user.kit.refused("change/accept", await user.decision(2, l2=digest))
            assert (refused.code, user.text) == (ErrorCode.CHANGE_CONFLICT, before)
        user.types(MINE.replace("more\nline 3\n", "more\n"))  # the same words, with the next line gone
        refused = await user.kit.refused("change/accept", await user.decision(2, l2=digest))
        assert refused.code is ErrorCode.CHANGE_CONFLICT
        user.types(MINE.replace("mine 20\n", "other words\n"))
        refused = await user.kit.refused("change/accept", await user.decision(2, 20, l2=digest))
        assert refused.code is ErrorCode.CHANGE_CONFLICT
        for verb, lines in (("accept", (20,)), ("reject", (2,))):
            refused = await user.kit.refused(f"change/{verb}", await user.decision(*lines, l2=digest))
            assert refused.code is ErrorCode.INVALID_PARAMS
        assert await user.states() == {2: "conflicted", 20: "conflicted"}
        await user.kit.call("change/accept", await user.decision(2, l2=digest))  # elsewhere it may be newer
        assert user.text == MINE.replace("mine 2\nmore\n", "agent 2\n").replace("mine 20\n", "other words\n")


@OPEN
async def test_the_users_lines_are_kept_by_a_reject(home: Home, is_open: bool) -> None:
    """Keep mine: the hunk is gone, the user's text untouched, the other one waits; then all of theirs is taken over."""
    async with proposed(home, is_open=is_open) as user:
        await user.kit.call("change/reject", await user.decision(2))
        assert user.text == MINE
        assert await user.states() == {20: "conflicted"}
        await user.kit.call("change/reject", await user.decision(20))
        await user.kit.actor(user.session).workspace.refresh()
        assert (user.text, await user.kit.changes(user.session)) == (MINE, {})
        assert (user.kit.home.worktree(user.session) / "a.txt").read_text() == MINE


@OPEN
async def test_other_edits_stay_the_users_when_nothing_is_written(home: Home, is_open: bool) -> None:
    """The user made one of the changes by hand, and another edit: an undo does not call that edit the agent's."""
    async with proposed(home, is_open=is_open) as user:
        by_hand = TEXT.replace("line 2\n", "agent 2\n").replace("line 30\n", "mine 30\n")
        user.types(by_hand)
        await user.kit.call("change/accept", await user.decision(2))
        assert (user.text, await user.states()) == (by_hand, {20: "pending"})
        await user.kit.undo(user.session)
        assert (user.text, await user.states()) == (by_hand, {2: "pending", 20: "pending"})


@OPEN
async def test_an_undo_beside_a_conflict_leaves_it(home: Home, is_open: bool) -> None:
    """Accepted first, the other hunk met later: the accept is taken back, and the conflict is what it was."""
    async with proposed(home, is_open=is_open) as user:
        user.types(TEXT)
        await user.kit.call("change/accept", await user.decision(2))
        met = user.text.replace("line 20\n", "mine 20\n")
        user.types(met)
        assert await user.states() == {20: "conflicted"}
        undone = await user.kit.undo(user.session)
        assert user.text == met.replace("agent 2\n", "line 2\n")
        assert await user.states() == {2: "pending", 20: "conflicted"}
        await user.kit.undo(user.session, undone.apply_id)
        assert (user.text, await user.states()) == (met, {20: "conflicted"})


async def test_no_lines_give_way_in_a_file_that_is_moved(tmp_path: Path) -> None:
    """Told as what it is, before anything is looked at; of a new and a removed file what is not as shown refuses."""
    root = make_tree(tmp_path / "root", {"gone.txt": b"bye\n", "old.txt": TEXT.encode()})
    workspace = await SessionWorkspace.create(root, tmp_path / "session")
    try:
        await workspace.write("new.txt", b"new\n")
        await workspace.delete("gone.txt")
        await workspace.delete("old.txt")
        await workspace.write("moved.txt", THEIRS.encode())
        found = await propose(workspace)
        codes = {"create": ErrorCode.CHANGE_CONFLICT, "delete": ErrorCode.CHANGE_CONFLICT}
        assert {path: one.kind for path, one in found.items()} == {
            "new.txt": "create", "gone.txt": "delete", "moved.txt": "rename",
        }  # fmt: skip
        for one in found.values():
            digest = one.hunks[0].digest
            chosen = Selected(one.change_id, one.digest, (digest,), ((digest, "0" * 64),))
            with pytest.raises(WorkspaceError) as refused:
                await workspace.plan_accept([chosen])
            assert refused.value.code is codes.get(one.kind, ErrorCode.INVALID_PARAMS)
    finally:
        workspace.close()


WHOLE = {"new.txt": "the user's\nown file\n", "gone.txt": TEXT.replace("line 2\n", "mine 2\n")}


@pytest.mark.parametrize("by_hunk", [False, True], ids=["the last decision", "the hunk"])
@pytest.mark.parametrize(("is_open", "name"), [(False, "new.txt"), (True, "new.txt"), (False, "gone.txt")])
async def test_a_whole_file_gives_way_as_it_was_shown(is_open: bool, name: str, by_hunk: bool) -> None:
    """Made where the user made one, removed where they changed it: only as shown; undo brings their bytes back."""
    with new_home() as made:
        made.write(gone__txt=TEXT)
        calls = [call("write_file", path="new.txt", content="the agent's\n"), call("delete_file", path="gone.txt")]
        made.play({"when": {"turns_total": 0}, "calls": calls}, {"text": "Done."})
        mine, words = made.root / name, WHOLE[name]
        async with made.room() as kit:
            session = await kit.allowed()
            await kit.idle(session)
            mine.write_text(words)
            editor = ShownEditor(kit.house.buffers, "one") if is_open else None
            if editor is not None:
                editor.open(mine)

            async def shown() -> PendingHunk:
                found = await kit.call("change/hunks", ChangeHunksParams(session_id=session))
                (one,) = (hunk for hunk in found.hunks if hunk.path == name)
                return one

            async def decision(hunk: PendingHunk) -> ChangeDecideParams:
                params = kit.decision(session, (await kit.changes(session))[name], hunks=(0,))
                (chosen,) = params.selections
                named = Replaced(hunk_digest=hunk.hunk_digest or "", user_digest=hunk.user_digest or "")
                return params.model_copy(update={"selections": (chosen.model_copy(update={"replaces": (named,)}),)})

            def text() -> str | None:
                if editor is not None:
                    return editor.text(mine)
                return mine.read_text() if mine.exists() else None

            hunk = await shown()
            assert (hunk.state, hunk.user_text) == ("conflicted", words)
            if editor is None:
                mine.write_text(f"{words}newer\n")
                assert (await kit.refused("change/accept", await decision(hunk))).code is ErrorCode.CHANGE_CONFLICT
                assert mine.read_text() == f"{words}newer\n"
                mine.write_text(words)
            taken = await kit.call("change/accept", await decision(hunk))
            assert text() == ("the agent's\n" if name == "new.txt" else None)
            assert name not in await kit.changes(session)
            if by_hunk:
                digests = (hunk.hunk_digest or "",)
                params = ChangeUndoParams(client_request_id=new_id("r"), session_id=session, hunk_digests=digests)
                undone = await kit.call("change/undo", params)
            else:
                undone = await kit.undo(session, taken.apply_id)
            assert text() == words
            assert (await shown()).state == "conflicted"
            await kit.undo(session, undone.apply_id)
            assert text() == ("the agent's\n" if name == "new.txt" else None)
