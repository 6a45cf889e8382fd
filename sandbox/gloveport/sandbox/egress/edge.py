"""The outer edge of one connection of a jail.

Purpose: a fault that hostile bytes bring about ends their own connection and nothing else.
Invariant: what happened is in the log with its trace; the bytes that brought it about are not.
Must never: hold anything but this one guard: it is the only place of the way out that takes any failure.
"""

import logging
from collections.abc import Coroutine
from typing import Any

_log = logging.getLogger("gloveport.egress")


async def end_alone(work: Coroutine[Any, Any, None], trace: str) -> None:
    """Do the work of one connection to its end, whatever that is; a cancellation passes."""
    try:
        await work
    except Exception:  # noqa: BLE001 - outer edge: hostile bytes end their own connection and nothing else
        _log.exception("a connection of %s ended unexpectedly", trace)
