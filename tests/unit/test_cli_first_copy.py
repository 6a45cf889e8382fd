"""A word before a first copy that may take long: by files, by bytes, and none for a usual folder."""

from pathlib import Path

import pytest

from gloveport.server.cli import first_copy
from gloveport.server.cli.first_copy import BYTES_TOLD, copy_words


def test_a_large_folder_is_told_before_it_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and bytes; the look is bounded and says so; what is never copied does not count."""
    for number in range(6):
        (tmp_path / f"{number}.txt").write_text("x")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "large").touch()
    assert copy_words(tmp_path) == ""
    monkeypatch.setattr(first_copy, "FILES_TOLD", 6)
    assert copy_words(tmp_path).startswith(f"{tmp_path} holds 6 files (6 bytes): ")
    monkeypatch.setattr(first_copy, "FILES_LOOKED_AT_MAX", 4)
    monkeypatch.setattr(first_copy, "FILES_TOLD", 4)
    assert "holds 4 files or more (4 bytes or more)" in copy_words(tmp_path)
    monkeypatch.undo()
    with (tmp_path / "large.bin").open("wb") as file:
        file.truncate(BYTES_TOLD)
    assert "holds 7 files (1" in copy_words(tmp_path)
