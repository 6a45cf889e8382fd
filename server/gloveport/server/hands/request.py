"""How a hand's program is started.

Purpose: the interpreter's words, the files that must be seen, and standard input for one request.
Invariant: what the program sees of this product is the folder of the programs that run inside.
Must never: put a request's content on a command line.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gloveport.server.accounts import Account
from gloveport.server.hands import inside
from gloveport.server.hands.libraries import Library

_BOOT: Final = "import sys, importlib; sys.path[:0] = sys.argv[2:]; importlib.import_module(sys.argv[1]).main()"
ANSWER_PARTS_MAX: Final = 1_000_000
"""An answer has no more lists, objects and commas: else a hand that was taken over would fill the daemon's memory."""
NUMBER_MAX: Final = 2**53
NOTHING: Final = Library((), ())

Environment = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Started:
    """A hand's program: `argv` behind the interpreter's name, `shown` paths of this machine, `stdin`, variables."""

    argv: tuple[str, ...]
    shown: tuple[str, ...]
    stdin: bytes
    environment: Environment = ()
    account: Account | None = None


def start_of(
    module: str,
    asked: Mapping[str, Any],
    data: bytes = b"",
    library: Library = NOTHING,
    environment: Environment = (),
) -> Started:
    """The start of `hands.inside.<module>` with one request and its input."""
    folder = Path(str(inside.__file__)).parent
    root = str(folder.parents[3])
    head = json.dumps(dict(asked), separators=(",", ":")).encode()
    return Started(
        argv=("-c", _BOOT, f"{inside.__name__}.{module}", root, *library.roots),
        shown=(str(folder), *library.paths),
        stdin=head + b"\n" + data,
        environment=environment,
    )


def read_answer(output: bytes) -> dict[str, Any] | None:
    """The one object that a hand answers, on the last line; null where there is none, or one of too many parts."""
    line = output.rstrip(b"\n").rpartition(b"\n")[2]
    if sum(map(line.count, (b"[", b"{", b","))) > ANSWER_PARTS_MAX:
        return None
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) else None


def whole(value: Any) -> int:
    """A number of an answer. Raises ValueError for anything else: a hand that was taken over says what it likes."""
    if type(value) is not int or abs(value) > NUMBER_MAX:
        raise ValueError("not a whole number")
    return value
