"""The daemon as a process.

Purpose: logging, the places of this user, and an exit code.
Invariant: what goes wrong at the start is said in one line with what to do next.
Must never: print a traceback for a fault that has a name.
"""

import ctypes
import gc
import logging
import os
import sys
from contextlib import suppress
from typing import Final

from gloveport.protocol.errors import GloveportError
from gloveport.server.client.paths import find_places

LOG_FORM = "%(asctime)s %(levelname)s %(name)s: %(message)s"
M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
M_ARENA_MAX: Final = -8
"""The numbers of these options of `mallopt`."""
PR_SET_DUMPABLE: Final = 4
LARGE_BYTES: Final = 64 * 1024
"""So much that is free at once goes back to the system."""


def run_daemon() -> int:
    """Serve until a signal or daemon/stop; the exit code."""
    logging.basicConfig(level=os.environ.get("GLOVEPORT_LOG", "INFO"), format=LOG_FORM, stream=sys.stderr)
    os.umask(0o077)
    _let_nobody_look_in()
    # What is loaded now stays: collecting while loading, and looking at it ever after, is time for nothing. The
    # daemon collects again when its rooms are loaded.
    gc.disable()
    _keep_one_small_heap()
    from gloveport.server.app.daemon import run

    try:
        places = find_places()
        run(places, places.config_dir)
    except GloveportError as error:
        logging.getLogger("gloveport").error("%s. %s", error.message, error.hint)
        return 1
    return 0


def _let_nobody_look_in() -> None:
    """Other programs of the user's read neither this one's memory nor its environment, and do not attach to it: keys
    are there, and code on the process rung is such a program."""
    with suppress(OSError, AttributeError):  # another system, which knows no such thing
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def _keep_one_small_heap() -> None:
    """Let all threads share the C library's first heap: one each costs megabytes, and Python lets one thread run.

    Without bounds of its own the library keeps more the larger what was once given back: reading one long session
    would cost a megabyte for good.
    """
    with suppress(OSError, AttributeError):  # another C library, which keeps none
        for option, value in ((M_ARENA_MAX, 1), (M_TRIM_THRESHOLD, LARGE_BYTES), (M_MMAP_THRESHOLD, LARGE_BYTES)):
            ctypes.CDLL(None).mallopt(option, value)
