"""What the recorded daemon is made to do.

Purpose: one user's afternoon over three lives of a daemon: edits, a command, cards, streamed words, decisions, an undo,
a stop and a kill, so that every kind of file is written.
Invariant: the same calls in the same order each time; every answer is awaited before the next demand.
Must never: look at the daemon's files.
"""

import json
from pathlib import Path
from typing import Any

from tests.kit.daemon import Daemon, request_id, run_turn, send, start_session, trust
from tests.kit.proof.workload import SECRET

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.change import ChangeDecideParams, ChangeUndoParams, Selection
from gloveport.protocol.wire.policy import SessionRulesParams
from gloveport.protocol.wire.session import SessionEraseParams
from gloveport.server.client.connect import Client
from gloveport.server.commands.session import MARK_CHARACTERS

FILES = {
    "src/a.py": "def a():\n    return 1\n",
    "src/b.py": "".join(f"line {number}\n" for number in range(400)),
    "gone.txt": "to be removed\n",
    "README.md": "A project.\n",
    "tool.py": "import pathlib\n\npathlib.Path('ran.txt').open('a').write('ran\\n')\nprint('x' * 3000)\n",
}
RULES = """\
version = 1
[[rule]]
id = "own.no-network"
effects = ["network"]
verdict = "deny"
justification = "Not in this session."
match = [{ effect = "network", target = "a.example:443" }]
"""
LEAK = "print(('tok-%s-%s ' % ('93Q7xyzzy', 'erased')) * 4000)"
TALK = "A long answer of many words. " * 12


def write_project(root: Path) -> None:
    """The user's files."""
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def write_script(folder: Path) -> Path:
    """The model's part."""
    path = folder / "script.json"
    path.write_text(json.dumps({"name": "power", "steps": _steps(folder)}))
    return path


def _call(name: str, **arguments: object) -> dict[str, object]:
    return {"name": name, "arguments": arguments}


def _steps(folder: Path) -> list[dict[str, Any]]:
    def step(word: str, turn: int, text: str, *calls: dict[str, object]) -> dict[str, Any]:
        return {"when": {"user_contains": word, "turn": turn}, "text": text, "calls": list(calls)}

    edit = _call("edit_file", path="src/a.py", old="return 1", new="return 2")
    made = _call("write_file", path="new/deep/made.txt", content="made\n" * 2000)
    again = _call("edit_file", path="src/a.py", old="return 2", new="return 3")
    wide = _call("edit_file", path="src/b.py", old="line 200\n", new="line two hundred\n")
    return [
        step("first", 0, TALK, edit, made),
        step("first", 1, "I run it.", _call("run_command", argv=["python3", "tool.py"])),
        step("first", 2, "I clean up.", _call("delete_file", path="gone.txt")),
        step("first", 3, "Done. " + TALK),
        step("second", 0, "More.", again, wide),
        step("second", 1, "Once more.", _call("run_command", argv=["python3", "tool.py"])),
        step("second", 2, TALK),
        step("third", 0, "Last.", _call("write_file", path="README.md", content="Another project.\n")),
        step("third", 1, "Ready."),
        step("leak", 0, "I print it.", _call("run_command", argv=["python3", "-c", LEAK])),
        step("leak", 1, f"It is {SECRET}. " + TALK),
        step("after", 0, "Going on.", _call("write_file", path="after.txt", content="after\n")),
        step("after", 1, "It goes on."),
        {
            "when": {"user_contains": "hang"},
            "text": TALK,
            "wait_for_file": str(folder / "never"),
            "wait_after_chunks": 6,
        },
        {"text": "Going on."},
    ]


async def _pending(client: Client, session_id: str) -> dict[str, Selection]:
    changes = (await client.call("change/list", SessionParams(session_id=session_id))).changes
    return {one.path: Selection(change_id=one.change_id, digest=one.digest) for one in changes}


async def _decide(client: Client, session_id: str, method: Any, *paths: str) -> str:
    pending = await _pending(client, session_id)
    chosen = tuple(pending[path] for path in (paths or tuple(pending)))
    params = ChangeDecideParams(client_request_id=request_id(), session_id=session_id, selections=chosen)
    return str((await client.call(method, params)).apply_id)


async def first_life(daemon: Daemon, root: Path) -> str:
    """A session, a turn with every kind of call, a decision; the session's id."""
    async with daemon.client() as client:
        await trust(client, root)
        session_id = (await start_session(client, root)).session_id
        await send(client, session_id, "first")
        assert await run_turn(client, session_id) == "completed"
        await _decide(client, session_id, "change/accept", "src/a.py", "new/deep/made.txt", "gone.txt")
        return session_id


async def second_life(daemon: Daemon, root: Path, session_id: str) -> None:
    """More of the same session, an undo, and a second session whose answer hangs."""
    async with daemon.client() as client:
        await send(client, session_id, "second")
        assert await run_turn(client, session_id) == "completed"
        await _decide(client, session_id, "change/reject", "ran.txt")
        done = await _decide(client, session_id, "change/accept")
        params = ChangeUndoParams(client_request_id=request_id(), session_id=session_id, apply_id=done)
        await client.call("change/undo", params)
        other = (await start_session(client, root)).session_id
        await send(client, other, "hang")
        async for _ in (follow := client.follow(other)):
            if any("words" in str(item["fields"].get("text")) for item in follow.view.items()):
                return


async def third_life(daemon: Daemon, session_id: str) -> None:
    """After the kill: rules, a text that is typed, printed and said and in the end erased, more turns, a decision."""
    async with daemon.client() as client:
        rules = SessionRulesParams(client_request_id=request_id(), session_id=session_id, text=RULES)
        await client.call("session/rules", rules)
        await send(client, session_id, f"leak {SECRET}")
        assert await run_turn(client, session_id) == "completed"
        await send(client, session_id, "third")
        assert await run_turn(client, session_id) == "completed"
        await _decide(client, session_id, "change/accept", "README.md")
        await _erase(client, session_id)
        await send(client, session_id, "third")
        assert await run_turn(client, session_id) == "completed"


async def _erase(client: Client, session_id: str) -> None:
    """Once no reader holds the old bytes."""
    while True:
        params = SessionEraseParams(
            client_request_id=request_id(), session_id=session_id, text=SECRET, typed=session_id[-MARK_CHARACTERS:]
        )
        try:
            await client.call("session/erase", params)
        except GloveportError as error:
            if error.code is not ErrorCode.BUSY:
                raise
        else:
            return


async def whole(daemon: Daemon, root: Path, *, only_first: bool = False) -> None:
    """All three lives, or the first alone; the last one ends in good order."""
    daemon.start()
    session_id = await first_life(daemon, root)
    if only_first:
        async with daemon.client() as client:
            await _decide(client, session_id, "change/reject", "ran.txt")  # made in a jail: its mode is not recorded
        daemon.stop()
        return
    daemon.stop()
    daemon.start()
    await second_life(daemon, root, session_id)
    daemon.kill()
    daemon.start()
    await third_life(daemon, session_id)
    daemon.stop()
