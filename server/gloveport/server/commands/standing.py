"""How the journal stands, in words for everybody.

Purpose: the words of `daemon/told` and of the status.
Invariant: says what is the matter and what to do next; nothing is loaded for it.
Must never: look at the disk itself.
"""

from gloveport.protocol.wire.place import DaemonTold
from gloveport.server.journal.records import JournalHealth

SAVES_AGAIN = "What is done is saved again."
NO_RESERVE = "The data disk is nearly full and there is no reserve left on it. Free some space."


def stopped_words(health: JournalHealth) -> str:
    """Why nothing is saved now, and what to do."""
    then = "Free space on the data disk; the" if health.disk_full else "The"
    return f"Not saved. Nothing can be saved now ({health.stopped_reason}). {then} next command looks again."


def notice_of(health: JournalHealth) -> DaemonTold:
    """What every client is told when the journal stopped or accepts again."""
    if not health.accepting:
        return DaemonTold(accepting=False, words=stopped_words(health))
    return DaemonTold(accepting=True, words=SAVES_AGAIN if health.has_ballast else f"{SAVES_AGAIN} {NO_RESERVE}")
