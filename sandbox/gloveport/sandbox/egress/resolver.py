"""From an allowed name to an address that may be connected to.

Purpose: look a name up once for a lease, hold every answer against the entry, and pin the address.
Invariant: one forbidden answer refuses the name; what is connected to is an address that was checked, never a name.
Must never: be asked for a name that no entry allows.
"""

import ipaddress
import socket
from typing import Final, Protocol

import anyio

from gloveport.sandbox.egress.hosts import Reach, classify

ANSWERS_MAX: Final = 16


class AddressRefused(Exception):  # noqa: N818 - a finding about a name, not a fault of this program
    """A name that cannot be connected to; the text says why."""


class Resolver(Protocol):
    """Who knows the addresses of names."""

    async def resolve(self, host: str) -> tuple[str, ...]:
        """Addresses as text. Raises OSError when there are none."""
        ...


class SystemResolver:
    """The resolver of this machine."""

    async def resolve(self, host: str) -> tuple[str, ...]:
        """Addresses in the machine's own order."""
        found = await anyio.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return tuple(dict.fromkeys(str(address[0]) for _family, _kind, _protocol, _name, address in found))


class Pins:
    """The addresses of one lease, each name looked up once."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._known: dict[tuple[str, Reach], tuple[str, ...]] = {}

    async def find(self, host: str, reach: Reach, resolve_s: float) -> tuple[str, ...]:
        """Checked addresses of a host that an entry allows. Raises AddressRefused."""
        known = self._known.get((host, reach))
        if known is None:
            known = self._known[host, reach] = check_answers(await self._look_up(host, resolve_s), reach)
        return known

    def forget(self, host: str) -> None:
        """None of its addresses took a connection: look again next time."""
        for key in [key for key in self._known if key[0] == host]:
            del self._known[key]

    async def _look_up(self, host: str, resolve_s: float) -> tuple[str, ...]:
        if is_address(host):
            return (host,)
        try:
            with anyio.fail_after(resolve_s):
                return await self._resolver.resolve(host)
        except TimeoutError as error:
            raise AddressRefused(f"its name was not answered within {resolve_s:g} s") from error
        except OSError as error:
            raise AddressRefused("its name is not known") from error


def is_address(host: str) -> bool:
    """True if a canonical host is an address and no name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_own(address: str) -> bool:
    """True if an address is one of this machine's: what listens there may be meant for its user alone.

    Nothing is sent: the kernel is asked from where it would speak to it, and that is the address itself.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))
        except OSError:
            return False
        return str(probe.getsockname()[0]) == address


def check_answers(answers: tuple[str, ...], reach: Reach) -> tuple[str, ...]:
    """All answers, if each is of the kind that the entry allows. Raises AddressRefused naming the first that is not."""
    if not 0 < len(answers) <= ANSWERS_MAX:
        raise AddressRefused("its name has no address" if not answers else f"its name has over {ANSWERS_MAX} addresses")
    for text in answers:
        try:
            kind = classify(ipaddress.ip_address(text))
            kind = Reach.LOOPBACK if kind is not None and is_own(text) else kind
        except ValueError as error:
            raise AddressRefused("its name was answered with what is no address") from error
        if kind is not reach:
            words = kind.value if kind is not None else "reserved"
            raise AddressRefused(f"its name leads to the {words} address {text}")
    return answers
