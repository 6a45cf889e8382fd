"""From a person's stop to its acknowledgement, and to the death of what ran, in the real daemon and bubblewrap.

Run: `make bench`, or `PYTHONPATH=. python tests/bench/bench_steering.py`. A command starts a tree of processes; the
tree is found from outside by an argument of its own. Stop, interrupt and correct are timed from the request to its
reply, and to the moment when no process of the tree is alive. An obedient tree ends at TERM, a stubborn one ignores it
and is killed after the grace.
"""

import asyncio
import json
import shutil
import tempfile
import time
from pathlib import Path

from tests.bench.report import heading, spread, tell
from tests.kit.daemon import TURN_ENDS, Daemon, allow_all, running_daemon, send, start_session, trust

from gloveport.protocol.wire.base import Empty
from gloveport.protocol.wire.turn import TurnCancelParams, TurnInterruptParams, TurnSteerParams
from gloveport.sandbox.profile import Profile
from gloveport.server.cli.link import request_id
from gloveport.server.client.connect import Client
from gloveport.server.client.follow import Follow

ROUNDS = 12
STUBBORN_ROUNDS = 4
CHILDREN = 4
ACKNOWLEDGED_MS = 20.0
GRACE_MS = Profile("label", "small", (), "/", None).grace_s * 1000  # type: ignore[arg-type] # only the default is read
DEAD_MS = GRACE_MS + 20.0
MARK = "gloveport-bench-tree"
TREE = f"""
import signal, subprocess, sys, time
if sys.argv[1] == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv) < 4:
    for _ in range({CHILDREN}):
        subprocess.Popen([sys.executable, *sys.orig_argv[1:], "child"])
    print("ready", flush=True)
time.sleep(600)
"""


def write_script(folder: Path) -> Path:
    """One command for each message that names a kind of tree; words for every other."""
    steps = [
        {"when": {"turn": 0, "user_contains": kind}, "calls": [
            {"name": "run_command", "arguments": {"argv": ["python3", "-c", TREE, kind, MARK], "timeout_s": 60}}]}
        for kind in ("obedient", "stubborn")
    ]  # fmt: skip
    steps.insert(0, {"when": {"user_contains": "no"}, "text": "Done."})
    script = folder / "script.json"
    script.write_text(json.dumps({"name": "bench", "steps": steps, "fallback": {"text": "Done."}}))
    return script


def tree() -> set[int]:
    """The living processes of the tree."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if MARK.encode() in words and b"-c" in words and words[0].endswith(b"python3"):
                found.add(int(entry.name))
    return found


def is_alive(pid: int) -> bool:
    """True until the process has ended, reaped or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


async def begin(client: Client, follow: Follow, session_id: str, kind: str) -> tuple[str, set[int]]:
    """Let the tree grow; the turn's id, and the tree's processes."""
    turn_id = await send(client, session_id, f"{kind} please") or ""
    async for _ in follow:
        items = follow.view.items()
        if any(item["kind"] == "approval" and item["fields"]["state"] == "pending" for item in items):
            await allow_all(client, session_id)
        if any(item["kind"] == "tool" and "ready" in item["fields"]["output"] for item in items):
            break
    while len(pids := tree()) < CHILDREN + 1:
        await asyncio.sleep(0.01)
    return turn_id, pids


async def end(client: Client, session_id: str, turn_id: str, verb: str) -> None:
    """Stop, interrupt or correct."""
    base = {"client_request_id": request_id(), "session_id": session_id}
    meant = base | {"expected_turn_id": turn_id, "text": "no"}
    if verb == "stop":
        await client.call("turn/cancel", TurnCancelParams.model_validate(base))
    elif verb == "interrupt":
        await client.call("turn/interrupt", TurnInterruptParams.model_validate(meant))
    else:
        await client.call("turn/steer", TurnSteerParams.model_validate(meant))


async def one_round(client: Client, root: Path, kind: str, verb: str) -> tuple[float, float]:
    """Milliseconds to the reply, and to the death of the tree."""
    session_id = (await start_session(client, root, sandbox="bubblewrap")).session_id
    async with client.follow(session_id) as follow:
        turn_id, pids = await begin(client, follow, session_id, kind)
        began = time.perf_counter()
        await end(client, session_id, turn_id, verb)
        acknowledged = (time.perf_counter() - began) * 1000
        while any(map(is_alive, pids)):
            await asyncio.sleep(0.0005)
        dead = (time.perf_counter() - began) * 1000
        async for _ in follow:
            turns = [item["fields"]["state"] for item in follow.view.items() if item["kind"] == "turn"]
            if turns and turns[-1] in TURN_ENDS:
                break
    return acknowledged, dead


async def bare(client: Client) -> float:
    """Milliseconds of a request that only reads: what the machine's load alone costs now."""
    began = time.perf_counter()
    await client.call("daemon/status", Empty())
    return (time.perf_counter() - began) * 1000


async def measure(daemon: Daemon, root: Path) -> None:
    """Print the figures."""
    async with daemon.client() as client:
        await trust(client, root)
        await one_round(client, root, "obedient", "stop")
        tell("a request that writes nothing, p50", spread([await bare(client) for _ in range(ROUNDS)])[0], "ms")
        for verb in ("stop", "interrupt", "correct"):
            rows = [await one_round(client, root, "obedient", verb) for _ in range(ROUNDS)]
            middle, late = spread([reply for reply, _ in rows])
            tell(f"{verb}: acknowledged, p50", middle, "ms", ACKNOWLEDGED_MS)
            tell(f"{verb}: acknowledged, p95", late, "ms", ACKNOWLEDGED_MS)
            tell(f"{verb}: obedient tree of {CHILDREN + 1} dead, p50", spread([d for _, d in rows])[0], "ms", DEAD_MS)
        stubborn = [await one_round(client, root, "stubborn", "stop") for _ in range(STUBBORN_ROUNDS)]
        tell("stop: stubborn tree dead, worst", max(dead for _, dead in stubborn), "ms", DEAD_MS)


async def main() -> None:
    """One daemon, one folder."""
    heading("stop, interrupt, correct: to the reply, and to the death of the tree (bubblewrap)")
    folder = Path(tempfile.mkdtemp(prefix="gp-bench-"))
    try:
        root = folder / "project"
        root.mkdir()
        (root / "a.txt").write_text("one\n")
        with running_daemon(write_script(folder)) as daemon:
            await measure(daemon, root)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    asyncio.run(main())
