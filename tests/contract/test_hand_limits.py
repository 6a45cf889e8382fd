"""The limits of each hand as numbers: in its row, on the page for users, in what its supervisor was asked to hold."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.kit.hands import hand_table

from gloveport.sandbox.contract import ResultKind
from gloveport.sandbox.monitor.thresholds import HANDS as THRESHOLDS
from gloveport.sandbox.runner import rundir
from gloveport.server.hands.request import Started
from gloveport.server.hands.table import HANDS, MEBIBYTE
from gloveport.server.tools.archives import MEMBERS_MAX, UNPACKED_BYTES_MAX
from gloveport.server.tools.databases import ROWS_MAX, STATEMENT_S
from gloveport.server.tools.handwork import request_of, show_nothing
from gloveport.server.tools.http import ANSWER_BYTES_MAX

TABLE: dict[str, tuple[float, int, int, str, str]] = {
    "file_reader": (3.0, 128, 8, "none", "file_reader_lean"),
    "file_reader_large": (15.0, 256, 32, "none", "file_reader_lean"),
    "file_reader_lean": (3.0, 128, 32, "none", ""),
    "archive": (15.0, 256, 32, "none", ""),
    "execution": (15.0, 256, 16, "none", ""),
    "plot": (15.0, 256, 0, "none", "table"),
    "http": (15.0, 256, 0, "stand-in", ""),
    "sql": (15.0, 256, 32, "broker", ""),
    "shell": (3.0, 128, 0, "none", ""),
    "email": (15.0, 128, 16, "broker", ""),
}
"""Seconds, MiB of memory (the hard limit is a fifth above), MiB of input, credential, substitute."""
PAGE = {
    "read_document": ("3 s, 128 MB, 8 MB", "15 s, 256 MB, 32 MB"),
    "list_archive": ("15 s, 256 MB, 32 MB", f"{UNPACKED_BYTES_MAX // MEBIBYTE} MB and {MEMBERS_MAX} members"),
    "look_with": ("3 s, 128 MB",),
    "run_python": ("15 s, 256 MB, 16 MB",),
    "query_database": (f"{STATEMENT_S:g} s a statement", f"{ROWS_MAX:,} rows", "256 MB"),
    "plot": ("15 s, 256 MB",),
    "send_email": ("15 s, 16 MB",),
    "http_request": ("15 s", f"{ANSWER_BYTES_MAX // 1024} KB of answer"),
}


def test_the_rows_are_those_that_were_decided() -> None:
    """A change of a row is seen here, and on the page for users."""
    rows = {
        name: (
            one.wall_s,
            one.memory_bytes // MEBIBYTE,
            one.input_bytes_max // MEBIBYTE,
            one.credential,
            one.substitute,
        )
        for name, one in HANDS.items()
    }
    assert rows == TABLE
    assert all(one.memory_bytes_max == int(one.memory_bytes * 1.2) for one in HANDS.values())
    assert {name for name, one in HANDS.items() if one.reaches} == {"http", "sql", "email"}


def test_the_page_for_users_says_the_same() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/hands.md").read_text(encoding="utf-8")
    for tool, limits in PAGE.items():
        (row,) = (line for line in page.splitlines() if line.startswith("| `") and f"`{tool}`" in line.split("|")[1])
        for words in limits:
            assert words in row.split("|")[3], (tool, words)


async def test_what_a_supervisor_is_asked_to_hold_is_the_row(tmp_path: Path) -> None:
    """Limits and thresholds of the breaker; the worktree is in the view of a hand that looks, and of no other."""
    async with hand_table(tmp_path, {"a.txt": b""}) as table:
        tree = str(table.context.workspace.worktree)
        for hand, (wall_s, memory_mib, *_) in TABLE.items():
            row = HANDS[hand]
            started = Started(("true",) if row.looks else ("-c", "pass"), (), b"")
            request = replace(request_of(hand, started, table.context), run_id=f"t1.{hand}")
            done = await table.hands.run(request, show_nothing)
            assert done.kind is ResultKind.OK, done
            (folder,) = (path.parent for path in (tmp_path / "runs").rglob(f"t1.{hand}/request.json"))
            asked = rundir.read_request(folder)
            limits, breaker = asked.limits, asked.breaker
            assert limits.wall_s == wall_s
            assert limits.memory_bytes_max == int(memory_mib * MEBIBYTE * 1.2)
            assert limits.processes_max == row.processes_max
            assert limits.file_bytes_max == 64 * MEBIBYTE
            assert limits.output_bytes_max == row.output_bytes_max
            assert breaker is not None
            assert breaker.ends
            assert breaker.memory_soft_bytes == pytest.approx(memory_mib * MEBIBYTE, abs=1)
            assert breaker.calls_per_s_max == THRESHOLDS[hand].calls_per_s_max
            assert (tree in repr(asked)) == row.looks
