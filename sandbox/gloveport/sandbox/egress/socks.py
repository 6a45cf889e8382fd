"""SOCKS 5, the part that a proxy of names needs.

Purpose: read a greeting and a request, write the answers.
Invariant: CONNECT alone, without a password.
Must never: take an address for a name.
"""

import ipaddress
from enum import IntEnum, unique
from typing import Final

from gloveport.sandbox.egress.hosts import Authority, HostError, read_host
from gloveport.sandbox.egress.wire import Wire

VERSION: Final = 5
_NO_PASSWORD: Final = 0
_CONNECT: Final = 1
_V4, _NAME, _V6 = 1, 3, 4


class SocksFault(Exception):  # noqa: N818 - a finding about a client, not a fault of this program
    """A greeting or request that is not taken; `reply` is the answer to send, the text says why."""

    def __init__(self, words: str, reply: bytes) -> None:
        super().__init__(words)
        self.reply = reply


@unique
class Reply(IntEnum):
    """Codes of an answer."""

    GRANTED = 0
    REFUSED = 2
    UNREACHABLE = 4
    COMMAND = 7
    ADDRESS = 8


def answer(code: Reply) -> bytes:
    """An answer; the address in it is always the empty one."""
    return bytes((VERSION, code, 0, _V4, 0, 0, 0, 0, 0, 0))


async def read_request(wire: Wire) -> Authority:
    """Greet a client and read where it wants to go. Raises SocksFault or WireEnd."""
    _version, count = await wire.read_exactly(2)
    if _NO_PASSWORD not in await wire.read_exactly(count):
        raise SocksFault("it wants a password to be asked for", bytes((VERSION, 0xFF)))
    await wire.write(bytes((VERSION, _NO_PASSWORD)))
    version, command, _zero, kind = await wire.read_exactly(4)
    if version != VERSION or command != _CONNECT:
        raise SocksFault("only connecting is offered", answer(Reply.COMMAND))
    if kind == _NAME:
        raw = await wire.read_exactly((await wire.read_exactly(1))[0])
        try:
            host = read_host(raw.decode("ascii"))
        except (UnicodeDecodeError, HostError) as error:
            raise SocksFault(f"the name is not taken as spelled: {error}", answer(Reply.REFUSED)) from error
    elif kind == _V4:
        host = str(ipaddress.IPv4Address(await wire.read_exactly(4)))
    elif kind == _V6:
        host = str(ipaddress.IPv6Address(await wire.read_exactly(16)))
    else:
        raise SocksFault("an address of an unknown kind", answer(Reply.ADDRESS))
    port = int.from_bytes(await wire.read_exactly(2), "big")
    if port == 0:
        raise SocksFault("port 0 is no port", answer(Reply.REFUSED))
    return Authority(host, port)
