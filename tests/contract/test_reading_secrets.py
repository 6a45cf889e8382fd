"""Secrets of the workspace, whichever way they are asked for: a search, a link, a copy, an edit, a program."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from tests.kit.room import Home, Kit, call, new_home, run

DONE = {"text": "Done."}
TOKEN = "API_TOKEN=hunter2hunter2\n"


@pytest.fixture
def home() -> Iterator[Home]:
    """A folder with a secret, in a file and below a folder, and links of the user's to it."""
    with new_home() as made:
        made.write(__env=TOKEN, a__txt="API_TOKEN is in the environment\n", conftest__py="# mine\n")
        (made.root / ".config/gcloud").mkdir(parents=True)
        (made.root / ".config/gcloud/default").write_text("gcloud_token = abc\nx\nx\n")
        os.symlink(".env", made.root / "notes.txt")
        os.symlink("conftest.py", made.root / "plain.txt")
        os.symlink("nowhere", made.root / "dangling")
        yield made


async def play(kit: Kit, home: Home, *calls: dict[str, Any]) -> str:
    """A session whose model makes these calls in one turn."""
    home.play({"when": {"turns_total": 0}, "calls": list(calls)}, DONE)
    session = await kit.begin()
    await kit.send(session)
    return session


async def answers(kit: Kit, session: str, *decisions: str) -> list[Any]:
    """Answer the cards that come, in order, and wait for the end; each card with its effects."""
    cards = []
    for decision in decisions:
        card = await kit.waiting(session)
        cards.append(sorted(f"{one['kind']} {one['target']}" for one in card.card["effects"]))
        await kit.answer(session, card, decision)
    await kit.idle(session)
    return cards


async def told(kit: Kit, session: str) -> list[str]:
    """What the model was told of each call."""
    events = await kit.events(session)
    return [one["payload"]["text"] for one in events if one["type"] == "ToolExecutionFinished"]


async def test_a_search_leaves_secrets_out_unless_one_is_named_and_allowed(home: Home) -> None:
    """A pattern never finds one without a card; the exact path is asked about as reading it, and once."""
    searches = [
        call("search", pattern="TOKEN|token", path=path) for path in ("**", ".e*", ".config/**", ".env", ".env")
    ]
    async with home.room() as kit:
        session = await play(kit, home, *searches)
        cards = await answers(kit, session, "deny", "allow")
        assert cards == [["read .env", "search ."]] * 2
        everything, starred, below, denied, allowed = await told(kit, session)
    assert everything.startswith("a.txt:1:")
    assert "2 files that may hold secrets were not searched" in everything
    assert all("hunter2" not in text and "abc" not in text for text in (everything, starred, below, denied))
    assert "hunter2hunter2" in allowed


@pytest.mark.parametrize(
    ("asked", "card"),
    [
        (call("read_file", path="notes.txt"), ["read .env", "read notes.txt"]),
        (call("write_file", path="plain.txt", content="# evil\n"), ["write conftest.py", "write plain.txt"]),
        (call("edit_file", path="plain.txt", old="mine", new="evil"), ["write conftest.py", "write plain.txt"]),
        (call("write_file", path=".ENV", content="x"), ["write .ENV"]),
        (call("edit_file", path=".env", old="no such text", new=""), ["write .env", "write notes.txt"]),
        (call("edit_file", path=".env", old="hunter2", new=""), ["write .env", "write notes.txt"]),
        (call("write_file", path="ConfTest.py", content="x"), ["write ConfTest.py"]),
    ],
)
async def test_what_a_path_leads_to_is_what_is_asked_about(home: Home, asked: Any, card: list[str]) -> None:
    """A link's own name says nothing of what is read or written; neither does the case of a name."""
    async with home.room() as kit:
        session = await play(kit, home, asked)
        assert await answers(kit, session, "deny") == [card]
        assert await kit.ends(session) == ["denied"]
        assert (home.worktree(session) / "conftest.py").read_text() == "# mine\n"


async def test_a_file_that_the_users_link_leads_to_has_the_links_rights(home: Home) -> None:
    """conftest.py of a package is a link to an ordinary file: writing that file is writing conftest.py."""
    (home.root / "pkg").mkdir()
    os.symlink("../shared.py", home.root / "pkg/conftest.py")
    home.write(shared__py="# shared\n")
    async with home.room() as kit:
        session = await play(kit, home, call("write_file", path="shared.py", content="# other\n"))
        assert await answers(kit, session, "allow") == [["write pkg/conftest.py", "write shared.py"]]
        change = (await kit.changes(session))["shared.py"]
        assert "pkg/conftest.py" in str(change.runs_by_itself)


async def test_a_secret_under_another_name_stays_one(home: Home) -> None:
    """A program renamed a folder above it: reading, searching and editing there are still asked about."""
    calls = [
        call("read_file", path="conf/gcloud/default"),
        call("search", pattern="token", path="**"),
        call("search", pattern="token", path="conf/gcloud/default"),
        call("edit_file", path="conf/gcloud/default", old="gcloud_token = b", new=""),
        call("edit_file", path="conf/gcloud/default", old="x", new=""),
    ]
    home.play({"when": {"user_contains": "second", "turn": 0}, "calls": calls}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.idle(session)
        (home.worktree(session) / ".config").rename(home.worktree(session) / "conf")
        await kit.send(session, "second")
        cards = await answers(kit, session, "deny", "deny", "deny", "deny")
        assert all("read .config/gcloud/default" in card for card in cards), cards
        assert not [text for text in await told(kit, session) if "gcloud_token" in text]


async def test_a_rung_that_hides_nothing_asks_for_each_secret(home: Home) -> None:
    """Where a program sees every file, running it is reading the secrets: asked each time, nothing lasting offered."""
    async with home.room() as kit:
        session = await play(kit, home, run("echo", "one"), run("echo", "one"))
        for _ in range(2):
            card = await kit.waiting(session)
            assert {option["scope"] for option in card.card["options"]} == {"once"}
            assert "read .env" in [f"{one['kind']} {one['target']}" for one in card.card["effects"]]
            await kit.answer(session, card)
            await kit.until_state(session, lambda state, old=card: old.approval_id not in state.approvals)
        await kit.idle(session)
        assert await kit.ends(session) == ["ok", "ok"]


async def test_a_secret_that_appears_after_the_answer_stops_the_run(home: Home) -> None:
    """What was judged is what the program may see."""
    async with home.room() as kit:
        session = await play(kit, home, run("hold"))
        card = await kit.waiting(session)
        (home.worktree(session) / "late.pem").write_text("key\n")
        await kit.answer(session, card)
        card = await kit.waiting(session) if kit.actor(session).state.turn is not None else None
        assert card is None or "read late.pem" in [f"{one['kind']} {one['target']}" for one in card.card["effects"]]
        assert not home.ladder.starts["hold"]
