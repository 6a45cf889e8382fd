"""kill -9 of the daemon in the middle of its work, and what the next one knows of it."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.daemon import Daemon, accept_all, allow_all, running_daemon, send, start_session, trust
from tests.kit.require import require_bubblewrap

from gloveport.sandbox.runner import rundir
from gloveport.server.client.connect import Client
from gloveport.server.client.follow import Follow

WAIT_S = 90.0
FIRST_WORDS = "The first half 😀 of an answer, "


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A repository whose one test waits until the test of this module lets it go."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "test_slow.py").write_text(
        "import pathlib, time\n\n\n"
        "def test_slow():\n"
        "    pathlib.Path('began').write_text('yes')\n"
        "    deadline = time.monotonic() + 30\n"
        "    while not pathlib.Path('go').exists() and time.monotonic() < deadline:\n"
        "        time.sleep(0.02)\n"
        "    pathlib.Path('runs').open('a').write('ran\\n')\n"
    )
    return root


def write_script(folder: Path, *steps: dict[str, Any]) -> Path:
    """A script for the scripted model."""
    script = folder / "script.json"
    script.write_text(json.dumps({"name": "crash", "steps": list(steps)}))
    return script


@pytest.fixture
def streaming(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon whose model stops in the middle of an answer."""
    step = {
        "text": FIRST_WORDS + "and the second half.",
        "chunk_chars": len(FIRST_WORDS),
        "wait_for_file": str(tmp_path / "never"),
        "wait_after_chunks": 1,
    }
    steps = ({"when": {"user_contains": "go on"}, "text": "Going on."}, step)
    with running_daemon(write_script(tmp_path, *steps)) as daemon:
        yield daemon


@pytest.fixture
def testing(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon whose model runs the tests, then says so."""
    require_bubblewrap()
    steps: list[dict[str, Any]] = [
        {"when": {"turn": 0}, "text": "I run the tests.", "calls": [{"name": "run_tests", "arguments": {}}]},
        {"when": {"turn": 1, "result_contains": "1 passed"}, "text": "They pass."},
        {"text": "They do not pass."},
    ]
    with running_daemon(write_script(tmp_path, *steps)) as daemon:
        yield daemon


async def follow_until(follow: Follow, done: Any) -> list[dict[str, Any]]:
    """The view's items once `done(items)` holds."""
    async with asyncio.timeout(WAIT_S):
        async for _ in follow:
            items = follow.view.items()
            if done(items):
                return items
    raise AssertionError("the stream ended")


def of_kind(items: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """The fields of all items of a kind."""
    return [item["fields"] for item in items if item["kind"] == kind]


def processes_with(mark: str) -> list[int]:
    """Processes whose command line or working folder names `mark`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes() + os.readlink(entry / "cwd").encode()
            except OSError:
                continue
            if mark.encode() in words:
                found.append(int(entry.name))
    return found


async def wait_for_file(path: Path) -> None:
    """Return once a file exists."""
    async with asyncio.timeout(WAIT_S):
        while not path.exists():
            await asyncio.sleep(0.02)


async def begin(client: Client, root: Path) -> str:
    """A session with a running turn."""
    await trust(client, root)
    session = await start_session(client, root)
    await send(client, session.session_id, "go")
    return session.session_id


async def test_kill_in_mid_stream_keeps_the_half_text(streaming: Daemon, workspace: Path, tmp_path: Path) -> None:
    """The text that had arrived is there and marked; the question is asked again under the same turn. D08"""
    async with streaming.client() as client:
        session_id = await begin(client, workspace)
        await follow_until(
            client.follow(session_id),
            lambda items: any(FIRST_WORDS in item["text"] for item in of_kind(items, "message.assistant")),
        )
    streaming.kill()
    (tmp_path / "never").write_text("now it may go on")
    streaming.start()
    async with streaming.client() as client:
        follow = client.follow(session_id)
        items = await follow_until(follow, lambda items: of_kind(items, "turn")[0]["state"] == "completed")
        first, second = of_kind(items, "message.assistant")
        assert (first["text"], first["state"]) == (FIRST_WORDS, "interrupted")
        assert (second["text"], second["state"]) == (FIRST_WORDS + "and the second half.", "done")
        assert first["mayBeBilled"]
        recovery = of_kind(items, "recovery")[0]
        assert recovery["interrupted_requests"] == 1
        assert [item["outcome"] for item in recovery["items"]] == ["asked_again"]
        await send(client, session_id, "go on")
        items = await follow_until(follow, lambda items: of_kind(items, "turn")[-1]["state"] == "completed")
        assert of_kind(items, "message.assistant")[-1]["text"] == "Going on."


async def run_tests_until_begun(daemon: Daemon, workspace: Path) -> tuple[str, Path]:
    """A session whose tests are running; its id and its worktree."""
    async with daemon.client() as client:
        session_id = await begin(client, workspace)
        await follow_until(client.follow(session_id), lambda items: bool(of_kind(items, "approval")))
        assert await allow_all(client, session_id) == 1
        worktree = daemon.home / "sessions" / session_id / "worktree"
        await wait_for_file(worktree / "began")
    return session_id, worktree


async def test_kill_in_mid_test_run_attaches_to_the_run(testing: Daemon, workspace: Path) -> None:
    """The run outlives the daemon, is found again by its call, ends once, and leaves no process behind."""
    session_id, worktree = await run_tests_until_begun(testing, workspace)
    testing.kill()
    testing.start()
    async with testing.client() as client:
        await client.call("daemon/status")  # answered when everything was taken up
        (worktree / "go").write_text("now")
        items = await follow_until(
            client.follow(session_id), lambda items: of_kind(items, "turn")[0]["state"] == "completed"
        )
    call = of_kind(items, "tool")[0]
    assert call["state"] == "ok"
    assert call["finding"] == "still_running"
    assert of_kind(items, "tests")[0]["passed"] == 1
    assert of_kind(items, "message.assistant")[-1]["text"] == "They pass."
    assert (worktree / "runs").read_text() == "ran\n"
    testing.stop()
    await asyncio.to_thread(wait_none_left, str(testing.home))


def wait_none_left(mark: str) -> None:
    """Fail when a process that names `mark` stays."""
    deadline = time.monotonic() + WAIT_S
    while (left := processes_with(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left, [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left]


async def test_a_run_that_ended_without_a_daemon_is_reported_with_evidence(testing: Daemon, workspace: Path) -> None:
    """The tests end while no daemon lives; the next one reports their end, and nothing runs twice."""
    session_id, worktree = await run_tests_until_begun(testing, workspace)
    testing.kill()
    (worktree / "go").write_text("now")
    await wait_for_file(worktree / "runs")
    testing.start()
    async with testing.client() as client:
        items = await follow_until(
            client.follow(session_id), lambda items: of_kind(items, "turn")[0]["state"] == "completed"
        )
    assert of_kind(items, "tool")[0]["state"] == "ok"
    assert of_kind(items, "tests")[0]["passed"] == 1
    assert (worktree / "runs").read_text() == "ran\n"


async def test_a_pending_card_waits_through_a_kill(testing: Daemon, workspace: Path) -> None:
    """A question that waited still waits, and its answer still counts."""
    async with testing.client() as client:
        session_id = await begin(client, workspace)
        await follow_until(client.follow(session_id), lambda items: bool(of_kind(items, "approval")))
    testing.kill()
    testing.start()
    async with testing.client() as client:
        assert await allow_all(client, session_id) == 1
        worktree = testing.home / "sessions" / session_id / "worktree"
        await wait_for_file(worktree / "began")
        (worktree / "go").write_text("now")
        items = await follow_until(
            client.follow(session_id), lambda items: of_kind(items, "turn")[0]["state"] == "completed"
        )
        assert of_kind(items, "tests")[0]["passed"] == 1
        assert "began" in await accept_all(client, session_id)
    assert (workspace / "began").read_text() == "yes"


async def test_two_kills_in_a_row_attach_to_the_run_once(testing: Daemon, workspace: Path) -> None:
    """Killed, started, killed, started: the same run is followed each time, and its end is written once."""
    session_id, worktree = await run_tests_until_begun(testing, workspace)
    for _ in range(2):
        testing.kill()
        testing.start()
        async with testing.client() as client:
            await client.call("daemon/status")
    async with testing.client() as client:
        (worktree / "go").write_text("now")
        items = await follow_until(
            client.follow(session_id), lambda items: of_kind(items, "turn")[0]["state"] == "completed"
        )
    assert [call["state"] for call in of_kind(items, "tool")] == ["ok"]
    assert (worktree / "runs").read_text() == "ran\n"


async def test_a_run_whose_supervisor_died_is_unknown_and_leaves_nothing(testing: Daemon, workspace: Path) -> None:
    """Nobody saw its end: unknown is said, it is not run again, and what it left is ended by its recorded identity."""
    session_id, worktree = await run_tests_until_begun(testing, workspace)
    testing.kill()
    (folder,) = (testing.home / "runs").glob("*/turn-*")
    status = rundir.read_status(folder)
    assert status is not None
    os.kill(status.supervisor_pid, signal.SIGKILL)
    testing.start()
    async with testing.client() as client:
        items = await follow_until(
            client.follow(session_id), lambda items: of_kind(items, "turn")[0]["state"] == "failed"
        )
        (call,) = of_kind(items, "tool")
        assert (call["state"], call["finding"]) == ("unknown", "unknown")
        assert "Look whether it took effect" in of_kind(items, "recovery")[0]["text"]
        await client.call("daemon/status")
    assert not folder.exists()
    assert not (worktree / "runs").exists()
    testing.stop()
    await asyncio.to_thread(wait_none_left, str(testing.home))
