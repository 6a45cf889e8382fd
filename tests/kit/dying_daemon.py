"""A daemon that dies at one named boundary of its journal.

Purpose: SIGKILL exactly before or after the append of the n-th event of a type: the boundaries of the crash matrix.
Invariant: everything in it is the real daemon's; the only difference is the moment of its death.
Must never: be told apart by the daemon it runs.

Usage: GLOVEPORT_TEST_DIES="before ToolExecutionFinished 1" python dying_daemon.py daemon
"""

import os
import signal
import sys
from typing import Final

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from gloveport.server import __main__ as program
from gloveport.server.journal.records import Append, Appended
from gloveport.server.journal.store import Journal

MOMENT: Final = "GLOVEPORT_TEST_DIES"


def die() -> None:
    """End this process as a crash would."""
    os.kill(os.getpid(), signal.SIGKILL)


def arm(moment: str) -> None:
    """Let the journal's append die at `moment`: `before|after`, the type's name, and which occurrence."""
    side, kind, number = moment.split()
    append = Journal.append
    seen = 0

    async def dying(self: Journal, batch: Append) -> Appended:
        nonlocal seen
        begun = seen
        seen += sum(event.type == kind for part in batch.streams for event in part.events)
        is_it = begun < int(number) <= seen
        if is_it and side == "before":
            die()
        appended = await append(self, batch)
        if is_it:
            die()
        return appended

    Journal.append = dying  # type: ignore[method-assign] # the one place where this program is not the daemon


if __name__ == "__main__":
    arm(os.environ[MOMENT])
    program.main()
