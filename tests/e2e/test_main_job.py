"""The main job, end to end, by three kinds of client, against a real daemon and a real sandbox."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities, make_test_lsp_client
from tests.kit.daemon import Daemon, accept_all, run_turn, running_daemon, send, start_session, trust
from tests.kit.require import require_bubblewrap, require_node

import gloveport
from gloveport.protocol.wire.reducer import View
from gloveport.server.cli.demo_repo import SCRIPT, TASK, materialise, repository_files

JOB = Path(__file__).parent / "node" / "job.mjs"
NODE_S = 90.0


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """A daemon whose model plays the demo's script."""
    require_bubblewrap()
    with running_daemon(SCRIPT) as running:
        yield running


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """The demo's repository, with its failing test."""
    root = tmp_path / "tinystat"
    materialise(root)
    return root


def run_pytest(root: Path) -> int:
    """The workspace's own tests, outside any sandbox."""
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, check=False).returncode


def normal(items: list[dict[str, Any]]) -> Any:
    """A view without what differs from run to run: minted ids, digests, times, output with timings."""
    text = json.dumps(items, sort_keys=True)
    text = re.sub(r"(session|message|turn|grant|apply)-[0-9a-f]{24}", r"\1", text)
    text = re.sub(r"(snap|ws|born)-[0-9a-f]{32}", r"\1", text)
    text = re.sub(r"[0-9a-f]{64}", "digest", text)
    text = re.sub(
        r'"(durationUs|duration_us|outputBytes|inputTokens|outputTokens|askedAt|answeredAt|askedSeq|answeredSeq)": \d+',
        r'"\1": 0',
        text,
    )
    text = re.sub(r"\d+\.\d+ ?s", "0 s", text)
    text = re.sub(r'"root": "[^"]*"', '"root": ""', text)
    text = re.sub(r'"(by|answeredBy)": "[^"]*"', r'"\1": ""', text)
    return json.loads(re.sub(r'"title": "Node job"', '"title": "tinystat"', text))


async def whole_view(daemon: Daemon, session_id: str) -> View:
    """The view as a fresh client has it once it has caught up and agrees with the daemon."""
    async with daemon.client("late") as client:
        follow = client.follow(session_id)
        async for update in follow:
            if update.caught_up and update.in_sync:
                return follow.view
    raise AssertionError("the stream ended")


async def test_python_client_mends_a_repository(daemon: Daemon, workspace: Path) -> None:
    """Ask, read, edit, approve, test in the sandbox, diff, accept: the user's file changes last, and is green."""
    before = (workspace / "tinystat/stats.py").read_bytes()
    assert run_pytest(workspace) == 1
    async with daemon.client() as client:
        await trust(client, workspace)
        session = await start_session(client, workspace)
        await send(client, session.session_id, TASK)
        assert await run_turn(client, session.session_id) == "completed"
        assert (workspace / "tinystat/stats.py").read_bytes() == before
        assert await accept_all(client, session.session_id) == ("tinystat/stats.py",)
        audit = await client.call("audit/verify")
    assert run_pytest(workspace) == 0
    assert {path.name for path in workspace.iterdir()} == {Path(name).parts[0] for name in repository_files()} | {
        ".tinystat-demo"
    }
    assert audit.ok
    view = await whole_view(daemon, session.session_id)
    kinds = [item["kind"] for item in view.items()]
    assert kinds.count("tests") == 2
    assert kinds.count("approval") == 2
    assert daemon.stop() == 0
    replay = subprocess.run(
        [sys.executable, "-m", "gloveport.server", "replay"],
        env={**os.environ, "GLOVEPORT_HOME": str(daemon.home), "PYTHONPATH": _pythonpath()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert replay.returncode == 0, replay.stderr
    assert view.digest() in replay.stdout


async def _node(daemon: Daemon, *arguments: str) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        require_node(), str(JOB), str(daemon.places.socket), daemon.places.token.read_text(), *arguments,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    out, _ = await asyncio.wait_for(process.communicate(), NODE_S)
    report: dict[str, Any] = json.loads(out)
    assert "error" not in report, report
    return report


def _pythonpath() -> str:
    return os.pathsep.join(os.path.dirname(root) for root in gloveport.__path__)


async def _lsp_client(daemon: Daemon) -> LanguageClient:
    config = ClientServerConfig(
        server_command=[sys.executable, "-m", "gloveport.server", "lsp"],
        client_factory=make_test_lsp_client,
        server_env={**os.environ, "GLOVEPORT_HOME": str(daemon.home), "PYTHONPATH": _pythonpath()},
    )
    client = await config.start()
    await client.initialize_session(client_capabilities_params())
    return client


def client_capabilities_params() -> Any:
    """The initialize parameters of an ordinary editor."""
    from lsprotocol import types

    return types.InitializeParams(capabilities=client_capabilities("visual-studio-code"))


async def _lsp_job(daemon: Daemon, workspace: Path) -> str:
    """The whole job through `gloveport lsp`; the session's id."""
    client = await _lsp_client(daemon)
    count = 0

    async def call(method: str, **params: Any) -> Any:
        nonlocal count
        count += 1
        if method not in ("approval/list", "change/list", "session/show"):
            params["clientRequestId"] = f"lsp-{os.getpid()}-{count}"
        return await client.protocol.send_request_async(method, params)

    await call("workspace/trust", root=str(workspace), trustLevel="restricted")
    session_id = (await call("session/start", root=str(workspace))).sessionId
    await call("turn/start", sessionId=session_id, text=TASK)
    while (await call("session/show", sessionId=session_id)).turnId is not None:
        for card in (await call("approval/list", sessionId=session_id)).approvals:
            answer = {"approvalId": card.approvalId, "cardDigest": card.cardDigest, "decision": "allow"}
            await call("approval/resolve", sessionId=session_id, **answer)
        await asyncio.sleep(0.05)
    changes = (await call("change/list", sessionId=session_id)).changes
    selections = [{"changeId": change.changeId, "digest": change.digest} for change in changes]
    await call("change/accept", sessionId=session_id, selections=selections)
    await client.shutdown_session()
    return str(session_id)


async def test_lsp_and_node_clients_end_alike(daemon: Daemon, tmp_path: Path) -> None:
    """The job through an LSP client's pipes and through the raw socket from Node: the same state, and each client's
    digest is the daemon's; a Node client that joins the other's session ends with the same digest."""
    require_node()
    first, second = tmp_path / "one" / "tinystat", tmp_path / "two" / "tinystat"
    for root in (first, second):
        root.parent.mkdir()
        materialise(root)
    by_lsp = await _lsp_job(daemon, first)
    by_node = await _node(daemon, str(second), TASK, "--trust", "restricted")
    assert by_node["turn"] == "completed"
    assert by_node["viewDigest"] == by_node["daemonDigest"]
    assert run_pytest(first) == 0
    assert run_pytest(second) == 0
    lsp_view, node_view = await whole_view(daemon, by_lsp), await whole_view(daemon, by_node["sessionId"])
    assert node_view.digest() == by_node["viewDigest"]
    joined = await _node(daemon, str(first), TASK, "--session", by_lsp)
    assert joined["viewDigest"] == lsp_view.digest()
    assert normal(lsp_view.items()) == normal(node_view.items())


async def test_a_client_that_joins_in_the_middle_ends_identical(daemon: Daemon, workspace: Path) -> None:
    """Two clients, one from the first event and one from the middle: equal views, equal digests."""
    async with daemon.client("first") as first, daemon.client("second", deciding=False) as second:
        await trust(first, workspace)
        session = await start_session(first, workspace)
        early = first.follow(session.session_id)
        await send(first, session.session_id, TASK)
        turn: asyncio.Task[str] | None = None
        async for _ in early:
            if any(item["kind"] == "approval" for item in early.view.items()):
                turn = asyncio.create_task(run_turn(first, session.session_id))
                break
        late = second.follow(session.session_id)
        assert turn is not None
        for follow in (late, early):
            async for update in follow:
                ended = [item for item in follow.view.items() if item["kind"] == "turn"]
                if ended and ended[0]["fields"]["state"] == "completed" and update.in_sync and update.caught_up:
                    break
        assert await turn == "completed"
        assert late.view.digest() == early.view.digest()
        assert late.view.items() == early.view.items()
