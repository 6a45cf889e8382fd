"""A secret for one program in a jail, given once by a socket and written nowhere.

Purpose: hand a password to the hand that logs in with it, so that no file, variable or argument ever holds it.
Invariant: whoever connects first gets it, then nobody listens any more and the socket's name is gone.
Must never: write the secret anywhere but into that one connection.
"""

from pathlib import Path
from typing import Final

import anyio
from anyio.abc import SocketListener

SECRET_SOCKET: Final = "secret.sock"  # noqa: S105 - a file's name, not a secret


async def hand_over(listener: SocketListener, path: Path, secret: bytes) -> None:
    """Give `secret` to the first who connects."""
    async with listener:
        stream = await listener.accept()
        path.unlink(missing_ok=True)
    async with stream:
        try:
            await stream.send(secret)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # whoever took it is gone
