"""Accept and undo on files that are open in editors: what an editor shows is the truth, what it answers is not."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from tests.kit.room import Home, Kit, call, new_home
from tests.kit.shown import Behaviour, ShownEditor, denying, faithful, lying, silent

from gloveport.protocol.errors import ErrorCode
from gloveport.server.engine import handing
from gloveport.server.engine.perform import start
from gloveport.server.transports.port import Buffer, DocumentEdit
from gloveport.server.turn.inputs import ApplyRequested
from gloveport.server.workspace.plan import Selected

TEXT = "".join(f"line {number}\n" for number in range(1, 31))
WANTED = TEXT.replace("line 2\n", "second\n")
EDIT = call("edit_file", path="a.txt", old="line 2\n", new="second\n")
MAKE = call("write_file", path="b.txt", content="new\n")


@pytest.fixture
def home() -> Iterator[Home]:
    """A home whose model changes one file and makes another."""
    with new_home() as made:
        made.write(a__txt=TEXT)
        made.play({"when": {"turns_total": 0}, "calls": [EDIT, MAKE]}, {"text": "Done."})
        yield made


@asynccontextmanager
async def proposed(home: Home, behaviour: Behaviour = faithful) -> AsyncIterator[tuple[Kit, str, ShownEditor, Path]]:
    """A session with both proposals, and an editor that shows the changed file."""
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.idle(session)
        editor = ShownEditor(kit.house.buffers, "one", behaviour)
        editor.open(home.root / "a.txt")
        yield kit, session, editor, home.root / "a.txt"


async def test_an_open_file_is_changed_in_its_editor(home: Home) -> None:
    """The text changes there, the file when it is saved; undo brings the former text back, redo the new one."""
    async with proposed(home) as (kit, session, editor, mine):
        done = await kit.call("change/accept", kit.decision(session, (await kit.changes(session))["a.txt"]))
        assert (done.paths, done.in_editors) == (("a.txt",), ("a.txt",))
        assert (editor.text(mine), mine.read_text()) == (WANTED, TEXT)
        assert set(await kit.changes(session)) == {"b.txt"}
        undone = await kit.undo(session)
        assert (editor.text(mine), mine.read_text()) == (TEXT, TEXT)
        await kit.undo(session, undone.apply_id)
        assert editor.text(mine) == WANTED
        editor.save(mine)
        editor.close(mine)
        assert (await kit.undo(session)).in_editors == ()
        assert mine.read_text() == TEXT


async def test_a07_an_unsaved_line_is_in_preview_and_result(home: Home) -> None:
    """The agent works on what the user sees; nothing of it is lost when the file is saved."""
    mine = home.root / "a.txt"
    async with home.room() as kit:
        session = await kit.begin()
        editor = ShownEditor(kit.house.buffers, "one")
        uri = editor.open(mine)
        editor.type(uri, TEXT.replace("line 20\n", "typed, not saved\n"))
        kit.house.buffers.opened(Buffer("one", "untitled:1", "untitled:Untitled-1", 1, "never saved", editor))
        await kit.send(session)
        await kit.idle(session)
        assert "typed, not saved" in (home.worktree(session) / "a.txt").read_text()
        changes = await kit.changes(session)
        assert len(changes["a.txt"].hunks) == 1
        await kit.call("change/accept", kit.decision(session, *changes.values()))
        assert editor.text(mine) == WANTED.replace("line 20\n", "typed, not saved\n")
        assert (home.root / "b.txt").read_text() == "new\n"
        assert mine.read_text() == TEXT
        editor.save(mine)
        assert await kit.actor(session).workspace.drift() == ()
        assert not await kit.changes(session)


async def test_words_typed_after_the_turn_are_merged(home: Home) -> None:
    """Unsaved words beside the hunk survive the accept; words in its lines are a conflict with both sides."""
    async with proposed(home) as (kit, session, editor, mine):
        change = (await kit.changes(session))["a.txt"]
        editor.type(mine.as_uri(), TEXT.replace("line 2\n", "my second\n"))
        refused = await kit.refused("change/accept", kit.decision(session, change))
        assert refused.code is ErrorCode.CHANGE_CONFLICT
        assert "+my second" in str(refused.data["theirs"])
        assert "+second" in str(refused.data["ours"])
        assert editor.asked == []
        editor.type(mine.as_uri(), TEXT.replace("line 20\n", "mine\n"))
        await kit.call("change/accept", kit.decision(session, change))
        assert editor.text(mine) == WANTED.replace("line 20\n", "mine\n")


async def test_an_editor_that_agrees_and_does_nothing_is_noticed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused by name, nothing written in any file, the proposals stay; it may be tried again."""
    monkeypatch.setattr(handing, "SHOWN_S_MAX", 0.2)
    async with proposed(home, lying) as (kit, session, editor, mine):
        changes = await kit.changes(session)
        refused = await kit.refused("change/accept", kit.decision(session, *changes.values()))
        assert refused.code is ErrorCode.CHANGE_CONFLICT
        assert "does not show it" in refused.message
        assert (editor.text(mine), mine.read_text()) == (TEXT, TEXT)
        assert not (home.root / "b.txt").exists()
        assert set(await kit.changes(session)) == {"a.txt", "b.txt"}
        editor.behaviour = denying  # and one that says no and does it has done it
        await kit.call("change/accept", kit.decision(session, *(await kit.changes(session)).values()))
        assert editor.text(mine) == WANTED
        assert (home.root / "b.txt").read_text() == "new\n"


async def test_an_editor_that_never_answers_leaves_the_outcome_open(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the bound it is told that it may still come; when it comes, the proposal is found to be there."""
    monkeypatch.setattr(handing, "ANSWER_S_MAX", 0.2)
    async with proposed(home, silent) as (kit, session, editor, mine):
        refused = await kit.refused("change/accept", kit.decision(session, *(await kit.changes(session)).values()))
        assert refused.code is ErrorCode.CHANGE_UNSETTLED
        assert refused.data["states"]["a.txt"] == "suspect"
        assert not (home.root / "b.txt").exists()
        (told,) = await kit.bodies(session, "ChangeUnsettled")
        assert not told["waits"]
        editor.type(mine.as_uri(), WANTED)  # now it does
        await kit.actor(session).workspace.refresh()
        proposals = await kit.actor(session).workspace.proposals()
        assert [each.path for each in proposals] == ["b.txt"]


async def test_what_an_editor_did_is_taken_back_when_a_file_fails(home: Home) -> None:
    """All or nothing over editors and files: the user saves another file at the worst moment."""
    async with proposed(home) as (kit, session, editor, mine):

        async def then_the_user_writes(shown: ShownEditor, edits: Sequence[DocumentEdit]) -> str | None:
            (home.root / "b.txt").write_text("the user's own\n")
            return await faithful(shown, edits)

        editor.behaviour = then_the_user_writes
        refused = await kit.refused("change/accept", kit.decision(session, *(await kit.changes(session)).values()))
        assert refused.code is ErrorCode.CHANGE_CONFLICT
        assert len(editor.asked) == 2
        assert (editor.text(mine), mine.read_text()) == (TEXT, TEXT)
        assert (home.root / "b.txt").read_text() == "the user's own\n"


async def test_two_editors_with_one_file(home: Home) -> None:
    """Different unsaved texts are a conflict that names both; the same text is changed in both; saved ones follow."""
    async with proposed(home) as (kit, session, editor, mine):
        other = ShownEditor(kit.house.buffers, "two")
        uri = other.open(mine)
        change = (await kit.changes(session))["a.txt"]
        editor.type(uri, TEXT + "one\n")
        other.type(uri, TEXT + "two\n")
        refused = await kit.refused("change/accept", kit.decision(session, change))
        assert refused.code is ErrorCode.CHANGE_CONFLICT
        assert "one and two hold different unsaved text" in refused.message or "two and one" in refused.message
        other.type(uri, TEXT + "one\n")
        await kit.call("change/accept", kit.decision(session, change))
        assert editor.text(mine) == other.text(mine) == WANTED + "one\n"
        editor.save(mine)
        await kit.undo(session)
        assert {editor.text(mine), other.text(mine)} == {TEXT + "one\n", WANTED + "one\n"}  # saved: one is changed


@pytest.mark.parametrize(
    ("disk", "shown"),
    [
        (TEXT.replace("\n", "\r\n").encode(), TEXT.replace("\n", "\r\n")),
        (b"\xef\xbb\xbf" + TEXT.encode(), TEXT),
        (TEXT.encode("utf-16"), TEXT),
        (TEXT.removesuffix("\n").encode(), TEXT.removesuffix("\n")),
    ],
    ids=["crlf", "bom", "utf-16", "no last newline"],
)
async def test_the_form_of_a_file_is_kept_through_its_editor(home: Home, disk: bytes, shown: str) -> None:
    """A02, A03: what is compared is the bytes that saving would write; the accept changes the words alone."""
    mine = home.root / "a.txt"
    mine.write_bytes(disk)
    async with home.room() as kit:
        session = await kit.begin()
        editor = ShownEditor(kit.house.buffers, "one")
        editor.open(mine, shown)
        await kit.send(session)
        await kit.idle(session)
        done = await kit.call("change/accept", kit.decision(session, (await kit.changes(session))["a.txt"]))
        assert done.in_editors == ("a.txt",)
        assert editor.text(mine) == shown.replace("line 2\r", "second\r").replace("line 2\n", "second\n")


async def test_what_no_editor_can_be_given_is_written_where_it_is_saved(home: Home) -> None:
    """Mixed line ends: as a file if the document is as saved, refused in words if it is not."""
    mine = home.root / "a.txt"
    mixed = TEXT.replace("line 9\n", "line 9\r\n")
    mine.write_bytes(mixed.encode())
    async with home.room() as kit:
        session = await kit.begin()
        editor = ShownEditor(kit.house.buffers, "one")
        uri = editor.open(mine, mixed)
        await kit.send(session)
        await kit.idle(session)
        change = (await kit.changes(session))["a.txt"]
        editor.type(uri, mixed + "unsaved\n")
        refused = await kit.refused("change/accept", kit.decision(session, change))
        assert "no editor can make this change" in refused.message
        editor.type(uri, TEXT)  # an editor that shows it with one kind of line end has changed nothing
        done = await kit.call("change/accept", kit.decision(session, change))
        assert (done.in_editors, editor.asked) == ((), [])
        assert mine.read_bytes() == mixed.replace("line 2\n", "second\n").encode()


async def test_a_death_while_an_editor_is_asked_is_told(home: Home) -> None:
    """The intent is on disk before the question; the next daemon says that what the editor holds is not known."""
    async with proposed(home, silent) as (kit, session, editor, _):
        actor = kit.actor(session)
        chosen = [Selected(change.change_id, change.digest) for change in (await kit.changes(session)).values()]
        plan = (await actor.workspace.plan_accept(chosen)).as_json()
        start(actor, await actor.submit(ApplyRequested("apply-1", "accept", plan, "test")))
        with anyio.fail_after(50):
            while not editor.asked:
                await anyio.sleep(0.01)
    async with home.room() as kit:
        await kit.sessions.open(session)
        (told,) = await kit.bodies(session, "ChangeUnsettled")
        assert {row["path"]: row["holds"] for row in told["states"]}["a.txt"] == "suspect"
        assert not (home.root / "b.txt").exists()
        assert set(await kit.changes(session)) == {"a.txt", "b.txt"}


async def test_one_of_two_editors_refuses(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files in two editors in one decision: what the first did is taken back, and both show what they showed."""
    monkeypatch.setattr(handing, "SHOWN_S_MAX", 0.2)
    home.write(c__txt="one\n")
    edits = [EDIT, call("edit_file", path="c.txt", old="one\n", new="two\n")]
    home.play({"when": {"turns_total": 0}, "calls": edits}, {"text": "Done."})
    async with proposed(home) as (kit, session, editor, mine):
        other, second = ShownEditor(kit.house.buffers, "two", lying), home.root / "c.txt"
        other.open(second)
        refused = await kit.refused("change/accept", kit.decision(session, *(await kit.changes(session)).values()))
        assert refused.code is ErrorCode.CHANGE_CONFLICT
        assert (editor.text(mine), other.text(second)) == (TEXT, "one\n")
        assert set(await kit.changes(session)) == {"a.txt", "c.txt"}
        other.behaviour = faithful
        await kit.call("change/accept", kit.decision(session, *(await kit.changes(session)).values()))
        assert (editor.text(mine), other.text(second)) == (WANTED, "two\n")


async def test_words_typed_while_the_edit_comes_are_no_failure(home: Home) -> None:
    """An editor tells the edit and what was typed since as one change: the edit is in it, and so are the words."""
    async with proposed(home) as (kit, session, editor, mine):

        async def typed_at_once(shown: ShownEditor, edits: Sequence[DocumentEdit]) -> str | None:
            shown.type(edits[0].uri, edits[0].new_text.replace("line 20\n", "typed at once\n"))
            return None

        editor.behaviour = typed_at_once
        await kit.call("change/accept", kit.decision(session, (await kit.changes(session))["a.txt"]))
        assert editor.text(mine) == WANTED.replace("line 20\n", "typed at once\n")
        (drift,) = await kit.actor(session).workspace.drift()
        assert drift.path == "a.txt"


async def test_an_edit_at_the_wrong_place_is_told_as_suspect(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """An editor that checks no version makes it in other text: no file is written, and the document is named."""
    monkeypatch.setattr(handing, "SHOWN_S_MAX", 0.2)
    async with proposed(home) as (kit, session, editor, mine):

        async def misplaced(shown: ShownEditor, edits: Sequence[DocumentEdit]) -> str | None:
            shown.type(edits[0].uri, TEXT.replace("line 1\n", "typed\nsecond\n"))
            return None

        editor.behaviour = misplaced
        refused = await kit.refused("change/accept", kit.decision(session, *(await kit.changes(session)).values()))
        assert refused.code is ErrorCode.CHANGE_UNSETTLED
        assert refused.data["states"]["a.txt"] == "suspect"
        assert not (home.root / "b.txt").exists()
        assert mine.read_text() == TEXT
