"""Where a hunk stands is one thing: list, preview, hunks of a document, lenses and command line say the same."""

import asyncio
from pathlib import Path

from tests.kit.command_line import Cli
from tests.kit.daemon import Daemon, request_id, run_turn, running_daemon, send, start_session, trust
from tests.kit.editor import editor_client, script_of

from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.change import (
    ChangeDecideParams,
    ChangeHunksParams,
    ChangeInfo,
    ChangePreviewParams,
    ChangeUndoParams,
    Selection,
)
from gloveport.server.cli.diffs import hunk_names
from gloveport.server.client.connect import Client

TEXT = "".join(f"line {number}\n" for number in range(1, 41))
FIRST = tuple(("edit_file", {"path": "a.txt", "old": f"line {n}\n", "new": f"first {n}\n"}) for n in (2, 10, 20, 30))
SECOND = (("edit_file", {"path": "a.txt", "old": "first 20\n", "new": "second 20\n"}),)


async def pending(client: Client, session_id: str) -> ChangeInfo:
    """The one proposal."""
    (change,) = (await client.call("change/list", SessionParams(session_id=session_id))).changes
    return change


async def states(client: Client, session_id: str) -> dict[str, str]:
    """By the line of the base (or the digest's beginning, of those that ended): the same from everywhere."""
    listed = await client.call("change/list", SessionParams(session_id=session_id))
    (change,) = listed.changes
    shown = await client.call("change/preview", ChangePreviewParams(session_id=session_id, change_id=change.change_id))
    hunks = (await client.call("change/hunks", ChangeHunksParams(session_id=session_id))).hunks
    assert [(hunk.hunk_digest, hunk.state) for hunk in hunks] == [(one.digest, one.state) for one in shown.change.hunks]
    assert shown.ended == listed.ended
    for hunk in hunks:
        assert (hunk.user_text is not None) == hunk.meets == (hunk.state == "conflicted")
    return {
        **{f"line {one.old_start + 1}": one.state for one in shown.change.hunks},
        **{one.digest[:8]: one.state for one in listed.ended},
    }


def diff_at_terminal(daemon: Daemon, root: Path, last: str) -> str:
    """What `gloveport diff` shows, up to these words."""
    with Cli(daemon).at_terminal("diff", cwd=root, columns=160) as shown:
        return shown.wait_for(last)


async def test_every_view_says_the_same(tmp_path: Path) -> None:
    """Accepted, rejected, changed by the agent, met by the user, taken back: each step, from every side."""
    root = tmp_path / "root"
    root.mkdir()
    mine = root / "a.txt"
    mine.write_text(TEXT)
    with running_daemon(script_of(tmp_path, FIRST, SECOND)) as daemon:
        async with daemon.client() as client:
            await trust(client, root)
            session = (await start_session(client, root)).session_id
            await send(client, session, "go")
            assert await run_turn(client, session) == "completed"
            change = await pending(client, session)
            lines = {f"line {hunk.old_start + 1}": hunk.digest for hunk in change.hunks}
            assert await states(client, session) == dict.fromkeys(lines, "pending")

            async def decide(verb: str, line: str) -> None:
                now = await pending(client, session)
                chosen = Selection(change_id=now.change_id, digest=now.digest, hunk_digests=(lines[line],))
                params = ChangeDecideParams(client_request_id=request_id(), session_id=session, selections=(chosen,))
                await client.call("change/accept" if verb == "accept" else "change/reject", params)

            await decide("accept", "line 2")
            await decide("reject", "line 10")
            name = {line: digest[:8] for line, digest in lines.items()}
            decided = {name["line 2"]: "accepted", name["line 10"]: "rejected"}
            waiting = {"line 20": "pending", "line 30": "pending"}
            assert await states(client, session) == decided | waiting
            await send(client, session, "go1")
            assert await run_turn(client, session) == "completed"
            decided |= {name["line 20"]: "superseded"}
            assert await states(client, session) == decided | waiting
            mine.write_text(mine.read_text().replace("line 30\n", "mine 30\n"))
            assert await states(client, session) == decided | waiting | {"line 30": "conflicted"}
            met = (await client.call("change/hunks", ChangeHunksParams(session_id=session))).hunks[-1]
            assert (met.old_text, met.new_text, met.user_text) == ("line 30\n", "first 30\n", "mine 30\n")
            async with editor_client(daemon) as editor:
                await editor.open(mine)
                titles = {row["command"]["title"] for row in await editor.lenses(mine)}
                assert any("conflicted: meets your edit" in title for title in titles)
            told = await asyncio.to_thread(diff_at_terminal, daemon, root, "1 superseded")
            names = hunk_names(await pending(client, session))
            (last,) = [names[hunk.hunk_id] for hunk in (await pending(client, session)).hunks if hunk.old_start == 29]
            assert f"hunk {last} (conflicted: you changed these lines too)" in told
            assert "before, of a.txt: 1 accepted, 1 rejected, 1 superseded" in told
            mine.write_text(mine.read_text().replace("mine 30\n", "first 30\n"))  # the very same: nothing is lost
            assert await states(client, session) == decided | waiting
            mine.write_text(mine.read_text().replace("first 30\n", "line 30\n"))
            undo = ChangeUndoParams(client_request_id=request_id(), session_id=session)
            await client.call("change/undo", undo)
            del decided[name["line 10"]]
            assert await states(client, session) == decided | waiting | {"line 10": "pending"}
