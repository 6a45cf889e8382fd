"""A folder that takes another's place, its inode with it, is trusted by nobody and has no rights."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gloveport.protocol.journal.envelope import NewEvent, StoredEvent
from gloveport.protocol.journal.events import GrantIssued, WorkspaceTrusted, encode_body
from gloveport.server.app.daemon import now_us
from gloveport.server.commands.trust import Trust
from gloveport.server.engine.rights import Rights
from gloveport.server.journal.records import Append, ClientRequest, StreamAppend
from gloveport.server.journal.store import Journal
from gloveport.server.workspace import identity
from gloveport.server.workspace.identity import folder_identity, has_generation, identity_without_generation, is_folder

TRIES = 2_000
UNSET = "unset"


class Books:
    """Trust and rights over one journal."""

    def __init__(self, journal: Journal) -> None:
        self.journal, self.rights = journal, Rights()
        self.trust = Trust(journal, UNSET, now_us, self.rights, self)
        self.requests = 0
        self.audited: list[str] = []

    async def take(self, events: Sequence[StoredEvent]) -> None:
        """What would go into the audit log."""
        self.audited += [event.type for event in events]

    async def give(self, root: Path, level: str = "trusted") -> None:
        """The user's word."""
        self.requests += 1
        request = ClientRequest(f"r{self.requests}-{now_us()}", b"{}")
        await self.trust.give(folder_identity(root), str(root), level, "test", request)

    def level(self, root: Path) -> str:
        """What holds for the folder that is there now."""
        return self.trust.level(folder_identity(root))


@asynccontextmanager
async def opened(data: Path) -> AsyncIterator[Books]:
    """As a daemon that begins."""
    data.mkdir(mode=0o700, exist_ok=True)
    journal, _ = await Journal.open(data, clock=now_us, ballast_bytes=0)
    books = Books(journal)
    try:
        await books.trust.load()
        yield books
    finally:
        books.trust.close()
        await journal.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The user's folder."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def made_again(root: Path, tries: int = TRIES) -> bool:
    """Whether the folder could be deleted and made anew under the number of its inode."""
    number = root.stat().st_ino
    root.rmdir()
    for attempt in range(tries):
        root.mkdir()
        if root.stat().st_ino == number:
            return True
        root.rename(root.parent / f"filler-{attempt}")  # it keeps the number that was in the way
    root.mkdir()
    return False


def make_again(root: Path) -> None:
    """Do that; somebody else on this machine may have taken the number meanwhile, and some file systems never do it."""
    if not made_again(root):
        pytest.skip("the inode's number was not to be had again here")


@pytest.fixture
def no_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The defence off, and a file system that keeps neither births nor versions."""
    monkeypatch.setattr(identity, "birth_ns", lambda _path: None)
    monkeypatch.setattr(identity, "inode_version", lambda _folder, _inode: None)


async def write_as_before(books: Books, root: Path, *, moment: int) -> str:
    """What a version without generations recorded: a level and a right; the folder's name there."""
    name = identity_without_generation(root)
    said = WorkspaceTrusted(workspace_id=name, root=str(root), trust_level="trusted", by="test")
    right = GrantIssued(grant_id="g", scope="workspace", sentence="run", grant={})
    news = tuple(NewEvent(type(one).__name__, one.version, encode_body(one)) for one in (said, right))
    await books.journal.append(Append((StreamAppend(f"workspace/{name}", 1, news),), moment))
    return name


async def test_a_folder_made_again_under_the_same_inode_is_another_one(tmp_path: Path, root: Path) -> None:
    """Its trust is asked for anew, no session of the old one works in it, and the list does not name it."""
    async with opened(tmp_path / "data") as books:
        await books.give(root)
        before = folder_identity(root)
        assert (books.level(root), has_generation(before)) == ("trusted", True)
        make_again(root)
        assert (books.level(root), is_folder(root, before), books.trust.known()) == (UNSET, False, ())
    async with opened(tmp_path / "data") as books:
        assert books.level(root) == UNSET


@pytest.mark.usefixtures("no_generation")
async def test_without_generations_the_new_folder_has_the_old_ones_trust(tmp_path: Path, root: Path) -> None:
    """The control: path, device and inode are all the same."""
    async with opened(tmp_path / "data") as books:
        await books.give(root)
        books.trust.close()
        make_again(root)
        assert books.level(root) == "trusted"


@pytest.mark.parametrize(("late_us", "older"), [(-1, False), (0, True)])
def test_a_birth_within_a_tick_of_the_clock_proves_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch, late_us: int, older: bool
) -> None:
    """A file system's clock stands still between ticks: what was made just after may be told as made just before."""
    name, born_us = identity_without_generation(root), 10**15
    monkeypatch.setattr(identity, "birth_ns", lambda _path: born_us * 1_000)
    assert identity.stood_at(root, name, born_us + identity.TICK_US + late_us) is older


@pytest.mark.usefixtures("no_generation")
async def test_where_nothing_tells_folders_apart_trust_ends_with_the_daemon(tmp_path: Path, root: Path) -> None:
    """While it lives the folder is held open, so that nobody gets its inode; then the user is asked again, and told."""
    async with opened(tmp_path / "data") as books:
        await books.give(root)
        assert (books.level(root), has_generation(folder_identity(root))) == ("trusted", False)
    async with opened(tmp_path / "data") as books:
        assert books.level(root) == UNSET
        assert [str(root) in words for words in books.trust.told] == [True]
        await books.give(root)
        assert not made_again(root, tries=50)
        assert books.level(root) == UNSET


async def test_where_births_are_missing_the_inodes_version_tells(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other number that a file system gives an inode when it is used again."""
    monkeypatch.setattr(identity, "birth_ns", lambda _path: None)
    before = folder_identity(root)
    if not has_generation(before):
        pytest.skip("this file system keeps no version of inodes, so there is nothing to look at")
    assert folder_identity(root) == before
    make_again(root)
    assert folder_identity(root) != before


async def test_an_earlier_record_holds_where_its_folder_is_older(tmp_path: Path, root: Path) -> None:
    """The inode is the same and was made before the user spoke, so it is that folder; its rights are asked for anew."""
    async with opened(tmp_path / "data") as books:
        name = await write_as_before(books, root, moment=now_us() + identity.TICK_US)
    async with opened(tmp_path / "data") as books:
        assert (books.level(root), books.trust.level(name), books.trust.told) == ("trusted", "trusted", [])
        assert not books.rights.holds(name, "g")
        await books.give(root, "untrusted")
        assert (books.level(root), books.trust.level(name)) == ("untrusted", "untrusted")
    async with opened(tmp_path / "data") as books:
        assert (books.level(root), books.trust.level(name)) == ("untrusted", "untrusted")


async def test_an_earlier_record_does_not_hold_for_a_younger_folder(tmp_path: Path, root: Path) -> None:
    """Made after the user spoke, though its inode is the same: it is asked about, and the user is told why."""
    async with opened(tmp_path / "data") as books:
        name = await write_as_before(books, root, moment=now_us())
        make_again(root)
        assert name == identity_without_generation(root)
    async with opened(tmp_path / "data") as books:
        assert (books.level(root), books.trust.level(name)) == (UNSET, UNSET)
        assert [str(root) in words for words in books.trust.told] == [True]
