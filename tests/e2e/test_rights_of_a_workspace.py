"""A right for the workspace: kept with it, in force in every session of it, gone when it is taken back."""

import json
import shutil
from pathlib import Path

import anyio
import pytest
from tests.kit.daemon import request_id, running_daemon, send, start_session, trust
from tests.kit.require import require_bubblewrap

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.turn import ApprovalInfo, ApprovalResolveParams, GrantInfo, GrantRevokeParams
from gloveport.server.client.connect import Client

COMMANDS = [["python3", f"{name}.py"] for name in "abcdefghij"]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A model that runs the program that the user names."""
    require_bubblewrap()
    steps = [
        {"when": {"turn": 0, "user_contains": argv[1]}, "calls": [{"name": "run_command", "arguments": {"argv": argv}}]}
        for argv in COMMANDS
    ]
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"name": "s", "steps": [*steps, {"text": "Done."}]}))
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with programs."""
    return workspace(tmp_path / "root")


def workspace(folder: Path) -> Path:
    """A folder with the programs."""
    folder.mkdir()
    for argv in COMMANDS:
        (folder / argv[1]).write_text("print('ran')\n")
    return folder


async def begin(client: Client, root: Path) -> str:
    """A session's id."""
    return str((await start_session(client, root, provider="scripted", model="test")).session_id)


async def card_of(client: Client, session_id: str, program: str) -> ApprovalInfo | None:
    """Have a program run; its card, or None when it ended without one."""
    await send(client, session_id, f"run {program}")
    follow = client.follow(session_id)
    async for _ in follow:
        waiting = (await client.call("approval/list", SessionParams(session_id=session_id))).approvals
        if waiting:
            return waiting[0]
        turns = [item["fields"]["state"] for item in follow.view.items() if item["kind"] == "turn"]
        if turns and turns[-1] == "completed":
            return None
    raise AssertionError("the stream ended")


async def allow(client: Client, session_id: str, card: ApprovalInfo, scope: str) -> str:
    """Answer with the first option of a scope, and wait for the end of the turn; the right's id."""
    given = await answer(client, session_id, card, scope)
    follow = client.follow(session_id)
    async for _ in follow:
        turns = [item["fields"]["state"] for item in follow.view.items() if item["kind"] == "turn"]
        if turns and turns[-1] == "completed":
            break
    return given


async def answer(client: Client, session_id: str, card: ApprovalInfo, scope: str) -> str:
    """Answer with the first option of a scope; the right's id."""
    option = next(at for at, one in enumerate(card.card["options"]) if one["scope"] == scope)  # type: ignore[arg-type,index,call-overload,union-attr]  # - a card is plain JSON
    params = ApprovalResolveParams(
        client_request_id=request_id(), session_id=session_id, approval_id=card.approval_id,
        card_digest=card.card_digest, decision="allow", option=option,
    )  # fmt: skip
    given = await client.call("approval/resolve", params)
    assert given.grant_id is not None
    return given.grant_id


async def rights(client: Client, session_id: str) -> dict[str, GrantInfo]:
    """The rights in force, by id."""
    found = await client.call("grant/list", SessionParams(session_id=session_id))
    return {one.grant_id: one for one in found.grants}


async def test_b08_a_right_for_the_workspace_holds_in_every_session_and_after_a_restart(
    script: Path, root: Path
) -> None:
    """Shown as saved, not asked again, also when the daemon was killed right after the answer."""
    with running_daemon(script) as daemon:
        async with daemon.client() as client:
            await trust(client, root)
            first = await begin(client, root)
            card = await card_of(client, first, "a.py")
            assert card is not None
            right = await allow(client, first, card, "workspace")
            shown = (await rights(client, first))[right]
            assert (shown.scope, "in this workspace" in shown.sentence) == ("workspace", True)
            assert await card_of(client, first, "a.py") is None
            assert await card_of(client, await begin(client, root), "a.py") is None
        daemon.kill()
        daemon.start()
        async with daemon.client() as client:
            later = await begin(client, root)
            assert set(await rights(client, later)) == {right}
            assert await card_of(client, later, "a.py") is None
            assert await card_of(client, later, "b.py") is not None


async def test_b08_two_windows_that_save_at_once_lose_nothing(script: Path, root: Path) -> None:
    """Ten sessions answer ten cards at the same moment; all ten rights are there, before and after a restart."""
    with running_daemon(script) as daemon:
        async with daemon.client() as client:
            await trust(client, root)
            sessions = [await begin(client, root) for _ in COMMANDS]
            given: list[str] = []

            async def save(session_id: str, program: str) -> None:
                card = await card_of(client, session_id, program)
                assert card is not None
                given.append(await allow(client, session_id, card, "workspace"))

            async with anyio.create_task_group() as tasks:
                for session_id, argv in zip(sessions, COMMANDS, strict=True):
                    tasks.start_soon(save, session_id, argv[1])
            assert set(await rights(client, sessions[0])) == set(given)
        daemon.kill()
        daemon.start()
        async with daemon.client() as client:
            assert set(await rights(client, sessions[0])) == set(given)
    assert len(set(given)) == len(COMMANDS)


async def test_a_right_ends_for_all_sessions_when_it_is_taken_back_or_trust_changes(script: Path, root: Path) -> None:
    """Taken back in another session than the one it was given in; a right that is gone is no right after a restart."""
    with running_daemon(script) as daemon:
        async with daemon.client() as client:
            await trust(client, root)
            first, second = await begin(client, root), await begin(client, root)
            kept = {}
            for program in ("a.py", "b.py"):
                card = await card_of(client, first, program)
                assert card is not None
                kept[program] = await allow(client, first, card, "workspace")
            taken = GrantRevokeParams(client_request_id=request_id(), session_id=second, grant_id=kept["a.py"])
            await client.call("grant/revoke", taken)
            assert set(await rights(client, first)) == {kept["b.py"]}
            again = GrantRevokeParams(client_request_id=request_id(), session_id=first, grant_id=kept["a.py"])
            with pytest.raises(GloveportError):
                await client.call("grant/revoke", again)
            await trust(client, root, "trusted")
            assert not await rights(client, first)
        daemon.kill()
        daemon.start()
        async with daemon.client() as client:
            assert not await rights(client, first)
            assert await card_of(client, await begin(client, root), "a.py") is not None


async def test_b16_a_right_is_for_the_file_as_it_was_and_for_no_other_folder(
    script: Path, root: Path, tmp_path: Path
) -> None:
    """A changed program is asked about again; another folder inherits nothing, nor does one at the same path."""
    other = workspace(tmp_path / "other")
    with running_daemon(script) as daemon:
        async with daemon.client() as client:
            await trust(client, root)
            await trust(client, other)
            first = await begin(client, root)
            card = await card_of(client, first, "a.py")
            assert card is not None
            await allow(client, first, card, "workspace")
            assert await card_of(client, await begin(client, other), "a.py") is not None
            assert not await rights(client, await begin(client, other))
            (root / "a.py").write_text("print('other')\n")
            assert await card_of(client, await begin(client, root), "a.py") is not None
            root.rename(tmp_path / "moved")
            workspace(root)
            await trust(client, root)
            assert not await rights(client, await begin(client, root))


async def test_b16_a_program_that_changes_while_its_card_waits_does_not_run_by_that_answer(
    script: Path, root: Path
) -> None:
    """The answer was for what the card showed: the changed program is asked about anew, with its own digest."""
    with running_daemon(script) as daemon:
        async with daemon.client() as client:
            await trust(client, root)
            session = await begin(client, root)
            card = await card_of(client, session, "a.py")
            assert card is not None
            (root / "a.py").write_text("print('other')\n")
            await answer(client, session, card, "once")
            follow = client.follow(session)
            async for _ in follow:
                waiting = (await client.call("approval/list", SessionParams(session_id=session))).approvals
                ended = [item["fields"]["state"] for item in follow.view.items() if item["kind"] == "turn"]
                if waiting or ended[-1] == "completed":
                    break
            ran = [item["fields"].get("result", "") for item in follow.view.items() if item["kind"] == "tool"]
    assert waiting or "ran" in ran[-1], "it ran as it was shown, or it is asked about again"
    assert "other" not in "".join(ran)


@pytest.mark.parametrize("told", [True, False], ids=["counted", "control: the count put back too"])
@pytest.mark.parametrize("scope", ["session", "workspace"])
async def test_a_right_that_was_taken_back_returns_with_no_older_journal(
    script: Path, root: Path, tmp_path: Path, scope: str, told: bool
) -> None:
    """The journal is copied while the right holds and put back after it was revoked: it is asked about again.

    The control puts back whatever could tell, and the program runs unasked.
    """
    names = ["journal.db", "journal.db-wal"]
    if not told:
        names += ["journal.generation", "journal.acknowledged", "audit.jsonl", "audit.jsonl.checkpoint"]
    with running_daemon(script) as daemon:
        async with daemon.client() as client:
            await trust(client, root)
            session_id = await begin(client, root)
            card = await card_of(client, session_id, "a.py")
            assert card is not None
            right = await allow(client, session_id, card, scope)
            for name in names:
                shutil.copy(daemon.home / name, tmp_path / name)
            params = GrantRevokeParams(client_request_id=request_id(), session_id=session_id, grant_id=right)
            await client.call("grant/revoke", params)
        daemon.kill()
        for name in names:
            shutil.copy(tmp_path / name, daemon.home / name)
        (daemon.home / "journal.db-shm").unlink(missing_ok=True)
        daemon.start()
        async with daemon.client() as client:
            if told:
                assert await rights(client, session_id) == {}
                await trust(client, root)
            assert (await card_of(client, session_id, "a.py") is None) is not told
