"""Names and addresses of hosts, read strictly.

Purpose: one spelling for each host, and a refusal for every trick with spellings.
Invariant: what is accepted is returned in its one canonical form; reading that form again gives the same.
Must never: guess what a doubtful spelling means, or look a name up.
"""

import ipaddress
import re
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final

HOST_CHARACTERS_MAX: Final = 253
PORT_MAX: Final = 65_535
_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER_LIKE: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_EMBEDS_V4: Final = tuple(
    ipaddress.IPv6Network(net)
    for net in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")
)
"""Ranges of IPv6 that mean some IPv4 address: compatible, mapped, translated, NAT64, 6to4, Teredo."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class HostError(ValueError):
    """A spelling of a host that is not taken; the text says why."""


@unique
class Reach(StrEnum):
    """Which addresses a host's name may lead to."""

    PUBLIC = "public"
    LOOPBACK = "loopback"
    PRIVATE = "private"


@dataclass(frozen=True, slots=True)
class Authority:
    """A host in canonical form and a port. An IPv6 address stands without its brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read_host(text: str) -> str:
    """The canonical form of a host's name or address. Raises HostError.

    Names: ASCII labels of letters, digits and hyphens, no dot at the end; a name that ends in a number must be a plain
    IPv4 address. IPv6 addresses stand in brackets, without a zone, and may not stand for an IPv4 address.
    """
    if text.startswith("[") or text.endswith("]"):
        return _read_bracketed(text)
    name = text.lower()
    if not name.isascii():
        raise HostError("a name on the wire is written in ASCII")
    if not 0 < len(name) <= HOST_CHARACTERS_MAX:
        raise HostError("a name has 1 to 253 characters")
    labels = name.split(".")
    if not all(_LABEL.fullmatch(label) for label in labels):
        raise HostError("a name is labels of letters, digits and hyphens between dots")
    if _NUMBER_LIKE.fullmatch(labels[-1]):
        return _read_v4(name)
    for label in labels:
        _check_punycode(label)
    return name


def read_typed_host(text: str) -> str:
    """Like `read_host`, for a name that a person wrote: other scripts are taken and put into ASCII by IDNA 2008."""
    if text.isascii():
        return read_host(text)
    import idna

    try:
        return read_host(idna.encode(text.lower(), strict=True).decode("ascii"))
    except idna.IDNAError as error:
        raise HostError(f"not a name by the rules of IDNA: {error}") from error


def read_port(text: str) -> int:
    """A port, 1 to 65535, digits alone. Raises HostError."""
    if not _PORT.fullmatch(text) or int(text) > PORT_MAX:
        raise HostError("a port is a number from 1 to 65535")
    return int(text)


def read_authority(text: str, port_default: int | None = None) -> Authority:
    """`host:port`; without a default the port must be there. No user, no path. Raises HostError."""
    host, port = split_port(text)
    if port is None and port_default is None:
        raise HostError("the port is not named")
    return Authority(read_host(host), port_default or 0 if port is None else read_port(port))


def split_port(text: str) -> tuple[str, str | None]:
    """Host and port as written; None where there is no port."""
    if text.startswith("["):
        host, bracket, rest = text.partition("]")
        if rest and not rest.startswith(":"):
            raise HostError("behind an address in brackets only a port may stand")
        return host + bracket, rest[1:] if rest else None
    host, colon, port = text.partition(":")
    return host, port if colon else None


def classify(address: Address) -> Reach | None:
    """What kind of place an address is; None for places that nobody is let through to.

    Those are link-local (the metadata service of clouds among them), multicast, unspecified and reserved addresses,
    and IPv6 addresses that stand for some IPv4 address.
    """
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None or address.is_site_local:
            return None
        if address != ipaddress.IPv6Address("::1") and any(address in net for net in _EMBEDS_V4):
            return None
    if address.is_loopback:
        return Reach.LOOPBACK
    if address.is_link_local or address.is_multicast or address.is_unspecified or address.is_reserved:
        return None
    if address.is_global:
        return Reach.PUBLIC
    return Reach.PRIVATE if address.is_private else None


def is_public_suffix(name: str) -> bool:
    """True where strangers get names below this one, as below `co.uk` or `github.io`."""
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList().publicsuffix(name) == name


def _read_v4(name: str) -> str:
    try:
        return str(ipaddress.IPv4Address(name))
    except ipaddress.AddressValueError as error:
        raise HostError("a name that ends in a number is a plain IPv4 address or nothing") from error


def _read_bracketed(text: str) -> str:
    inner = text[1:-1]
    if not (text.startswith("[") and text.endswith("]")) or "%" in inner:
        raise HostError("an IPv6 address stands in brackets and has no zone")
    try:
        address = ipaddress.IPv6Address(inner)
    except ipaddress.AddressValueError as error:
        raise HostError("not an IPv6 address") from error
    if address != ipaddress.IPv6Address("::1") and any(address in net for net in _EMBEDS_V4):
        raise HostError("an IPv6 address that stands for an IPv4 address is not taken")
    return str(address)


def _check_punycode(label: str) -> None:
    """A label that says it is punycode must be the one spelling of what it says."""
    if label[2:4] != "--":
        return
    import idna

    try:
        if idna.alabel(idna.ulabel(label)).decode("ascii") == label and label.startswith("xn--"):
            return
    except idna.IDNAError as error:
        raise HostError(f"not a label by the rules of IDNA: {error}") from error
    raise HostError("a label with hyphens in its third and fourth place is punycode or nothing")
