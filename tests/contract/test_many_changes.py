"""Decisions about very many files: their cost grows with their number, and what is too much is told in parts."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.room import Home, Kit, call, new_home
from tests.kit.workspaces import quick_folder, read_tree, whole

from gloveport.protocol.errors import ErrorCode
from gloveport.server.commands import change
from gloveport.server.edit.names import fold_path
from gloveport.server.engine import looking
from gloveport.server.journal.records import APPEND_BYTES_MAX, EVENTS_PER_APPEND_MAX, PAYLOAD_BYTES_MAX
from gloveport.server.workspace import plan as plans
from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.look import Look
from gloveport.server.workspace.state import WorkspaceState

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
    """What an accept of so many files and its undo do so often; half of them are new, all are in one folder."""
    root = folder / "root"
    (root / "in").mkdir(parents=True)
    for number in range(0, files, 2):
        (root / "in" / f"f{number}.txt").write_text("old\n")
    counted: Counter[str] = Counter()
    digest = plans.content_digest

    def counting(*fields: bytes) -> object:
        counted["plan names"] += 1
        return digest(*fields)

    def folding(path: str) -> str:
        counted["folded paths"] += 1
        return fold_path(path)

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
            patch.setattr(plans, "fold_path", folding)
            listening = True
            done = await workspace.apply(plan)
            listening = False
            assert read_tree(root) == {f"in/f{number}.txt": (0o644, b"new\n") for number in range(files)}
            listening = True
            await workspace.apply(await workspace.plan_undo(done.record))
            listening = False
        assert len(read_tree(root)) == files // 2
    finally:
        workspace.close()
    return counted


async def test_each_file_costs_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision is named once, a folder is listed once, and no kind of operation grows faster than the files."""
    with quick_folder() as folder:
        few = await operations(folder / "few", FILES, monkeypatch)
        many = await operations(folder / "many", 4 * FILES, monkeypatch)
    assert few["plan names"] == many["plan names"] == 2
    assert few["os.listdir"] == many["os.listdir"] <= 3
    for event, times in many.items():
        assert times <= 5 * max(few[event], 1), event


async def test_a_preview_looks_at_its_own_file_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until something of it changed: then all is looked at, and what is shown is what is there."""
    with quick_folder() as folder:
        root = folder / "root"
        root.mkdir()
        (root / "moved.txt").write_text("some words\n")
        workspace = await SessionWorkspace.create(root, folder / "session")
        try:
            for number in range(5):
                await workspace.write(f"f{number}.txt", b"new\n")
            await workspace.delete("moved.txt")
            await workspace.write("to.txt", b"some words\n")
            found = {one.path: one for one in await workspace.proposals()}
            looks, real = Counter[str](), Look.current

            def counting(look: Look, state: WorkspaceState, **more: Any) -> Any:
                looks["whole"] += 1
                return real(look, state, **more)

            monkeypatch.setattr(Look, "current", counting)
            for proposal in found.values():
                assert (await workspace.preview(proposal.change_id)).proposal == proposal
            assert not looks
            (workspace.worktree / "f3.txt").write_bytes(b"newer\n")
            assert "newer" in (await workspace.preview(found["f3.txt"].change_id)).diff
            assert looks == {"whole": 1}
            (workspace.worktree / "moved.txt").write_bytes(b"some words\n")
            shown = await workspace.preview(found["to.txt"].change_id)
            assert shown.proposal.renamed_from is None
        finally:
            workspace.close()
