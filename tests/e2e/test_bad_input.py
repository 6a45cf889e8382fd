"""What a user or a machine can do wrong: each a clear typed error, nothing lost."""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.daemon import (
    Daemon,
    accept_all,
    allow_all,
    request_id,
    run_turn,
    running_daemon,
    send,
    start_session,
    trust,
)
from tests.kit.require import require, require_bubblewrap

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.change import ChangeUndoParams
from gloveport.protocol.wire.place import SandboxChooseParams
from gloveport.protocol.wire.session import SessionExportParams, SessionRenameParams, SessionStartParams
from gloveport.protocol.wire.turn import TurnStartParams
from gloveport.server.cli.demo_repo import SCRIPT
from gloveport.server.client.connect import Client
from gloveport.server.client.paths import find_places

DISK_BYTES = 96 * 1024 * 1024


def write_script(folder: Path, *steps: dict[str, Any]) -> Path:
    """A script for the scripted model."""
    script = folder / "script.json"
    script.write_text(json.dumps({"name": "bad", "steps": list(steps)}))
    return script


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """A daemon with the demo's model."""
    with running_daemon(SCRIPT) as running:
        yield running


async def refused(client: Client, root: Path | str) -> GloveportError:
    """The error with which a session on `root` is refused."""
    with pytest.raises(GloveportError) as caught:
        await client.call("session/start", SessionStartParams(client_request_id=request_id(), root=str(root)))
    assert caught.value.message
    assert caught.value.hint
    return caught.value


async def test_a_root_that_cannot_be_worked_in_is_refused(daemon: Daemon, tmp_path: Path) -> None:
    """Missing, not a folder, relative, inside out: typed errors; and no session is left of them."""
    (tmp_path / "file").write_text("x")
    async with daemon.client() as client:
        assert (await refused(client, tmp_path / "missing")).code is ErrorCode.WORKSPACE_MISSING
        assert (await refused(client, tmp_path / "file")).code is ErrorCode.WORKSPACE_MISSING
        assert (await refused(client, "relative")).code is ErrorCode.INVALID_PARAMS
        if os.geteuid() != 0:
            closed = tmp_path / "closed"
            closed.mkdir(mode=0o000)
            assert (await refused(client, closed)).code is ErrorCode.WORKSPACE_UNREADABLE
            closed.chmod(0o700)
        assert not list((daemon.home / "sessions").glob("*"))


async def test_our_own_folders_are_no_project() -> None:
    """Data and settings, each in its own place: not a root, and not part of one above them."""
    above = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
    home = above / "me"
    daemon, settings = Daemon(above), home / ".config" / "gloveport"
    daemon.places = find_places({"HOME": str(home)})
    try:
        settings.mkdir(mode=0o700, parents=True)
        (settings / "config.toml").write_text('[[models]]\nprovider = "scripted"\nmodel = "test"\n')
        (above / "note.txt").write_text("mine\n")
        daemon.start(GLOVEPORT_HOME="", HOME=str(home))
        async with daemon.client() as client:
            for folder in (home, settings, daemon.places.data_dir, daemon.places.data_dir / "sessions"):
                folder.mkdir(exist_ok=True)
                assert (await refused(client, folder)).code is ErrorCode.PROTECTED_PATH
            session = await start_session(client, above)
        copy = daemon.places.data_dir / "sessions" / session.session_id / "worktree"
        assert (copy / "note.txt").exists()
        assert not (copy / "me" / ".config" / "gloveport").exists()
        assert not (copy / "me" / ".local" / "state" / "gloveport").exists()
    finally:
        daemon.kill()
        shutil.rmtree(above, ignore_errors=True)


async def test_folders_without_git_and_empty_ones_work(daemon: Daemon, tmp_path: Path) -> None:
    """A folder needs no version control and no file."""
    empty = tmp_path / "empty"
    empty.mkdir()
    async with daemon.client() as client:
        session = await start_session(client, empty)
        assert session.phase == "idle"
        assert (await client.call("change/list", SessionParams(session_id=session.session_id))).changes == ()


async def test_names_that_do_not_exist_are_told(daemon: Daemon, tmp_path: Path) -> None:
    """Unknown session, model and sandbox; nothing to undo."""
    async with daemon.client() as client:
        with pytest.raises(GloveportError) as caught:
            await client.call("session/show", SessionParams(session_id="nope"))
        assert caught.value.code is ErrorCode.SESSION_UNKNOWN
        for choice, code in (
            ({"model": "none"}, ErrorCode.MODEL_UNKNOWN),
            ({"sandbox": "none"}, ErrorCode.SANDBOX_UNAVAILABLE),
        ):
            with pytest.raises(GloveportError) as caught:
                await start_session(client, tmp_path, **choice)
            assert caught.value.code is code
        session = await start_session(client, tmp_path)
        undo = ChangeUndoParams(client_request_id=request_id(), session_id=session.session_id)
        with pytest.raises(GloveportError) as caught:
            await client.call("change/undo", undo)
        assert caught.value.code is ErrorCode.CHANGE_UNKNOWN


async def test_a_request_id_is_for_one_request(daemon: Daemon, tmp_path: Path) -> None:
    """The same id and content is answered again; with other content it is refused; the message is sent once."""
    async with daemon.client() as client:
        session = await start_session(client, tmp_path)
        once = TurnStartParams(client_request_id="one", session_id=session.session_id, text="hello")
        first = await client.call("turn/start", once)
        assert await client.call("turn/start", once) == first
        with pytest.raises(GloveportError) as caught:
            await client.call("turn/start", once.model_copy(update={"text": "other"}))
        assert caught.value.code is ErrorCode.CONFLICT
        assert await run_turn(client, session.session_id) == "completed"
        shown = await client.call("session/show", SessionParams(session_id=session.session_id))
        assert shown.goal_revision == 1


async def test_a_model_that_is_down_fails_the_turn_with_words(tmp_path: Path) -> None:
    """Nobody listens at the model's address: the turn fails typed, the message is kept, the session goes on."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
    home = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
    down = Daemon(home)
    down.write_settings(f'[[models]]\nprovider = "openai"\nmodel = "m"\nbase_url = "http://127.0.0.1:{port}/v1"\n')
    try:
        down.start()
        async with down.client() as client:
            session = await start_session(client, tmp_path)
            await send(client, session.session_id, "hello")
            assert await run_turn(client, session.session_id) == "failed"
            follow = client.follow(session.session_id)
            await anext(follow)
            turn = next(item["fields"] for item in follow.view.items() if item["kind"] == "turn")
            assert turn["code"] == "model.unreachable"
            assert "cannot be reached" in turn["message"]
            assert turn["hint"]
            assert any(item["fields"].get("text") == "hello" for item in follow.view.items())
    finally:
        down.kill()
        shutil.rmtree(home, ignore_errors=True)


async def test_wrong_arguments_are_told_to_the_model_and_run_nothing(tmp_path: Path) -> None:
    """Broken JSON, missing fields, unknown tools, paths outside: each ends its call, none changes anything."""
    calls = [
        {"name": "write_file", "arguments": '{"path": "a.txt", "content": '},
        {"name": "write_file", "arguments": {"path": "a.txt"}},
        {"name": "format_disk", "arguments": {}},
        {"name": "read_file", "arguments": {"path": "../secret"}},
        {"name": "write_file", "arguments": {"path": ".git/hooks/pre-commit", "content": "x"}},
        {"name": "edit_file", "arguments": {"path": "f.txt", "old": "absent", "new": "y"}},
    ]
    root = tmp_path / "root"
    root.mkdir()
    (root / "f.txt").write_text("one\n")
    (tmp_path / "secret").write_text("s")
    script = write_script(tmp_path, {"when": {"turn": 0}, "calls": calls}, {"text": "Understood."})
    with running_daemon(script) as daemon:
        async with daemon.client() as client:
            await trust(client, root)
            session = await start_session(client, root)
            await send(client, session.session_id, "go")
            assert await run_turn(client, session.session_id) == "completed"
            follow = client.follow(session.session_id)
            await anext(follow)
            tools = [item["fields"] for item in follow.view.items() if item["kind"] == "tool"]
            assert len(tools) == len(calls)
            assert {tool["state"] for tool in tools} <= {"invalid", "denied"}
            assert all(tool["result"] for tool in tools)
            assert (await client.call("change/list", SessionParams(session_id=session.session_id))).changes == ()
    assert sorted(path.name for path in root.iterdir()) == ["f.txt"]


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of its own with room for little."""
    require(os.geteuid() == 0, "mounting a small file system needs root")
    home = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=0700", "tmpfs", str(home)]
    mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        require(mounted, "a tmpfs cannot be mounted here")
        yield home
    finally:
        if mounted:
            subprocess.run(["umount", str(home)], check=True)
        home.rmdir()


def fill(home: Path) -> Path:
    """Use up all space."""
    filler = home / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1 << 8):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue
    return filler


async def write_until_refused(client: Client, session_id: str) -> GloveportError | None:
    """Change something again and again until the disk refuses."""
    for number in range(400):
        params = SessionRenameParams(client_request_id=request_id(), session_id=session_id, title=f"{number:0250d}")
        try:
            await client.call("session/rename", params)
        except GloveportError as error:
            return error
    return None


async def test_full_disk_stops_before_the_next_effect(small_disk: Path, tmp_path: Path) -> None:
    """The refusal is typed, nothing runs without its intent on disk, nothing is lost, and freed space heals."""
    require_bubblewrap()
    root = tmp_path / "root"
    root.mkdir()
    run = {"name": "run_command", "arguments": {"argv": ["touch", "ran"]}}
    script = write_script(tmp_path, {"when": {"turn": 0}, "calls": [run]}, {"text": "Done."})
    daemon = Daemon(small_disk)
    daemon.use_script(script)
    try:
        daemon.start()
        async with daemon.client() as client:
            await trust(client, root)
            session_id = (await start_session(client, root)).session_id
            await send(client, session_id, "go")
            while not (await client.call("session/show", SessionParams(session_id=session_id))).pending_approvals:
                await asyncio.sleep(0.02)
            filler = fill(small_disk)
            refusal = await write_until_refused(client, session_id)
            assert refusal is not None
            assert refusal.code in (ErrorCode.NOT_SAVED, ErrorCode.DATA_FULL), refusal
            assert refusal.hint
            assert not (small_disk / "sessions" / session_id / "worktree" / "ran").exists()
            filler.unlink()
            assert await allow_all(client, session_id) == 1
            assert await run_turn(client, session_id) == "completed"
            assert await accept_all(client, session_id) == ("ran",)
            page = await client.call("session/export", SessionExportParams(session_id=session_id, after_seq=0))
            kinds = [event["type"] for event in page.events]
            assert kinds.count("ToolExecutionStarted") == 1
            assert (await client.call("audit/verify")).ok
    finally:
        daemon.kill()
    assert (root / "ran").exists()


async def test_the_users_own_edits_are_taken_over_and_nothing_is_lost(tmp_path: Path) -> None:
    """The user edits a file between two turns: the agent works on it, and accepting keeps both changes."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "f.txt").write_text("one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n")
    edits = [
        {"name": "edit_file", "arguments": {"path": "f.txt", "old": old, "new": new}} for old, new in (("one", "ONE"),)
    ]
    later = [{"name": "edit_file", "arguments": {"path": "f.txt", "old": "nine, mine", "new": "NINE, mine"}}]
    script = write_script(
        tmp_path,
        {"when": {"turn": 0, "user_contains": "first"}, "calls": edits},
        {"when": {"turn": 0, "user_contains": "second"}, "calls": later},
        {"text": "Done."},
    )
    with running_daemon(script) as daemon:
        async with daemon.client() as client:
            await trust(client, root)
            session_id = (await start_session(client, root)).session_id
            await send(client, session_id, "first")
            assert await run_turn(client, session_id) == "completed"
            (root / "f.txt").write_text((root / "f.txt").read_text().replace("nine", "nine, mine"))
            await send(client, session_id, "second")
            assert await run_turn(client, session_id) == "completed"
            assert await accept_all(client, session_id) == ("f.txt",)
    assert (root / "f.txt").read_text() == "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nNINE, mine\n"


async def test_settings_are_read_anew_and_no_model_is_told(tmp_path: Path) -> None:
    """Without a model a session is refused with what to do; a model written meanwhile is used without a restart; a
    fault in the file is told, and mended it is gone."""
    with running_daemon() as daemon:
        async with daemon.client() as client:
            error = await refused(client, tmp_path)
            assert error.code is ErrorCode.MODEL_UNKNOWN
            assert "config.toml" in error.hint
            daemon.use_script(write_script(tmp_path, {"text": "Here."}))
            session = await start_session(client, tmp_path)
            await send(client, session.session_id, "hello")
            assert await run_turn(client, session.session_id) == "completed"
            whole = (daemon.home / "config.toml").read_text()
            daemon.write_settings(whole + "nonsense = 1\n")
            assert (await refused(client, tmp_path)).code is ErrorCode.INVALID_PARAMS
            daemon.write_settings(whole)
            assert (await start_session(client, tmp_path)).phase == "idle"


async def test_new_folders_are_as_open_as_the_folder_above(tmp_path: Path) -> None:
    """What others may read above, they may read in a folder that was accepted; a closed one stays closed."""
    root = tmp_path / "root"
    (root / "closed").mkdir(parents=True)
    root.chmod(0o755)
    (root / "closed").chmod(0o700)
    paths = ["docs/deep/a.txt", "closed/in/b.txt"]
    (root / "closed" / "there.txt").write_text("x")
    calls = [{"name": "write_file", "arguments": {"path": path, "content": "x"}} for path in paths]
    script = write_script(tmp_path, {"when": {"turn": 0}, "calls": calls}, {"text": "Done."})
    with running_daemon(script) as daemon:
        async with daemon.client() as client:
            await trust(client, root)
            session_id = (await start_session(client, root)).session_id
            await send(client, session_id, "go")
            assert await run_turn(client, session_id) == "completed"
            assert len(await accept_all(client, session_id)) == 2
    modes = {name: (root / name).stat().st_mode & 0o777 for name in ("docs", "docs/deep", "closed/in")}
    assert modes == {"docs": 0o755, "docs/deep": 0o755, "closed/in": 0o700}
    assert (root / "docs/deep/a.txt").stat().st_mode & 0o777 == 0o644


async def test_a_sandbox_too_weak_for_the_folder_is_refused_at_the_start(daemon: Daemon, tmp_path: Path) -> None:
    """Chosen by name, a rung has to do for the folder's trust; a session is not begun to be refused later."""
    async with daemon.client() as client:
        await trust(client, tmp_path, "restricted")
        with pytest.raises(GloveportError) as caught:
            await start_session(client, tmp_path, sandbox="process")
        assert caught.value.code is ErrorCode.SANDBOX_REFUSED
        await trust(client, tmp_path, "trusted")
        session = await start_session(client, tmp_path, sandbox="process")
        await trust(client, tmp_path, "restricted")
        choose = SandboxChooseParams(client_request_id=request_id(), session_id=session.session_id, sandbox="process")
        with pytest.raises(GloveportError) as caught:
            await client.call("sandbox/choose", choose)
        assert caught.value.code is ErrorCode.SANDBOX_REFUSED
