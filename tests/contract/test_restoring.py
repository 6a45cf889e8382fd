"""Undo by file, hunk, turn and all, redo, and restore with its preview, as a client asks for them."""

from collections.abc import Iterator

import pytest
from tests.kit.room import Home, Kit, call, new_home, run
from tests.kit.shown import ShownEditor

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.change import (
    ChangeDocumentParams,
    ChangePreviewParams,
    ChangeRedoParams,
    ChangeUndoParams,
)
from gloveport.protocol.wire.snapshot import SnapshotPreviewParams, SnapshotRestoreParams
from gloveport.server.app.daemon import new_id

TEXT = "".join(f"line {number}\n" for number in range(1, 31))
FIRST = TEXT.replace("line 2\n", "second\n").replace("line 29\n", "last but one\n")
SECOND = FIRST.replace("line 7\n", "middle\n")


@pytest.fixture
def home() -> Iterator[Home]:
    """A home whose model changes a file in two turns, makes one, and runs a program in the second."""
    with new_home() as made:
        made.write(a__txt=TEXT)
        first = [
            call("edit_file", path="a.txt", old="line 2\n", new="second\n"),
            call("edit_file", path="a.txt", old="line 29\n", new="last but one\n"),
        ]
        second = [
            call("edit_file", path="a.txt", old="line 7\n", new="middle\n"),
            call("write_file", path="b.txt", content="new\n"),
            run("hold"),
        ]
        made.play(
            {"when": {"turn": 0, "user_contains": "first"}, "calls": first},
            {"when": {"turn": 0, "user_contains": "second"}, "calls": second},
            {"text": "Done."},
        )
        made.ladder.go.set()
        yield made


async def two_turns(kit: Kit) -> tuple[str, list[str]]:
    """A session in which both turns' changes were accepted; its id and those of the turns."""
    session = await kit.begin()
    turns = []
    for words in ("first", "second"):
        turns.append((await kit.send(session, words)).turn_id)
        if words == "second":
            await kit.answer(session, await kit.waiting(session))
        await kit.idle(session)
        await kit.call("change/accept", kit.decision(session, *(await kit.changes(session)).values()))
    return session, turns


def back(session: str, **more: object) -> ChangeUndoParams:
    """An undo."""
    return ChangeUndoParams.model_validate({"client_request_id": new_id("r"), "session_id": session, **more})


async def redo(kit: Kit, session: str) -> None:
    """Take the last undo back."""
    await kit.call("change/redo", ChangeRedoParams(client_request_id=new_id("r"), session_id=session))


async def test_a_redo_that_refuses_says_redo(home: Home) -> None:
    """One hunk accepted, one rejected, both taken back, the user edits: the way on names the command that was run."""
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session, "first")
        await kit.idle(session)
        await kit.call("change/accept", kit.decision(session, (await kit.changes(session))["a.txt"], hunks=(0,)))
        await kit.call("change/reject", kit.decision(session, (await kit.changes(session))["a.txt"], hunks=(0,)))
        await kit.call("change/undo", back(session, all=True))
        (home.root / "a.txt").write_text(TEXT.replace("line 7\n", "mine\n"))
        again = ChangeRedoParams(client_request_id=new_id("r"), session_id=session)
        refused = await kit.refused("change/redo", again)
        assert refused.hint.endswith("then redo.")


async def test_a_hunk_stands_where_the_last_decision_in_force_left_it(home: Home) -> None:
    """Accepted, restored away, the restore undone: accepted, as its lines are there; and the same back and forth."""
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session, "first")
        await kit.idle(session)
        change = (await kit.changes(session))["a.txt"]
        names = {hunk.digest: number for number, hunk in enumerate(change.hunks)}

        async def states() -> dict[int, str]:
            listed = await kit.call("change/list", SessionParams(session_id=session))
            return {names[hunk.digest]: hunk.state for hunk in listed.ended}

        await kit.call("change/accept", kit.decision(session, change, hunks=(0,)))
        await kit.call("change/reject", kit.decision(session, (await kit.changes(session))["a.txt"], hunks=(0,)))
        decided = {0: "accepted", 1: "rejected"}
        assert await states() == decided
        await restore(kit, session, "start")
        assert await states() == {0: "undone", 1: "undone"}
        await kit.call("change/undo", back(session))
        assert "second\n" in (home.root / "a.txt").read_text()
        assert await states() == decided
        await redo(kit, session)
        assert await states() == {0: "undone", 1: "undone"}
        await kit.call("change/undo", back(session))
        await kit.call("change/undo", back(session, all=True))
        assert await states() == {}
        await redo(kit, session)
        assert await states() == decided


async def test_a_turn_is_taken_back_and_again(home: Home) -> None:
    """What the first turn proposed goes, what the second did stays; redo brings it back; all at once, and again."""
    async with home.room() as kit:
        session, turns = await two_turns(kit)
        mine = home.root / "a.txt"
        assert mine.read_text() == SECOND
        await kit.call("change/undo", back(session, turn_id=turns[0]))
        assert mine.read_text() == TEXT.replace("line 7\n", "middle\n")
        assert (home.root / "b.txt").exists()
        await redo(kit, session)
        assert mine.read_text() == SECOND
        await kit.call("change/undo", back(session, all=True))
        assert mine.read_text() == TEXT
        assert not (home.root / "b.txt").exists()
        await redo(kit, session)
        assert mine.read_text() == SECOND
        assert (await kit.refused("change/redo", ChangeRedoParams(client_request_id="x", session_id=session))).code
        await kit.undo(session)  # the second turn's accept is the last in force
        assert mine.read_text() == FIRST


async def test_a_file_and_a_hunk_are_taken_back(home: Home) -> None:
    """By path the last decision that touched it; by digest one hunk of it; each can be redone."""
    async with home.room() as kit:
        session, _ = await two_turns(kit)
        mine = home.root / "a.txt"
        await kit.call("change/undo", back(session, paths=["b.txt"]))
        assert not (home.root / "b.txt").exists()
        assert mine.read_text() == SECOND
        await redo(kit, session)
        assert (home.root / "b.txt").read_text() == "new\n"
        (decided,) = [one for one in await kit.bodies(session, "HunkDecided") if len(one["digests"]) == 2]
        await kit.call("change/undo", back(session, all=True, hunk_digests=decided["digests"][:1]))
        assert mine.read_text() == SECOND.replace("second\n", "line 2\n")
        pending = await kit.changes(session)
        assert [hunk.digest for hunk in pending["a.txt"].hunks] == decided["digests"][:1]


async def test_a06_reject_all_is_undone_after_a_misclick(home: Home) -> None:
    """Every proposal comes back as it was, and the undo is redone."""
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session, "first")
        await kit.idle(session)
        before = await kit.changes(session)
        await kit.call("change/reject", kit.decision(session, *before.values()))
        assert not await kit.changes(session)
        await kit.undo(session)
        assert await kit.changes(session) == {
            path: change.model_copy(update={"turn_id": (await kit.changes(session))[path].turn_id})
            for path, change in before.items()
        }
        await redo(kit, session)
        assert not await kit.changes(session)


async def test_a_restore_shows_what_it_does_and_what_it_cannot(home: Home) -> None:
    """Only decided paths, the program that ran is named, a stale preview is refused, undo brings all back."""
    async with home.room() as kit:
        session, turns = await two_turns(kit)
        (home.root / "untracked.txt").write_text("the user's\n")
        points = (await kit.call("snapshot/list", SessionParams(session_id=session))).points
        assert [(one.point, one.decisions) for one in points] == [("start", 2), (turns[0], 2), (turns[1], 1)]
        assert points[1].title == "first"
        shown = await kit.call("snapshot/preview", SnapshotPreviewParams(session_id=session, point=turns[1]))
        assert {row.path: row.action for row in shown.files} == {"a.txt": "restore", "b.txt": "remove"}
        assert "-middle" in shown.files[0].diff
        whole = await kit.call("snapshot/preview", SnapshotPreviewParams(session_id=session, point="start"))
        heads = [line.partition(",")[0] for line in whole.files[0].diff.splitlines() if line.startswith("@@")]
        assert heads == ["@@ -1", "@@ -26"], "what is close together stands together"
        assert [(one.title, "ran" in one.words) for one in shown.cannot_undo] == [("Run hold", True)]
        wanted = SnapshotRestoreParams(
            client_request_id=new_id("r"), session_id=session, point=turns[1], digest=shown.digest or ""
        )
        mine = home.root / "a.txt"
        mine.write_text(SECOND.replace("line 9\n", "mine\n"))
        refused = await kit.refused("snapshot/restore", wanted)
        assert refused.code is ErrorCode.CHANGE_SUPERSEDED
        shown = await kit.call("snapshot/preview", SnapshotPreviewParams(session_id=session, point=turns[1]))
        wanted = wanted.model_copy(update={"client_request_id": new_id("r"), "digest": shown.digest})
        await kit.call("snapshot/restore", wanted)
        assert mine.read_text() == FIRST.replace("line 9\n", "mine\n")
        assert not (home.root / "b.txt").exists()
        assert not await kit.changes(session)
        assert (home.root / "untracked.txt").read_text() == "the user's\n"
        await kit.undo(session)
        assert mine.read_text() == SECOND.replace("line 9\n", "mine\n")
        assert (home.root / "b.txt").read_text() == "new\n"
        nowhere = SnapshotPreviewParams(session_id=session, point="turn-x")
        assert (await kit.refused("snapshot/preview", nowhere)).code is ErrorCode.INVALID_PARAMS


async def restore(kit: Kit, session: str, point: str) -> bool:
    """Go back to a point as it is previewed; False when nothing would change."""
    shown = await kit.call("snapshot/preview", SnapshotPreviewParams(session_id=session, point=point))
    if shown.digest is None:
        assert not shown.files
        return False
    wanted = SnapshotRestoreParams(client_request_id=new_id("r"), session_id=session, point=point, digest=shown.digest)
    await kit.call("snapshot/restore", wanted)
    return True


async def decisions(kit: Kit, session: str) -> list[int]:
    """How many decisions each point counts since."""
    points = (await kit.call("snapshot/list", SessionParams(session_id=session))).points
    return [one.decisions for one in points]


async def test_a_restore_aims_at_its_point_however_often(home: Home) -> None:
    """The second time nothing is left to do; it counts as no decision; its undo brings all back, and can be redone."""
    async with home.room() as kit:
        session, turns = await two_turns(kit)
        mine, made = home.root / "a.txt", home.root / "b.txt"
        for point, text, left in (("start", TEXT, [0, 0, 0]), (turns[1], FIRST, [1, 1, 0])):
            assert await decisions(kit, session) == [2, 2, 1]
            assert await restore(kit, session, point)
            for _ in range(2):
                assert not await restore(kit, session, point)
                assert (mine.read_text(), made.exists()) == (text, False)
                assert await decisions(kit, session) == left
            await kit.undo(session)
            assert (mine.read_text(), made.exists()) == (SECOND, True)
            await redo(kit, session)
            assert (mine.read_text(), made.exists()) == (text, False)
            assert not await restore(kit, session, point)
            await kit.undo(session)
        assert await restore(kit, session, turns[1])
        assert await restore(kit, session, "start")
        assert mine.read_text() == TEXT
        assert await restore(kit, session, turns[1])
        assert mine.read_text() == FIRST
        assert not await restore(kit, session, turns[1])


async def test_a_restore_brings_back_what_held_at_its_point(home: Home) -> None:
    """A decision before the point that was undone after it holds again; the user's own lines stay."""
    async with home.room() as kit:
        session, turns = await two_turns(kit)
        mine = home.root / "a.txt"
        await kit.call("change/undo", back(session, all=True))
        assert mine.read_text() == TEXT
        mine.write_text(TEXT.replace("line 9\n", "mine\n"))
        assert await restore(kit, session, turns[1])
        assert mine.read_text() == FIRST.replace("line 9\n", "mine\n")
        assert not await restore(kit, session, turns[1])
        await kit.undo(session)
        assert mine.read_text() == TEXT.replace("line 9\n", "mine\n")
        await redo(kit, session)
        assert mine.read_text() == FIRST.replace("line 9\n", "mine\n")
        await kit.call("change/undo", back(session, paths=["a.txt"]))
        assert mine.read_text() == TEXT.replace("line 9\n", "mine\n")


async def test_undo_of_all_leaves_nothing_of_the_agents_after_a_restore(home: Home) -> None:
    """What the restore took back does not come back by it, and what held on is taken back; one undo does turn it."""
    async with home.room() as kit:
        session, turns = await two_turns(kit)
        mine, made = home.root / "a.txt", home.root / "b.txt"
        assert await restore(kit, session, turns[1])
        assert mine.read_text() == FIRST
        await kit.call("change/undo", back(session, all=True))
        assert (mine.read_text(), made.exists()) == (TEXT, False)
        refused = await kit.refused("change/undo", back(session, all=True))
        assert refused.code is ErrorCode.CHANGE_UNKNOWN
        await redo(kit, session)
        assert (mine.read_text(), made.exists()) == (FIRST, False)
        await kit.undo(session)
        assert (mine.read_text(), made.exists()) == (SECOND, True)
        assert await restore(kit, session, "start")
        refused = await kit.refused("change/undo", back(session, all=True))
        assert (refused.code, mine.read_text()) == (ErrorCode.CHANGE_UNKNOWN, TEXT)


async def test_the_sides_of_a_proposal_are_documents(home: Home) -> None:
    """Under our own scheme, with the file's name at the end; unsaved words are the user's side; a stale one is none."""
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session, "first")
        await kit.idle(session)
        change = (await kit.changes(session))["a.txt"]
        preview = ChangePreviewParams(session_id=session, change_id=change.change_id)
        named = (await kit.call("change/preview", preview)).documents
        editor = ShownEditor(kit.house.buffers, "one")
        editor.type(editor.open(home.root / "a.txt"), TEXT + "unsaved\n")
        texts = {}
        for side, uri in named.model_dump().items():
            assert uri.startswith("gloveport-change:/")
            assert uri.split("?")[0].endswith("/a.txt")
            texts[side] = (await kit.call("change/document", ChangeDocumentParams(uri=uri))).text
        assert texts == {"base": TEXT, "result": FIRST, "user": TEXT + "unsaved\n"}
        await kit.call("change/reject", kit.decision(session, change, hunks=(0,)))
        gone = await kit.call("change/document", ChangeDocumentParams(uri=named.base))
        assert (gone.text, "not pending" in gone.words) == (None, True)
        bad = ChangeDocumentParams(uri="file:///etc/passwd")
        assert (await kit.refused("change/document", bad)).code is ErrorCode.INVALID_PARAMS
