"""Which container engine, image and runtime the user chose.

Purpose: one light place for the choice, so that settings need no engine.
Invariant: a choice is the user's own; without one the environment names the engine, as it does for Docker's own tools.
Must never: look into Docker's own configuration, or reach the engine.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

SYSTEM_SOCKET: Final = "/var/run/docker.sock"
UNIX: Final = "unix://"


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """Which engine, which image ("" shows the machine's own programs), which runtime ("" is the engine's own).

    `warm`: how many containers may be kept ready, over all sessions.
    """

    host: str = ""
    image: str = ""
    runtime: str = ""
    warm: int = 0


def find_socket(host: str, environment: Mapping[str, str] = os.environ) -> str:
    """The path of the engine's socket: the one set, the environment's, the user's own, the system's."""
    address = host or environment.get("DOCKER_HOST", "")
    if address:
        if not address.startswith(UNIX):
            from gloveport.protocol.errors import ErrorCode
            from gloveport.sandbox.contract import SandboxError  # settings, which are read at once, need no contract

            words = f"The engine's address {address!r} is not a unix socket."
            raise SandboxError(ErrorCode.SANDBOX_UNAVAILABLE, words, hint="Name a socket: unix:///path/docker.sock.")
        return address.removeprefix(UNIX)
    own = os.path.join(environment.get("XDG_RUNTIME_DIR", ""), "docker.sock")
    return own if os.path.isabs(own) and os.path.exists(own) else SYSTEM_SOCKET
