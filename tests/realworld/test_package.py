"""A real package, broken by a patch and mended by the agent through a real daemon and a real sandbox."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.kit.daemon import accept_all, run_turn, running_daemon, send, start_session, trust
from tests.kit.engines import shared_engine
from tests.kit.require import require_bubblewrap
from tests.realworld.package import Prepared, prepare

MENDED = {"toolz/itertoolz.py", "toolz/dicttoolz.py"}
PASSED_AFTER = 180


def outside(package: Prepared) -> tuple[str, ...]:
    """The tests that fail in the user's own folder, without any sandbox, sorted."""
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "-rf", "--tb=no"]
    told = subprocess.run(command, cwd=package.root, env=environment, capture_output=True, text=True, check=False)
    assert told.returncode in (0, 1), told.stdout + told.stderr
    lines = [line.split() for line in told.stdout.splitlines()]
    return tuple(sorted(words[1] for words in lines if words[:1] == ["FAILED"]))


def failing(run: dict[str, Any]) -> tuple[str, ...]:
    """The tests that failed in a run of the view, sorted."""
    return tuple(sorted(case["name"] for case in run["cases"] if case["status"] in ("failed", "error")))


@pytest.mark.timeout(400)
@pytest.mark.parametrize("rung", ["bubblewrap", "docker"])
async def test_the_agent_mends_a_third_party_package(tmp_path: Path, rung: str) -> None:
    """Exactly the expected tests fail before, inside and outside; all pass in the sandbox after; the user's folder is
    as it was until the change is accepted, and green then.
    """
    if rung == "bubblewrap":
        require_bubblewrap()
    package = prepare(tmp_path)
    broken = {name: (package.root / name).read_bytes() for name in MENDED}
    assert outside(package) == package.expected_failing
    with running_daemon(package.script, started=False) as daemon:
        daemon.start(**({"DOCKER_HOST": shared_engine().choice.host} if rung == "docker" else {}))
        async with daemon.client() as client:
            await trust(client, package.root)
            session_id = (await start_session(client, package.root, sandbox=rung)).session_id
            follow = client.follow(session_id)
            await send(client, session_id, "Some tests of this package fail. Mend it.")
            assert await run_turn(client, session_id) == "completed"
            async for update in follow:
                if update.caught_up and update.in_sync:
                    break
            runs = [item["fields"] for item in follow.view.items() if item["kind"] == "tests"]
            assert [failing(run) for run in runs] == [package.expected_failing, ()]
            assert (runs[1]["passed"], runs[1]["failed"], runs[1]["errors"]) == (PASSED_AFTER, 0, 0)
            assert {name: (package.root / name).read_bytes() for name in MENDED} == broken
            assert set(await accept_all(client, session_id)) == MENDED
            assert (await client.call("audit/verify")).ok
    assert outside(package) == ()
