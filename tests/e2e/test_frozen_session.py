"""Level 4 through the whole daemon: what tries many ways out freezes its session until the user types its mark."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit.daemon import request_id, run_turn, running_daemon, send, start_session, trust
from tests.kit.require import require_bubblewrap

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.session import SessionThawParams

ATTACK = """
import ctypes, platform
libc = ctypes.CDLL(None, use_errno=True)
both = {"x86_64": (165, 101, 250, 321, 272, 308, 304), "aarch64": (40, 117, 219, 280, 97, 268, 265)}
numbers = both[platform.machine()]
for number in numbers:  # mount, ptrace, keyctl, bpf, unshare, setns, open_by_handle_at
    libc.syscall(number, 0, 0, 0, 0, 0)
print("done")
"""


GONE_S = 60.0


def runs_of(home: Path, turn_id: str) -> list[Path]:
    """What is left of the runs of a turn's calls."""
    return [path for path in (home / "runs").rglob("*") if path.name.startswith(turn_id)]


def calls(script: Path) -> None:
    """A model that runs the attack and would read a file after it, and later just answers."""
    attack = {"name": "run_command", "arguments": {"argv": ["python3", "attack.py"]}}
    read = {"name": "read_file", "arguments": {"path": "attack.py"}}
    steps: list[dict[str, Any]] = [{"when": {"turns_total": 0}, "calls": [attack, read]}, {"text": "Done."}]
    script.write_text(json.dumps({"name": "attack", "steps": steps}))


async def test_an_attack_freezes_its_session_until_the_user_thaws_it(tmp_path: Path) -> None:
    require_bubblewrap()
    root, script = tmp_path / "root", tmp_path / "script.json"
    root.mkdir()
    (root / "attack.py").write_text(ATTACK)
    calls(script)
    with running_daemon(script) as daemon:
        async with daemon.client() as client:
            await trust(client, root)
            session = (await start_session(client, root, provider="scripted", model="test")).session_id
            other = (await start_session(client, root, provider="scripted", model="test")).session_id
            await send(client, session, "run it")
            assert await run_turn(client, session) == "cancelled"
            follow = client.follow(session)
            await anext(follow)
            items = {item["id"]: item["fields"] for item in follow.view.items()}
            tools = [fields for name, fields in items.items() if name.startswith("tool/")]
            assert [fields["state"] for fields in tools] == ["policy", "cancelled"]
            (freeze,) = (fields for name, fields in items.items() if name.startswith("freeze/"))
            assert "It tried several ways out of the sandbox" in freeze["words"]
            assert "mount" in freeze["evidence"]
            with anyio.fail_after(GONE_S):  # given back right after its end is written
                while runs_of(daemon.home, tools[0]["turnId"]):
                    await anyio.sleep(0.02)
        daemon.kill()
        daemon.start()
        async with daemon.client() as client:
            with pytest.raises(GloveportError) as caught:
                await send(client, session, "go on")
            assert caught.value.code is ErrorCode.SESSION_FROZEN
            await send(client, other, "another session works on")
            for typed in ("yes", session[-5:], session):
                with pytest.raises(GloveportError, match="it stays frozen"):
                    await client.call(
                        "session/thaw",
                        SessionThawParams(client_request_id=request_id(), session_id=session, typed=typed),
                    )
        async with daemon.client(deciding=False) as client:
            mark = SessionThawParams(client_request_id=request_id(), session_id=session, typed=session[-6:])
            with pytest.raises(GloveportError) as caught:
                await client.call("session/thaw", mark)
            assert caught.value.code is ErrorCode.DECISION_TOKEN
        async with daemon.client() as client:
            await client.call("session/thaw", mark)
            await send(client, session, "go on")
            assert await run_turn(client, session) == "completed"
        lines = [json.loads(line) for line in (daemon.home / "audit.jsonl").read_text().splitlines()]
    frozen, thawed = (line for line in lines if line["action"] in ("session_freeze", "session_thaw"))
    assert "mount" in frozen["params"]["evidence"]
    assert thawed["actor"] == "test"
