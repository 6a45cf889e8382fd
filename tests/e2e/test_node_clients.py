"""Clients that share no Python code do the main job on a real daemon, and agree with it and with each other."""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.daemon import Daemon, running_daemon
from tests.kit.require import require, require_node

import gloveport
from gloveport.protocol.wire.base import Empty
from gloveport.server.cli.demo_repo import SCRIPT, TASK, materialise

NODE = Path(__file__).resolve().parent / "node"
JOB_S = 50.0


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """A daemon whose model follows the demo's script."""
    with running_daemon(SCRIPT) as running:
        yield running


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """The demo's repository, with its failing test."""
    root = tmp_path / "tinystat"
    materialise(root)
    return root


async def run_node(program: str, *arguments: str, home: Path) -> dict[str, Any]:
    """Run one of the Node programs; what it printed, after exit code 0."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "GLOVEPORT_HOME": str(home),
        "PYTHONPATH": os.pathsep.join(os.path.dirname(root) for root in gloveport.__path__),
    }
    process = await asyncio.create_subprocess_exec(
        require_node(), str(NODE / program), *arguments,
        env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, errors = await asyncio.wait_for(process.communicate(), JOB_S)
    assert process.returncode == 0, output.decode() + errors.decode()
    report: dict[str, Any] = json.loads(output)
    return report


async def choose_sandbox(daemon: Daemon) -> str:
    """The strongest rung that works here."""
    async with daemon.client() as client:
        rungs = (await client.call("sandbox/list", Empty())).sandboxes
    working = [rung for rung in rungs if rung.available]
    require(bool(working), "no sandbox works here: " + "; ".join(rung.reason for rung in rungs))
    return max(working, key=lambda rung: rung.strength).name


async def python_digest(daemon: Daemon, session_id: str) -> str:
    """The digest that the Python client ends with."""
    async with daemon.client("python") as client:
        follow = client.follow(session_id)
        async for update in follow:
            if update.in_sync:
                return follow.view.digest()
    raise AssertionError("the stream ended")


async def test_node_does_the_job_and_everybody_agrees(daemon: Daemon, workspace: Path) -> None:
    """Session, message, cards, changes over the raw socket; then Python, a late joiner and the extension's own code
    over `gloveport lsp` hold the same view, and the user's file is mended.
    """
    require_node()
    token = daemon.places.token.read_text()
    target = (str(daemon.places.socket), token, str(workspace), TASK)
    sandbox = await choose_sandbox(daemon)
    job = await run_node("job.mjs", *target, "--trust", "trusted", "--sandbox", sandbox, home=daemon.home)
    assert job["turn"] == "completed"
    assert job["paths"] == ["tinystat/stats.py"]
    assert job["viewDigest"] == job["daemonDigest"]
    late = await run_node("job.mjs", *target, "--session", job["sessionId"], home=daemon.home)
    lsp = (sys.executable, "-P", "-m", "gloveport.server", "lsp")
    extension = await run_node("follow.mjs", job["sessionId"], *lsp, home=daemon.home)
    assert extension["inSync"]
    assert extension["turns"] == ["completed"]
    digests = {late["viewDigest"], extension["digest"], await python_digest(daemon, job["sessionId"])}
    assert digests == {job["viewDigest"]}


async def test_node_without_the_token_may_not_decide(daemon: Daemon, workspace: Path) -> None:
    """A wrong token is an ordinary client: its first decision is refused with the stable code."""
    require_node()
    target = (str(daemon.places.socket), "wrong", str(workspace), TASK)
    with pytest.raises(AssertionError, match=r"auth\.decision_token"):
        await run_node("job.mjs", *target, "--trust", "trusted", home=daemon.home)
