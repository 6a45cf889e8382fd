"""Contents are kept once for all sessions, as long as one of them needs them, and given back after."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from tests.kit.workspaces import make_tree, part, propose, read_tree, whole

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.app.resources import WorkspaceShelf
from gloveport.server.workspace import glance, look, store
from gloveport.server.workspace.beneath import FileBytes
from gloveport.server.workspace.contents import Contents
from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.limits import DEFAULT_LIMITS
from gloveport.server.workspace.seen_file import SEEN_NAME

ALONE = b"only the first session has seen this line\n"
FILES = {f"src/f{number}.py": b"x = %d\n" % number * 30 for number in range(40)} | {".git/config": b"[core]\n"}


@pytest.fixture
def contents(tmp_path: Path) -> Iterator[Contents]:
    """A store beside the sessions."""
    (tmp_path / "sessions").mkdir()
    with Contents(tmp_path / "contents", tmp_path / "sessions") as opened:
        yield opened


async def begin(folder: Path, contents: Contents, name: str) -> SessionWorkspace:
    """A session over `root`."""
    return await SessionWorkspace.create(folder / "root", folder / "sessions" / name, contents=contents)


def kept(folder: Path) -> bytes:
    """Everything that any store holds on the disk."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("objects.pack")))


async def test_a_second_session_keeps_only_what_changed(tmp_path: Path, contents: Contents) -> None:
    """Both worktrees are the folder as it was at their beginning; what is equal is there once."""
    root = make_tree(tmp_path / "root", FILES)
    first = await begin(tmp_path, contents, "a")
    size = (tmp_path / "contents" / "objects.pack").stat().st_size
    (root / "src/f3.py").write_bytes(b"changed\n")
    second = await begin(tmp_path, contents, "b")
    assert (tmp_path / "contents" / "objects.pack").stat().st_size == size + len(b"changed\n")
    assert [(each / "objects.pack").stat().st_size for each in (first.session_dir, second.session_dir)] == [0, 0]
    user = read_tree(root)
    del user[".git/config"]
    assert read_tree(second.worktree) == user
    assert (first.worktree / "src/f3.py").read_bytes() == FILES["src/f3.py"]
    assert first.snapshot.snapshot_id != second.snapshot.snapshot_id
    third = await begin(tmp_path, contents, "c")
    assert third.snapshot == second.snapshot
    for each in (first, second, third):
        each.close()


async def test_what_one_session_alone_held_is_gone_with_it(tmp_path: Path, contents: Contents) -> None:
    """Its bytes are nowhere on the disk; the other session works on, also with what both had."""
    root = make_tree(tmp_path / "root", FILES | {"alone.txt": ALONE})
    first = await begin(tmp_path, contents, "a")
    first.close()
    (root / "alone.txt").unlink()
    second = await begin(tmp_path, contents, "b")
    assert ALONE in kept(tmp_path)
    shutil.rmtree(tmp_path / "sessions" / "a")
    assert contents.collect() == len(ALONE)
    assert ALONE not in kept(tmp_path)
    await second.write("src/f1.py", FILES["src/f1.py"].replace(b"1", b"2", 1))
    proposal = (await propose(second))["src/f1.py"]
    done = await second.apply(await second.plan_accept(part(proposal, 0)))
    await second.apply(await second.plan_undo(done.record))
    assert read_tree(root) == {path: (0o644, data) for path, data in FILES.items()}
    second.close()


async def test_what_a_death_left_between_is_given_back_later(
    tmp_path: Path, contents: Contents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names go before bytes; bytes without a name go at the next call."""
    make_tree(tmp_path / "root", FILES | {"alone.txt": ALONE})
    (await begin(tmp_path, contents, "a")).close()
    (tmp_path / "root" / "alone.txt").unlink()
    (await begin(tmp_path, contents, "b")).close()
    shutil.rmtree(tmp_path / "sessions" / "a")
    with monkeypatch.context() as patch:
        patch.setattr(store, "give_back", refuses)
        with pytest.raises(GloveportError):
            contents.collect()
    assert ALONE in kept(tmp_path)
    with Contents(tmp_path / "contents", tmp_path / "sessions") as again:
        again.collect()
        assert ALONE not in kept(tmp_path)
        session = await SessionWorkspace.open(tmp_path / "sessions" / "b", contents=again)
        assert await session.proposals() == ()
        session.close()


async def test_nothing_is_given_back_while_a_snapshot_is_taken(tmp_path: Path, contents: Contents) -> None:
    """What the new session has put, and not yet written down, stays."""
    make_tree(tmp_path / "root", FILES)
    with contents.taking("ws"):
        name = contents.put(b"put, not written down\n")
        assert contents.collect() is None
        assert contents.has(name)
    assert not contents.has(name)


async def test_what_was_seen_and_is_no_longer_kept_is_read_again(tmp_path: Path, contents: Contents) -> None:
    """A memory of a file is no content."""
    root = make_tree(tmp_path / "root", FILES)
    with contents.taking("other"):  # a memory outlives what it speaks of: nobody holds the contents
        (await begin(tmp_path, contents, "a")).close()
        contents._store.keep_only(set())
        second = await begin(tmp_path, contents, "b")
    assert (second.worktree / "src/f7.py").read_bytes() == (root / "src/f7.py").read_bytes()
    await second.write("src/f7.py", b"agent\n")
    assert len(whole(*await second.proposals())) == 1
    second.close()


async def test_a_full_store_takes_no_more(tmp_path: Path) -> None:
    """The limit has a name and a way out; what is there still works."""
    make_tree(tmp_path / "root", FILES)
    (tmp_path / "sessions").mkdir()
    with Contents(tmp_path / "contents", tmp_path / "sessions", bytes_max=100) as small:
        first = await begin(tmp_path, small, "a")
        with pytest.raises(GloveportError) as refusal:
            await begin(tmp_path, small, "b")
        assert (refusal.value.code, refusal.value.data["limit"]) == (ErrorCode.LIMIT, "contents_bytes_max")
        assert refusal.value.hint
        assert await first.proposals() == ()
        first.close()


async def test_a_session_without_its_store_is_refused(tmp_path: Path, contents: Contents) -> None:
    """Typed, at opening, before anything is done."""
    make_tree(tmp_path / "root", FILES)
    (await begin(tmp_path, contents, "a")).close()
    with pytest.raises(GloveportError) as refusal:
        await SessionWorkspace.open(tmp_path / "sessions" / "a")
    assert refusal.value.code is ErrorCode.BLOB_MISSING


async def test_a13_a_failed_snapshot_is_no_older_one(tmp_path: Path, contents: Contents) -> None:
    """What was remembered of the folder never stands for what could not be taken; the next one has today's files."""
    root = make_tree(tmp_path / "root", FILES)
    (await begin(tmp_path, contents, "a")).close()
    (root / "src/f1.py").write_bytes(b"version 2\n")
    limits = replace(DEFAULT_LIMITS, files_max=5)
    with pytest.raises(GloveportError):
        await SessionWorkspace.create(root, tmp_path / "sessions" / "b", limits=limits, contents=contents)
    with pytest.raises(GloveportError):
        await SessionWorkspace.open(tmp_path / "sessions" / "b", contents=contents)
    again = await begin(tmp_path, contents, "b")
    assert (again.worktree / "src/f1.py").read_bytes() == b"version 2\n"
    assert set(read_tree(again.worktree)) == FILES.keys() - {".git/config"}
    again.close()


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_removed_session_takes_its_contents_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    """As the daemon removes it; what a full disk or a death kept is given back at the next start."""
    root = make_tree(tmp_path / "root", FILES | {"alone.txt": ALONE})
    data = tmp_path / "data"
    shelf = WorkspaceShelf(data / "sessions", (data,))
    (await shelf.create(str(root), "a")).close()
    (root / "alone.txt").unlink()
    (await shelf.create(str(root), "b")).close()
    assert ALONE in kept(data)
    with monkeypatch.context() as patch:
        if not at_once:
            patch.setattr(store, "give_back", refuses)
        await shelf.remove("a")
    assert (ALONE in kept(data)) is not at_once
    await shelf.close()
    again = WorkspaceShelf(data / "sessions", (data,))

    async def recorded(_: str) -> bool:
        return True

    await again.sweep(recorded)
    assert ALONE not in kept(data)
    assert not (data / "contents" / "owed").exists()
    session = await again.open("b")
    assert await session.proposals() == ()
    session.close()
    await again.close()


def refuses(*_: object) -> None:
    """A disk that does nothing more."""
    raise OSError(5, "gone")


@pytest.mark.parametrize("spoiled", ["", "another boot", "damaged", "other version", "gone"])
async def test_after_a_restart_only_what_changed_is_read(
    tmp_path: Path, contents: Contents, monkeypatch: pytest.MonkeyPatch, spoiled: str
) -> None:
    """What was written down of both trees is believed on the same boot alone, and never stands in the way."""
    root = make_tree(tmp_path / "root", FILES | {".gitignore": b"*.log\n", "src/x.log": b"no\n", "é.txt": b"e\n"})
    monkeypatch.setattr(glance, "CLOCK_GRAIN_NS", 0)  # nobody writes here within it after a look
    await anyio.sleep(0.05)
    create = SessionWorkspace.create(root, tmp_path / "sessions" / "a", contents=contents, boot_id="one")
    (await create).close()
    seen = tmp_path / "sessions" / "a" / SEEN_NAME
    if spoiled == "damaged":
        seen.write_bytes(seen.read_bytes()[:-9])
    elif spoiled == "other version":
        seen.write_bytes(seen.read_bytes().replace(b'"version":2', b'"version":9'))
    elif spoiled == "gone":
        seen.unlink()
    (root / "src/f1.py").write_bytes(b"the user's\n")
    (tmp_path / "sessions/a/worktree/src/f2.py").write_bytes(b"the agent's\n")
    boot = "two" if spoiled == "another boot" else "one"
    again = await SessionWorkspace.open(tmp_path / "sessions" / "a", contents=contents, boot_id=boot)
    read: list[str] = []
    real = look.read_entry

    def counted(fd: int, name: str, path: str, limit: int) -> FileBytes:
        read.append(path)
        return real(fd, name, path, limit)

    monkeypatch.setattr(look, "read_entry", counted)
    assert {each.path: each.kind for each in await again.proposals()} == {"src/f2.py": "modify"}
    assert [each.path for each in await again.drift()] == ["src/f1.py"]
    if spoiled:
        assert len(read) > 2 * len(FILES)
    else:
        assert sorted(read) == ["src/f1.py", "src/f2.py"]
    again.close()
