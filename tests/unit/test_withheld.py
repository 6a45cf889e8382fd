"""Files that are kept wherever they lie: by name, through links, by content; and folders that a program closed."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gloveport.protocol.errors import ErrorCode
from gloveport.server.policy.protected import is_sensitive
from gloveport.server.workspace.errors import WorkspaceError
from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.withheld import KeptContent, Links, find_withheld

NOBODY = 65_534
NOTHING = KeptContent({}, frozenset())


@contextmanager
def ordinary_user() -> Iterator[Path]:
    """A folder of an ordinary user, as whom the block runs."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    root = os.geteuid() == 0
    if root:
        os.chown(folder, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    try:
        yield folder
    finally:
        if root:
            os.seteuid(0)
        shutil.rmtree(folder)


def test_a_folder_that_was_closed_is_looked_into() -> None:
    """A program closes a folder and opens it in its next run: what is in it is kept all the same."""
    with ordinary_user() as folder:
        (folder / "closed/deep").mkdir(parents=True)
        (folder / "closed/deep/.env").write_text("x")
        (folder / "closed/deep").chmod(0)
        (folder / "closed").chmod(0)
        assert find_withheld(folder, NOTHING, is_sensitive) == {"closed/deep/.env"}


def test_a_file_that_cannot_be_read_is_kept() -> None:
    """Of the size of a kept one, and nobody can tell: kept."""
    with ordinary_user() as folder:
        (folder / "a.txt").write_text("12345")
        (folder / "b.txt").write_text("12345")
        (folder / "a.txt").chmod(0)
        assert find_withheld(folder, KeptContent({}, frozenset({5})), is_sensitive) == {"a.txt"}


def test_a_folder_that_cannot_be_looked_into_is_an_error(tmp_path: Path) -> None:
    """A folder behind a path longer than the system takes: typed, with what to do, never taken for empty."""
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=here)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    with pytest.raises(WorkspaceError) as caught:
        find_withheld(tmp_path, NOTHING, is_sensitive)
    assert caught.value.code is ErrorCode.WORKSPACE_UNREADABLE
    assert caught.value.hint


async def test_what_a_kept_link_leads_to_is_kept_and_so_are_its_copies(tmp_path: Path) -> None:
    """`.env` is a link to an ordinary name, `.ssh` one to a folder; ignored folders and `.git` hide nothing."""
    root = tmp_path / "root"
    (root / "keys").mkdir(parents=True)
    (root / "dev.txt").write_text("token")
    (root / "keys/one").write_text("private")
    (root / "open.txt").write_text("hello")
    os.symlink("settings", root / ".env")
    os.symlink("dev.txt", root / "settings")
    os.symlink("keys", root / ".ssh")
    workspace = await SessionWorkspace.create(root, tmp_path / "session")
    tree = workspace.worktree
    (tree / ".git").mkdir()
    (tree / "node_modules").mkdir()
    shutil.copy(tree / "keys/one", tree / ".git/x")
    shutil.copy(tree / "dev.txt", tree / "node_modules/y")
    (tree / ".gitignore").write_text("node_modules\n")
    (tree / ".env").unlink()
    assert await workspace.withheld(is_sensitive) == {"dev.txt", "keys/one", ".git/x", "node_modules/y"}
    assert await workspace.aliases(("dev.txt", "open.txt")) == {"dev.txt": (".env", "settings")}
    workspace.close()


async def test_a_copy_stays_kept_when_the_user_changes_the_secret(tmp_path: Path) -> None:
    """The token was renewed in the user's folder; the former one still lies in the copy under another name."""
    root = tmp_path / "root"
    root.mkdir()
    (root / ".env").write_text("old token")
    workspace = await SessionWorkspace.create(root, tmp_path / "session")
    shutil.copy(workspace.worktree / ".env", workspace.worktree / "copy.txt")
    assert await workspace.withheld(is_sensitive) == {".env", "copy.txt"}
    (root / ".env").write_text("new token!")
    assert (await workspace.refresh()).taken == (".env",)
    assert await workspace.withheld(is_sensitive) == {".env", "copy.txt"}
    workspace.close()


@pytest.mark.parametrize(
    ("path", "end"),
    [
        ("a/x", "b/c/x"),
        ("loop", None),
        ("out", None),
        ("up/x", "x"),
        ("plain", "plain"),
        ("abs", None),
        ("a/../q", "b/q"),
    ],
)
def test_links_as_text(path: str, end: str | None) -> None:
    """Component by component, as the kernel would; circles and ways out lead nowhere."""
    links = Links({"a": "b/c", "loop": "loop", "out": "../x", "b/up": "..", "up": "b/up", "abs": "/etc"})
    assert links.lead(path) == end
