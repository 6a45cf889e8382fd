"""Decisions about changes in a real room: accept, hunks, reject, undo, drift, unsaved buffers, repeated requests."""

from collections.abc import Iterator

import anyio
import pytest
from tests.kit.room import Home, Kit, call, new_home, run
from tests.kit.simulation import materials as mat

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal import events as ev
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.change import ChangePreviewParams
from gloveport.server.transports.port import Buffer

DONE = {"text": "Done."}
TEXT = "".join(f"line {number}\n" for number in range(1, 31))


@pytest.fixture
def home() -> Iterator[Home]:
    """A home with a file that the model changes in two places, and a new one."""
    with new_home() as made:
        made.write(a__txt=TEXT)
        edits = [
            call("edit_file", path="a.txt", old="line 2\n", new="second\n"),
            call("edit_file", path="a.txt", old="line 29\n", new="last but one\n"),
            call("write_file", path="b.txt", content="new\n"),
        ]
        made.play({"when": {"turns_total": 0}, "calls": edits}, DONE)
        yield made


async def changed(kit: Kit) -> str:
    """A session whose turn has proposed the changes."""
    session = await kit.begin()
    await kit.send(session)
    await kit.idle(session)
    assert await kit.ends(session) == ["ok"] * 3
    return session


async def test_hunks_are_decided_one_by_one_and_undone_in_order(home: Home) -> None:
    """Accept one hunk, reject the other, accept the new file; undo takes back the last decision in force."""
    async with home.room() as kit:
        session = await changed(kit)
        mine = home.root / "a.txt"
        changes = await kit.changes(session)
        assert set(changes) == {"a.txt", "b.txt"}
        preview = ChangePreviewParams(session_id=session, change_id=changes["a.txt"].change_id)
        assert "+second" in (await kit.call("change/preview", preview)).diff
        first = await kit.call("change/accept", kit.decision(session, changes["a.txt"], hunks=(0,)))
        assert mine.read_text() == TEXT.replace("line 2\n", "second\n")
        left = (await kit.changes(session))["a.txt"]
        assert len(left.hunks) == 1
        await kit.call("change/reject", kit.decision(session, left))
        assert set(await kit.changes(session)) == {"b.txt"}
        assert (home.worktree(session) / "a.txt").read_text() == mine.read_text()
        await kit.call("change/accept", kit.decision(session, (await kit.changes(session))["b.txt"]))
        assert (home.root / "b.txt").read_text() == "new\n"

        assert (await kit.undo(session)).paths == ("b.txt",)
        assert not (home.root / "b.txt").exists()
        assert (await kit.undo(session)).paths == ("a.txt",)  # the reject: its hunk is proposed again
        assert len((await kit.changes(session))["a.txt"].hunks) == 1
        assert (await kit.undo(session)).paths == ("a.txt",)  # the accept
        assert mine.read_text() == TEXT
        with pytest.raises(GloveportError) as caught:
            await kit.undo(session)
        assert caught.value.code is ErrorCode.CHANGE_UNKNOWN
        assert first.apply_id


async def test_undo_out_of_order_and_redo(home: Home) -> None:
    """An earlier decision is taken back by its name; plain undo then takes the later one; undoing an undo is a redo."""
    async with home.room() as kit:
        session = await changed(kit)
        changes = await kit.changes(session)
        first = await kit.call("change/accept", kit.decision(session, changes["a.txt"]))
        await kit.call("change/accept", kit.decision(session, changes["b.txt"]))
        undone = await kit.undo(session, first.apply_id)
        assert (home.root / "a.txt").read_text() == TEXT
        assert (await kit.undo(session)).paths == ("b.txt",)
        redone = await kit.undo(session, undone.apply_id)
        assert redone.paths == ("a.txt",)
        assert "second" in (home.root / "a.txt").read_text()
        assert (await kit.undo(session)).paths == ("a.txt",)
        assert (home.root / "a.txt").read_text() == TEXT


async def test_what_was_not_shown_is_not_decided(home: Home) -> None:
    """A digest that is no longer the proposal's, and a proposal that is gone, are refused; nothing is written."""
    async with home.room() as kit:
        session = await changed(kit)
        shown = (await kit.changes(session))["a.txt"]
        await kit.call("change/reject", kit.decision(session, shown, hunks=(0,)))
        stale = await kit.refused("change/accept", kit.decision(session, shown))
        assert stale.code is ErrorCode.CHANGE_SUPERSEDED
        await kit.call("change/reject", kit.decision(session, (await kit.changes(session))["a.txt"]))
        gone = await kit.refused("change/accept", kit.decision(session, shown))
        assert gone.code is ErrorCode.CHANGE_UNKNOWN
        assert (home.root / "a.txt").read_text() == TEXT


async def test_a_refused_decision_stays_refused_when_asked_again(home: Home) -> None:
    """The user's file changed after the plan: a conflict, nothing written; the same request gets the same answer, also
    from the next room; a new one does what it says."""
    async with home.room() as kit:
        session = await changed(kit)
        actor, mine = kit.actor(session), home.root / "b.txt"
        params = kit.decision(session, (await kit.changes(session))["b.txt"])
        plan = actor.workspace.plan_accept

        async def plan_then_user_writes(*args: object) -> object:
            made = await plan(*args)
            mine.write_text("the user's own\n")
            return made

        actor.workspace.plan_accept = plan_then_user_writes
        first = await kit.refused("change/accept", params)
        assert first.code is ErrorCode.CHANGE_CONFLICT
        mine.unlink()
        again = await kit.refused("change/accept", params)
        assert (again.code, again.message) == (first.code, first.message)
    async with home.room() as kit:
        later = await kit.refused("change/accept", params)
        assert (later.code, later.message) == (first.code, first.message)
        assert not mine.exists()
        await kit.call("change/accept", kit.decision(session, (await kit.changes(session))["b.txt"]))
        assert mine.read_text() == "new\n"


async def test_the_same_accept_at_once_and_later_is_done_once(home: Home) -> None:
    """Duplicates get one answer while it is under way, after it, and after a restart."""
    async with home.room() as kit:
        session = await changed(kit)
        params = kit.decision(session, *(await kit.changes(session)).values())
        answers: list[object] = []

        async def one() -> None:
            answers.append(await kit.call("change/accept", params))

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(one)
        assert len(set(map(str, answers))) == 1
        kinds = await kit.kinds(session)
        assert (kinds.count("ChangeApplyStarted"), kinds.count("ChangeApplied")) == (1, 1)
        other = params.model_copy(update={"selections": ()})
        assert (await kit.refused("change/accept", other)).code is ErrorCode.CONFLICT
    async with home.room() as kit:
        assert await kit.call("change/accept", params) == answers[0]
        assert (await kit.kinds(session)).count("ChangeApplied") == 1


async def test_nothing_is_written_under_unsaved_words(home: Home) -> None:
    """An editor holds other text than the disk: refused; saved or closed: done. Odd addresses are no obstacle."""
    async with home.room() as kit:
        session = await changed(kit)
        uri = (home.root / "a.txt").as_uri()
        table = kit.house.buffers
        for number, odd in enumerate(("file:///%00", "untitled:1", "file://[", uri + "%00")):
            table.opened(Buffer("c1", f"odd{number}", odd, 1, "x"))
        table.opened(Buffer("c1", uri, uri, 1, TEXT + "unsaved"))
        params = kit.decision(session, (await kit.changes(session))["a.txt"])
        assert (await kit.refused("change/accept", params)).code is ErrorCode.CHANGE_CONFLICT
        table.opened(Buffer("c1", uri, uri, 2, TEXT))
        await kit.call("change/accept", params)
        assert "second" in (home.root / "a.txt").read_text()


async def test_rejecting_waits_for_the_tool_and_accepting_does_not(home: Home) -> None:
    """While a program runs in the worktree, proposals of earlier calls can be accepted, not rejected or undone; what
    the program made is proposed at its end, and no older look takes it back."""
    home.play(
        {"when": {"turn": 0, "user_contains": "go"}, "calls": [
            call("write_file", path="b.txt", content="new\n"), run("hold"),
        ]}, DONE,
    )  # fmt: skip
    async with home.room() as kit:
        session = await kit.held()
        change = (await kit.changes(session))["b.txt"]
        assert (await kit.refused("change/reject", kit.decision(session, change))).code is ErrorCode.TURN_BUSY
        (home.worktree(session) / "made.txt").write_text("by the program\n")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kit.call, "change/accept", kit.decision(session, change))
            home.ladder.go.set()
        assert (home.root / "b.txt").read_text() == "new\n"
        await kit.idle(session)
        pending = await kit.changes(session)
        assert set(pending) == {"made.txt"}
        await kit.call("change/accept", kit.decision(session, pending["made.txt"]))
        assert (home.root / "made.txt").read_text() == "by the program\n"
        await kit.undo(session)
        assert not (home.root / "made.txt").exists()


async def test_an_older_look_at_the_proposals_never_comes_after_a_newer(home: Home) -> None:
    """A decision on one hunk looked at what is left; the program changes the same file and ends: what is proposed in
    the end is what the worktree holds."""
    edits = [
        call("edit_file", path="a.txt", old="line 2\n", new="second\n"),
        call("edit_file", path="a.txt", old="line 29\n", new="last but one\n"),
    ]
    home.play({"when": {"turn": 0}, "calls": [*edits, run("hold")]}, DONE)
    looked, go_on = anyio.Event(), anyio.Event()
    async with home.room() as kit:
        session = await kit.held()
        change = (await kit.changes(session))["a.txt"]
        workspace = kit.actor(session).workspace
        look = workspace.proposals

        async def look_slowly() -> object:
            seen = await look()
            if not looked.is_set():
                looked.set()
                await go_on.wait()
            return seen

        workspace.proposals = look_slowly
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kit.call, "change/accept", kit.decision(session, change, hunks=(0,)))
            await looked.wait()
            edited = home.worktree(session) / "a.txt"
            edited.write_text(edited.read_text() + "by the program\n")
            home.ladder.go.set()
            with anyio.move_on_after(0.3):
                await kit.until_state(session, lambda state: state.changes[change.change_id].digest != change.digest)
            go_on.set()
        await kit.idle(session)
        left = (await kit.changes(session))["a.txt"]
        shown = await kit.call("change/preview", ChangePreviewParams(session_id=session, change_id=left.change_id))
        assert "+by the program" in shown.diff
        await kit.call("change/accept", kit.decision(session, left))
        assert (home.root / "a.txt").read_text() == edited.read_text()


async def test_what_was_found_in_a_proposal_is_listed_with_it_as_long_as_it_waits(home: Home) -> None:
    """Kind, line and excerpt, over a restart; a decision takes it away."""
    secret, hint = ev.SecretPlace(kind="aws access key", line=3), ev.Hint(kind="instruction_like", line=7, excerpt="x")
    async with home.room() as kit:
        session_id = await kit.begin()
        made = mat.change("t1", 1, "t1.c1", 1)
        told = ev.ArtifactSuspected(
            turn_id="t1", goal_revision=1, call_id="t1.c1", change_id=made.change_id, path=made.path,
            secrets=(secret,), hints=(hint,), left_out=2, looked_at=True,
        )  # fmt: skip
        await kit.actor(session_id).record((made, told))
    async with home.room() as kit:
        await kit.call("session/show", SessionParams(session_id=session_id))
        (change,) = (await kit.changes(session_id)).values()
        found = change.suspected
        assert found is not None
        assert [(one.kind, one.line, one.excerpt) for one in found.secrets] == [("aws access key", 3, "")]
        assert [(one.kind, one.line, one.excerpt) for one in found.hints] == [("instruction_like", 7, "x")]
        assert (found.left_out, found.looked_at) == (2, True)
        gone = ev.ChangeWithdrawn(change_id=made.change_id, path=made.path, reason="reverted")
        await kit.actor(session_id).record((gone,))
        assert kit.actor(session_id).state.suspected == {}
