"""Secrets of the workspace are not in the jail unless their reading was allowed: by sandbox, and through the daemon."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.daemon import request_id, running_daemon, send, start_session, trust
from tests.kit.require import require_bubblewrap
from tests.kit.sandboxes import PROJECT, Rig, open_rig

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.turn import ApprovalResolveParams
from gloveport.sandbox.contract import Claim, SandboxError
from gloveport.server.client.connect import Client

TOKEN = "hunter2hunter2"
TRY = r"""
import os, sys
for path in sys.argv[1:]:
    for act in (lambda: open(path).read(), lambda: open(path, "w").write("x"), lambda: os.rename(path, "moved"),
                lambda: os.unlink(path), lambda: os.link(path, "linked"), lambda: open(path).read()):
        try:
            print(path, repr(act()))
        except OSError as error:
            print(path, type(error).__name__)
"""


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    """A bubblewrap rung."""
    async with open_rig("bubblewrap") as opened:
        yield opened


async def test_a_covered_file_is_not_read_changed_moved_or_linked(rig: Rig) -> None:
    """Neither the few that look empty nor the many that cannot be opened; the files themselves stay as they are."""
    names = [f"k{number}.pem" for number in range(80)]
    for name in (*names, "open.txt"):
        (rig.project / name).write_text(TOKEN)
    covered = tuple(f"{PROJECT}/{name}" for name in names)
    lease = await rig.lease(covered=covered)
    argv = ("python3", "-c", TRY, names[0], names[70])
    result = await (await rig.start_raw(lease, argv)).result()
    seen = await (await rig.start_raw(lease, ("sh", "-c", "cat open.txt *.pem 2>/dev/null; ls -a"))).result()
    shown = lease.security_context["mounts"]
    await lease.release()
    assert TOKEN not in result.output.decode()
    assert result.output.count(b"Error") >= 8
    assert seen.output.count(TOKEN.encode()) == 1
    assert b"k79.pem" in seen.output
    assert {(rig.project / name).read_text() for name in names} == {TOKEN}
    assert sum(one["cover"] == "covered" for one in shown) == 80


@pytest.mark.parametrize("name", ["link.pem", "folder/x.pem", "folder", "missing.pem", "../x"])
async def test_what_cannot_be_covered_stops_the_run(rig: Rig, name: str) -> None:
    """Links, folders, missing files, other places: refused, never run without the cover."""
    (rig.project / "real").mkdir()
    (rig.project / "real/x.pem").write_text(TOKEN)
    os.symlink("real/x.pem", rig.project / "link.pem")
    os.symlink("real", rig.project / "folder")
    with pytest.raises(SandboxError) as caught:
        await rig.lease(covered=(os.path.normpath(f"{PROJECT}/{name}"),))
    assert caught.value.code is ErrorCode.SANDBOX_REFUSED


@pytest.mark.parametrize("name", ["process", "memory"])
async def test_a_rung_without_a_view_refuses_to_hide(name: str) -> None:
    """It says so instead of running."""
    async with open_rig(name) as other:
        assert Claim.FILESYSTEM_VIEW not in other.availability.holds
        with pytest.raises(SandboxError):
            await other.lease(covered=(f"{PROJECT}/x.pem",))


READS = r"""
import os, pathlib
def test_reads():
    found = [path.read_text() for path in pathlib.Path(".").rglob("*") if path.is_file() and os.access(path, os.R_OK)]
    assert not [text for text in found if "hunter2" in text and "pathlib" not in text], "FOUND"
def test_moves():
    if os.path.isdir(".config"):
        os.rename(".config", "build")
    pathlib.Path(".gitignore").write_text("build\n.env\n")
"""
STEPS: list[list[dict[str, Any]]] = [
    [{"name": "run_tests", "arguments": {}}],
    [{"name": "run_tests", "arguments": {}}],
    [{"name": "run_tests", "arguments": {"reads": [".env"]}}],
]


async def answer(client: Client, session_id: str, cards: list[dict[str, Any]]) -> None:
    """Answer each card with the longest right it offers."""
    for one in (await client.call("approval/list", SessionParams(session_id=session_id))).approvals:
        cards.append(one.card)
        scopes = [option["scope"] for option in one.card["options"]]
        params = ApprovalResolveParams(
            client_request_id=request_id(),
            session_id=session_id,
            approval_id=one.approval_id,
            card_digest=one.card_digest,
            decision="allow",
            option=scopes.index("session") if "session" in scopes else 0,
        )
        await client.call("approval/resolve", params)


async def test_a_lasting_right_to_run_tests_is_no_right_to_read_secrets(tmp_path: Path) -> None:
    """One answer for all tests of the session; the tests read what they can and move folders: nothing is found, until
    the file is named and its reading is allowed."""
    require_bubblewrap()
    root = tmp_path / "root"
    (root / ".config/gcloud").mkdir(parents=True)
    (root / ".config/gcloud/default").write_text(f"token = {TOKEN}\n")
    (root / ".env").write_text(f"API_TOKEN={TOKEN}\n")
    (root / "test_reads.py").write_text(READS)
    script = tmp_path / "script.json"
    steps: list[dict[str, Any]] = [{"when": {"turns_total": at}, "calls": calls} for at, calls in enumerate(STEPS)]
    script.write_text(json.dumps({"name": "reads", "steps": [*steps, {"text": "Done."}]}))
    cards: list[dict[str, Any]] = []
    with running_daemon(script) as daemon:
        async with daemon.client() as client:
            await trust(client, root)
            session = (await start_session(client, root, provider="scripted", model="test")).session_id
            await send(client, session, "run the tests")
            follow = client.follow(session)
            async for _ in follow:
                items = follow.view.items()
                if any(item["kind"] == "turn" and item["fields"]["state"] == "completed" for item in items):
                    break
                if any(item["kind"] == "approval" and item["fields"]["state"] == "pending" for item in items):
                    await answer(client, session, cards)
        results = [item["fields"]["result"] for item in items if item["kind"] == "tool"]
        states = [item["fields"]["state"] for item in items if item["kind"] == "tool"]
    assert len(cards) == 2, "one for the tests, one for the secret"
    assert "read .env" in [f"{one['kind']} {one['target']}" for one in cards[1]["effects"]]
    assert [option["scope"] for option in cards[1]["options"]] == ["once"]
    assert states == ["ok", "ok", "failed"], results
    assert all("hidden from the program" in result for result in results[:2])
    assert "FOUND" in results[2]
