"""A daemon that is asked to end while it works: gone at once, nothing lost, nothing left."""

import asyncio
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from tests.kit.daemon import Daemon, allow_all, request_id, send, start_session, trust

from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.turn import TurnCancelParams
from gloveport.server.client.connect import Client

WAIT_S = 60.0
STEPS: list[dict[str, Any]] = [
    {"when": {"user_contains": "run", "turn": 0}, "calls": [{"name": "run_command", "arguments": {
        "argv": ["sh", "-c", "echo began > began; exec sleep 47.25"]}}]},
    {"when": {"turn": 0}, "text": "ab", "chunk_chars": 1, "wait_after_chunks": 1, "wait_for_file": "never"},
]  # fmt: skip


async def until_shown(client: Client, session_id: str, field: str) -> None:
    """Wait until a field of the session's detail is set."""
    async with asyncio.timeout(WAIT_S):
        while not getattr(await client.call("session/show", SessionParams(session_id=session_id)), field):
            await asyncio.sleep(0.02)


def sleeping() -> list[str]:
    """Processes of this test's program."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if words.startswith(b"sleep\x0047.25"):
            found.append(entry.name)
    return found


async def test_a_busy_daemon_ends_without_waiting_for_what_it_does(tmp_path: Path) -> None:
    """A running program and a streaming answer: SIGTERM ends the daemon with 0 while both go on; the next one finds
    the program and asks for the answer again, stops both when told, and no process is left."""
    home = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
    script = home / "script.json"
    script.write_text(json.dumps({"name": "ends", "steps": STEPS}))
    daemon = Daemon(home)
    model = f'[[models]]\nprovider = "scripted"\nmodel = "test"\nscript = "{script}"\n'
    daemon.write_settings(f'{model}[sandbox]\ntrusted = "process"\n')
    try:
        daemon.start()
        async with daemon.client() as client:
            await trust(client, tmp_path, "trusted")
            one, two = [(await start_session(client, tmp_path)).session_id for _ in range(2)]
            await send(client, one, "run")
            await until_shown(client, one, "pending_approvals")
            assert await allow_all(client, one) == 1
            await send(client, two, "talk")
            async with asyncio.timeout(WAIT_S):
                while not (home / "sessions" / one / "worktree" / "began").exists():
                    await asyncio.sleep(0.02)
            assert await asyncio.to_thread(daemon.stop) == 0
        assert len(sleeping()) == 1
        daemon.start()
        async with daemon.client() as client:
            for session in (one, two):
                cancel = TurnCancelParams(client_request_id=request_id(), session_id=session)
                await client.call("turn/cancel", cancel)
                async with asyncio.timeout(WAIT_S):
                    while (await client.call("session/show", SessionParams(session_id=session))).turn_id is not None:
                        await asyncio.sleep(0.02)
        assert sleeping() == []
        assert "Traceback" not in daemon.log()
    finally:
        daemon.kill()
        shutil.rmtree(home, ignore_errors=True)
