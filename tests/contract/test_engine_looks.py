"""What the engine makes of looks that fail, of folders that are away, and of roots that are no project."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit.room import ME, Home, Kit, call, new_home, run, swallow

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.base import Empty
from gloveport.protocol.wire.place import WorkspaceShowParams, WorkspaceTrustParams
from gloveport.protocol.wire.session import SessionStartParams
from gloveport.server.app.daemon import new_id
from gloveport.server.app.resources import WorkspaceShelf
from gloveport.server.engine import perform
from gloveport.server.workspace import limits
from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.fit import refuse_root
from gloveport.server.workspace.plan import Plan

DONE = {"text": "Done."}
WRITES = {"when": {"turns_total": 0}, "calls": [call("write_file", path="a.txt", content="two\n")]}


@pytest.fixture
def home() -> Iterator[Home]:
    """A home with two files."""
    with new_home() as made:
        made.write(a__txt="one\n")
        (made.root / "src").mkdir()
        (made.root / "src" / "x.py").write_text("x = 1\n")
        yield made


async def results(kit: Kit, session: str) -> list[str]:
    """The texts of all ended calls."""
    return [event["payload"]["text"] for event in await kit.events(session) if event["type"] == "ToolExecutionFinished"]


async def fields(kit: Kit, session: str, kind: str) -> dict[str, Any]:
    """The last item of a kind."""
    return next(item for item in reversed(kit.actor(session).view.items()) if item["kind"] == kind)["fields"]


def link_within(worktree: Path) -> None:
    """A folder becomes a link to another one."""
    (worktree / "src").rename(worktree / "src2")
    (worktree / "src").symlink_to("src2")


def link_out(worktree: Path) -> None:
    """A folder becomes a link that leads away."""
    shutil.rmtree(worktree / "src")
    (worktree / "src").symlink_to("/")


def damage(worktree: Path) -> None:
    """The store of the base is damaged."""
    (worktree / "a.txt").write_text("changed\n")
    pack = worktree.parents[2] / "contents" / "objects.pack"
    pack.write_bytes(b"\0" * pack.stat().st_size)


@pytest.mark.parametrize(
    ("act", "shown"),
    [(link_within, ""), (link_out, "src (link_leaves_root)"), (damage, "a.txt (journal.blob_missing)")],
)
async def test_a_command_that_spoils_the_look(home: Home, act: Callable[[Path], None], shown: str) -> None:
    """The call ends as it ended; what was not looked at is told; the session goes on."""
    home.play({"when": {"turns_total": 0}, "calls": [run("hold")]}, DONE)
    async with home.room() as kit:
        session = await kit.held()
        act(home.worktree(session))
        home.ladder.go.set()
        assert (await kit.idle(session))[-1] == "TurnCompleted"
        assert await kit.ends(session) == ["ok"]
        assert shown in (await results(kit, session))[0]
        assert ("Not looked at" in (await results(kit, session))[0]) == bool(shown)
        moved = {change.renamed_from for change in (await kit.changes(session)).values()}
        assert ("src/x.py" in moved) == (act is link_within)
        await kit.send(session, "again")
        assert (await kit.idle(session))[-1] == "TurnCompleted"


async def test_a_worktree_that_vanishes_deletes_nothing(home: Home) -> None:
    """The pending proposal stays, nothing new is proposed, and accepting is refused with words."""
    home.play(WRITES, {"when": {"turns_total": 2}, "calls": [run("hold")]}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.idle(session)
        before = await kit.changes(session)
        await kit.send(session)
        await kit.answer(session, await kit.waiting(session))
        await home.ladder.began.wait()
        shutil.rmtree(home.worktree(session))
        home.ladder.go.set()
        await kit.idle(session)
        assert await kit.changes(session) == before
        assert set(before) == {"a.txt"}
        assert "could not be looked at" in (await results(kit, session))[-1]
        error = await kit.refused("change/accept", kit.decision(session, *before.values()))
        assert error.code is ErrorCode.WORKSPACE_MISSING
        assert (home.root / "a.txt").read_text() == "one\n"
        assert (home.root / "src" / "x.py").exists()


async def test_an_accept_ends_also_where_no_look_is_possible(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worktree vanishes while the accept is written: applied, withdrawn, idle."""
    home.play(WRITES, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.idle(session)
        workspace = kit.actor(session).workspace
        real = workspace.apply

        async def apply_and_lose(plan: Any) -> Any:
            applied = await real(plan)
            shutil.rmtree(home.worktree(session))
            return applied

        monkeypatch.setattr(workspace, "apply", apply_and_lose)
        await kit.call("change/accept", kit.decision(session, *(await kit.changes(session)).values()))
        assert (home.root / "a.txt").read_text() == "two\n"
        assert await kit.changes(session) == {}
        assert not kit.actor(session).state.applying


async def dies_in_an_accept(kit: Kit, session: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The room ends when the intent is written and nothing else; the request's parameters."""
    params = kit.decision(session, *(await kit.changes(session)).values())
    there = anyio.Event()

    async def wait_for_ever(*_args: object, **_more: object) -> None:
        there.set()
        await anyio.sleep_forever()

    monkeypatch.setattr(perform, "apply_changes", wait_for_ever)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(swallow, kit.commands.call("change/accept", params, ME))
        await there.wait()
        kit.actor(session).poison()
        tasks.cancel_scope.cancel()
    monkeypatch.undo()
    return params


async def test_a_folder_that_is_away_at_the_restart(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told once; other decisions wait with words; settled by the next command after it is back, without a restart."""
    home.play(WRITES, DONE)
    away = home.root.with_name("away")
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.idle(session)
        await dies_in_an_accept(kit, session, monkeypatch)
    home.root.rename(away)
    async with home.room() as kit:
        changes = await kit.changes(session)
        apply = await fields(kit, session, "apply")
        assert (apply["state"], apply["code"]) == ("unknown", "workspace.missing")
        assert "not known yet" in apply["message"]
        assert (
            await kit.refused("change/reject", kit.decision(session, *changes.values()))
        ).code is ErrorCode.TURN_BUSY
        assert set(await kit.changes(session)) == {"a.txt"}
        assert (await kit.kinds(session)).count("ChangeUnsettled") == 1
        away.rename(home.root)
        await kit.changes(session)
        assert not kit.actor(session).state.applying
        assert (await fields(kit, session, "apply"))["state"] == "refused"
        await kit.call("change/accept", kit.decision(session, *(await kit.changes(session)).values()))
        assert (home.root / "a.txt").read_text() == "two\n"


async def test_what_ended_decisions_left_beside_is_swept_at_opening(home: Home) -> None:
    """A staged file of a plan of its own goes, also when the decision had ended; nobody else's goes."""
    home.play(WRITES, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.idle(session)
        await kit.call("change/accept", kit.decision(session, *(await kit.changes(session)).values()))
        begun = [event["payload"] for event in await kit.events(session) if event["type"] == "ChangeApplyStarted"]
    mine = home.root / Plan.from_json(begun[0]["plan"]).staged(0)
    mine.write_text("one\n")
    other = home.root / ".gloveport-0123456789abcdef-0"
    other.write_text("one\n")
    async with home.room() as kit:
        await kit.sessions.open(session)
        assert (mine.exists(), other.exists()) == (False, True)


async def test_what_is_left_in_part_is_told_path_by_path(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file was written, then changed, before the accept broke off: the refusal names it, and never says nothing."""
    calls = [call("write_file", path=path, content="two\n") for path in ("a.txt", "b.txt")]
    home.play({"when": {"turns_total": 0}, "calls": calls}, DONE)
    (home.root / "b.txt").write_text("one\n")
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.idle(session)
        workspace = kit.actor(session).workspace

        async def break_off(_plan: Any) -> None:
            (home.root / "a.txt").write_text("the user's\n")
            raise GloveportError(ErrorCode.CHANGE_UNSETTLED, "left", paths=["a.txt"])

        monkeypatch.setattr(workspace, "apply", break_off)
        error = await kit.refused("change/accept", kit.decision(session, *(await kit.changes(session)).values()))
        assert error.code is ErrorCode.CHANGE_UNSETTLED
        assert error.data["states"] == {"a.txt": "suspect", "b.txt": "before"}
        assert "nothing was written" not in error.message
        shown = await fields(kit, session, "apply")
        assert (shown["state"], shown["states"]) == ("unsettled", error.data["states"])
        assert not kit.actor(session).state.applying


async def test_a_limit_met_in_the_users_folder_ends_the_turn_by_name(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More files than may be, since the session began."""
    home.play(DONE)
    small = limits.WorkspaceLimits(files_max=5)

    async def create(shelf: WorkspaceShelf, root: str, session_id: str) -> SessionWorkspace:
        return await SessionWorkspace.create(Path(root), home.data / "sessions" / session_id, limits=small)

    monkeypatch.setattr(WorkspaceShelf, "create", create)
    async with home.room() as kit:
        session = await kit.begin()
        for number in range(9):
            (home.root / f"m{number}").touch()
        await kit.send(session)
        assert (await kit.idle(session))[-1] == "TurnFailed"
        failed = next(event["payload"] for event in await kit.events(session) if event["type"] == "TurnFailed")
        assert (failed["code"], "files_max = 5" in failed["message"]) == ("limit.reached", True)


async def test_what_of_the_users_edits_is_not_taken_over_is_told_once(home: Home) -> None:
    """A folder linked out of the project, and a place that both changed: words, and the turn goes on."""
    home.play(WRITES, DONE, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.idle(session)
        (home.root / "a.txt").write_text("three\n")
        shutil.rmtree(home.root / "src")
        (home.root / "src").symlink_to("/")
        for _ in range(2):
            await kit.send(session)
            assert (await kit.idle(session))[-1] == "TurnCompleted"
        assert (await kit.kinds(session)).count("EditsTaken") == 1
        text = (await fields(kit, session, "edits"))["text"]
        assert "a.txt (you and the agent both changed it)" in text
        assert "src (link_leaves_root)" in text
        assert set(await kit.changes(session)) == {"a.txt"}


async def test_a_damaged_record_leaves_the_session_readable(home: Home) -> None:
    """Typed, with what to do; the journal is not taken for damaged."""
    home.play(WRITES, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        kinds = await kit.idle(session)
        changes = await kit.changes(session)
    (home.worktree(session).parent / "workspace.json").write_text("{}")
    async with home.room() as kit:
        assert await kit.kinds(session) == kinds
        error = await kit.refused("change/accept", kit.decision(session, *changes.values()))
        assert (error.code, "new session" in error.hint) == (ErrorCode.CORRUPT, True)
        await kit.send(session)
        assert (await kit.idle(session))[-1] == "TurnFailed"
        assert not kit.actor(session).stale


@pytest.mark.parametrize("place", ["data", "data/sessions", "linked", "/", "/proc", "/sys/kernel", "/dev", "/etc"])
async def test_a_root_that_is_no_project_is_refused(home: Home, place: str) -> None:
    """Our own data, by any name, and the system's folders; with what to do instead. Nor is a trust in it kept."""
    (home.folder / "linked").symlink_to(home.data)
    root = place if place.startswith("/") else str(home.folder / place.replace("data", home.data.name, 1))
    async with home.room() as kit:
        os.makedirs(home.data / "sessions", exist_ok=True)
        trusted = WorkspaceTrustParams(client_request_id=new_id("r"), root=root, trust_level="restricted")
        started = SessionStartParams(client_request_id=new_id("r"), root=root)
        shown = WorkspaceShowParams(root=root)
        for method, params in (("workspace/show", shown), ("workspace/trust", trusted), ("session/start", started)):
            error = await kit.refused(method, params)
            assert (error.code, "one project" in error.hint) == (ErrorCode.PROTECTED_PATH, True)
        assert (await kit.call("workspace/list", Empty())).workspaces == ()


async def test_a_trust_that_was_forgotten_stays_so(home: Home) -> None:
    """In the daemon that took it back, in its open sessions, and in the next one, which reads the record."""
    forgotten = WorkspaceTrustParams(client_request_id=new_id("r"), root=str(home.root), trust_level="unset")
    async with home.room() as kit:
        session = await kit.begin("restricted")
        assert len((await kit.call("workspace/list", Empty())).workspaces) == 1
        shown = WorkspaceShowParams(root=str(home.root))
        assert (await kit.call("workspace/show", shown)).trust_level == "restricted"
        await kit.call("workspace/trust", forgotten)
        assert (await kit.call("workspace/show", shown)).trust_level == "unset"
        assert (await kit.call("workspace/list", Empty())).workspaces == ()
        assert kit.actor(session).state.trust_level == "unset"
    async with home.room() as kit:
        assert (await kit.call("workspace/list", Empty())).workspaces == ()


def test_the_home_folder_is_no_project_and_those_in_it_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By any name; with what to do instead."""
    (tmp_path / "home" / "project").mkdir(parents=True)
    (tmp_path / "linked").symlink_to(tmp_path / "home")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for root in (tmp_path / "home", tmp_path / "linked"):
        with pytest.raises(GloveportError) as caught:
            refuse_root(root, ())
        assert caught.value.code is ErrorCode.PROTECTED_PATH
        assert "your home folder" in caught.value.message
        assert "one project" in caught.value.hint
    refuse_root(tmp_path / "home" / "project", ())
    refuse_root(tmp_path, ())


async def test_our_own_data_below_the_root_is_neither_content_nor_written(tmp_path: Path) -> None:
    """Also where a folder of it is made only later: nothing of it is an edit of the user's, or taken from the agent."""
    root = tmp_path / "p"
    (root / "deep").mkdir(parents=True)
    workspace = await SessionWorkspace.create(root, tmp_path / "s", exclude=(root / "deep/own",))
    (root / "deep/own").mkdir()
    (root / "deep/own/rules.toml").write_text("")
    assert await workspace.drift() == ()
    with pytest.raises(GloveportError) as caught:
        await workspace.check_place("deep/own/rules.toml")
    assert caught.value.code is ErrorCode.PROTECTED_PATH
    assert "never written" in caught.value.message
    await workspace.check_place("deep/ownership.toml")
    workspace.close()


def test_a_root_above_our_own_data_is_fit(tmp_path: Path) -> None:
    """What is excluded there is never read."""
    (tmp_path / "p" / "own").mkdir(parents=True)
    refuse_root(tmp_path / "p", [tmp_path / "p" / "own"])
    with pytest.raises(GloveportError):
        refuse_root(tmp_path / "p" / "own", [tmp_path / "p" / "own"])
