"""Pending hunks in an editor that knows LSP alone: lenses, actions and commands over a real daemon."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.kit.daemon import Daemon, run_turn, running_daemon, send, start_session, trust
from tests.kit.editor import CAPABILITIES, EditorClient, editor_client, script_of

TEXT = "".join(f"line {number}\n" for number in range(1, 31))
EDITS = (
    ("edit_file", {"path": "a.txt", "old": "line 2\n", "new": "second\n"}),
    ("edit_file", {"path": "a.txt", "old": "line 29\n", "new": "last but one\n"}),
)


@asynccontextmanager
async def proposed(tmp_path: Path, **capabilities: Any) -> AsyncIterator[tuple[Daemon, EditorClient, Path]]:
    """A daemon whose agent proposes two hunks, and an editor with the file open."""
    root = tmp_path / "root"
    root.mkdir()
    mine = root / "a.txt"
    mine.write_text(TEXT)
    with running_daemon(script_of(tmp_path, EDITS)) as daemon:
        async with daemon.client() as client:
            await trust(client, root)
            session = await start_session(client, root)
            await send(client, session.session_id, "go")
            assert await run_turn(client, session.session_id) == "completed"
        async with editor_client(daemon, **capabilities) as editor:
            await editor.open(mine)
            yield daemon, editor, mine


async def shows(editor: EditorClient, mine: Path, text: str) -> None:
    """Wait until the document has this text: a command is answered before its end where that takes a while."""
    while editor.documents[mine.as_uri()].text != text:
        await asyncio.sleep(0.02)


async def test_lenses_and_actions_stand_at_the_hunks(tmp_path: Path) -> None:
    """Each pending hunk has its lenses; an action is a plain command, none for who asks by kind or by itself."""
    async with proposed(tmp_path) as (_, editor, mine):
        lenses = await editor.lenses(mine)
        assert {row["range"]["start"]["line"] for row in lenses} == {1, 28}
        titles = [row["command"]["title"] for row in lenses if row["range"]["start"]["line"] == 1]
        assert any("accept this (+1 −1)" in title for title in titles)
        actions = await editor.actions(mine, 1)
        assert [row["command"] for row in actions][:2] == ["gloveport.acceptHunk", "gloveport.rejectHunk"]
        assert not any("edit" in row or "kind" in row for row in actions)
        assert await editor.actions(mine, 1, only=["quickfix"]) == []
        assert await editor.actions(mine, 1, triggerKind=2) == []
        assert [row["command"] for row in await editor.actions(mine, 10)] == ["gloveport.nextHunk"]


async def test_one_is_accepted_and_one_rejected(tmp_path: Path) -> None:
    """The file holds the accepted hunk alone; a lens that was rendered before is refused afterwards."""
    async with proposed(tmp_path) as (_, editor, mine):
        accept, reject, *_ = await editor.actions(mine, 1)
        accepted = await editor.execute(accept)
        assert accepted["result"] is None or accepted["result"]["inEditors"] == ["a.txt"]
        await shows(editor, mine, TEXT.replace("line 2\n", "second\n"))
        (asked,) = editor.asked
        (change,) = asked["edit"]["documentChanges"]
        assert change["textDocument"] == {"uri": mine.as_uri(), "version": 1}
        assert list(asked["edit"]["changeAnnotations"]) == [row["annotationId"] for row in change["edits"]]
        assert mine.read_text() == TEXT  # what is in an editor is saved there
        late = await editor.execute(reject)
        assert late["error"]["data"]["code"] == "change.superseded"
        assert "look again" in late["error"]["message"]
        _, reject, *_ = await editor.actions(mine, 28)
        assert "result" in await editor.execute(reject)
        assert await editor.lenses(mine) == []
        await editor.save(mine)
        assert mine.read_text() == TEXT.replace("line 2\n", "second\n")


async def test_of_a_conflict_either_side_is_taken(tmp_path: Path) -> None:
    """Where the user changed the same lines: the shown ones give way or stay; newer ones are not written over."""
    async with proposed(tmp_path) as (_, editor, mine):
        document = editor.documents[mine.as_uri()]
        typed = TEXT.replace("line 2\n", "mine 2\n").replace("line 29\n", "mine 29\n")
        editor.type(mine.as_uri(), typed)
        take, keep, *_ = await editor.actions(mine, 1)
        assert (take["command"], keep["command"]) == ("gloveport.takeHunk", "gloveport.rejectHunk")
        assert "meets your edit" in take["title"]
        assert not any(row["command"] == "gloveport.acceptHunk" for row in await editor.actions(mine, 1))
        newer = typed.replace("mine 2\n", "newer 2\n")
        editor.type(mine.as_uri(), newer)
        refused = await editor.execute(take)
        assert (refused["error"]["data"]["code"], document.text) == ("change.conflict", newer)
        take, _, *_ = await editor.actions(mine, 1)
        taken = newer.replace("newer 2\n", "second\n")
        assert "result" in await editor.execute(take)
        await shows(editor, mine, taken)
        while len(rows := await editor.actions(mine, 28)) == 0 or await editor.actions(mine, 1) == rows:
            await asyncio.sleep(0.02)
        assert "result" in await editor.execute(rows[1])
        while await editor.lenses(mine):
            await asyncio.sleep(0.02)
        assert document.text == taken
        bare = {"command": "gloveport.takeHunk", "arguments": [{**take["arguments"][0], "userDigest": None}]}
        assert (await editor.execute(bare))["error"]["data"]["code"] == "rpc.invalid_params"


async def test_without_the_token_an_editor_looks_and_does_not_decide(tmp_path: Path) -> None:
    """The same rule as on the wire: no proof, no decision."""
    async with proposed(tmp_path, deciding=False) as (_, editor, mine):
        accept = (await editor.actions(mine, 1))[0]
        refused = await editor.execute(accept)
        assert refused["error"]["data"]["code"] == "auth.decision_token"
        assert mine.read_text() == TEXT


async def test_an_editor_has_its_reply_before_it_shows_the_change(tmp_path: Path) -> None:
    """One that shows its change only when it is answered is not waited for; a refusal after that is a message."""
    async with proposed(tmp_path) as (_, editor, mine):
        editor.behaviour = lambda _editor, _params: {"applied": True}  # and does nothing
        accept = (await editor.actions(mine, 1))[0]
        assert (await editor.execute(accept))["result"] is None
        assert not editor.told, "it has its reply while the change is still waited for"
        while not editor.told:
            await asyncio.sleep(0.05)
        (told,) = editor.told
        assert told["method"] == "window/showMessage"
        assert "does not show it" in told["params"]["message"]
        assert len(await editor.lenses(mine)) == 7


async def test_lenses_are_asked_for_anew_when_proposals_change(tmp_path: Path) -> None:
    """An editor that can is told, also of what is decided elsewhere; one that said nothing of it is not asked."""
    more = {**CAPABILITIES, "workspace": {**CAPABILITIES["workspace"], "codeLens": {"refreshSupport": True}}}
    async with proposed(tmp_path, capabilities=more) as (daemon, editor, mine), editor_client(daemon) as plain:

        def told() -> int:
            return sum(one["method"] == "workspace/codeLens/refresh" for one in editor.told)

        await plain.open(mine)
        known = told()
        await plain.execute((await plain.actions(mine, 28))[1])
        lenses = 0
        while lenses != 5:  # an editor asks again each time it is told, which may also be of what was proposed before
            while told() == known:
                await asyncio.sleep(0.02)
            known = told()
            lenses = len(await editor.lenses(mine))
        assert plain.told == []


async def test_next_goes_round(tmp_path: Path) -> None:
    """From hunk to hunk, and from the last to the first."""
    async with proposed(tmp_path) as (_, editor, mine):
        lines = []
        for line in (1, 28):
            command = next(row for row in await editor.actions(mine, line) if row["command"] == "gloveport.nextHunk")
            found = await editor.execute({**command, "arguments": [{**command["arguments"][0], "line": line}]})
            lines.append(found["result"]["range"]["start"]["line"])
        assert lines == [28, 1]


@pytest.mark.parametrize("command", ["gloveport.acceptHunk", "gloveport.nothing", "rm"])
async def test_bad_commands_are_refused_by_name(tmp_path: Path, command: str) -> None:
    """A missing argument names what is needed; an unknown command is none of ours."""
    async with proposed(tmp_path) as (_, editor, _mine):
        refused = await editor.execute({"command": command, "arguments": []})
        code = refused["error"]["data"]["code"]
        assert code == ("rpc.invalid_params" if command.endswith("acceptHunk") else "rpc.method_not_found")
