"""Why a call failed, when the sandbox refused something: the first refused call by name, and what can be done."""

import json
from pathlib import Path

from tests.kit.daemon import run_turn, running_daemon, send, start_session, trust
from tests.kit.require import require_bubblewrap

from gloveport.protocol.wire.turn import WhyParams

PROGRAM = r"""
import ctypes, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mount(b"none", b"/mnt/data", b"tmpfs", 0, None)
try:
    socket.socket(40, socket.SOCK_STREAM)
except OSError:
    sys.exit("could not mount /mnt/data")
"""


async def test_why_names_the_first_refused_call(tmp_path: Path) -> None:
    """The model is told too; a call that was refused nothing says nothing of it."""
    require_bubblewrap()
    root = tmp_path / "root"
    root.mkdir()
    (root / "mounts.py").write_text(PROGRAM)
    commands = (["python3", "mounts.py"], ["python3", "-c", "raise SystemExit(143)"])
    calls = [{"name": "run_command", "arguments": {"argv": argv}} for argv in commands]
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"name": "r", "steps": [{"when": {"turn": 0}, "calls": calls}, {"text": "Done."}]}))
    with running_daemon(script) as daemon:
        async with daemon.client() as client:
            await trust(client, root)
            session = await start_session(client, root, provider="scripted", model="test")
            await send(client, session.session_id, "go")
            assert await run_turn(client, session.session_id) == "completed"
            follow = client.follow(session.session_id)
            await anext(follow)
            items = {item["id"]: item["fields"] for item in follow.view.items() if item["kind"] == "tool"}
            told = [
                await client.call(
                    "tool/why", WhyParams(session_id=session.session_id, call_id=one.removeprefix("tool/"))
                )
                for one in items
            ]
    first, second = told
    assert (first.outcome, first.first_refused) == ("failed", "mount /mnt/data")
    assert "the sandbox refused: mount /mnt/data, socket(vsock)" in first.evidence
    assert "level 2" in first.evidence
    assert "the sandbox refused: mount /mnt/data" in next(iter(items.values()))["result"]
    assert (second.outcome, second.first_refused) == ("failed", "")
    assert "level 0" in second.evidence
