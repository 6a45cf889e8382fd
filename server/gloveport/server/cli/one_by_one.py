"""Which proposals are accepted together, and which one by one.

Purpose: part what is accepted into requests that the daemon takes.
Invariant: a file that runs by itself is accepted only where it was named.
Must never: send anything.
"""

from collections.abc import Sequence
from pathlib import PurePosixPath

from gloveport.protocol.wire.change import ChangeInfo

Batches = tuple[tuple[ChangeInfo, ...], ...]


def parted(changes: Sequence[ChangeInfo], named: Sequence[str]) -> tuple[Batches, tuple[ChangeInfo, ...]]:
    """The requests to send, each a batch, and what is left until it is named: a folder names no file in it."""
    names = {PurePosixPath(path).name for path in named}
    together = tuple(change for change in changes if change.runs_by_itself is None)
    alone = [change for change in changes if change.runs_by_itself is not None]
    chosen = [change for change in alone if PurePosixPath(change.path).name in names]
    batches = (together,) if together else ()
    return (*batches, *((change,) for change in chosen)), tuple(change for change in alone if change not in chosen)


def left_words(left: Sequence[ChangeInfo]) -> str:
    """What was not accepted, and how it is; empty when nothing is left."""
    lines = [f"not accepted: {change.path} runs by itself: {change.runs_by_itself}" for change in left]
    return "\n".join([*lines, "Accept such a file by its name: gloveport accept PATH"]) if left else ""
