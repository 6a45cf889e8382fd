"""What is told of every attempt to get out.

Purpose: the shape of a decision and of its end, and who is told.
Invariant: a decision is told, and taken note of, before anything is connected to.
Must never: hold a path, a header, a body or a credential.
"""

from dataclasses import dataclass
from typing import Protocol

from gloveport.sandbox.egress.hosts import Authority


@dataclass(frozen=True, slots=True)
class Contact:
    """One attempt. `way`: http, https (opened by the proxy), connect, socks. `method`: of HTTP, empty in a tunnel.

    `place` is None where what came names no place that can be read.
    """

    trace_id: str
    way: str
    method: str
    place: Authority | None
    allowed: bool
    reason: str


@dataclass(frozen=True, slots=True)
class ContactEnd:
    """How an allowed attempt ended: the address that was connected to, bytes each way, and why it was cut, if it was.

    `status`: of HTTP, where the proxy read it. `credentials`: names of those whose value was sent.
    """

    trace_id: str
    address: str
    sent_bytes: int
    received_bytes: int
    status: int | None
    cut: str
    credentials: tuple[str, ...] = ()


class Watch(Protocol):
    """Who is told."""

    async def decided(self, contact: Contact) -> None:
        """Take note of a decision; returns when it is noted."""
        ...

    async def ended(self, end: ContactEnd) -> None:
        """Take note of an end."""
        ...
