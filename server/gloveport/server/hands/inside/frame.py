"""How a hand is asked and how it answers.

Purpose: read one request from standard input (a line of JSON, then the input's bytes), do the work, write one line of
JSON.
Invariant: whatever happens, one answer is written last, or the process died and its end tells how.
Must never: be imported by the daemon.
"""

import json
import sys
from collections.abc import Callable
from typing import Any, Final

HEAD_BYTES_MAX: Final = 8 * 1024 * 1024
ERROR_CHARACTERS_MAX: Final = 1_000

Answer = dict[str, Any]
Work = Callable[[dict[str, Any], bytes], Answer]


class InputFault(Exception):  # noqa: N818 - what is given is at fault, not this program
    """What was given cannot be worked on; the text says why."""


def serve(work: Work) -> None:
    """Answer the one request: what `work` returns, or `{"error": words, "fault": input, dependency or memory}`."""
    asked = json.loads(sys.stdin.buffer.readline(HEAD_BYTES_MAX))
    data = sys.stdin.buffer.read()
    try:
        told = work(asked, data)
    except ImportError as error:
        told = _failed("dependency", f"a library is missing: {error}")
    except MemoryError:
        told = _failed("memory", "there is not enough memory for it")
    except InputFault as error:
        told = _failed("input", str(error))
    except Exception as error:  # noqa: BLE001 - outer edge: a library may raise anything about hostile bytes
        told = _failed("input", f"{type(error).__name__}: {error}")
    sys.stdout.write("\n" + json.dumps(told) + "\n")
    sys.stdout.flush()


def _failed(fault: str, words: str) -> Answer:
    return {"error": words[:ERROR_CHARACTERS_MAX], "fault": fault}
