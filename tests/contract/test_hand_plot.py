"""The plot hand: numbers in, one PNG out, a table where nothing can be drawn."""

import os
import signal
from pathlib import Path

import anyio
import pytest
from tests.kit.hands import find_hand, hand_table

from gloveport.protocol.errors import ErrorCode
from gloveport.server.hands.libraries import FIX, Library, LibraryMissingError
from gloveport.server.tools import plots
from gloveport.server.tools.handwork import AGAIN_AFTER_CRASH

BARS = {"labels": ["north", "so$uth$"], "series": [{"name": "amount", "values": [3, 4.5]}], "title": "By region"}


async def test_numbers_become_a_picture(tmp_path: Path) -> None:
    async with hand_table(tmp_path, {"a": b""}) as table:
        for kind in ("bar", "line", "scatter", "pie", "histogram"):
            done = await table.use("plot", path=f"out/{kind}.png", kind=kind, **BARS)
            assert done.outcome == "ok", done
            picture = await table.read(f"out/{kind}.png")
            assert picture.startswith(b"\x89PNG")
            assert picture[16:24] == (800).to_bytes(4) + (500).to_bytes(4)
    assert table.planned is not None
    assert [(one.kind, one.target) for one in table.planned.effects] == [("write", "out/histogram.png")]


async def kill_the_hand(times: int) -> None:
    """SIGKILL the program of a plot hand this often, as soon as each is there."""
    killed: set[int] = set()
    while len(killed) < times:
        pid = find_hand("drawing", leave_out=killed)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)
        await anyio.sleep(0.01)


async def test_a_hand_that_crashes_is_started_once_more(tmp_path: Path) -> None:
    async with hand_table(tmp_path, {"a": b""}) as table, anyio.create_task_group() as tasks:
        tasks.start_soon(kill_the_hand, 1)
        done = await table.use("plot", path="a.png", **BARS)
        assert done.outcome == "ok", done
        assert AGAIN_AFTER_CRASH in done.text
        assert AGAIN_AFTER_CRASH in done.evidence


async def test_a_hand_that_crashes_twice_has_failed(tmp_path: Path) -> None:
    async with hand_table(tmp_path, {"a": b""}) as table, anyio.create_task_group() as tasks:
        tasks.start_soon(kill_the_hand, 2)
        done = await table.use("plot", path="a.png", **BARS)
        assert done.outcome == "failed", done


async def test_without_its_library_the_numbers_are_told_as_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written, nothing is asked about, and the words say what to install."""

    def missing(name: str) -> Library:
        raise LibraryMissingError(ErrorCode.TOOL_UNAVAILABLE, f"the library {name} is not installed", hint=FIX)

    monkeypatch.setattr(plots, "find_library", missing)
    async with hand_table(tmp_path, {"a": b""}) as table:
        done = await table.use("plot", path="out/a.png", **BARS)
        assert not (table.context.workspace.worktree / "out").exists()
    assert done.outcome == "failed", done
    assert "the library matplotlib is not installed" in done.text
    assert FIX in done.text
    assert "north\t3" in done.text
    assert table.planned is not None
    assert table.planned.effects == ()
