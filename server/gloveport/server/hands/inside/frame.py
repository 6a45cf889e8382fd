"""How a hand is asked and how it answers.

Purpose: read one request from standard input (a line of JSON, then the input's bytes), do the work, write one line of
JSON.
Invariant: whatever happens, one answer is written last, or the process died and its end tells how.
Must never: be imported by the daemon.
"""

import json
import os
import socket
import ssl
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


def take_secret(asked: Answer) -> str:
    """The password that is handed over once; empty where there is none."""
    if not asked["has_secret"]:
        return ""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(asked["secret_socket"])
        return b"".join(iter(lambda: link.recv(4_096), b"")).decode()


def way_to(asked: Answer) -> tuple[str, int]:
    """Where on loopback the one place of this hand is reached."""
    for line in os.environ["GLOVEPORT_FORWARDS"].split(","):
        place, _, local = line.partition("=")
        if place == asked["place"]:
            host, _, port = local.rpartition(":")
            return host, int(port)
    raise InputFault(f"there is no way to {asked['place']}")


def trusting(asked: Answer) -> ssl.SSLContext:
    """Whom to believe: this machine's roots and the user's own."""
    context = ssl.create_default_context()
    if asked["ca"]:
        context.load_verify_locations(cadata=asked["ca"])
    return context


def _failed(fault: str, words: str) -> Answer:
    return {"error": words[:ERROR_CHARACTERS_MAX], "fault": fault}
