"""A disk or a folder that refuses a write: typed, everything as before, nothing of ours left over."""

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from tests.kit.require import require
from tests.kit.workspaces import folders_of, make_tree, propose, read_tree, whole

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.workspace.facade import SessionWorkspace

APPLY = """
import json, resource, sys, anyio
from pathlib import Path
from gloveport.protocol.errors import GloveportError
from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.plan import Plan

async def main(session, plan, limit, raced):
    workspace = await SessionWorkspace.open(Path(session))
    waiting = [Path(raced)] if raced else []

    def save_as_the_user(event, _):
        if event == "os.chmod" and waiting:  # a new file is staged: all checks are done, no swap is
            path = waiting.pop()
            path.unlink(missing_ok=True)
            path.write_bytes(b"user\\n")

    sys.addaudithook(save_as_the_user)
    if int(limit):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    try:
        await workspace.apply(Plan.from_json(json.loads(plan)))
    except GloveportError as error:
        print(error.code.value)

anyio.run(main, *sys.argv[1:])
"""
MANY = {f"many/file{number}.txt": b"%d\n" % number for number in range(120)}
FILES = {"a.txt": b"a\n", "m/b.txt": b"b\n", "z.txt": b"z\n"} | MANY


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[SessionWorkspace]:
    """A session with a small change, a creation, a deletion and a large change, in this order of paths."""
    opened = await SessionWorkspace.create(make_tree(tmp_path / "root", FILES), tmp_path / "s")
    await opened.write("a.txt", b"A\n")
    await opened.write("k/new.txt", b"new\n")
    await opened.delete("m/b.txt")
    await opened.write("z.txt", b"z" * 40_000)
    yield opened
    opened.close()


async def applied(workspace: SessionWorkspace, *, limit_bytes: int = 0, ordinary: bool = False, raced: str = "") -> str:
    """The error code of an apply in a process of its own.

    It may write files of `limit_bytes` at most; the file `raced` is saved by the user between check and swap.
    """
    plan = json.dumps((await workspace.plan_accept(whole(*await workspace.proposals()))).as_json())
    command = [sys.executable, "-c", APPLY, str(workspace.session_dir), plan, str(limit_bytes), raced]
    if ordinary and os.geteuid() == 0:
        require(os.access("/usr/bin/setpriv", os.X_OK), "setpriv (util-linux) is not installed")
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", *command]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = await anyio.run_process(command, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode().strip()


@pytest.mark.parametrize("limit_bytes", [30_000, 6_000])
async def test_a10_a_refused_write_takes_everything_back(workspace: SessionWorkspace, limit_bytes: int) -> None:
    """A10, A11, D04: the last file does not fit, or only our own record: no file is changed, none truncated."""
    if limit_bytes < 10_000:
        big = (await propose(workspace))["z.txt"]
        await workspace.apply(await workspace.plan_reject(whole(big)))
    before, folders = read_tree(workspace.root), folders_of(workspace.root)
    assert await applied(workspace, limit_bytes=limit_bytes) == ErrorCode.TOO_LARGE_FILE.value
    assert read_tree(workspace.root) == before
    assert folders_of(workspace.root) == folders


async def test_a_folder_without_write_right_stops_all_files(workspace: SessionWorkspace) -> None:
    """A11: as an ordinary user, one closed folder of four: typed, and nothing is written anywhere."""
    (workspace.root / "m").chmod(0o500)
    before, folders = read_tree(workspace.root), folders_of(workspace.root)
    try:
        assert await applied(workspace, ordinary=True) == ErrorCode.WORKSPACE_UNWRITABLE.value
        assert read_tree(workspace.root) == before
        assert folders_of(workspace.root) == folders
    finally:
        (workspace.root / "m").chmod(0o700)


async def test_a10_c06_owner_and_attributes_stay(workspace: SessionWorkspace) -> None:
    """A10, C06: a replaced file keeps owner and extended attributes."""
    require(hasattr(os, "setxattr"), "extended attributes are not supported here")
    target = workspace.root / "a.txt"
    try:
        os.setxattr(target, "user.note", b"kept")
    except OSError:
        require(False, "extended attributes are not supported here")
    with suppress(PermissionError):
        os.chown(target, 12345, 12345)
    owner = target.stat().st_uid
    await workspace.apply(await workspace.plan_accept(whole((await propose(workspace))["a.txt"])))
    assert target.read_bytes() == b"A\n"
    assert (target.stat().st_uid, os.getxattr(target, "user.note")) == (owner, b"kept")


async def test_damaged_content_is_never_handed_out(workspace: SessionWorkspace) -> None:
    """A bit that turned in the store is an error, not a file of the user's."""
    plan = await workspace.plan_accept(whole((await propose(workspace))["z.txt"]))
    pack = workspace.session_dir / "objects.pack"
    data = bytearray(pack.read_bytes())
    data[data.rindex(b"z" * 40_000)] ^= 1
    pack.write_bytes(data)
    with pytest.raises(GloveportError) as refusal:
        await workspace.apply(plan)
    assert refusal.value.code is ErrorCode.BLOB_MISSING
    assert (workspace.root / "z.txt").read_bytes() == b"z\n"


async def test_a_torn_store_is_cut_at_opening(workspace: SessionWorkspace) -> None:
    """D01: half a record at the end of the index is dropped; everything before it is there."""
    before = await workspace.proposals()
    workspace.close()
    with (workspace.session_dir / "objects.index").open("ab") as file:
        file.write(b"half")
    again = await SessionWorkspace.open(workspace.session_dir)
    try:
        assert await again.proposals() == before
        await again.write("a.txt", b"after the tear\n")
        plan = await again.plan_accept(whole((await propose(again))["a.txt"]))
    finally:
        again.close()
    last = await SessionWorkspace.open(workspace.session_dir)
    try:
        await last.apply(plan)
        assert (last.root / "a.txt").read_bytes() == b"after the tear\n"
    finally:
        last.close()


@pytest.mark.parametrize("path", ["a.txt", "k/new.txt", "m/b.txt", "z.txt"])
async def test_a_save_between_check_and_swap_survives(workspace: SessionWorkspace, path: str) -> None:
    """B16: changed, created, deleted or last: the user's save is the file, and all others are as before."""
    before = read_tree(workspace.root)
    (workspace.root / "k").mkdir(exist_ok=True)
    assert await applied(workspace, raced=str(workspace.root / path)) == ErrorCode.CHANGE_CONFLICT.value
    assert read_tree(workspace.root) == before | {path: (0o644, b"user\n")}
    assert len(await workspace.proposals()) == 4


async def test_what_was_written_is_read_back(workspace: SessionWorkspace) -> None:
    """Bytes that change on their way to the disk are found by the look afterwards, and everything is taken back."""
    before = read_tree(workspace.root)
    plan = await workspace.plan_accept(whole(*await workspace.proposals()))
    staged = workspace.root / plan.staged(0)
    assert await applied(workspace, raced=str(staged)) == ErrorCode.CHANGE_CONFLICT.value
    assert read_tree(workspace.root) == before
