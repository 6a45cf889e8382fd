"""A whole turn of the scripted model: read, edit, run the tests in the sandbox; less the same tests in the same jail.

Run: `make bench`, or `PYTHONPATH=. python tests/bench/bench_turn.py`. While a turn runs, the very request of its test
run is taken from the runs folder; afterwards bubblewrap is started with it directly, and what is left of the turn is
ours: journal, policy, card and answer, edit, audit, supervisor, report.
"""

import asyncio
import json
import shutil
import tempfile
import time
from pathlib import Path

from tests.bench.bench_sandbox import run_bare
from tests.bench.report import heading, spread, tell
from tests.kit.daemon import TURN_ENDS, Daemon, allow_all, running_daemon, send, start_session, trust

from gloveport.protocol.jail.codec import JailFormatError
from gloveport.protocol.jail.requests import RunRequest
from gloveport.sandbox.runner import rundir
from gloveport.server.cli.demo_repo import materialise

ROUNDS = 7
EDIT = {
    "path": "tinystat/stats.py",
    "old": "    return ordered[len(ordered) // 2]\n",
    "new": "    half = len(ordered) // 2\n    return (ordered[half] + ordered[~half]) / 2\n",
}
STEPS = (
    ("read_file", {"path": "tinystat/stats.py"}),
    ("edit_file", EDIT),
    ("run_tests", {}),
)


def write_script(folder: Path) -> Path:
    """Read, edit, test, say so; without a pause."""
    steps = [
        {"when": {"turn": turn}, "text": f"{name}\n", "calls": [{"name": name, "arguments": arguments}]}
        for turn, (name, arguments) in enumerate(STEPS)
    ]
    script = folder / "script.json"
    script.write_text(json.dumps({"name": "bench", "steps": steps, "fallback": {"text": "Done."}}))
    return script


async def catch_request(runs: Path) -> RunRequest:
    """The request of the run that begins next."""
    known = set(runs.rglob(rundir.REQUEST_FILE))
    while True:
        for path in set(runs.rglob(rundir.REQUEST_FILE)) - known:
            try:
                return rundir.read_request(path.parent)
            except (OSError, JailFormatError):
                continue  # not whole yet, or forgotten again
        await asyncio.sleep(0.001)


async def one_turn(daemon: Daemon, root: Path) -> tuple[float, float]:
    """Milliseconds of the turn, and of its tests alone in the same jail."""
    materialise(root)
    async with daemon.client() as client:
        session_id = (await start_session(client, root, sandbox="bubblewrap")).session_id
        follow, state = client.follow(session_id), ""
        catching = asyncio.create_task(catch_request(daemon.places.data_dir / "runs"))
        began = time.perf_counter()
        await send(client, session_id, "go")
        async for update in follow:
            if any(event.type == "ApprovalRequested" for event in update.events):
                await allow_all(client, session_id)
            turns = [item["fields"]["state"] for item in follow.view.items() if item["kind"] == "turn"]
            if turns and turns[-1] in TURN_ENDS:
                state = turns[-1]
                break
        took = (time.perf_counter() - began) * 1000
        tests = [item["fields"] for item in follow.view.items() if item["kind"] == "tests"]
        assert state == "completed"
        assert [run["failed"] for run in tests] == [0]
        request = await asyncio.wait_for(catching, 1)
    began = time.perf_counter()
    await asyncio.to_thread(run_bare, request)
    return took, (time.perf_counter() - began) * 1000


async def main() -> None:
    """Print the figures."""
    heading("scripted tool turn: read, edit, pytest in bubblewrap")
    folder = Path(tempfile.mkdtemp(prefix="gp-bench-"))
    try:
        with running_daemon(write_script(folder)) as daemon:
            root = folder / "tinystat"
            materialise(root)
            async with daemon.client() as client:
                await trust(client, root)
            rows = [await one_turn(daemon, root) for _ in range(ROUNDS + 1)][1:]
    finally:
        shutil.rmtree(folder)
    tell("the whole turn, p50", spread([turn for turn, _ in rows])[0], "ms")
    tell("its tests alone, same jail, p50", spread([bare for _, bare in rows])[0], "ms")
    tell("ours: turn less its tests, p50", spread([turn - bare for turn, bare in rows])[0], "ms", 120)


if __name__ == "__main__":
    asyncio.run(main())
