"""Folders of a session's own go, whatever was made of them; nothing outside is touched, and what stays is named."""

import os
import shutil
import threading
from pathlib import Path

import pytest
from tests.kit.ordinary_user import ordinary_user
from tests.kit.require import require
from tests.kit.workspaces import make_tree, read_tree

from gloveport.server.app.resources import WorkspaceShelf
from gloveport.server.commands.data import left_words
from gloveport.server.workspace.removing import LEFT_MAX, remove_tree

DEEP = 2_000


@pytest.fixture
def trash(tmp_path: Path) -> Path:
    """A folder to be removed, beside what must stay."""
    make_tree(tmp_path / "outside", {"file": b"mine", "sub/file": b"mine"})
    make_tree(tmp_path / "trash", {"a": b"1", "b/c/d": b"2", "b/e": b"3", ".hidden/f": b"4"})
    return tmp_path / "trash"


def test_what_is_closed_goes(trash: Path) -> None:
    """Without read, search or write right, at the top, in between and at the end; the control stops at each."""
    with ordinary_user(trash.parent):
        for closed, mode in ((trash / "b/c", 0), (trash / "b", 0o500), (trash / ".hidden", 0o300), (trash, 0)):
            closed.chmod(mode)
        shutil.rmtree(trash, ignore_errors=True)
        assert trash.exists()
        assert remove_tree(trash) == ()
        assert not os.path.lexists(trash)
        assert remove_tree(trash) == ()


def test_what_is_too_deep_for_a_walk_goes(trash: Path) -> None:
    """Deeper than a path may be long, than there are handles, and than calls may nest."""
    fd = os.open(trash, os.O_RDONLY)
    for _ in range(DEEP):
        os.mkdir("name", dir_fd=fd)
        below = os.open("name", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.mkdir("last", 0, dir_fd=fd)
    os.close(fd)
    assert remove_tree(trash) == ()
    assert not trash.exists()


def test_links_are_removed_and_never_followed(trash: Path) -> None:
    """Links in it, of every kind, and one in its own place."""
    outside = trash.parent / "outside"
    before, mode = read_tree(outside), (outside / "sub").stat().st_mode
    (trash / "to-folder").symlink_to(outside)
    (trash / "b/to-sub").symlink_to("../../outside/sub")
    (trash / "loop").symlink_to("loop")
    os.link(outside / "file", trash / "b/hard")
    os.mkfifo(trash / "b/fifo")
    assert remove_tree(trash) == ()
    trash.symlink_to(outside)
    assert remove_tree(trash) == ()
    assert not os.path.lexists(trash)
    trash.write_bytes(b"a file in its place")
    assert remove_tree(trash) == ()
    assert not trash.exists()
    assert (read_tree(outside), (outside / "sub").stat().st_mode) == (before, mode)


def test_a_folder_that_becomes_a_link_meanwhile_leads_nowhere(trash: Path) -> None:
    """A program swaps folders for links while they are removed: what they lead to is as it was."""
    outside = trash.parent / "outside"
    (outside / "sub").chmod(0o500)
    before, ended = read_tree(outside), threading.Event()

    def swap() -> None:
        turn = 0
        while not ended.is_set():
            turn += 1
            name = trash / f"b{turn % 7}"
            try:
                if name.is_symlink():
                    name.unlink()
                    (name / "in").mkdir(parents=True)
                else:
                    name.rename(trash / f"aside-{turn}")
                    name.symlink_to(outside)
            except OSError:
                trash.mkdir(exist_ok=True)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(150):
            for number in range(7):
                (trash / f"b{number}/in").mkdir(parents=True, exist_ok=True)
            remove_tree(trash)
    except (FileExistsError, FileNotFoundError, NotADirectoryError):
        pass  # the swap was quicker than the making
    finally:
        ended.set()
        swapping.join()
    assert read_tree(outside) == before
    assert (outside / "sub").stat().st_mode & 0o777 == 0o500


def test_what_stays_is_named_and_the_rest_goes(trash: Path) -> None:
    """A folder of another user's: its path and the reason; no more than a bounded number of them."""
    require(os.geteuid() == 0, "folders of another user are made by root alone")
    with ordinary_user(trash.parent):
        pass
    for number in range(LEFT_MAX + 5):
        make_tree(trash / "b", {f"theirs{number:02}/file": b"x"})
    with ordinary_user(trash.parent, gives=False):
        left = remove_tree(trash)
    assert len(left) == LEFT_MAX
    assert all(words.startswith(f"{trash}/b/theirs") and words.endswith(("(EPERM)", "(EACCES)")) for words in left), (
        left
    )
    assert {name for name in os.listdir(trash) if not name.startswith(".going-")} <= {"b"}
    assert remove_tree(trash) == ()


async def test_what_stays_of_a_deleted_session_is_told_until_it_goes(tmp_path: Path) -> None:
    """Its folder is tried again; what daemon/status says is nothing once all is gone."""
    require(os.geteuid() == 0, "folders of another user are made by root alone")
    shelf = WorkspaceShelf(tmp_path / "sessions", ())
    make_tree(tmp_path / "sessions/one", {"state.json": b"{}", "worktree/a": b"1"})
    with ordinary_user(tmp_path):
        pass
    make_tree(tmp_path / "sessions/one/worktree", {"theirs/file": b"x"})
    with ordinary_user(tmp_path, gives=False):
        await shelf.remove("one")
    assert [words.split(":")[0] for words in shelf.left["one"]] == [str(tmp_path / "sessions/one/worktree/theirs")]
    (told,) = left_words(shelf.left["one"])
    assert "worktree/theirs" in told
    await shelf.remove("one")
    assert (shelf.left, left_words(()), await shelf.there()) == ({}, [], ())
