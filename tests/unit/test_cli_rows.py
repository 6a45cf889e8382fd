"""Figures at any width of the terminal: whole, in a table or row by row."""

import re

import pytest

from gloveport.server.cli.view_words import print_rows

NAMES = ("", "requests", "in", "cost")
ROWS = (("a-provider/a-model-with-a-long-name", "1,234", "5,678,901", "$12.34 + 5 unpriced"), ("in all", "2", "3", "–"))


@pytest.mark.parametrize("width", [20, 40, 60, 76, 77, 78, 79, 80, 200])
def test_no_cell_is_cut(width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Every cell is there with all of its letters, and no line is wider than the terminal."""
    monkeypatch.setenv("COLUMNS", str(width))
    print_rows(NAMES, ROWS)
    shown = capsys.readouterr().out
    assert "…" not in shown
    joined = re.sub(r"\s", "", shown)
    for row in ROWS:
        for cell in row:
            assert re.sub(r"\s", "", cell) in joined
    assert all(len(line) <= width for line in shown.splitlines())


def test_a_wide_terminal_has_a_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One line a row, under the names."""
    monkeypatch.setenv("COLUMNS", "200")
    print_rows(NAMES, ROWS)
    head, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [ROWS[0][0], "in"]
    assert head.split() == ["requests", "in", "cost"]
