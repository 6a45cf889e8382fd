"""Asking the person at the terminal.

Purpose: read one typed line on the loop itself, so that it can be given up at any moment.
Invariant: when the wait is cancelled nothing reads the terminal any more.
Must never: read in a thread, which nothing could call back.
"""

import asyncio
import os
import sys
from typing import Final

_READ_BYTES: Final = 4096


async def read_line() -> str | None:
    """One line of standard input without its end, None at the end of input. For terminals."""
    loop = asyncio.get_running_loop()
    source = sys.stdin.fileno()
    typed = bytearray()
    line: asyncio.Future[str | None] = loop.create_future()

    def readable() -> None:
        try:
            chunk = os.read(source, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:  # the terminal is gone
            chunk = b""
        typed.extend(chunk)
        if line.done() or (chunk and b"\n" not in typed):
            return
        text = typed.decode("utf-8", "replace").partition("\n")[0]
        line.set_result(text.strip() if chunk or typed else None)

    loop.add_reader(source, readable)
    try:
        return await line
    finally:
        loop.remove_reader(source)
