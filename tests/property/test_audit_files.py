"""No content of the audit log's files keeps a daemon from its work: what is not as it was written is damage."""

import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.test_audit_damage import begin
from tests.unit.test_audit_log import entry

from gloveport.server.audit.checkpoint import checkpoint_path
from gloveport.server.audit.concerned import concerned_path, read_concerned, write_concerned
from gloveport.server.audit.line import Link, canonical, line_digest
from gloveport.server.audit.log import AuditLog
from gloveport.server.audit.reading import Damage, export_lines, verify_log
from gloveport.server.audit.seen import seen_path
from gloveport.server.engine.reckoning import SEQ_MAX, _read_known

LINES: Final = 6
DEEP: Final = 4_000
DAMAGE: Final = Damage(3, "ab" * 32, 2, "words")
WRITTEN: Final = (
    *('"\\ud800"', "1e999", "NaN", "-1", "true", "null", "{}", "[]", '["log_damaged"]', '"log_damaged"'),
    *("9" * 30, "9" * 5_000, "[" * 400 + "]" * 400, "[" * DEEP + "]" * DEEP, '{"seq": 3}', '{"line": [1]}'),
)
"""JSON, as somebody may write it in the place of a value."""


@cache
def files() -> dict[str, bytes]:
    """The log of a daemon that ended, and all that lies beside it, by name."""

    async def write(path: Path) -> None:
        log = await AuditLog.open(path, clock=lambda: 1)
        for number in range(LINES):
            await log.record(entry(number, params={"seq": number}))
        await log.find_damage(0)
        await log.close()

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "audit.jsonl")
        anyio.run(write, path)
        write_concerned(path, DAMAGE, ["session/s"])
        return {one.name: one.read_bytes() for one in Path(folder).iterdir()}


def make_log(folder: Path) -> Path:
    """Such a log in a folder."""
    for name, content in files().items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)
    return folder / "audit.jsonl"


def put(values: dict[str, Any], name: str, odd: str) -> bytes:
    """The object with other JSON in one place."""
    return canonical({**values, name: "PLACE"}).replace(b'"PLACE"', odd.encode())


def change_line(path: Path, place: int, name: str, odd: str, *, follows: bool) -> None:
    """Change a field of a line; one that follows has the digest of what stands there."""
    texts = path.read_bytes().splitlines()
    at = place % len(texts)
    values = json.loads(texts[at])
    if follows and name != "digest":
        before = json.loads(texts[at - 1])["digest"] if at else Link().digest
        bare = {key: value for key, value in values.items() if key != "digest"}
        values["digest"] = line_digest(before, put(bare, name, odd))
    texts[at] = put(values, name, odd)
    path.write_bytes(b"\n".join(texts) + b"\n")


NAMES = ("seq", "digest", "task_id", "action", "params", "timestamp", "security_context")
BESIDE: dict[Callable[[Path], Path], tuple[str, ...]] = {
    checkpoint_path: ("seq", "head", "at", "boot_id", "rules_hash", "mark", "more"),
    seen_path: ("seq", "at", "damage", "mark", "size", "more"),
    concerned_path: ("digest", "streams"),
}


@given(st.integers(0, 99), st.sampled_from(NAMES), st.sampled_from(WRITTEN), st.booleans())
def test_any_line_is_followed_or_told(place: int, name: str, odd: str, follows: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = make_log(Path(folder))
        change_line(path, place, name, odd, follows=follows)
        assert not verify_log(path).ok
        list(export_lines(path))
        _read_known(path, {"session/x": 1}, 0)
        anyio.run(begin, path)


@pytest.mark.parametrize(("seq", "known"), [(SEQ_MAX, True), (SEQ_MAX + 1, False), (-1, False), (True, False)])
def test_a_line_tells_of_no_event_that_a_journal_cannot_hold(tmp_path: Path, seq: int, known: bool) -> None:
    path = tmp_path / "audit.jsonl"
    values = {**json.loads(files()["audit.jsonl"].splitlines()[-1]), "task_id": "session/x", "params": {"seq": seq}}
    path.write_bytes(canonical(values) + b"\n")
    assert (_read_known(path, {}, 0) == {"session/x": seq}) is known


@given(st.data(), st.sampled_from(list(BESIDE)), st.sampled_from(WRITTEN), st.booleans())
def test_what_lies_beside_the_log_is_read_as_it_was_written_or_not_at_all(
    data: st.DataObject, place: Callable[[Path], Path], odd: str, whole: bool
) -> None:
    name = data.draw(st.sampled_from(BESIDE[place]))
    with tempfile.TemporaryDirectory() as folder:
        path = make_log(Path(folder))
        file = place(path)
        file.write_bytes(odd.encode() if whole else put(json.loads(file.read_bytes()), name, odd))
        assert read_concerned(path, DAMAGE) is None or not whole or place is not concerned_path
        verify_log(path)
        anyio.run(begin, path)
