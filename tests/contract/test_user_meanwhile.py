"""What the user, a formatter or another tool does to the files while the agent works: seen, merged, told, bounded."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from tests.kit.room import Home, call, new_home, run

from gloveport.protocol.errors import ErrorCode
from gloveport.server.engine.drift import taken_words

TEXT = "".join(f"line {number}\n" for number in range(1, 31))
DONE = {"text": "Done."}


@pytest.fixture
def home() -> Iterator[Home]:
    """A home with a file."""
    with new_home() as made:
        made.write(a__txt=TEXT)
        yield made


async def test_an_edit_while_the_turn_runs_is_merged_before_the_next_tool(home: Home) -> None:
    """A command runs, the user saves a file: the agent's next edit stands on it, and it is told."""
    edit = call("edit_file", path="a.txt", old="line 2\n", new="second\n")
    home.play(
        {"when": {"turn": 0}, "calls": [run("hold")]},
        {"when": {"turn": 1}, "calls": [edit]},
        DONE,
    )
    mine = home.root / "a.txt"
    async with home.room() as kit:
        session = await kit.held()
        mine.write_text(TEXT.replace("line 20\n", "mine\n"))
        home.ladder.go.set()
        await kit.idle(session)
        assert (home.worktree(session) / "a.txt").read_text().splitlines()[1::18][:2] == ["second", "mine"]
        (told,) = await kit.bodies(session, "EditsTaken")
        assert told["taken"] == ["a.txt"]
        assert "a.txt (changed while the turn ran)" in told["text"]
        change = (await kit.changes(session))["a.txt"]
        assert len(change.hunks) == 1
        await kit.call("change/accept", kit.decision(session, change))
        assert mine.read_text() == TEXT.replace("line 20\n", "mine\n").replace("line 2\n", "second\n")


def test_the_words_of_what_was_taken_over_are_few() -> None:
    """A folder that somebody builds in changes thousands of files while a turn runs: the first are named."""
    told = taken_words(tuple(f"{number}.txt" for number in range(3085)))
    assert told == (
        "Your edits were taken over: 0.txt, 1.txt, 2.txt, 3.txt, 4.txt and 3080 more (changed while the turn ran)."
    )
    assert taken_words(()) == ""


async def test_a09_a_touched_file_is_no_change(home: Home) -> None:
    """Equal bytes with another time are accepted; nothing is told."""
    home.play({"when": {"turn": 0}, "calls": [call("edit_file", path="a.txt", old="line 2\n", new="second\n")]}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.idle(session)
        (home.root / "a.txt").touch()
        await kit.call("change/accept", kit.decision(session, (await kit.changes(session))["a.txt"]))
        assert "second\n" in (home.root / "a.txt").read_text()
        assert "EditsTaken" not in await kit.kinds(session)


@contextmanager
def formatter(path: Path) -> Iterator[None]:
    """A tool that writes the file anew, in its own way, soon after anybody writes it."""
    stop = threading.Event()

    def formatted(text: str) -> str:
        return "".join(f"{line.rstrip()}  # kept\n" for line in text.replace("  # kept", "").splitlines())

    def watch() -> None:
        while not stop.wait(0.02):
            text = path.read_text()
            if formatted(text) != text:
                stop.wait(0.2)
                path.write_text(formatted(path.read_text()))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


async def test_a09_a_formatter_on_save_ends_in_one_clear_conflict(home: Home) -> None:
    """It rewrites each line after each write: no loop; the accept is refused once with both sides, and what the agent
    does after that is done on the formatted file."""
    edits = [
        {"when": {"turn": 0, "user_contains": words}, "calls": [call("edit_file", path="a.txt", old=old, new=new)]}
        for words, old, new in (("first", "line 2\n", "second\n"), ("then", "line 9  # kept\n", "ninth  # kept\n"))
    ]
    home.play(*edits, DONE)
    mine = home.root / "a.txt"
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session, "first")
        await kit.idle(session)
        with formatter(mine):
            while "# kept" not in mine.read_text():
                await anyio.sleep(0.02)
            change = (await kit.changes(session))["a.txt"]
            refused = await kit.refused("change/accept", kit.decision(session, change))
            assert refused.code is ErrorCode.CHANGE_CONFLICT
            assert "+line 2  # kept" in str(refused.data["theirs"])
            assert "+second" in str(refused.data["ours"])
            await kit.call("change/reject", kit.decision(session, change))
            await kit.send(session, "then")
            await kit.idle(session)
            (change,) = (await kit.changes(session)).values()
            await kit.call("change/accept", kit.decision(session, change))
            await anyio.sleep(0.5)
            assert mine.read_text() == "".join(
                f"{'ninth' if number == 9 else f'line {number}'}  # kept\n" for number in range(1, 31)
            )
            assert not await kit.changes(session)
        kinds = await kit.kinds(session)
        assert kinds.count("ChangeApplyStarted") == 2
        assert kinds.count("ModelRequestStarted") == 4
