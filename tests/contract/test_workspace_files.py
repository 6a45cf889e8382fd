"""Snapshot, worktree and file access: what is copied, what is refused, what is told."""

import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import anyio
import pytest
from tests.kit.require import require
from tests.kit.workspaces import make_tree, propose, read_tree, whole

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.workspace.changing import FileEdit
from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.limits import WorkspaceLimits

FILES = {
    "a.py": b"one\r\ntwo\n\rthree",
    "src/b.py": b"\xef\xbb\xbfx = 1\n",
    "src/deep/c.bin": b"\x00\xff\n",
    "empty": b"",
    ".gitignore": b"*.log\n/build/\n!keep.log\n",
    "keep.log": b"kept\n",
    "x.log": b"ignored\n",
    "build/out.txt": b"ignored\n",
    "src/.gitignore": b"*.tmp\n!x.log\n",
    "src/a.tmp": b"ignored\n",
    "src/x.log": b"taken back\n",
    ".git/config": b"[core]\n\thooksPath = evil\n",
    "vendor/sub/.git": b"gitdir: elsewhere\n",
    "vendor/sub/v.c": b"int v;\n",
    "node_modules/m/index.js": b"installed\n",
    ".venv/pyvenv.cfg": b"home = /usr\n",
    "src/__pycache__/b.pyc": b"made\n",
}
CONTENT = {"a.py", "src/b.py", "src/deep/c.bin", "empty", ".gitignore", "keep.log", "src/.gitignore", "src/x.log",
           "vendor/sub/v.c"}  # fmt: skip


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[SessionWorkspace]:
    """A session over FILES, with a script, a link inside and links that leave."""
    root = make_tree(tmp_path / "root", FILES)
    (root / "run.sh").write_bytes(b"#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (tmp_path / "secret").write_bytes(b"outside\n")
    (root / "link.py").symlink_to("src/b.py")
    (root / "leaves").symlink_to("../secret")
    (root / "absolute").symlink_to(tmp_path)
    (root / "togit").symlink_to(".git/config")
    opened = await SessionWorkspace.create(root, tmp_path / "data" / "session")
    yield opened
    opened.close()


async def test_worktree_is_the_content_byte_by_byte(workspace: SessionWorkspace) -> None:
    """Tracked or not, unignored files are copied exactly; git's store, caches and dependencies are not."""
    user, ours = read_tree(workspace.root), read_tree(workspace.worktree)
    assert set(ours) == CONTENT | {"run.sh", "link.py"}
    assert all(ours[path] == user[path] for path in ours)
    assert workspace.snapshot.files == len(ours)
    assert workspace.snapshot.dependency_folders == (".venv", "node_modules")
    assert {each.path: each.reason for each in workspace.snapshot.not_covered} == {
        "leaves": "link_leaves_root", "absolute": "link_leaves_root", "togit": "link_leaves_root"
    }  # fmt: skip
    assert await workspace.proposals() == ()


async def test_a13_user_folder_is_only_read(tmp_path: Path) -> None:
    """A13: snapshot and session leave the user's folder, `.git` included, with the same bytes and times."""
    root = make_tree(tmp_path / "root", FILES)

    def stamps() -> dict[str, tuple[int, int, int]]:
        return {
            str(path): (info.st_mtime_ns, info.st_ctime_ns, info.st_ino)
            for path in [root, *root.rglob("*")]
            if (info := path.lstat())
        }

    before = stamps()
    opened = await SessionWorkspace.create(root, tmp_path / "s")
    await opened.write("a.py", b"new")
    await opened.proposals()
    opened.close()
    assert stamps() == before


async def test_opens_again_as_it_was(workspace: SessionWorkspace) -> None:
    """After a restart: same root, identity, snapshot and proposals."""
    await workspace.write("a.py", b"changed\n")
    await workspace.write("x.log", b"named on purpose\n")
    before = await workspace.proposals()
    workspace.close()
    again = await SessionWorkspace.open(workspace.session_dir)
    try:
        assert (again.root, again.identity, again.snapshot) == (workspace.root, workspace.identity, workspace.snapshot)
        assert await again.proposals() == before
    finally:
        again.close()


PATHS_OUTSIDE = [
    "../secret",
    "/etc/passwd",
    "src/../../secret",
    "",
    "a//b",
    "s/../../x",
    "up/secret",
    "up",
    "src/./b.py",
]


@pytest.mark.parametrize("path", PATHS_OUTSIDE)
async def test_b12_paths_that_leave_are_refused(workspace: SessionWorkspace, path: str) -> None:
    """B12: by `..`, by absolute path, by a link the agent made; reading, writing, deleting behind it alike."""
    (workspace.worktree / "up").symlink_to("..")
    (workspace.worktree / "s").symlink_to("src")
    for call in (workspace.read(path), workspace.digest(path), workspace.write(path, b"x")):
        with pytest.raises(GloveportError) as refusal:
            await call
        assert refusal.value.code is ErrorCode.OUTSIDE_WORKSPACE


async def test_dangling_link_out_is_not_written_through(workspace: SessionWorkspace, tmp_path: Path) -> None:
    """B12: a link whose target does not exist yet does not make the target."""
    (workspace.worktree / "d").symlink_to(tmp_path / "made")
    (workspace.worktree / "e").symlink_to("../../../made")
    for path in ("d", "e"):
        with pytest.raises(GloveportError) as refusal:
            await workspace.write(path, b"x")
        assert refusal.value.code is ErrorCode.OUTSIDE_WORKSPACE
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "path", [".git/config", ".GIT/hooks/x", "vendor/sub/.git/config", "git~1/x", ".gloveport-1", "g"]
)
async def test_git_and_our_own_names_are_refused(workspace: SessionWorkspace, path: str) -> None:
    """B14: in every spelling, nested, absent, and through a link."""
    (workspace.worktree / "g").symlink_to(".git")
    for call in (workspace.read(path), workspace.write(path, b"x")):
        with pytest.raises(GloveportError) as refusal:
            await call
        assert refusal.value.code is ErrorCode.PROTECTED_PATH


async def test_dependency_folders_are_not_written(workspace: SessionWorkspace) -> None:
    """Changes there never return, so none is pretended."""
    with pytest.raises(GloveportError) as refusal:
        await workspace.write("node_modules/m/index.js", b"x")
    assert refusal.value.code is ErrorCode.PROTECTED_PATH


async def test_special_files_and_folders_are_no_files(workspace: SessionWorkspace) -> None:
    """A FIFO neither blocks a read nor becomes a proposal; a folder is no file; a missing file is told as missing."""
    os.mkfifo(workspace.worktree / "pipe")
    for path, code in (("pipe", ErrorCode.NOT_A_FILE), ("src", ErrorCode.NOT_A_FILE), ("no", ErrorCode.FILE_MISSING)):
        with pytest.raises(GloveportError) as refusal:
            await workspace.read(path)
        assert refusal.value.code is code
    assert await workspace.proposals() == ()


async def test_hard_links_are_not_followed_out(workspace: SessionWorkspace, tmp_path: Path) -> None:
    """R1.3: a second name of an outside file is neither read nor proposed, and the look tells of it."""
    os.link(tmp_path / "secret", workspace.worktree / "hard")
    with pytest.raises(GloveportError) as refusal:
        await workspace.read("hard")
    assert refusal.value.code is ErrorCode.PROTECTED_PATH
    assert await workspace.proposals() == ()
    assert [each.path for each in workspace.unproposable] == ["hard"]
    os.link(workspace.worktree / "a.py", workspace.worktree / "second")
    assert await workspace.proposals() == ()


async def test_a10_write_keeps_mode_and_writes_through_inner_links(workspace: SessionWorkspace) -> None:
    """A10: a script stays runnable; a link that stays inside leads to its target and remains a link."""
    await workspace.write("run.sh", b"#!/bin/sh\necho\n")
    await workspace.write("link.py", b"y = 2\n")
    ours = read_tree(workspace.worktree)
    assert ours["run.sh"] == (0o755, b"#!/bin/sh\necho\n")
    assert ours["src/b.py"][1] == b"y = 2\n"
    assert ours["link.py"] == (0, b"src/b.py")
    assert sorted(await propose(workspace)) == ["run.sh", "src/b.py"]


async def test_write_against_an_expected_hash(workspace: SessionWorkspace) -> None:
    """A09, B16: content decides, not time: a touched file is written, a changed one is not."""
    seen = await workspace.digest("a.py")
    os.utime(workspace.worktree / "a.py", (1, 1))
    await workspace.write("a.py", b"next", expected=seen)
    with pytest.raises(GloveportError) as refusal:
        await workspace.write("a.py", b"late", expected=seen)
    assert refusal.value.code is ErrorCode.CHANGE_CONFLICT
    with pytest.raises(GloveportError):
        await workspace.delete("a.py", expected=seen)
    assert await workspace.read("a.py") == b"next"


async def test_list_and_search_have_bounds_that_are_told(workspace: SessionWorkspace) -> None:
    """Lists are ordered and cut with a mark; a search skips what is not text and says so."""
    everything = await workspace.list()
    assert set(everything.paths) == CONTENT | {"run.sh", "link.py"}
    assert (await workspace.list("*.py")).paths == ("a.py", "link.py", "src/b.py")
    assert (await workspace.list("src/**")).paths == ("src/.gitignore", "src/b.py", "src/deep/c.bin", "src/x.log")
    cut = await workspace.list(limit=2)
    assert (len(cut.paths), cut.truncated) == (2, True)
    found = await workspace.search(r"^x = \d$|three$")
    assert [(each.path, each.line) for each in found.matches] == [("a.py", 3), ("src/b.py", 1)]
    assert found.skipped == ("src/deep/c.bin",)
    assert (await workspace.search("t", limit=1)).truncated


class _Slow:
    """Paths to be left out, of which the first question takes until it is let go."""

    def __init__(self) -> None:
        self.asked, self.go = threading.Event(), threading.Event()

    def __contains__(self, path: object) -> bool:
        self.asked.set()
        self.go.wait(20)
        return False


async def test_who_leaves_a_search_does_not_wait_for_it(workspace: SessionWorkspace) -> None:
    """A search only reads: its caller goes at once, and the worktree is free for the next one."""
    slow = _Slow()
    try:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(workspace.search, "one", leave_out=slow))
                await anyio.to_thread.run_sync(slow.asked.wait, 10)
                tasks.cancel_scope.cancel()
            assert await workspace.read("a.py")
    finally:
        slow.go.set()


async def test_a_write_that_was_stopped_meanwhile_writes_nothing(workspace: SessionWorkspace) -> None:
    """The last question before a change is whether it is still wanted."""
    seen = await workspace.digest("a.py")
    for data in (b"x", None):
        with pytest.raises(GloveportError) as caught:
            await workspace.edit([FileEdit("a.py", seen, data)], unless=lambda: True)
        assert caught.value.code is ErrorCode.CANCELLED
    assert await workspace.read("a.py") == FILES["a.py"]


async def test_search_pattern_cannot_run_away(workspace: SessionWorkspace) -> None:
    """A pattern that backtracks for ever elsewhere ends; an invalid one is refused by name."""
    await workspace.write("a.txt", b"a" * 100_000)
    assert (await workspace.search("(a+)+$b")).matches == ()
    with pytest.raises(GloveportError) as refusal:
        await workspace.search("(")
    assert refusal.value.code is ErrorCode.TOOL_ARGUMENTS


@pytest.mark.parametrize(("limits", "name"), [
    (WorkspaceLimits(files_max=3), "files_max"), (WorkspaceLimits(total_bytes_max=20), "total_bytes_max"),
])  # fmt: skip
async def test_a13_a_workspace_over_a_limit_is_refused_by_name(
    tmp_path: Path, limits: WorkspaceLimits, name: str
) -> None:
    """A13: a failed snapshot is an error, leaves nothing, and cannot be opened."""
    root = make_tree(tmp_path / "root", FILES)
    with pytest.raises(GloveportError) as refusal:
        await SessionWorkspace.create(root, tmp_path / "s", limits=limits)
    assert (refusal.value.code, refusal.value.data["limit"]) == (ErrorCode.LIMIT, name)
    assert list((tmp_path / "s").iterdir()) == []
    with pytest.raises(GloveportError) as closed:
        await SessionWorkspace.open(tmp_path / "s")
    assert closed.value.code is ErrorCode.WORKSPACE_MISSING


async def test_a_large_file_is_left_out_and_told(tmp_path: Path) -> None:
    """The rest of the workspace is still covered."""
    root = make_tree(tmp_path / "root", {"big": b"x" * 101, "small": b"y"})
    opened = await SessionWorkspace.create(root, tmp_path / "s", limits=WorkspaceLimits(file_bytes_max=100))
    try:
        assert [(each.path, each.reason) for each in opened.snapshot.not_covered] == [("big", "too_large")]
        assert (await opened.list()).paths == ("small",)
        await opened.write("new", b"z")
        assert sorted(await propose(opened)) == ["new"]
    finally:
        opened.close()


async def test_an_empty_folder_works(tmp_path: Path) -> None:
    """No file, no git: the session begins, and the first file can be accepted."""
    (tmp_path / "root").mkdir()
    opened = await SessionWorkspace.create(tmp_path / "root", tmp_path / "s")
    try:
        assert (opened.snapshot.files, (await opened.list()).paths, await opened.proposals()) == (0, (), ())
        await opened.write("pkg/first.py", b"print()\n")
        await opened.apply(await opened.plan_accept(whole(*await opened.proposals())))
        assert read_tree(opened.root) == {"pkg/first.py": (0o644, b"print()\n")}
    finally:
        opened.close()


@pytest.mark.parametrize("kind", ["missing", "file"])
async def test_a_root_that_is_no_folder_is_refused(tmp_path: Path, kind: str) -> None:
    """Bad input: typed, and nothing is left behind."""
    if kind == "file":
        (tmp_path / "root").write_bytes(b"x")
    with pytest.raises(GloveportError) as refusal:
        await SessionWorkspace.create(tmp_path / "root", tmp_path / "s")
    assert refusal.value.code is ErrorCode.WORKSPACE_MISSING
    assert not (tmp_path / "s").exists()


UNREADABLE = """
import sys, anyio
from pathlib import Path
from gloveport.protocol.errors import GloveportError
from gloveport.server.workspace.facade import SessionWorkspace

async def main(root, session):
    try:
        opened = await SessionWorkspace.create(Path(root), Path(session))
    except GloveportError as error:
        print(error.code.value)
        return
    print(sorted((await opened.list()).paths), [(each.path, each.reason) for each in opened.snapshot.not_covered])

anyio.run(main, *sys.argv[1:])
"""


def as_ordinary_user(*arguments: str) -> str:
    """Output of UNREADABLE run without root's power to read everything."""
    command = [sys.executable, "-c", UNREADABLE, *arguments]
    if os.geteuid() == 0:
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", *command]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=100).stdout


def test_unreadable_folder_and_file(tmp_path: Path) -> None:
    """Bad input as an ordinary user: a root without read right is a typed error, a file in it is told."""
    require(os.geteuid() != 0 or os.access("/usr/bin/setpriv", os.X_OK), "setpriv (util-linux) is not installed")
    root = make_tree(tmp_path / "root", {"open": b"x", "closed": b"y", "sub/in": b"z"})
    (root / "closed").chmod(0)
    (root / "sub").chmod(0)
    try:
        told = "['open'] [('closed', 'unreadable'), ('sub', 'unreadable')]"
        assert as_ordinary_user(str(root), str(tmp_path / "s1")).strip() == told
        root.chmod(0)
        assert as_ordinary_user(str(root), str(tmp_path / "s2")).strip() == ErrorCode.WORKSPACE_UNREADABLE.value
    finally:
        root.chmod(0o700)
        (root / "sub").chmod(0o700)


async def test_rules_of_the_worktree_hide_no_change_of_a_known_file(workspace: SessionWorkspace) -> None:
    """An agent that ignores a file of the base, or its folder, still has its change shown."""
    await workspace.write("src/b.py", b"evil = 1\n")
    await workspace.write(".gitignore", b"src\n*.sh\n")
    await workspace.write("run.sh", b"changed\n")
    assert sorted(await propose(workspace)) == [".gitignore", "run.sh", "src/b.py"]


async def test_the_data_directory_inside_the_root_is_no_content(tmp_path: Path) -> None:
    """A session on the home folder does not copy itself."""
    root = make_tree(tmp_path / "home", {"a": b"x", ".local/gloveport/other": b"data"})
    data = root / ".local" / "gloveport"
    opened = await SessionWorkspace.create(root, data / "s", exclude=[data])
    try:
        assert (await opened.list()).paths == ("a",)
    finally:
        opened.close()


async def test_names_that_are_not_utf8_are_told(tmp_path: Path) -> None:
    """A name that no client could send back is left out, not mangled."""
    root = make_tree(tmp_path / "root", {"a": b"x"})
    require(sys.platform == "linux", "file names are bytes on Linux only")
    Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9")).write_bytes(b"y")
    opened = await SessionWorkspace.create(root, tmp_path / "s")
    try:
        assert [(each.path, each.reason) for each in opened.snapshot.not_covered] == [("caf\\udce9", "name")]
    finally:
        opened.close()


@pytest.mark.parametrize("path", ["x.log", "build/deep/y", "src/a.tmp", "src/__pycache__/z", "src/plain", "new/plain"])
async def test_what_a_tool_wrote_by_name_is_always_proposed(workspace: SessionWorkspace, path: str) -> None:
    """A write that succeeded is never lost to an ignore rule, not even over a restart."""
    await workspace.write(path, b"written\n")
    assert sorted(await propose(workspace)) == [path]
    workspace.close()
    again = await SessionWorkspace.open(workspace.session_dir)
    try:
        assert sorted(await propose(again)) == [path]
        assert (await again.proposals())[0].kind == "create"
    finally:
        again.close()
