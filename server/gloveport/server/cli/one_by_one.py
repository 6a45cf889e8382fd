"""Which proposals are accepted together, which one by one, and which not.

Purpose: part what is accepted into requests that the daemon takes.
Invariant: a file that runs by itself, or that a rule asks about, is accepted only where it was named.
Must never: send anything.
"""

from collections.abc import Sequence
from pathlib import PurePosixPath

from gloveport.protocol.wire.change import ChangeInfo

Batches = tuple[tuple[ChangeInfo, ...], ...]


def parted(changes: Sequence[ChangeInfo], named: Sequence[str]) -> tuple[Batches, tuple[ChangeInfo, ...]]:
    """The requests to send, each a batch, and what is left until it is named: a folder names no file in it.

    What a rule refuses is left by any name.
    """
    names = {PurePosixPath(path).name for path in named}
    together = tuple(change for change in changes if change.runs_by_itself is None and change.rule is None)
    alone = [change for change in changes if change not in together]
    chosen = [change for change in alone if PurePosixPath(change.path).name in names and not _is_refused(change)]
    batches = (together,) if together else ()
    return (*batches, *((change,) for change in chosen)), tuple(change for change in alone if change not in chosen)


def _is_refused(change: ChangeInfo) -> bool:
    return change.rule is not None and change.rule.verdict == "deny"


def _why(change: ChangeInfo) -> str:
    rule = change.rule
    if rule is None or (change.runs_by_itself is not None and rule.verdict == "ask"):
        return f"{change.path} runs by itself: {change.runs_by_itself}"
    verb = "refuses it" if rule.verdict == "deny" else "asks about it"
    return f"{change.path}: the rule {rule.rule_id} {verb}: {rule.words}"


def left_words(left: Sequence[ChangeInfo]) -> str:
    """What was not accepted, and how it is; empty when nothing is left."""
    lines = [f"not accepted: {_why(change)}" for change in left]
    if not all(_is_refused(change) for change in left):
        lines.append("Accept such a file by its name: gloveport accept PATH")
    return "\n".join(lines)
