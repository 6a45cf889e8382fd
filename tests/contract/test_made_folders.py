"""Folders as a program makes them: deeper than paths reach, closed, with links, moved about."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.kit.ordinary_user import ordinary_user

from gloveport.sandbox.backends.collect import DEPTH_MAX, collect_files
from gloveport.sandbox.profile import Access, Limits, Mount, Profile
from gloveport.sandbox.runner import setid
from gloveport.sandbox.runner.descent import MOVED, descend, taken_by
from gloveport.sandbox.runner.setid import Stripped, strip_set_id
from gloveport.server.workspace.removing import remove_tree

DEPTH = 2_500
SOME = 1 << 20
FEW = 5


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[int]:
    """The descriptor of the deepest of many folders, each in the one before, with one file that has a set-id bit."""
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(DEPTH):
        os.mkdir("a", dir_fd=fd)
        below = os.open("a", os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
        os.close(fd)
        fd = below
    made = os.open("program", os.O_CREAT | os.O_WRONLY, 0o755, dir_fd=fd)
    os.write(made, bytes(range(256)) * (SOME // 256))
    os.fchmod(made, 0o4755)
    os.close(made)
    yield fd
    os.close(fd)
    assert not remove_tree(tmp_path / "a")


def profile_of(folder: Path) -> Profile:
    """A jail that may write the folder."""
    mount = Mount(str(folder), "/project", Access.READ_WRITE)
    return Profile("test", "build", (mount,), "/project", Limits(wall_s=1.0))


def test_what_lies_deep_is_counted_and_its_set_id_bits_are_taken(tmp_path: Path, deep: int) -> None:
    """No depth hides anything: neither from a limit nor from what ends a run."""
    assert taken_by(str(tmp_path), SOME // 2, 1 << 20) == "more than 0 MiB"
    assert taken_by(str(tmp_path), SOME * 64, DEPTH) == f"more than {DEPTH} files"
    assert taken_by(str(tmp_path), SOME * 64, DEPTH * 2) == ""
    assert collect_files(profile_of(tmp_path), ("report.txt",)) == {}
    assert strip_set_id([str(tmp_path)]).changed == 1
    assert stat.S_IMODE(os.stat("program", dir_fd=deep).st_mode) == 0o755


def test_what_is_collected_lies_no_deeper_than_anybody_looks(tmp_path: Path) -> None:
    """What lies above is found."""
    below = tmp_path / "in" / Path(*["x"] * (DEPTH_MAX - 1))
    (below / "too deep").mkdir(parents=True)
    for folder in (tmp_path, below, below / "too deep"):
        (folder / "report.txt").write_text("plain")
    inside = below.relative_to(tmp_path)
    found = collect_files(profile_of(tmp_path), ("report.txt", f"{inside}/report.txt", f"{inside}/too deep/report.txt"))
    assert set(found) == {"/project/report.txt", f"/project/{inside}/report.txt"}


def test_nothing_beside_a_folder_is_entered(tmp_path: Path) -> None:
    """A link is an entry and no way; of folders that are moved away meanwhile nothing beside them is seen."""
    for name in ("top/a/b/c", "beside/x"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "beside/secret").touch()
    (tmp_path / "top/link").symlink_to("../beside")
    seen = [sorted(entry.name for entry in entries) for _, entries in descend(str(tmp_path / "top"))]
    assert seen == [["link"], [], [], []]
    (tmp_path / "top/a/d").mkdir()
    found: list[str] = []
    for number, (_, entries) in enumerate(descend(str(tmp_path / "top"))):
        found += [entry.name for entry in entries]
        if number == 2:
            (tmp_path / "top/a").rename(tmp_path / "beside/x/a")
            (tmp_path / "beside/x/a/b").rename(tmp_path / "beside/b") if (tmp_path / "beside/x/a/b").exists() else None
    assert found == ["link"]
    assert list(descend(str(tmp_path / "link"))) == []


@pytest.mark.parametrize("how", ["moved", "removed"])
def test_folders_moved_or_removed_while_they_are_looked_at_hide_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The look goes on beside them; one during which folders are moved each time is never taken for a whole one."""
    top, aside, scan = tmp_path / "top", tmp_path / "aside", os.scandir
    aside.mkdir()
    for name in ("a", "b", "c"):
        (top / name / "in").mkdir(parents=True)
        (top / name / "file").touch()

    def disturbing(fd: int) -> object:
        """As soon as a folder is entered it is elsewhere, or gone."""
        at = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if at.name == "in" and how == "moved":
            at.rename(aside / f"{len(list(aside.iterdir()))}")
        elif at.name == "in":
            at.rmdir()
        return scan(fd)

    assert taken_by(str(top), SOME, 8) == "more than 8 files"
    monkeypatch.setattr(os, "scandir", disturbing)
    assert sum(1 + len(entries) for _, entries in descend(str(top))) == 10
    for name in ("a", "b", "c"):
        (top / name / "in").mkdir()
    assert taken_by(str(top), SOME, 8) == "more than 8 files"


def test_a_folder_that_is_given_another_name_before_it_is_entered_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its number, as often as it is looked for; what was removed ends nothing."""
    scan, names = os.scandir, ["first", "second", "third"]
    (tmp_path / "first").mkdir()
    (tmp_path / "removed").mkdir()
    for number in range(FEW * 2):
        (tmp_path / "first" / str(number)).touch()

    @contextmanager
    def renaming(fd: int) -> Iterator[object]:
        """As soon as the top was listed its folder has the next name."""
        with scan(fd) as listing:
            yield listing
        if Path(os.readlink(f"/proc/self/fd/{fd}")) == tmp_path and len(names) > 1:
            (tmp_path / names.pop(0)).rename(tmp_path / names[0])
            if (tmp_path / "removed").exists():
                (tmp_path / "removed").rmdir()

    monkeypatch.setattr(os, "scandir", renaming)
    assert taken_by(str(tmp_path), SOME, FEW) == f"more than {FEW} files"
    assert names == ["third"]


def test_a_folder_that_is_moved_at_each_look_is_above_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nobody can look at whole has no limit; a move now and then is none of that."""
    scan, moves = os.scandir, [0]
    for name in ("a/moving/in", "b"):
        (tmp_path / name).mkdir(parents=True)

    def moving(fd: int) -> object:
        at = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if at.name == "moving" and moves[0]:
            moves[0] -= 1
            at.rename(tmp_path / ("b" if at.parent.name == "a" else "a") / "moving")
        return scan(fd)

    monkeypatch.setattr(os, "scandir", moving)
    for moves[0], words in ((1, ""), (1_000, MOVED)):
        assert taken_by(str(tmp_path), SOME, SOME) == words


def test_what_a_look_cannot_see_is_seen_when_it_stands_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of looking at names: a folder that comes to where the look has been already, and a file without a name
    for as long as it is open. No other look at names tells them from ordinary work; what is left at the end is seen."""
    scan = os.scandir
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    gone_through_last = tmp_path / os.listdir(tmp_path)[0]
    Path(gone_through_last, "moved").mkdir()
    Path(gone_through_last, "moved", "big").write_bytes(bytes(SOME * 2))

    @contextmanager
    def behind(fd: int) -> Iterator[object]:
        with scan(fd) as listing:
            yield listing
        at = Path(os.readlink(f"/proc/self/fd/{fd}"))
        other = tmp_path / ("b" if at.name == "a" else "a") / "moved"
        if at.name in ("a", "b") and other.exists():
            other.rename(at / "moved")

    monkeypatch.setattr(os, "scandir", behind)
    assert taken_by(str(tmp_path), SOME, SOME) == ""
    monkeypatch.undo()
    assert taken_by(str(tmp_path), SOME, SOME) == "more than 1 MiB"
    (moved,) = tmp_path.glob("?/moved/big")
    with moved.open():
        moved.unlink()
        assert taken_by(str(tmp_path), SOME, SOME) == "", "it still takes the place on the disk"


def test_many_names_of_one_file_hide_no_set_id_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are one file of those that are looked at, wherever they stand."""
    monkeypatch.setattr(setid, "FILES_MAX", FEW)
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "program").touch()
        (tmp_path / folder / "program").chmod(0o4755)
        for number in range(FEW * 4):
            os.link(tmp_path / "a/program", tmp_path / folder / str(number))
    before = stat.S_IMODE(tmp_path.stat().st_mode)
    assert strip_set_id([str(tmp_path)]) == Stripped(3)
    assert not any(path.stat().st_mode & stat.S_ISUID for path in tmp_path.rglob("program"))
    assert stat.S_IMODE(tmp_path.stat().st_mode) == before


@pytest.mark.parametrize("limit", ["FILES_MAX", "NAMES_MAX"])
def test_a_folder_with_too_many_files_is_closed_to_others_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """Whoever owns what is left may run it; nobody else comes there."""
    monkeypatch.setattr(setid, limit, FEW)
    top, other = tmp_path / "top", tmp_path / "other"
    for folder, count in ((other, 1), (top, FEW * 2)):
        folder.mkdir(mode=0o755)
        for number in range(count):
            (folder / str(number)).touch()
            (folder / str(number)).chmod(0o4755)
    done = strip_set_id([str(other), str(top)])
    assert done.closed == (str(top),)
    assert 1 < done.changed <= FEW
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (other, top)] == [0o755, 0o700]
    taken, untold = done.words()
    assert taken == f"set-id bits were taken from {done.changed} files"
    assert untold.startswith("not all files of 1 folders were looked at")


@pytest.mark.parametrize("mode", [0o077, 0o477, 0o177], ids=oct)
def test_a_set_id_bit_in_a_folder_that_is_closed_to_its_owner_is_taken(tmp_path: Path, mode: int) -> None:
    """Others may enter it and run what lies there; at any place, and the folders are as closed as before."""
    made = [tmp_path / "top", tmp_path / "top/a", tmp_path / "top/a/b", tmp_path / "top/c"]
    for folder in made:
        folder.mkdir()
        (folder / "program").touch()
    with ordinary_user(tmp_path):
        for folder in reversed(made):
            (folder / "program").chmod(0o4755)
            folder.chmod(mode)
        taken_by(str(tmp_path / "top"), SOME, SOME)
        assert stat.S_IMODE(made[0].stat().st_mode) == mode, "who only looks opens nothing"
        assert strip_set_id([str(tmp_path / "top")]).changed == len(made)
        assert [stat.S_IMODE(folder.stat().st_mode) for folder in made[:1]] == [mode]
    for folder in made:
        assert stat.S_IMODE(folder.stat().st_mode) == mode
        assert stat.S_IMODE((folder / "program").stat().st_mode) == 0o755
        folder.chmod(0o755)
