"""Decisions about very many files: their cost grows with their number, and what is too much is told in parts."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.room import Home, Kit, call, new_home
from tests.kit.workspaces import quick_folder, read_tree, whole

from gloveport.protocol.errors import ErrorCode
from gloveport.server.commands import change
from gloveport.server.engine import looking
from gloveport.server.journal.records import APPEND_BYTES_MAX, EVENTS_PER_APPEND_MAX, PAYLOAD_BYTES_MAX
from gloveport.server.workspace import plan as plans
from gloveport.server.workspace.facade import SessionWorkspace

DONE = {"text": "Done."}
FILES = 60


@pytest.fixture
def home() -> Iterator[Home]:
    """A home whose model writes one file; the others are written beside it."""
    with new_home() as made:
        made.play({"when": {"turns_total": 0}, "calls": [call("write_file", path="a.txt", content="a\n")]}, DONE)
        yield made


async def changed(home: Home, kit: Kit, files: int) -> str:
    """A session in which so many files are new."""
    session = await kit.begin()
    for number in range(files - 1):
        (home.worktree(session) / f"b{number}.txt").write_text(f"{number}\n")
    await kit.send(session)
    await kit.idle(session)
    return session


async def test_what_is_too_much_for_one_look_comes_with_the_next(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told; each decision brings what is left; in the end all is there, and nothing waits."""
    monkeypatch.setattr(looking, "FACTS_MAX", 4)
    monkeypatch.setattr(change, "DECISION_FILES_MAX", 3)
    async with home.room() as kit:
        session = await changed(home, kit, 9)
        (told,) = await kit.bodies(session, "ToolExecutionFinished")
        assert "5 more changes are too many to be shown at once" in told["text"]
        rounds = 0
        while changes := await kit.changes(session):
            assert len(changes) <= 4
            chosen = list(changes.values())
            if len(chosen) > 3:
                error = await kit.refused("change/accept", kit.decision(session, *chosen))
                assert error.code is ErrorCode.LIMIT
                assert "folder by folder" in error.advice
            await kit.call("change/accept", kit.decision(session, *chosen[:3]))
            rounds += 1
        assert rounds == 4
        assert len([path for path in home.root.iterdir() if path.suffix == ".txt"]) == 9
        assert not kit.actor(session).state.applying


async def test_what_was_accepted_does_not_wait_although_the_look_was_cut(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of the proposals vanish at once than one look may tell."""
    async with home.room() as kit:
        session = await changed(home, kit, 8)
        monkeypatch.setattr(looking, "FACTS_MAX", 2)
        changes = await kit.changes(session)
        for path in sorted(changes)[:4]:
            (home.worktree(session) / path).unlink()
        chosen = [changes[path] for path in sorted(changes)[4:]]
        await kit.call("change/accept", kit.decision(session, *chosen))
        left = await kit.changes(session)
        assert not left.keys() & {one.path for one in chosen}
        withdrawn = Counter(one["change_id"] for one in await kit.bodies(session, "ChangeWithdrawn"))
        assert set(withdrawn.values()) == {1}


async def test_a_look_is_bounded_in_bytes(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few proposals may be long ones."""
    monkeypatch.setattr(looking, "FACTS_BYTES_MAX", 1_500)
    async with home.room() as kit:
        session = await changed(home, kit, 9)
        assert 1 <= len(await kit.changes(session)) < 9


async def test_a_plan_that_is_too_long_is_refused_before_anything_is_written(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By name, with the file untouched and the proposal still there."""
    monkeypatch.setattr(change, "DECISION_BYTES_MAX", 100)
    async with home.room() as kit:
        session = await changed(home, kit, 1)
        changes = await kit.changes(session)
        error = await kit.refused("change/accept", kit.decision(session, *changes.values()))
        assert error.code is ErrorCode.LIMIT
        assert not (home.root / "a.txt").exists()
        assert await kit.changes(session) == changes


def test_the_outcome_of_the_largest_decision_can_be_written() -> None:
    """One event for it, one a file, what the look tells, and each file that it did not come to: in one append."""
    files, told = change.DECISION_FILES_MAX, looking.FACTS_MAX
    assert 1 + 2 * files + told + 10 < EVENTS_PER_APPEND_MAX
    record = change.DECISION_BYTES_MAX
    assert record * 4 // 3 <= PAYLOAD_BYTES_MAX  # its paths once more
    assert 3 * PAYLOAD_BYTES_MAX + looking.FACTS_BYTES_MAX < APPEND_BYTES_MAX


async def operations(folder: Path, files: int, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What an accept of so many files, half of them new and all in one folder, does so many times."""
    root = folder / "root"
    (root / "in").mkdir(parents=True)
    for number in range(0, files, 2):
        (root / "in" / f"f{number}.txt").write_text("old\n")
    counted: Counter[str] = Counter()
    digest = plans.content_digest

    def counting(*fields: bytes) -> object:
        counted["plan names"] += 1
        return digest(*fields)

    def heard(event: str, _arguments: object) -> None:
        counted[event] += listening

    listening = False
    sys.addaudithook(heard)
    workspace = await SessionWorkspace.create(root, folder / "session")
    try:
        for number in range(files):
            await workspace.write(f"in/f{number}.txt", b"new\n")
        plan = await workspace.plan_accept(whole(*await workspace.proposals()))
        with monkeypatch.context() as patch:
            patch.setattr(plans, "content_digest", counting)
            listening = True
            await workspace.apply(plan)
            listening = False
        assert read_tree(root) == {f"in/f{number}.txt": (0o644, b"new\n") for number in range(files)}
    finally:
        workspace.close()
    return counted


async def test_each_file_costs_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision is named once, a folder is listed once, and no kind of operation grows faster than the files."""
    with quick_folder() as folder:
        few = await operations(folder / "few", FILES, monkeypatch)
        many = await operations(folder / "many", 4 * FILES, monkeypatch)
    assert few["plan names"] == many["plan names"] == 1
    assert few["os.listdir"] == many["os.listdir"] <= 2
    for event, times in many.items():
        assert times <= 5 * max(few[event], 1), event
