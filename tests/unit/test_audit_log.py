"""The audit log: every action has its line, and a line that was touched, moved or cut away is found."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gloveport.protocol.errors import ErrorCode
from gloveport.server.audit.checkpoint import checkpoint_path, key_path
from gloveport.server.audit.errors import AuditError
from gloveport.server.audit.line import GENESIS, LINE_BYTES_MAX, Action, Entry, Link, canonical, line_digest
from gloveport.server.audit.log import AuditLog
from gloveport.server.audit.reading import export_lines, iterate_backward, verify_log

SEVEN = ("timestamp", "task_id", "sub_agent_type", "sandbox_id", "action", "params", "security_context")


def entry(number: int = 1, **changes: Any) -> Entry:
    """An action as the engine would record it."""
    values: dict[str, Any] = {
        "at": 1_716_301_381_123_000 + number,
        "action": Action.EXEC_START,
        "task_id": f"turn-{number % 2}",
        "sub_agent_type": "run_tests",
        "sandbox_id": "bubblewrap:abc",
        "actor": "agent",
        "decision": "allow",
        "params": {"argv": ["pytest", "-q"], "number": number},
        "security_context": {"network": [], "memory_bytes_max": 134_217_728, "seccomp": "strict"},
    }
    return Entry(**{**values, **changes})


async def open_log(path: Path) -> AuditLog:
    """Open with a standing clock."""
    return await AuditLog.open(path, clock=lambda: 5, boot_id="boot-1")


async def filled(path: Path, count: int = 10) -> None:
    """A closed log of `count` lines."""
    log = await open_log(path)
    for number in range(count):
        await log.record(entry(number))
    await log.close()


async def test_a_line_says_who_did_what_when_and_under_which_limits(tmp_path: Path) -> None:
    """One JSON line per action with the seven fields, actor and decision; the file is for this user alone."""
    path = tmp_path / "audit.jsonl"
    log = await open_log(path)
    link = await log.record(entry(1, decision="approved:a1", actor="user", self_report=True))
    line = json.loads(path.read_text())
    assert all(name in line for name in SEVEN)
    assert line["timestamp"] == "2024-05-21T14:23:01.123001Z"
    assert line["security_context"]["memory_bytes_max"] == 134_217_728
    assert (line["actor"], line["decision"], line["self_report"]) == ("user", "approved:a1", True)
    assert (line["seq"], line["digest"]) == (link.seq, link.digest) == (1, log.head.digest)
    for file in tmp_path.iterdir():
        assert file.stat().st_mode & 0o777 == 0o600, file.name
    assert list(log.export()) == [line]
    report = await log.verify()
    assert (report.ok, report.lines, report.checkpoint_seq, report.signed) == (True, 1, 1, True)
    await log.close()


async def test_digest_is_the_documented_form(tmp_path: Path) -> None:
    """A verifier written from the words alone follows the chain."""
    path = tmp_path / "audit.jsonl"
    await filled(path, 3)
    before = GENESIS
    for text in path.read_text().splitlines():
        values = json.loads(text)
        digest = values.pop("digest")
        body = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        assert digest == line_digest(before, body)
        before = digest


async def test_the_chain_goes_on_after_a_reopen_and_under_load(tmp_path: Path) -> None:
    """Many recorders at once share the fsyncs, and a later owner goes on where the first stopped."""
    path = tmp_path / "audit.jsonl"
    for _ in range(2):
        log = await open_log(path)
        async with anyio.create_task_group() as group:
            for number in range(40):
                group.start_soon(log.record, entry(number))
        await log.close()
    report = verify_log(path)
    assert (report.ok, report.lines, report.findings) == (True, 80, ())
    numbers = [line["params"]["number"] for line in export_lines(path)]
    assert sorted(numbers) == sorted([*range(40), *range(40)])
    assert len(list(export_lines(path, after_seq=70))) == 10
    assert len(list(export_lines(path, task_id="turn-1"))) == 40


Edit = Callable[[list[bytes]], list[bytes]]
EDITS = [
    pytest.param(lambda rows: [*rows[:3], rows[3].replace(b"pytest", b"pylint"), *rows[4:]], 4, id="edited"),
    pytest.param(lambda rows: [*rows[:3], rows[3].replace(b'"allow"', b'"deny!"'), *rows[4:]], 4, id="decision"),
    pytest.param(lambda rows: [*rows[:3], rows[3] + b" ", *rows[4:]], 4, id="a space"),
    pytest.param(lambda rows: [*rows[:3], rows[4], rows[3], *rows[5:]], 4, id="reordered"),
    pytest.param(lambda rows: [*rows[:3], *rows[4:]], 4, id="one removed"),
    pytest.param(lambda rows: [*rows[:4], rows[3], *rows[4:]], 5, id="one repeated"),
    pytest.param(lambda rows: rows[:7], 8, id="truncated"),
    pytest.param(lambda rows: rows[1:], 1, id="head cut"),
    pytest.param(lambda rows: [], 1, id="emptied"),
    pytest.param(lambda rows: [*rows[:2], b"\0" * 40, *rows[2:]], 3, id="NULs"),
]


@pytest.mark.parametrize(("edit", "line"), EDITS)
async def test_touched_logs_are_found(tmp_path: Path, edit: Edit, line: int) -> None:
    """Edit, reorder, removal, repetition and truncation are each found at their line."""
    path = tmp_path / "audit.jsonl"
    await filled(path)
    assert verify_log(path).ok
    rows = edit(path.read_bytes().splitlines())
    path.write_bytes(b"".join(row + b"\n" for row in rows))
    report = verify_log(path)
    assert (report.ok, report.broken_line) == (False, line)
    assert report.reason


async def test_rewritten_chain_is_found_by_the_checkpoint(tmp_path: Path) -> None:
    """Whoever recomputes every digest still lacks the checkpoint's key."""
    path = tmp_path / "audit.jsonl"
    await filled(path)
    other = tmp_path / "other" / "audit.jsonl"
    other.parent.mkdir()
    log = await open_log(other)
    for number in range(10):
        await log.record(entry(number, decision="deny"))
    await log.close()
    path.write_bytes(other.read_bytes())
    report = verify_log(path)
    assert not report.ok
    assert "vouches" in report.reason
    checkpoint_path(path).write_bytes(checkpoint_path(other).read_bytes())
    report = verify_log(path)
    assert not report.ok
    assert "mark" in report.reason


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"seq":1,"mark":"x"}', b"\xff\xfe"])
async def test_broken_or_missing_checkpoint_is_told(tmp_path: Path, content: bytes) -> None:
    """A log without its checkpoint could have been cut: it does not pass."""
    path = tmp_path / "audit.jsonl"
    await filled(path)
    checkpoint_path(path).write_bytes(content)
    assert not verify_log(path).ok
    checkpoint_path(path).unlink()
    assert verify_log(path).reason == "there are lines but no checkpoint"


async def test_line_ahead_of_its_checkpoint_is_a_crash_not_a_forgery(tmp_path: Path) -> None:
    """Killed between line and checkpoint: the log verifies, and goes on without a finding."""
    path = tmp_path / "audit.jsonl"
    await filled(path, 3)
    old = checkpoint_path(path).read_bytes()
    log = await open_log(path)
    await log.record(entry(4))
    await log.close()
    checkpoint_path(path).write_bytes(old)
    assert verify_log(path).ok
    log = await open_log(path)
    await log.record(entry(5))
    await log.close()
    report = verify_log(path)
    assert (report.ok, report.lines, report.findings) == (True, 5, ())


@pytest.mark.parametrize("piece", [b'{"action":"exec_', b"\0" * 700, b"half\n\0\0"])
async def test_torn_tail_is_kept_aside_and_told(tmp_path: Path, piece: bytes) -> None:
    """Half a line after a crash: verify says so, the next owner keeps it aside and records the finding."""
    path = tmp_path / "audit.jsonl"
    await filled(path, 3)
    with path.open("ab") as file:
        file.write(piece)
    assert verify_log(path).torn_tail or not verify_log(path).ok
    log = await open_log(path)
    await log.record(entry(9))
    await log.close()
    report = verify_log(path)
    assert (report.ok, report.lines, report.findings) == (True, 5, (4,))
    told = next(line for line in export_lines(path) if line["action"] == "tail_torn")
    assert (tmp_path / told["params"]["kept"]).read_bytes() == piece


async def test_cut_tail_is_told_by_the_next_owner(tmp_path: Path) -> None:
    """Lines the checkpoint vouches for are gone: the finding names how many, and stays in the chain."""
    path = tmp_path / "audit.jsonl"
    await filled(path)
    path.write_bytes(b"".join(row + b"\n" for row in path.read_bytes().splitlines()[:6]))
    await (await open_log(path)).close()
    report = verify_log(path)
    assert (report.ok, report.findings) == (True, (7,))
    told = list(export_lines(path))[-1]
    assert (told["action"], told["params"]["seq"], told["params"]["found_seq"]) == ("tail_lost", 10, 6)


async def test_log_without_a_readable_end_begins_anew_beside_the_old(tmp_path: Path) -> None:
    """Nothing to go on from: the old bytes are kept whole, and the first line says why."""
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b"garbage\nmore\n")
    path.chmod(0o600)
    log = await open_log(path)
    await log.record(entry(1))
    await log.close()
    lines = list(export_lines(path))
    assert [line["action"] for line in lines] == ["log_damaged", "exec_start"]
    assert (tmp_path / lines[0]["params"]["kept"]).read_bytes() == b"garbage\nmore\n"
    assert verify_log(path).ok


async def test_refused_entries_leave_no_trace(tmp_path: Path) -> None:
    """What JSON cannot say and what is too large is refused alone; the log goes on."""
    log = await open_log(tmp_path / "audit.jsonl")
    for params, code in (
        ({"x": object()}, ErrorCode.INVALID_PARAMS),
        ({"x": float("nan")}, ErrorCode.INVALID_PARAMS),
        ({"x": "\ud800"}, ErrorCode.INVALID_PARAMS),
        ({"x": "y" * LINE_BYTES_MAX}, ErrorCode.LIMIT),
    ):
        with pytest.raises(AuditError) as caught:
            await log.record(entry(1, params=params))
        assert caught.value.code is code
    assert log.head == Link()
    assert (await log.record(entry(1))).seq == 1
    await log.close()
    with pytest.raises(AuditError) as caught:
        await log.record(entry(2))
    assert caught.value.code is ErrorCode.NOT_SAVED


async def test_actions_recorded_together_share_the_fsync_and_are_all_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In their order, with one fsync of the log; one that cannot be a line keeps out the ones beside it."""
    path, synced, fdatasync = tmp_path / "audit.jsonl", 0, os.fdatasync
    log = await open_log(path)

    def counted(fd: int) -> None:
        nonlocal synced
        synced += 1
        fdatasync(fd)

    monkeypatch.setattr(os, "fdatasync", counted)
    links = await log.record_all([entry(number) for number in range(5)])
    assert [link.seq for link in links] == [1, 2, 3, 4, 5]
    assert synced == 1
    with pytest.raises(AuditError):
        await log.record_all([entry(6), entry(7, params={"x": object()})])
    assert log.head == links[-1]
    await log.close()
    assert [line["params"]["number"] for line in export_lines(path)] == [0, 1, 2, 3, 4]
    assert verify_log(path).ok


async def test_second_writer_and_unsafe_files_are_refused(tmp_path: Path) -> None:
    """One owner; no link, no file that others may read."""
    path = tmp_path / "audit.jsonl"
    log = await open_log(path)
    with pytest.raises(AuditError) as caught:
        await open_log(path)
    assert caught.value.code is ErrorCode.LEASE_HELD
    await log.close()
    await log.close()
    path.chmod(0o644)
    with pytest.raises(AuditError) as caught:
        await open_log(path)
    assert caught.value.code is ErrorCode.UNSAFE_DIRECTORY
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(AuditError):
        await open_log(tmp_path / "link")


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_any_changed_byte_is_found(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whatever byte of a closed log is changed to whatever other byte, the log does not pass."""
    path = tmp_path_factory.mktemp("audit") / "audit.jsonl"
    anyio.run(filled, path, 3)
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    report = verify_log(path)
    assert not report.ok


CHILD = """
import anyio, sys
from pathlib import Path
from tests.unit.test_audit_log import entry, open_log

async def main(path):
    log = await open_log(path)
    number = 0
    while True:
        link = await log.record(entry(number))
        print(link.seq, link.digest, flush=True)
        number += 1

anyio.run(main, Path(sys.argv[1]))
"""


@pytest.mark.parametrize("lines", [1, 7, 40])
def test_killed_writer_loses_no_answered_line(tmp_path: Path, lines: int) -> None:
    """kill -9 in the middle of recording: every answered line is there, and the log verifies."""
    path = tmp_path / "audit.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["", *sys.path])},
    )
    assert process.stdout is not None
    seen = [process.stdout.readline() for _ in range(lines)]
    process.kill()
    seen += process.stdout.read().splitlines(keepends=True)
    process.communicate()
    stored = {line["seq"]: line["digest"] for line in export_lines(path)}
    for text in seen:
        if text.endswith("\n"):
            seq, digest = text.split()
            assert stored[int(seq)] == digest
    assert verify_log(path).ok


async def test_key_is_made_once(tmp_path: Path) -> None:
    """The key of the checkpoints outlives reopens; without it the chain is still followed, unsigned."""
    path = tmp_path / "audit.jsonl"
    await filled(path, 2)
    key = key_path(path).read_bytes()
    await filled(path, 2)
    assert key_path(path).read_bytes() == key
    assert len(key) == 32
    key_path(path).unlink()
    report = verify_log(path)
    assert (report.ok, report.signed) == (True, False)


def test_canonical_form_is_one(tmp_path: Path) -> None:
    """Key order does not matter, so equal values have one encoding."""
    assert canonical({"b": 1, "a": "é"}) == canonical({"a": "é", "b": 1}) == '{"a":"é","b":1}'.encode()


@pytest.mark.parametrize("what", ["removed", "replaced", "cut", "grown", "checkpoint removed", "folder removed"])
async def test_a_log_touched_while_open_stops_and_says_so(tmp_path: Path, what: str) -> None:
    """No line is answered that went to a file without a name; verify and export answer typed."""
    folder = tmp_path / "data"
    folder.mkdir()
    path = folder / "audit.jsonl"
    log = await open_log(path)
    await log.record(entry(1))
    if what == "removed":
        path.unlink()
    elif what == "replaced":
        (folder / "copy").write_bytes(path.read_bytes())
        (folder / "copy").chmod(0o600)
        (folder / "copy").replace(path)
    elif what == "cut":
        os.truncate(path, 10)
    elif what == "grown":
        with path.open("ab") as file:
            file.write(b"{}\n")
    elif what == "checkpoint removed":
        checkpoint_path(path).unlink()
    else:
        folder.rename(tmp_path / "elsewhere")
    with pytest.raises(AuditError) as caught:
        await log.record(entry(2))
    assert caught.value.code is ErrorCode.NOT_SAVED
    report = await log.verify()
    assert not report.ok
    assert report.reason
    if what in ("removed", "folder removed"):
        with pytest.raises(AuditError) as caught:
            list(log.export())
        assert caught.value.code is ErrorCode.NOT_SAVED
    with pytest.raises(AuditError):
        await log.record(entry(3))
    await log.close()


async def test_what_the_journal_lost_is_named_by_verify(tmp_path: Path) -> None:
    """A line about lost events is a finding, and is told in words."""
    path = tmp_path / "audit.jsonl"
    log = await open_log(path)
    await log.record(entry(1))
    params = {"from_seq": 7, "events": 3, "reason": "gone"}
    await log.record(entry(2, action=Action.EVENTS_LOST, task_id="session/a", params=params))
    report = await log.verify()
    assert (report.ok, report.findings, report.losses) == (True, (2,), ("session/a lost 3 events from 7 on",))
    await log.close()


@given(st.lists(st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b"")), max_size=20))
def test_backward_is_forward_turned(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    """Lines read from the end are the lines, whatever falls on the border of two pieces."""
    path = tmp_path_factory.mktemp("backward") / "log"
    padding = [b"x" * 256 * 1024, b"y" * 100_000]
    every = [*lines, *padding, *lines]
    path.write_bytes(b"".join(line + b"\n" for line in every))
    assert list(iterate_backward(path))[::-1] == [*every, b""]
