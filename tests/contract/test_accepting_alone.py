"""What is accepted one by one only, and what not at all, as the worktree lies when it is accepted."""

import os
from collections.abc import Iterator

import pytest
from tests.kit.room import Home, Kit, call, new_home

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.wire.change import ChangeInfo, FileRule
from gloveport.server.cli.one_by_one import left_words, parted

DONE = {"text": "Done."}


@pytest.fixture
def home() -> Iterator[Home]:
    """A home with a file that runs by itself, one that holds secrets, and two ordinary ones."""
    with new_home() as made:
        made.write(a__txt="x\n", conftest__py="# mine\n", __env="TOKEN=abc\n")
        made.play({"when": {"turns_total": 0}, "calls": [call("write_file", path="b.txt", content="new\n")]}, DONE)
        yield made


async def proposed(kit: Kit, home: Home) -> tuple[str, dict[str, ChangeInfo]]:
    """What a program of the agent left in the worktree, as proposals: files of all classes, and links to some."""
    session = await kit.begin()
    tree = home.worktree(session)
    for path, text in (
        ("Makefile", "all:\n\ttrue\n"),
        ("tox.ini", "[tox]\n"),
        ("sub/.vscode/tasks.json", "{}\n"),
        (".gloveport/rules.toml", "x\n"),
        ("c.txt", "ordinary\n"),
    ):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    for link, target in (("plain.txt", "conftest.py"), ("notes.txt", ".env"), ("good.txt", "a.txt"), ("w", ".github")):
        os.symlink(target, tree / link)
    await kit.send(session)
    await kit.idle(session)
    return session, await kit.changes(session)


async def test_what_runs_by_itself_is_accepted_by_itself(home: Home) -> None:
    """All at once is refused and writes nothing; each alone, and the others together, are taken."""
    async with home.room() as kit:
        session, changes = await proposed(kit, home)
        refused = await kit.refused("change/accept", kit.decision(session, *changes.values()))
        assert refused.code is ErrorCode.PROTECTED_PATH
        allowed = {path: change for path, change in changes.items() if not path.startswith(".gloveport")}
        refused = await kit.refused("change/accept", kit.decision(session, *allowed.values()))
        assert refused.code is ErrorCode.POLICY_DENIED
        assert "by itself" in str(refused.hint)
        alone = {"Makefile", "tox.ini", "sub/.vscode/tasks.json", "plain.txt", "notes.txt", "w"}
        assert set(refused.data["paths"]) == alone
        pair = await kit.refused("change/accept", kit.decision(session, changes["Makefile"], changes["c.txt"]))
        assert pair.code is ErrorCode.POLICY_DENIED
        assert not (home.root / "b.txt").exists()
        others = [change for path, change in allowed.items() if path not in alone]
        await kit.call("change/accept", kit.decision(session, *others))
        assert (home.root / "c.txt").read_text() == "ordinary\n"
        assert (home.root / "good.txt").is_symlink()
        await kit.call("change/accept", kit.decision(session, changes["Makefile"]))
        assert (home.root / "Makefile").exists()


async def test_what_is_never_written_is_not_accepted_alone_either(home: Home) -> None:
    """Our own names: refused with nothing written; rejecting is possible."""
    async with home.room() as kit:
        session, changes = await proposed(kit, home)
        change = changes[".gloveport/rules.toml"]
        assert (await kit.refused("change/accept", kit.decision(session, change))).code is ErrorCode.PROTECTED_PATH
        assert not (home.root / ".gloveport").exists()
        await kit.call("change/reject", kit.decision(session, change))
        assert ".gloveport/rules.toml" not in await kit.changes(session)


async def test_a_link_says_what_it_leads_to(home: Home) -> None:
    """The note names the end of the link, and what that is; a link to an ordinary file has none."""
    async with home.room() as kit:
        _, changes = await proposed(kit, home)
        assert "leads to conftest.py" in str(changes["plain.txt"].runs_by_itself)
        assert "leads to .env" in str(changes["notes.txt"].runs_by_itself)
        assert "leads to .github" in str(changes["w"].runs_by_itself)
        assert changes["good.txt"].runs_by_itself is None


async def test_a_link_is_judged_by_where_it_leads_when_it_is_accepted(home: Home) -> None:
    """The link itself is as it was shown; what stands at its end has become a link to something that runs."""
    async with home.room() as kit:
        session = await kit.begin()
        tree = home.worktree(session)
        (tree / "middle.txt").write_text("ordinary\n")
        os.symlink("middle.txt", tree / "good.txt")
        await kit.send(session)
        await kit.idle(session)
        changes = await kit.changes(session)
        assert changes["good.txt"].runs_by_itself is None
        (tree / "middle.txt").unlink()
        os.symlink("conftest.py", tree / "middle.txt")
        both = kit.decision(session, changes["good.txt"], changes["b.txt"])
        assert (await kit.refused("change/accept", both)).code is ErrorCode.POLICY_DENIED
        assert not (home.root / "b.txt").exists()


async def test_a_proposal_that_changes_between_check_and_plan_is_refused(home: Home) -> None:
    """A program writes the file when the digest was just compared: what is planned is what was shown, or nothing."""
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.idle(session)
        change = (await kit.changes(session))["b.txt"]
        workspace = kit.actor(session).workspace
        plan = workspace.plan_accept

        async def program_writes_first(*args: object) -> object:
            (home.worktree(session) / "b.txt").write_text("evil\n")
            return await plan(*args)

        workspace.plan_accept = program_writes_first
        refused = await kit.refused("change/accept", kit.decision(session, change))
        assert refused.code is ErrorCode.CHANGE_SUPERSEDED
        assert not (home.root / "b.txt").exists()


async def test_a_program_that_writes_after_the_plan_changes_nothing_of_it(home: Home) -> None:
    """The plan holds the bytes that were shown."""
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.idle(session)
        change = (await kit.changes(session))["b.txt"]
        workspace = kit.actor(session).workspace
        plan = workspace.plan_accept

        async def program_writes_then(*args: object) -> object:
            made = await plan(*args)
            (home.worktree(session) / "b.txt").write_text("evil\n")
            return made

        workspace.plan_accept = program_writes_then
        await kit.call("change/accept", kit.decision(session, change))
        assert (home.root / "b.txt").read_text() == "new\n"


def info(path: str, note: str | None, rule: FileRule | None = None) -> ChangeInfo:
    """A proposal as a client lists it."""
    return ChangeInfo(
        change_id=f"c-{path}", path=path, kind="create", base_hash=None, result_hash="0" * 64, digest="0" * 64,
        hunks=(), runs_by_itself=note, rule=rule,
    )  # fmt: skip


def test_a_client_parts_what_it_accepts() -> None:
    """All: what runs is left and named; by name: each in a request of its own; a folder names no file in it."""
    changes = (info("a.txt", None), info("sub/Makefile", "make runs it"), info("b.txt", None), info("tox.ini", "tox"))
    together = (changes[0], changes[2])
    assert parted(changes, ()) == ((together,), (changes[1], changes[3]))
    assert parted(changes, ("sub", ".")) == ((together,), (changes[1], changes[3]))
    assert parted(changes, ("a.txt", "./sub/Makefile")) == ((together, (changes[1],)), (changes[3],))
    assert parted(changes[1:2], ("Makefile",)) == (((changes[1],),), ())
    assert "sub/Makefile" in left_words(changes[1:2])
    assert left_words(()) == ""


def test_a_client_leaves_what_a_rule_speaks_of() -> None:
    """What a rule asks about is taken by its name alone, what it refuses by no name; both are told with its words."""
    asks, refuses = (FileRule(rule_id=f"user:{one}", verdict=one, words=f"You {one}.") for one in ("ask", "deny"))
    changes = (info("a.txt", None), info("b.sql", None, asks), info("c.sql", "make runs it", refuses))
    assert parted(changes, ()) == ((changes[:1],), changes[1:])
    assert parted(changes, ("b.sql", "c.sql")) == ((changes[:1], (changes[1],)), (changes[2],))
    words = left_words(changes[1:])
    assert "b.sql: the rule user:ask asks about it: You ask." in words
    assert "c.sql: the rule user:deny refuses it: You deny." in words
    assert "by its name" in words
    assert "by its name" not in left_words(changes[2:])


async def test_another_content_than_was_shown_is_neither_accepted_nor_rejected(home: Home) -> None:
    """A decision on the older digest is refused whole: nothing is written, what is proposed now stays."""
    home.play(
        {"when": {"turns_total": 0}, "calls": [call("write_file", path="b.txt", content="new\n")]},
        {"when": {"user_contains": "again", "turn": 0}, "calls": [call("write_file", path="b.txt", content="evil\n")]},
        DONE,
    )
    async with home.room() as kit:
        session = await kit.begin()
        (home.worktree(session) / "c.txt").write_text("other\n")
        await kit.send(session)
        await kit.idle(session)
        shown = await kit.changes(session)
        await kit.send(session, "again")
        await kit.idle(session)
        for method in ("change/accept", "change/reject"):
            refused = await kit.refused(method, kit.decision(session, *shown.values()))
            assert refused.code is ErrorCode.CHANGE_SUPERSEDED
        assert not (home.root / "b.txt").exists()
        assert not (home.root / "c.txt").exists()
        now = await kit.changes(session)
        assert set(now) == {"b.txt", "c.txt"}
        assert now["b.txt"].digest != shown["b.txt"].digest
        await kit.call("change/accept", kit.decision(session, now["b.txt"]))
        assert (home.root / "b.txt").read_text() == "evil\n"
