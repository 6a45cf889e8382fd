"""Installed dependencies are there for a command, what it writes over them stays with the session and never returns."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.require import require_bubblewrap
from tests.kit.sandboxes import open_rig
from tests.kit.workspaces import make_tree, read_tree

from gloveport.sandbox.backends.bubblewrap import BubblewrapSandbox
from gloveport.sandbox.contract import Command, Result
from gloveport.sandbox.profile import Access, Limits, Mount, Profile
from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.layers import drop_layers

FILES = {
    "code.js": b"run\n",
    "node_modules/x/index.js": b"theirs\n",
    "node_modules/x/gone.js": b"theirs too\n",
    "node_modules/.bin/lint": b"#!/bin/sh\n",
    ".env": b"TOKEN=1\n",
}
CHANGES = (
    "set -e; echo ours > node_modules/x/index.js; rm node_modules/x/gone.js; echo bad > node_modules/.bin/lint;"
    "mkdir -p node_modules/.cache; echo warm > node_modules/.cache/a; cat node_modules/x/index.js"
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that layers can lie in and a jail can be shown."""
    with tempfile.TemporaryDirectory(prefix="gp-", dir="/tmp") as path:
        yield Path(path)


async def run(workspace: SessionWorkspace, backend: BubblewrapSandbox, script: str) -> Result:
    """One command, with what a session shows it."""
    root = str(workspace.root)
    mounts = [Mount(str(workspace.worktree), root, Access.READ_WRITE)]
    mounts += [Mount(path, path, Access.COPY_ON_WRITE, layer) for path, layer in (await workspace.layers()).items()]
    profile = Profile("layers", "build", tuple(mounts), root, Limits(wall_s=60.0))
    name = f"run-{os.urandom(6).hex()}"
    lease = await backend.prepare(profile, name)
    try:
        execution = await lease.start(Command(("sh", "-c", script), name))
        return await execution.result()
    finally:
        await lease.release()


async def test_what_is_written_over_dependencies_never_returns(folder: Path) -> None:
    """Seen by the next command of the session; not by the user, not by another session, not as a proposal."""
    require_bubblewrap()
    root = make_tree(folder / "root", FILES)
    before = read_tree(root)
    async with open_rig("bubblewrap") as rig:
        assert isinstance(rig.backend, BubblewrapSandbox)
        first = await SessionWorkspace.create(root, folder / "a")
        second = await SessionWorkspace.create(root, folder / "b")
        changed = await run(first, rig.backend, CHANGES)
        assert (changed.exit_code, changed.output) == (0, b"ours\n")
        look = "cat node_modules/x/index.js node_modules/.cache/a; ls node_modules/x"
        assert (await run(first, rig.backend, look)).output == b"ours\nwarm\nindex.js\n"
        assert b"theirs\n" in (await run(second, rig.backend, look)).output
        assert read_tree(root) == before
        assert await first.proposals() == ()
        assert (await first.refresh()).taken == ()
        for each in (first, second):
            each.close()
    drop_layers(folder / "a")
    assert not (folder / "a" / "layers").exists()
    assert read_tree(root) == before


async def test_where_there_are_no_layers_dependencies_are_read_only(folder: Path) -> None:
    """The control, and the way out: nothing is written, and the description of the run says how they are shown."""
    require_bubblewrap()
    root = make_tree(folder / "root", FILES)
    async with open_rig("bubblewrap") as rig:
        assert isinstance(rig.backend, BubblewrapSandbox)
        workspace = await SessionWorkspace.create(root, folder / "a")
        rig.backend._layers.note(os.stat(folder).st_dev, works=False)
        failed = await run(workspace, rig.backend, CHANGES)
        assert failed.exit_code != 0
        assert b"Read-only file system" in failed.output
        (layer,) = (await workspace.layers()).values()
        target = f"{root}/node_modules"
        mounts = (
            Mount(str(workspace.worktree), str(root), Access.READ_WRITE),
            Mount(target, target, Access.COPY_ON_WRITE, layer),
        )
        lease = await rig.backend.prepare(Profile("x", "build", mounts, str(root), Limits(wall_s=5.0)), "x")
        shown = {each["target"]: each["cover"] for each in lease.security_context["mounts"]}  # type: ignore[attr-defined]  # - plain data
        assert shown[target] == "read_only"
        workspace.close()


async def test_what_is_no_folder_any_more_is_not_shown(tmp_path: Path) -> None:
    """A folder that the user removed, or made a link of, since the session began."""
    root = make_tree(tmp_path / "root", FILES | {".venv/pyvenv.cfg": b""})
    workspace = await SessionWorkspace.create(root, tmp_path / "s")
    assert set(await workspace.layers()) == {f"{root}/node_modules", f"{root}/.venv"}
    (root / "node_modules").rename(root / "elsewhere")
    (root / "node_modules").symlink_to("elsewhere")
    assert set(await workspace.layers()) == {f"{root}/.venv"}
    workspace.close()
