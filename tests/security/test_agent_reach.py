"""A command of the agent, run through the whole daemon, tries to reach the daemon and the user's keys."""

import json
from pathlib import Path
from typing import Any

from tests.kit.daemon import run_turn, running_daemon, send, start_session, trust
from tests.kit.require import require_bubblewrap

PROBE = r"""
import json, os, socket, stat, sys
seen = {}
for name in sys.argv[1:]:
    try:
        with open(name, "rb") as file:
            seen[name] = len(file.read(16))
    except OSError as error:
        seen[name] = type(error).__name__
    if name.endswith(".sock"):
        link = socket.socket(socket.AF_UNIX)
        try:
            link.connect(name)
            seen[name] = "connected"
        except OSError as error:
            seen[name] = type(error).__name__
fds = {}
for name in os.listdir("/proc/self/fd"):
    try:
        fds[name] = "pipe" if stat.S_ISFIFO(os.fstat(int(name)).st_mode) else "other"
    except OSError:
        pass
try:
    socket.create_connection(("127.0.0.1", 9), 1)
    network = "open"
except OSError as error:
    network = type(error).__name__
print("PROBE" + json.dumps({"seen": seen, "fds": fds, "environment": sorted(os.environ), "network": network}))
"""


async def test_a_command_of_the_agent_reaches_nothing_of_the_daemon(tmp_path: Path) -> None:
    """Socket, token, journal, audit log, its key, settings, and keys in the daemon's environment: none is reached."""
    require_bubblewrap()
    root = tmp_path / "root"
    root.mkdir()
    (root / "probe.py").write_text(PROBE)
    script = tmp_path / "script.json"
    key = tmp_path / "ssh" / "id_ed25519"
    key.parent.mkdir()
    key.write_text("PRIVATE KEY")
    with running_daemon(script_for(script, [])) as daemon:
        names = ["daemon.sock", "decision.token", "journal.db", "audit.jsonl", "audit.jsonl.key", "config.toml"]
        targets = [*(str(daemon.home / name) for name in names), str(key)]
        script_for(script, targets)
        daemon.kill()
        daemon.start(OPENAI_API_KEY="sk-not-to-be-seen")
        async with daemon.client() as client:
            await trust(client, root)
            session = await start_session(client, root, provider="scripted", model="test")
            await send(client, session.session_id, "go")
            assert await run_turn(client, session.session_id) == "completed"
            follow = client.follow(session.session_id)
            await anext(follow)
        result = next(item["fields"]["result"] for item in follow.view.items() if item["kind"] == "tool")
        found: dict[str, Any] = json.loads(result[result.index("PROBE") + 5 :].splitlines()[0])
        assert set(found["seen"]) == set(targets)
        assert all(isinstance(seen, str) and seen.endswith("Error") for seen in found["seen"].values()), found["seen"]
        opened = {name: kind for name, kind in found["fds"].items() if kind != "other"}
        assert set(opened) == {"0", "1", "2"}
        assert not [name for name in found["environment"] if "KEY" in name or "TOKEN" in name]
        assert "sk-not-to-be-seen" not in (daemon.home / "test.log").read_text()


def script_for(path: Path, targets: list[str]) -> Path:
    """A model that starts the probe."""
    call = {"name": "run_command", "arguments": {"argv": ["python3", "probe.py", *targets]}}
    path.write_text(json.dumps({"name": "reach", "steps": [{"when": {"turn": 0}, "calls": [call]}, {"text": "Done."}]}))
    return path
