"""What git's rules ignore is not in a session's copy: whoever meets that is told so, the model and the user alike."""

from collections.abc import Iterator

import pytest
from tests.kit.room import Home, Kit, call, new_home, run

from gloveport.protocol.wire.turn import WhyParams

DONE = {"text": "done"}


@pytest.fixture
def home() -> Iterator[Home]:
    """A home whose project ignores some of its files."""
    with new_home() as made:
        made.write(a__txt="one\n")
        (made.root / ".gitignore").write_text(".env\nout/\n")
        (made.root / ".env").write_text("KEY=of the user\n")
        yield made


async def results(kit: Kit, session: str) -> list[str]:
    """The texts of all ended calls."""
    return [event["payload"]["text"] for event in await kit.events(session) if event["type"] == "ToolExecutionFinished"]


async def test_a_read_of_an_ignored_file_says_why_it_is_not_there(home: Home) -> None:
    """In the model's result and in `why`; a file that is simply not there is told as that."""
    home.play(
        {"when": {"turn": 0}, "calls": [call("read_file", path=".env")]},
        {"when": {"turn": 1}, "calls": [call("read_file", path="none.txt")]},
        DONE,
    )
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        card = await kit.waiting(session)
        await kit.answer(session, card)
        await kit.idle(session)
        ignored, missing = await results(kit, session)
        why = await kit.call("tool/why", WhyParams(session_id=session, call_id=card.call_id))
    for text in (ignored, str(why)):
        assert ".env is ignored here (git's rules)" in text
        assert "not in the session's copy" in text
        assert "List the folder" not in text
    assert "ENOENT" in missing


async def test_an_ignored_file_of_the_users_own_is_no_change_of_both(home: Home) -> None:
    """The agent writes a path that a rule ignores and the user has: nobody changed the user's."""
    home.play({"when": {"turns_total": 0}, "calls": [call("write_file", path=".env", content="KEY=x\n")]}, DONE, DONE)
    async with home.room() as kit:
        session = await kit.allowed()
        await kit.idle(session)
        await kit.send(session)
        await kit.idle(session)
        (told,) = [one["payload"]["text"] for one in await kit.events(session) if one["type"] == "EditsTaken"]
    assert ".env (it is ignored here, and you have one of your own)" in told
    assert "both changed" not in told


async def test_what_a_command_left_in_ignored_places_is_counted_and_named(home: Home) -> None:
    """One line, bounded; of caches and installed packages nothing is said, and where there is nothing either."""
    home.play({"when": {"turn": 0}, "calls": [run("hold")]}, DONE)
    async with home.room() as kit:
        session = await kit.held()
        worktree = home.worktree(session)
        for place in ("out", "__pycache__", "node_modules/p"):
            (worktree / place).mkdir(parents=True)
        for number in range(9):
            (worktree / f"out/{number}.bin").write_bytes(b"x")
        for link in ("out/away", "away"):
            (worktree / link).symlink_to("/etc")
        (worktree / "__pycache__/a.pyc").write_bytes(b"x")
        (worktree / "node_modules/p/x.js").write_bytes(b"x")
        home.ladder.go.set()
        await kit.idle(session)
        (text,) = await results(kit, session)
    line = next(one for one in text.splitlines() if "ignored here" in one)
    assert "(10): out/0.bin, out/1.bin, out/2.bin, out/3.bin, out/4.bin and 5 more." in line
    assert "Not looked at, so not proposed: away (link_leaves_root)." in text
    assert "node_modules" not in text
    assert "pyc" not in text
