"""The guard of the audit log: a look that the system refuses is tried again, and is no damage."""

import errno
from pathlib import Path
from typing import Any

import pytest
from tests.contract.test_reckoning import books
from tests.unit.test_audit_log import entry

from gloveport.server.audit.log import AUDIT_FILE
from gloveport.server.engine import tampering
from gloveport.server.engine.tampering import RecordGuard


@pytest.mark.parametrize("edited", [False, True])
async def test_a_refused_look_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edited: bool) -> None:
    """Once without a descriptor, then with; the control: a log that was edited is told by the second look."""
    path = tmp_path / AUDIT_FILE
    async with books(tmp_path) as (_journal, audit):
        for number in range(5):
            await audit.record(entry(number))
    if edited:
        path.write_bytes(path.read_bytes().replace(b'"number":2', b'"number":3', 1))
    opened, tries = Path.open, 0

    def refuse_first(self: Path, *wanted: Any, **named: Any) -> Any:
        nonlocal tries
        if self == path:
            tries += 1
            if tries == 1:
                raise OSError(errno.EMFILE, "Too many open files")
        return opened(self, *wanted, **named)

    monkeypatch.setattr(tampering, "LOOK_AGAIN_S", 0.01)
    async with books(tmp_path) as (journal, audit):
        with monkeypatch.context() as patch:
            patch.setattr(Path, "open", refuse_first)
            await RecordGuard(audit, path, journal).look(lambda: ())
        assert tries >= 2
        assert [line["action"] for line in audit.export()].count("log_damaged") == edited
