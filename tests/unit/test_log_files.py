"""Files that are replayed: what is no exported event is told by its line, whatever it is."""

from pathlib import Path

import pytest

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.app import log_files


@pytest.mark.parametrize("line", [b"[" * 100_000, b"\0" * 1_000, b"5", b"[]", b'{"a":1}', b"\xe9"])
def test_a_foreign_line_is_told_by_its_number(tmp_path: Path, line: bytes) -> None:
    """Too deep, of zeros, of another shape, no text: one typed error each, and no traceback."""
    with pytest.raises(GloveportError) as caught:
        log_files._event_of(line, tmp_path / "log", 3)
    assert caught.value.code is ErrorCode.CORRUPT
    assert "line 3" in caught.value.message
