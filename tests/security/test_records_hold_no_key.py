"""A key of the daemon's environment that a command names is in no record that is kept for showing."""

import json
import re
from pathlib import Path

from tests.kit.daemon import run_turn, running_daemon, send, start_session, trust
from tests.kit.require import require_bubblewrap

from gloveport.protocol.wire.session import SessionExportParams

TOLD = re.compile("•••(?:[0-9a-f]•){5}[0-9a-f]•••")
"""What stands in a secret's place: the same wherever the same secret stood."""
KEY = "sk-live-0123456789abcdefghijklmnopqrstuv"


async def test_a_key_named_by_the_model_stays_out_of_audit_log_output_and_export(tmp_path: Path) -> None:
    """The audit log, the daemon's log, what a call shows and the export are without it; the call itself ran with it."""
    require_bubblewrap()
    root = tmp_path / "root"
    root.mkdir()
    call = {"name": "run_command", "arguments": {"argv": ["sh", "-c", f"printf %s {KEY} > out; cat out"]}}
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"name": "key", "steps": [{"when": {"turn": 0}, "calls": [call]}, {"text": "Done."}]}))
    with running_daemon(script) as daemon:
        daemon.kill()
        daemon.start(OPENAI_API_KEY=KEY)
        async with daemon.client() as client:
            await trust(client, root)
            session_id = (await start_session(client, root, provider="scripted", model="test")).session_id
            await send(client, session_id, "go")
            assert await run_turn(client, session_id) == "completed"
            follow = client.follow(session_id)
            await anext(follow)
            tool = next(item["fields"] for item in follow.view.items() if item["kind"] == "tool")
            exported = await client.call("session/export", SessionExportParams(session_id=session_id))
            assert (await client.call("audit/verify")).ok
        assert (daemon.home / "sessions" / session_id / "worktree" / "out").read_text() == KEY
        audit = (daemon.home / "audit.jsonl").read_text()
        assert "printf" in audit
        shown = {
            "audit": audit,
            "log": daemon.log(),
            "output": tool["output"] + tool["result"],
            "export": str(exported),
        }
    assert [name for name, text in shown.items() if KEY in text] == []
    told = {name: set(TOLD.findall(text)) for name, text in shown.items()}
    assert (told["audit"], len(told["audit"])) == (told["output"], 1)
