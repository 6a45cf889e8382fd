"""Names of what is offered to editors that know nothing of us.

Purpose: the commands of code lenses and code actions, and the capabilities that announce them.
Invariant: a command that is not in `DECIDING` changes nothing.
Must never: be offered to a client of our own protocol, which draws what is pending itself.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

ACCEPT_HUNK: Final = "gloveport.acceptHunk"
REJECT_HUNK: Final = "gloveport.rejectHunk"
TAKE_HUNK: Final = "gloveport.takeHunk"
ACCEPT_FILE: Final = "gloveport.acceptFile"
REJECT_FILE: Final = "gloveport.rejectFile"
NEXT_HUNK: Final = "gloveport.nextHunk"
UNDO: Final = "gloveport.undo"
COMMANDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        ACCEPT_HUNK: "accept one hunk, as it was shown",
        REJECT_HUNK: "reject one hunk; of a conflict: keep your own lines",
        TAKE_HUNK: "take one hunk of a conflict in place of your own lines, as both were shown",
        ACCEPT_FILE: "accept all of a file",
        REJECT_FILE: "reject all of a file",
        NEXT_HUNK: "go to the next pending hunk",
        UNDO: "take the last decision back",
    }
)
DECIDING: Final = frozenset(COMMANDS) - {NEXT_HUNK}
CAPABILITIES: Final[Mapping[str, object]] = MappingProxyType(
    {
        "codeLensProvider": {"resolveProvider": False},
        "codeActionProvider": True,
        "executeCommandProvider": {"commands": list(COMMANDS)},
    }
)
