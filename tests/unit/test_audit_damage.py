"""What is damage of an audit log and what a crash leaves; each damage is told once, and little is followed."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.test_audit_log import entry, filled

from gloveport.protocol.errors import ErrorCode
from gloveport.server.audit import log as log_module
from gloveport.server.audit import reading as reading_module
from gloveport.server.audit.checkpoint import checkpoint_path, key_path
from gloveport.server.audit.ending import GROUP_LINES_MAX
from gloveport.server.audit.errors import AuditError
from gloveport.server.audit.line import Action, Line, Link, canonical, line_digest, make_line
from gloveport.server.audit.log import AuditLog
from gloveport.server.audit.reading import Damage, Following, export_lines, iterate_lines, verify_log
from gloveport.server.audit.seen import SEEN_FOR_US, seen_path

NOW = 1_000


async def open_at(path: Path, now: int = NOW) -> AuditLog:
    """Open as a daemon of this moment."""
    return await AuditLog.open(path, clock=lambda: now)


async def begin(path: Path, now: int = NOW) -> Damage | None:
    """One daemon: it opens the log, follows it and ends."""
    log = await open_at(path, now)
    damage = await log.find_damage(0)
    await log.close()
    return damage


def end_of(path: Path) -> Link:
    """The last line."""
    last = list(export_lines(path))[-1]
    return Link(last["seq"], last["digest"])


def unvouched(path: Path, count: int, size: int = 0) -> list[bytes]:
    """Lines as a writer writes them before their checkpoint."""
    lines: list[Line] = []
    for number in range(count):
        lines.append(make_line(lines[-1].link if lines else end_of(path), entry(number, params={"x": "y" * size})))
    return [line.text + b"\n" for line in lines]


def append(path: Path, data: bytes) -> None:
    """What a killed writer leaves behind."""
    with path.open("ab") as file:
        file.write(data)


def actions(path: Path) -> list[str]:
    """What the log told of itself."""
    return [line["action"] for line in export_lines(path) if line.get("actor") == "daemon"]


def edit(path: Path, before: bytes = b'"number":4', after: bytes = b'"number":5') -> None:
    """Somebody changes the first such place."""
    data = path.read_bytes()
    assert before in data
    path.write_bytes(data.replace(before, after, 1))


async def test_an_edit_is_told_once_over_kills_between_a_line_and_its_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    await filled(path)
    edit(path)
    told = await begin(path)
    assert told is not None
    assert told.broken_line == 5
    for _ in range(3):
        append(path, unvouched(path, 1)[0])
        assert await begin(path) == told
    assert actions(path) == ["log_damaged"]
    edit(path, b'"number":2', b'"number":3')  # before the first: the chain breaks at another line
    again = await begin(path)
    assert again is not None
    assert again.broken_line == 3
    assert actions(path) == ["log_damaged"] * 2


async def filled_at_once(path: Path, count: int) -> None:
    """A closed log of `count` lines under one checkpoint."""
    log = await open_at(path)
    await log.record_all([entry(number) for number in range(count)])
    await log.close()


def rows(path: Path) -> list[bytes]:
    """The lines with their ends."""
    return path.read_bytes().splitlines(keepends=True)


def stating(seq: int, digest: str, **values: Any) -> bytes:
    """A line that says of itself what it likes."""
    return canonical({"seq": seq, "digest": digest, "action": "decision", **values}) + b"\n"


def garbage(lines: list[bytes]) -> None:
    """What cannot be read."""
    lines[8] = b"\xff\n"


def missing(lines: list[bytes]) -> None:
    """One line less."""
    del lines[8]


def another_order(lines: list[bytes]) -> None:
    """Two that changed places."""
    lines[7], lines[8] = lines[8], lines[7]


def far_number(lines: list[bytes]) -> None:
    """One that states a number and a digest of nobody's."""
    lines[8] = stating(10**18, "x" * 64).replace(b"x" * 64, b"\\ud800" * 64)


def odd_finding(lines: list[bytes]) -> None:
    """A finding that is none, with a digest that holds."""
    before = json.loads(lines[7])["digest"]
    body = {"seq": 9, "action": "events_lost", "params": 5}
    lines[8] = canonical({**body, "digest": line_digest(before, canonical(body))}) + b"\n"


def around_the_first(lines: list[bytes]) -> None:
    """What is known to be broken now states to be a later line, and those up to that one are gone."""
    later = json.loads(lines[8])
    lines[4:9] = [stating(later["seq"], later["digest"])]


def before_the_first(lines: list[bytes]) -> None:
    """The line before the broken one is gone, which stands as it did."""
    del lines[3]


def the_first_again(lines: list[bytes]) -> None:
    """The broken line is changed once more."""
    lines[4] = lines[4].replace(b'"number":5', b'"number":8')


def behind_garbage(lines: list[bytes]) -> None:
    """Nothing shows that a line behind one that cannot be read is as it was; so that is told too."""
    lines[8] = b"\xff\n"
    lines[9] = lines[9].replace(b'"number":9', b'"number":8')


@pytest.mark.parametrize(
    "attack",
    [garbage, missing, another_order, far_number, odd_finding, around_the_first, before_the_first, the_first_again,
     behind_garbage],
)  # fmt: skip
async def test_a_later_edit_behind_a_break_is_told_too_and_once(
    tmp_path: Path, attack: Callable[[list[bytes]], None]
) -> None:
    """Further on, around what is known, or in the place of it."""
    path = tmp_path / "audit.jsonl"
    await filled_at_once(path, 14)
    edit(path)
    first = await begin(path)
    assert first is not None
    lines = rows(path)
    attack(lines)
    path.write_bytes(b"".join(lines))
    second = await begin(path)
    assert second is not None
    assert second != first
    append(path, unvouched(path, 1)[0])
    assert await begin(path) == second
    assert actions(path).count("log_damaged") == 2


async def test_edits_in_many_places_are_told_by_one_line_and_shown_by_the_check(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    await filled_at_once(path, 20)
    for number in (4, 9, 15):
        edit(path, b'"number":%d}' % number, b'"number":77}')
    report = verify_log(path)
    assert (report.lines, report.broken_line) == (4, 5)
    assert report.reason.endswith("further on 2 more do not: 10, 16")
    told = await begin(path)
    assert told is not None
    assert told.broken_line == 5
    assert "2 lines further on" in told.words
    assert await begin(path) == told
    assert actions(path) == ["log_damaged"]


@pytest.mark.parametrize("line", [5, 10])
async def test_a_forged_line_does_not_make_a_break_a_told_one(tmp_path: Path, line: int) -> None:
    """One that follows breaks the chain behind it, and cannot tell of that."""
    path = tmp_path / "audit.jsonl"
    await filled_at_once(path, 14)
    edit(path)
    lines = rows(path)
    following = Following(path)
    assert following.step()
    following.close()
    (known,) = following.breaks
    params = {"line": 5, "reason": "x", "breaks": [known.key]} if line == 5 else {"line": line, "reason": "x"}
    body = {"seq": 9, "task_id": "", "action": "log_damaged", "params": params}
    digest = line_digest(json.loads(lines[7])["digest"], canonical(body))
    lines[8] = canonical({**body, "digest": digest}) + b"\n"
    path.write_bytes(b"".join(lines))
    told = await begin(path)
    assert told is not None
    assert told.seq == 15
    assert told.broken_line == (10 if line == 5 else 5)
    found = list(export_lines(path))[-1]["params"]
    assert len(found["breaks"]) == (1 if line == 5 else 2)


async def test_breaks_without_end_are_told_in_parts_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "BREAKS_TOLD_MAX", 3)
    monkeypatch.setattr(reading_module, "BREAKS_MAX", 8)
    path = tmp_path / "audit.jsonl"
    await filled_at_once(path, 30)
    path.write_bytes(b"".join(line.replace(b'"number":', b'"number":9') for line in rows(path)))
    assert await begin(path) is not None
    assert actions(path) == ["log_damaged"] * 3
    await begin(path)
    assert actions(path) == ["log_damaged"] * 3


async def test_an_edit_and_a_cut_are_told_once_each(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    await filled(path)
    edit(path)
    await begin(path)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-3]))
    for _ in range(3):
        await begin(path)
    assert actions(path).count("tail_lost") == 1
    assert actions(path).count("log_damaged") == 1  # the first telling was cut away
    edit(path, b'"tail_lost"', b'"tail_torn"')
    assert await begin(path) is not None


@pytest.mark.parametrize("what", ["cut", "no checkpoint", "another key", "rewritten end"])
async def test_a_damage_of_the_end_is_told_once_over_a_kill_before_its_checkpoint(tmp_path: Path, what: str) -> None:
    """The telling line is there, its checkpoint is not: the same state is found again."""
    path = tmp_path / "audit.jsonl"
    await filled(path)
    lines = rows(path)
    if what == "cut":
        path.write_bytes(b"".join(lines[:6]))
    elif what == "no checkpoint":
        checkpoint_path(path).unlink()
    elif what == "another key":
        key_path(path).write_bytes(b"k" * 32)
    else:
        before = Link(9, list(export_lines(path))[8]["digest"])
        path.write_bytes(b"".join(lines[:9]) + make_line(before, entry(77)).text + b"\n")
    old = checkpoint_path(path).read_bytes() if checkpoint_path(path).exists() else None
    told = await begin(path)
    assert told is not None
    if old is None:
        checkpoint_path(path).unlink()
    else:
        checkpoint_path(path).write_bytes(old)
    assert await begin(path) == told
    assert actions(path) in (["tail_lost"], ["log_damaged"])


@pytest.mark.parametrize("size", [40, 4_000])
async def test_what_a_power_loss_leaves_of_lines_that_were_not_vouched_for_is_no_damage(
    tmp_path: Path, size: int
) -> None:
    """Zeros instead of the lines, or of a page amid them: kept aside and told, and nothing stands still."""
    path = tmp_path / "audit.jsonl"
    await filled(path)
    group = b"".join(unvouched(path, 60, size))
    append(path, bytes(len(group)))
    assert await begin(path) is None
    assert actions(path) == ["tail_torn"]
    group = b"".join(unvouched(path, 60, size))
    append(path, group[:3_000] + bytes(4_096) + group[7_096:])
    assert await begin(path) is None
    assert actions(path) == ["tail_torn"] * 2
    kept = path.with_name("audit.jsonl.damaged.2").read_bytes()
    assert group.startswith(path.read_bytes().splitlines(keepends=True)[11]) or kept.startswith(group[:3_000])
    assert verify_log(path).ok


async def test_more_than_one_group_behind_an_older_checkpoint_is_damage(tmp_path: Path) -> None:
    """The control: an old checkpoint that was put back does not make an edit a torn tail."""
    path = tmp_path / "audit.jsonl"
    await filled(path, 3)
    old = checkpoint_path(path).read_bytes()
    log = await open_at(path)
    await log.record_all([entry(number) for number in range(GROUP_LINES_MAX + 20)])
    await log.close()
    checkpoint_path(path).write_bytes(old)
    assert await begin(path) is None  # as long as all of them follow
    checkpoint_path(path).write_bytes(old)
    edit(path)
    assert await begin(path) is not None


async def test_an_empty_checkpoint_is_told_and_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    await filled(path)
    checkpoint_path(path).write_bytes(b"")
    assert await begin(path) is None
    assert actions(path) == ["tail_torn"]
    checkpoint_path(path).write_bytes(b"")
    edit(path)
    assert await begin(path) is not None


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM, errno.EIO])
async def test_what_cannot_be_looked_at_now_is_not_recorded_as_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path = tmp_path / "audit.jsonl"
    await filled(path)
    log = await open_at(path)
    opened, refused = Path.open, {path, checkpoint_path(path)}

    def refuse(self: Path, *wanted: Any, **named: Any) -> Any:
        if self in refused:
            raise OSError(number, os.strerror(number))
        return opened(self, *wanted, **named)

    monkeypatch.setattr(Path, "open", refuse)
    for at in ({path}, {checkpoint_path(path)}):
        refused.clear()
        refused |= at
        with pytest.raises(AuditError) as caught:
            await log.find_damage(0)
        assert caught.value.code is ErrorCode.NOT_SAVED
    refused.clear()
    assert await log.find_damage(0) is None
    await log.close()
    assert actions(path) == []


async def counted(path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[[], Any]) -> int:
    """How many lines `run` followed."""
    taken = 0

    def counting(*wanted: Any) -> Any:
        nonlocal taken
        for item in iterate_lines(*wanted):
            taken += 1
            yield item

    with monkeypatch.context() as patch:
        patch.setattr("gloveport.server.audit.reading.iterate_lines", counting)
        patch.setattr("gloveport.server.audit.ending.iterate_lines", counting)
        await run()
    return taken


async def test_an_open_follows_only_what_lies_behind_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    await filled(path, 200)

    async def open_alone() -> None:
        await (await open_at(path)).close()

    assert await counted(path, monkeypatch, open_alone) == 0
    append(path, b"".join(unvouched(path, 7)))
    assert await counted(path, monkeypatch, open_alone) == 7


async def test_an_untouched_log_is_followed_once_a_day_and_a_touched_one_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    await filled(path, 50)

    async def taken(now: int = NOW) -> int:
        return await counted(path, monkeypatch, lambda: begin(path, now))

    assert await taken() == 50
    assert await taken() == 0
    log = await open_at(path)
    await log.record(entry(1))
    await log.close()
    assert await taken() == 0  # what this class wrote itself is known
    assert await taken(NOW + SEEN_FOR_US) == 51
    assert await taken(NOW) == 51  # the clock went back
    status = path.stat()
    edit(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    damage = await begin(path)
    assert damage is not None
    assert await begin(path) == damage
    assert await taken() == 0
    log = await open_at(path)
    edit(path, b'"number":7', b'"number":6')  # while it is open
    await log.record(entry(2))
    await log.close()
    assert await taken() > 0
    assert await taken() == 0
    forged = seen_path(path).read_bytes().replace(b'"at":1000', b'"at":1001')
    seen_path(path).write_bytes(forged)
    assert await taken() > 0


async def test_the_whole_log_is_followed_in_steps_with_pauses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.jsonl"
    log = await open_at(path)
    await log.record_all([entry(number, params={"x": "y" * 30_000}) for number in range(40)])
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await log.record(entry(len(pauses)))  # the work goes on meanwhile

    monkeypatch.setattr(log_module.anyio, "sleep", pause)
    assert await log.find_damage() is None
    assert len(pauses) >= 4
    assert set(pauses) == {log_module.STEP_PAUSE_S}
    await log.close()
    following = Following(path)
    assert not following.step()
    following.close()


async def test_how_a_log_was_found_is_known(tmp_path: Path) -> None:
    """New only without a line and a checkpoint; a log that began and was emptied is damaged."""
    path = tmp_path / "audit.jsonl"
    log = await open_at(path)
    assert log.end.new
    await log.record(entry(1, action=Action.DECISION))
    await log.close()
    log = await open_at(path)
    assert not log.end.new
    await log.close()
    path.write_bytes(b"")
    log = await open_at(path)
    assert (log.end.new, log.end.damaged) == (False, True)
    await log.close()
