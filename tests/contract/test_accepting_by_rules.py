"""The user's rules about files hold when a proposal is accepted, however it came to be."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.room import Home, Kit, call, new_home, new_id

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.wire.change import ChangeHunksParams, ChangePreviewParams
from gloveport.protocol.wire.policy import SessionRulesParams

DONE = {"text": "Done."}


def rule(verdict: str, paths: str, effects: str = '"write", "delete"') -> str:
    """A text of one rule about files."""
    return f'''version = 1
[[rule]]
id = "here.{verdict}"
effects = [{effects}]
paths = ["{paths}"]
verdict = "{verdict}"
justification = "You said so about {paths}."
match = [{{ effect = "write", target = "{paths.replace("**", "any")}" }}]
'''


@pytest.fixture
def home() -> Iterator[Home]:
    """A home with migrations, old files of the user, and a model that writes one ordinary file."""
    with new_home() as made:
        (made.root / "migrations").mkdir()
        made.write(**{"migrations/1__sql": "create\n", "migrations/2__sql": "two\n", "a__txt": "x\n"})
        made.play({"when": {"turns_total": 0}, "calls": [call("write_file", path="b.txt", content="new\n")]}, DONE)
        yield made


def programs(tree: Path) -> None:
    """What programs of the agent left: a change, a file taken away, one moved in, one moved out, one beside them."""
    (tree / "migrations/1.sql").write_text("drop\n")
    (tree / "migrations/3.sql").write_text("three\n")
    os.rename(tree / "migrations/2.sql", tree / "two.sql")
    (tree / "c.txt").write_text("ordinary\n")


async def proposed(kit: Kit, home: Home, text: str = "") -> str:
    """A session in which that is proposed, under these rules of its own."""
    session = await kit.begin()
    if text:
        await set_rules(kit, session, text)
    programs(home.worktree(session))
    await kit.send(session)
    await kit.idle(session)
    return session


async def set_rules(kit: Kit, session: str, text: str) -> None:
    """Give the session these rules."""
    await kit.call("session/rules", SessionRulesParams(client_request_id=new_id("r"), session_id=session, text=text))


RULED = {"migrations/1.sql", "migrations/3.sql", "two.sql"}


@pytest.mark.parametrize("whose", ["session", "user"])
async def test_what_a_rule_refuses_is_not_accepted(home: Home, whose: str) -> None:
    """Said before it is accepted, refused with its words in any company, nothing of it written; the others go on."""
    text = rule("deny", "migrations/**")
    if whose == "user":
        (home.folder / "rules.toml").write_text(text)
    async with home.room() as kit:
        session = await proposed(kit, home, text if whose == "session" else "")
        changes = await kit.changes(session)
        assert {path for path, one in changes.items() if one.rule is not None} == RULED
        told = changes["migrations/1.sql"].rule
        assert told is not None
        assert (told.verdict, told.rule_id) == ("deny", f"{whose}:here.deny")
        shown = await kit.call(
            "change/preview", ChangePreviewParams(session_id=session, change_id=changes["two.sql"].change_id)
        )
        assert shown.change.rule == told
        hunks = (await kit.call("change/hunks", ChangeHunksParams(session_id=session))).hunks
        assert {hunk.path for hunk in hunks if hunk.rule == told} == RULED
        for chosen in (changes.values(), *([changes[path]] for path in RULED)):
            refused = await kit.refused("change/accept", kit.decision(session, *chosen))
            assert refused.code is ErrorCode.POLICY_DENIED
            assert "You said so about migrations/**." in refused.message
            assert set(refused.data["paths"]) <= RULED
        part = kit.decision(session, changes["migrations/1.sql"], hunks=(0,))
        assert (await kit.refused("change/accept", part)).code is ErrorCode.POLICY_DENIED
        assert not (home.root / "b.txt").exists()
        await kit.call("change/accept", kit.decision(session, *(changes[path] for path in set(changes) - RULED)))
        assert (home.root / "c.txt").exists()
        await kit.call("change/reject", kit.decision(session, *(changes[path] for path in RULED)))
        assert sorted(path.name for path in (home.root / "migrations").iterdir()) == ["1.sql", "2.sql"]
        assert (home.root / "migrations/1.sql").read_text() == "create\n"


async def test_what_a_rule_asks_about_is_accepted_by_itself(home: Home) -> None:
    """Together: refused with why. Alone, by its name: taken."""
    async with home.room() as kit:
        session = await proposed(kit, home, rule("ask", "migrations/**"))
        changes = await kit.changes(session)
        refused = await kit.refused("change/accept", kit.decision(session, *changes.values()))
        assert refused.code is ErrorCode.POLICY_DENIED
        assert set(refused.data["paths"]) == RULED
        assert "You said so about migrations/**." in refused.message
        assert (home.root / "migrations/1.sql").read_text() == "create\n"
        await kit.call("change/accept", kit.decision(session, changes["migrations/1.sql"]))
        assert (home.root / "migrations/1.sql").read_text() == "drop\n"


async def test_the_rules_are_those_of_the_moment(home: Home) -> None:
    """Set after the proposal was shown: they hold. Taken away again: they do not."""
    async with home.room() as kit:
        session = await proposed(kit, home)
        change = (await kit.changes(session))["migrations/1.sql"]
        assert change.rule is None
        await set_rules(kit, session, rule("deny", "migrations/**"))
        assert (await kit.refused("change/accept", kit.decision(session, change))).code is ErrorCode.POLICY_DENIED
        await set_rules(kit, session, "")
        await kit.call("change/accept", kit.decision(session, change))
        assert (home.root / "migrations/1.sql").read_text() == "drop\n"


async def test_a_rule_holds_for_every_name_of_a_file(home: Home) -> None:
    """Through the user's own link, and for a link that would put other files under the named folder."""
    os.symlink("migrations", home.root / "m")
    async with home.room() as kit:
        session = await kit.begin()
        await set_rules(kit, session, rule("deny", "m/**").replace('"m/**"]', '"m/**", "later/1.sql"]'))
        programs(home.worktree(session))
        os.symlink("elsewhere", home.worktree(session) / "later")
        os.symlink("elsewhere", home.worktree(session) / "other")
        await kit.send(session)
        await kit.idle(session)
        changes = await kit.changes(session)
        assert {path for path, one in changes.items() if one.rule is not None} == RULED | {"later"}
