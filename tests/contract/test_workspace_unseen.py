"""What cannot be looked at is named and unknown: never a deletion, never a failure of the whole look."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.kit.require import require
from tests.kit.workspaces import make_tree, propose, read_tree, whole

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.workspace import files
from gloveport.server.workspace.drift import Refreshed
from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.limits import DEFAULT_LIMITS
from gloveport.server.workspace.plan import Selected

FILES = {"a.txt": b"a\n", "src/x.py": b"x = 1\n", "src/y.py": b"y = 1\n"}
LOOK = """
import sys, json, anyio
from pathlib import Path
from gloveport.server.workspace.facade import SessionWorkspace

async def main(session, closed):
    workspace = await SessionWorkspace.open(Path(session))
    (workspace.worktree / closed).chmod(0)
    shown = [[each.path, each.kind] for each in await workspace.proposals()]
    print(json.dumps([shown, [[each.path, each.reason] for each in workspace.unproposable]]))

anyio.run(main, *sys.argv[1:])
"""


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[SessionWorkspace]:
    """A session over FILES."""
    opened = await SessionWorkspace.create(make_tree(tmp_path / "root", FILES), tmp_path / "s")
    yield opened
    opened.close()


async def kinds(workspace: SessionWorkspace) -> dict[str, str]:
    """The kind of each proposal by path."""
    return {path: proposal.kind for path, proposal in (await propose(workspace)).items()}


def left_out(workspace: SessionWorkspace) -> dict[str, str]:
    """What could not be looked at, and why."""
    return {each.path: each.reason for each in workspace.unproposable}


def seen_by_an_ordinary_user(workspace: SessionWorkspace, closed: str) -> tuple[list[Any], dict[str, str]]:
    """Proposals and what was left out, of a process without the rights of root."""
    command = [sys.executable, "-c", LOOK, str(workspace.session_dir), closed]
    if os.geteuid() == 0:
        require(os.access("/usr/bin/setpriv", os.X_OK), "setpriv (util-linux) is not installed")
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", *command]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    shown, unseen = json.loads(done.stdout)
    return shown, dict(unseen)


async def test_a_folder_that_became_a_link_within(workspace: SessionWorkspace) -> None:
    """The link is what lies there now, so nothing lies below it."""
    (workspace.worktree / "src").rename(workspace.worktree / "src2")
    (workspace.worktree / "src").symlink_to("src2")
    found = await propose(workspace)
    assert {path: (each.kind, each.renamed_from) for path, each in found.items()} == {
        "src": ("symlink", None),
        "src2/x.py": ("rename", "src/x.py"),
        "src2/y.py": ("rename", "src/y.py"),
    }
    assert left_out(workspace) == {}


async def test_a_folder_that_became_a_link_out(workspace: SessionWorkspace, tmp_path: Path) -> None:
    """The link is no content, and what lies behind it is unknown: no deletion is proposed."""
    shutil.rmtree(workspace.worktree / "src")
    (workspace.worktree / "src").symlink_to(tmp_path)
    (workspace.worktree / "a.txt").write_bytes(b"A\n")
    assert await kinds(workspace) == {"a.txt": "modify"}
    assert left_out(workspace) == {"src": "link_leaves_root"}
    assert workspace.is_unknown("src/x.py")
    assert not workspace.is_unknown("a.txt")


@pytest.mark.parametrize("closed", ["src", "a.txt", "."])
async def test_what_is_closed(workspace: SessionWorkspace, closed: str) -> None:
    """As an ordinary user: a closed folder, file or worktree is named, and nothing is taken for deleted."""
    place = workspace.worktree / closed
    mode = place.stat().st_mode
    try:
        assert seen_by_an_ordinary_user(workspace, closed) == ([], {closed: "unreadable"})
    finally:
        place.chmod(mode)


async def test_more_files_than_may_be(tmp_path: Path) -> None:
    """The limit is named; what is known is still compared, and what is new is not proposed."""
    limits = replace(DEFAULT_LIMITS, files_max=5)
    workspace = await SessionWorkspace.create(make_tree(tmp_path / "root", FILES), tmp_path / "s", limits=limits)
    try:
        make_tree(workspace.worktree, {f"m{number}": b"" for number in range(9)} | {"a.txt": b"A\n"})
        (workspace.worktree / "src" / "y.py").unlink()
        assert await kinds(workspace) == {"a.txt": "modify"}
        assert left_out(workspace) == {".": "files_max"}
        assert workspace.is_unknown("m1")
        make_tree(workspace.root, {f"m{number}": b"" for number in range(9)})
        with pytest.raises(GloveportError) as refusal:
            await workspace.refresh()
        assert (refusal.value.code, refusal.value.data["limit"]) == (ErrorCode.LIMIT, "files_max")
    finally:
        workspace.close()


async def test_more_changes_than_may_be_shown(tmp_path: Path) -> None:
    """The rest is named by the limit and stays unknown."""
    limits = replace(DEFAULT_LIMITS, proposals_max=2)
    workspace = await SessionWorkspace.create(make_tree(tmp_path / "root", FILES), tmp_path / "s", limits=limits)
    try:
        make_tree(workspace.worktree, {f"m{number}": b"" for number in range(4)})
        assert await kinds(workspace) == {"m0": "create", "m1": "create"}
        assert left_out(workspace) == {"m2": "proposals_max", "m3": "proposals_max"}
    finally:
        workspace.close()


async def test_what_lies_too_deep_is_named(workspace: SessionWorkspace) -> None:
    """Also deeper than any name can be; known files are compared."""
    await workspace.write("a.txt", b"A\n")
    here = os.open(workspace.worktree, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for _ in range(300):
            os.mkdir("d" * 20, dir_fd=here)
            below = os.open("d" * 20, os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
            os.close(here)
            here = below
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    finally:
        os.close(here)
    assert await kinds(workspace) == {"a.txt": "modify"}
    assert list(left_out(workspace).values()) == ["too_deep"]


async def test_a_refusal_of_the_disk_is_typed(workspace: SessionWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the operating system says where nobody expects it has a code."""

    def fail(*_: object) -> None:
        raise OSError(5, "no such luck")

    monkeypatch.setattr(files, "list_files", fail)
    with pytest.raises(GloveportError) as refusal:
        await workspace.list()
    assert refusal.value.code is ErrorCode.WORKSPACE_UNREADABLE


async def test_damaged_contents_are_named(workspace: SessionWorkspace) -> None:
    """A base that is no longer in the store: its path cannot be compared; all others can."""
    await workspace.write("a.txt", b"A\n")
    await workspace.write("new.txt", b"new\n")
    workspace.close()
    index = workspace.session_dir / "objects.index"
    index.write_bytes(b"\xff" * len(index.read_bytes()))
    again = await SessionWorkspace.open(workspace.session_dir)
    try:
        assert await kinds(again) == {"new.txt": "create"}
        assert left_out(again) == {"a.txt": "journal.blob_missing"}
        with pytest.raises(GloveportError) as refusal:
            await again.plan_accept([Selected("change-x", "0" * 64)])
        assert "a.txt" in refusal.value.hint
    finally:
        again.close()


@pytest.mark.parametrize("how", ["removed", "replaced", "moved"])
@pytest.mark.parametrize("tree", ["worktree", "root"])
async def test_a_tree_that_is_gone(workspace: SessionWorkspace, tmp_path: Path, tree: str, how: str) -> None:
    """A folder that vanished holds no deletions."""
    place = workspace.worktree if tree == "worktree" else workspace.root
    if how == "removed":
        shutil.rmtree(place)
    else:
        place.rename(tmp_path / "elsewhere")
    if how == "replaced":
        place.mkdir()
    with pytest.raises(GloveportError) as refusal:
        await (workspace.proposals() if tree == "worktree" else workspace.drift())
    assert refusal.value.code is ErrorCode.WORKSPACE_MISSING


async def test_a_file_in_the_place_of_a_folder(workspace: SessionWorkspace) -> None:
    """Not together, and the words name both; one after the other it works, and is undone the same way."""
    before = read_tree(workspace.root)
    shutil.rmtree(workspace.worktree / "src")
    (workspace.worktree / "src").write_bytes(b"a file\n")
    changes = await propose(workspace)
    with pytest.raises(GloveportError) as refusal:
        await workspace.plan_accept(whole(*changes.values()))
    assert refusal.value.code is ErrorCode.CHANGE_CONFLICT
    assert "src and src/x.py" in refusal.value.message
    assert refusal.value.hint == "Decide on src/x.py first, then on src."
    assert read_tree(workspace.root) == before
    below = await workspace.apply(await workspace.plan_accept(whole(changes["src/x.py"], changes["src/y.py"])))
    above = await workspace.apply(await workspace.plan_accept(whole((await propose(workspace))["src"])))
    assert read_tree(workspace.root) == read_tree(workspace.worktree)
    assert (workspace.root / "src").read_bytes() == b"a file\n"
    for done in (above, below):
        await workspace.apply(await workspace.plan_undo(done.record))
    assert read_tree(workspace.root) == before


async def test_a_folder_in_the_place_of_a_file(workspace: SessionWorkspace) -> None:
    """The same the other way round."""
    (workspace.worktree / "a.txt").unlink()
    make_tree(workspace.worktree, {"a.txt/b": b"b\n"})
    changes = await propose(workspace)
    with pytest.raises(GloveportError) as refusal:
        await workspace.plan_accept(whole(*changes.values()))
    assert refusal.value.hint == "Decide on a.txt first, then on a.txt/b."
    for path in ("a.txt", "a.txt/b"):
        await workspace.apply(await workspace.plan_accept(whole((await propose(workspace))[path])))
    assert read_tree(workspace.root) == read_tree(workspace.worktree)


async def test_a_folder_with_the_users_own_files_is_not_replaced(workspace: SessionWorkspace) -> None:
    """An ignored file of the user's in the folder: the file that would take its place is refused."""
    make_tree(workspace.root, {"src/kept.pyc": b"kept\n"})
    shutil.rmtree(workspace.worktree / "src")
    (workspace.worktree / "src").write_bytes(b"a file\n")
    changes = await propose(workspace)
    await workspace.apply(await workspace.plan_accept(whole(changes["src/x.py"], changes["src/y.py"])))
    with pytest.raises(GloveportError) as refusal:
        await workspace.plan_accept(whole((await propose(workspace))["src"]))
    assert refusal.value.code is ErrorCode.CHANGE_CONFLICT
    assert (workspace.root / "src" / "kept.pyc").read_bytes() == b"kept\n"


def to_link_within(root: Path, _: Path) -> None:
    """The user moves a folder and leaves a link."""
    (root / "src").rename(root / "moved")
    (root / "src").symlink_to("moved")


def to_file(root: Path, _: Path) -> None:
    """The user puts a file where a folder was."""
    shutil.rmtree(root / "src")
    (root / "src").write_bytes(b"file\n")


@pytest.mark.parametrize("act", [to_link_within, to_file])
async def test_the_user_replaces_a_folder(
    workspace: SessionWorkspace, tmp_path: Path, act: Callable[[Path, Path], None]
) -> None:
    """Taken over as it is; also back again."""
    act(workspace.root, tmp_path)
    told = await workspace.refresh()
    assert told.conflicted == ()
    assert read_tree(workspace.worktree) == read_tree(workspace.root)
    assert await workspace.proposals() == ()
    (workspace.root / "src").unlink()
    make_tree(workspace.root, FILES)
    assert (await workspace.refresh()).conflicted == ()
    assert read_tree(workspace.worktree) == read_tree(workspace.root)


async def test_the_user_links_a_folder_out(workspace: SessionWorkspace, tmp_path: Path) -> None:
    """What lies behind the link is not seen: it is named, and nothing is taken for deleted."""
    (workspace.root / "src").rename(tmp_path / "outside")
    (workspace.root / "src").symlink_to(tmp_path / "outside")
    assert await workspace.refresh() == Refreshed((), ())
    assert [(each.path, each.reason) for each in workspace.user_unknown] == [("src", "link_leaves_root")]
    assert (workspace.worktree / "src" / "x.py").read_bytes() == FILES["src/x.py"]


async def test_an_excluded_folder_is_never_proposed(tmp_path: Path) -> None:
    """What the agent makes where our own folders lie below the root would return into them."""
    root = make_tree(tmp_path / "root", FILES)
    workspace = await SessionWorkspace.create(root, tmp_path / "s", exclude=[root / ".config" / "own"])
    try:
        await workspace.write(".config/own/rules.toml", b"[[rules]]\n")
        await workspace.write(".config/other", b"fine\n")
        assert await kinds(workspace) == {".config/other": "create"}
        assert left_out(workspace) == {".config/own/rules.toml": "protected"}
    finally:
        workspace.close()


def damage(body: dict[str, Any], how: str) -> str:
    """A record that is not one."""
    match how:
        case "cut":
            return json.dumps(body)[:-20]
        case "list":
            return "[]"
        case "digest":
            body["base"]["a.txt"][1] = "zz"
        case "mode":
            body["base"]["a.txt"][2] = "0o644"
        case "path":
            body["base"]["../a.txt"] = body["base"].pop("a.txt")
        case "root":
            body["root"] = "elsewhere"
        case _:
            del body["snapshot"]
    return json.dumps(body)


@pytest.mark.parametrize("how", ["cut", "list", "digest", "mode", "path", "root", "key"])
async def test_a_damaged_record_is_typed(workspace: SessionWorkspace, how: str) -> None:
    """Whatever is wrong with it, it is told as damaged, with what to do."""
    record = workspace.session_dir / "workspace.json"
    record.write_text(damage(json.loads(record.read_bytes()), how))
    with pytest.raises(GloveportError) as refusal:
        await SessionWorkspace.open(workspace.session_dir)
    assert refusal.value.code is ErrorCode.CORRUPT
    assert "new session" in refusal.value.hint
