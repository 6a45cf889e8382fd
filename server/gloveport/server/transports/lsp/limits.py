"""Limits of one connection.

Purpose: every bound of a connection in one place, with its unit.
Invariant: the defaults are the product's; tests pass smaller ones.
Must never: be changed while a connection lives.
"""

from dataclasses import dataclass
from typing import Final

from gloveport.protocol.wire.framing import MESSAGE_BYTES_MAX, SKIP_BYTES_MAX
from gloveport.server.transports.lsp.outbox import STALL_S_MAX

CLIENT_NAME_CHARS_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one connection.

    `running_max` requests run at once, `waiting_max` more wait for their turn, the next is refused as busy.
    """

    message_bytes_max: int = MESSAGE_BYTES_MAX
    skip_bytes_max: int = SKIP_BYTES_MAX
    running_max: int = 64
    waiting_max: int = 1024
    subscriptions_max: int = 64
    asks_max: int = 64
    documents_max: int = 4096
    stall_s_max: float = STALL_S_MAX
    finish_grace_s: float = 0.3
    connections_max: int = 256
