"""The end of an audit log as an earlier daemon, a crash or somebody else left it.

Purpose: say where the chain goes on, and what is wrong with what lies behind the last line that was vouched for.
Invariant: what no checkpoint promised is moved aside and told; what one promised and is not there is damage; a damage
whose line is the log's last is not told again.
Must never: follow more of the log than what lies behind its checkpoint (clients wait), or drop a byte.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gloveport.server.audit.checkpoint import EMPTY_CHECKPOINT, Checkpoint, checkpoint_path, read_checkpoint
from gloveport.server.audit.line import LINE_BYTES_MAX, Action, Link, follow, read_line
from gloveport.server.audit.reading import DAMAGES, iterate_backward, iterate_lines

GROUP_LINES_MAX: Final = 256
"""So many lines are written before a checkpoint vouches for them: a crash leaves no more than these half written."""

Finding = tuple[Action, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class End:
    """Where the chain goes on and what is told there.

    `vouched`: the checkpoint speaks of this very line, and nothing lay behind it. `new`: there was neither a line nor
    a checkpoint.
    """

    link: Link
    findings: tuple[Finding, ...] = ()
    vouched: bool = False
    new: bool = False

    @property
    def damaged(self) -> bool:
        """Whether something that was promised is not there."""
        return any(action in DAMAGES for action, _params in self.findings)


def inspect_end(path: Path, fd: int, key: bytes) -> End:
    """Look at the end of the open log; a damaged piece is moved aside into a file of its own. Raises OSError."""
    checkpoint = read_checkpoint(checkpoint_path(path), key)
    if isinstance(checkpoint, Checkpoint) and (place := _place_after(path, fd, checkpoint.link)) is not None:
        return _behind(path, fd, checkpoint.link, place)
    last, torn = _split_end(_tail(fd))
    if last is None:  # not one readable line at the end: the whole log is kept aside and a new chain begins
        kept = _set_aside(path, fd, 0)
        return End(Link(), ((Action.LOG_DAMAGED, {"reason": "the end cannot be read", "kept": kept}),))
    link = Link(last["seq"], last["digest"]) if last else Link()
    findings: list[Finding] = []
    if torn:
        findings.append((Action.TAIL_TORN, {"bytes": torn, "kept": _set_aside(path, fd, _size(fd) - torn)}))
    fault = _fault(checkpoint, link)
    if fault is not None and not _is_told(last, fault):
        findings.append(fault)
    return End(link, tuple(findings), new=checkpoint is None and link == Link() and not torn)


def _place_after(path: Path, fd: int, link: Link) -> int | None:
    """The offset behind the line that a checkpoint speaks of; None when the log does not hold it."""
    if link == Link():
        return 0
    end, needle = _size(fd), link.digest.encode()
    for number, text in enumerate(iterate_backward(path)):
        if number > 0 and needle in text:  # the first piece has no line feed
            values = read_line(text) or {}
            if (values.get("seq"), values.get("digest")) == (link.seq, link.digest):
                return end + 1
        end -= len(text) + 1
    return None


def _behind(path: Path, fd: int, link: Link, place: int) -> End:
    """What was written behind the checkpoint's line: it follows, or a crash left it, or it was more than one leaves."""
    vouched = place == _size(fd)
    for text, whole in iterate_lines(path, place):
        step = follow(link, text) if whole else "half a line"
        if isinstance(step, str):
            break
        link, place = step, place + len(text) + 1
    if (size := _size(fd) - place) == 0:
        return End(link, vouched=vouched)
    lines = sum(whole for _text, whole in iterate_lines(path, place))
    kept = _set_aside(path, fd, place)
    if lines > GROUP_LINES_MAX:
        params = {"line": link.seq + 1, "reason": "lines behind an older checkpoint do not follow", "kept": kept}
        return End(link, ((Action.LOG_DAMAGED, params),))
    return End(link, ((Action.TAIL_TORN, {"bytes": size, "kept": kept}),))


def _fault(checkpoint: Checkpoint | str | None, link: Link) -> Finding | None:
    """What a checkpoint says about a log in which its line is not."""
    if checkpoint == EMPTY_CHECKPOINT:
        return Action.TAIL_TORN, {"bytes": 0, "kept": "", "reason": EMPTY_CHECKPOINT}
    if isinstance(checkpoint, str):
        return Action.LOG_DAMAGED, {"reason": checkpoint}
    if checkpoint is None:
        reason = "there are lines but no checkpoint"
        return (Action.LOG_DAMAGED, {"reason": reason}) if link != Link() else None
    if checkpoint.seq > link.seq:
        return Action.TAIL_LOST, {"seq": checkpoint.seq, "head": checkpoint.head, "found_seq": link.seq}
    reason = f"line {checkpoint.seq} is not the one the checkpoint vouches for"
    return Action.LOG_DAMAGED, {"line": checkpoint.seq, "reason": reason}


def _is_told(last: Mapping[str, Any], fault: Finding) -> bool:
    """Whether the log's last line tells it: a daemon was killed between that line and its checkpoint."""
    action, params = fault
    told = last.get("params")
    if last.get("action") != action or not isinstance(told, dict):
        return False
    return {**told, "found_seq": 0} == {**params, "found_seq": 0}


def _split_end(tail: bytes) -> tuple[dict[str, Any] | None, int]:
    """The last readable line of `tail` and how many bytes follow it; None when there are bytes and no such line."""
    end = len(tail)
    while (cut := tail.rfind(b"\n", 0, end)) >= 0:
        start = tail.rfind(b"\n", 0, cut) + 1
        values = read_line(tail[start:cut])
        if values is not None:
            return values, len(tail) - cut - 1
        end = start
        if start == 0:
            break
    return (None if tail else {}), len(tail)


def _tail(fd: int) -> bytes:
    size = _size(fd)
    start = max(0, size - 2 * LINE_BYTES_MAX)
    return os.pread(fd, size - start, start)


def _size(fd: int) -> int:
    return os.fstat(fd).st_size


def _set_aside(path: Path, fd: int, place: int) -> str:
    """Move what lies behind a place of the log into a file beside it; the file's name."""
    number = 1
    while (kept := path.with_name(f"{path.name}.damaged.{number}")).exists():
        number += 1
    aside = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        at = place
        while piece := os.pread(fd, LINE_BYTES_MAX, at):
            write_all(aside, piece)
            at += len(piece)
        os.fsync(aside)
    finally:
        os.close(aside)
    os.ftruncate(fd, place)
    return kept.name


def write_all(fd: int, data: bytes) -> None:
    """Write every byte. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
