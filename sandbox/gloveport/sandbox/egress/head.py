"""The head of a request, read strictly.

Purpose: from the bytes of a request's head to its parts, refusing everything that two readers could read in two ways.
Invariant: one host, one framing, no folded line, no bare line end, no control character.
Must never: mend a head that is wrong.
"""

import re
from dataclasses import dataclass
from typing import Final

from gloveport.sandbox.egress.hosts import Authority, HostError, read_authority

HEADERS_MAX: Final = 100
END: Final = b"\r\n\r\n"
_REQUEST_LINE: Final = re.compile(rb"([A-Z][A-Z-]{0,31}) ([!-~]{1,8192}) HTTP/1\.([01])")
_HEADER: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")
_LENGTH: Final = re.compile(rb"[0-9]{1,15}")
_ABSOLUTE: Final = re.compile(rb"(?i:http)://([^/?#]+)((?:/[^#]*|\?[^#]*)?)")
_ORIGIN: Final = re.compile(rb"/[^#]*")
_ONCE: Final = (b"host", b"content-length", b"transfer-encoding", b"authorization", b"content-type", b"expect")
_KEPT_ALWAYS: Final = frozenset({b"host", b"content-length", b"authorization", b"cookie", b"content-type"})
HOP_BY_HOP: Final = frozenset(
    {b"connection", b"proxy-connection", b"keep-alive", b"proxy-authorization", b"proxy-authenticate", b"te",
     b"trailer", b"upgrade", b"http2-settings", b"transfer-encoding"}
)  # fmt: skip
"""Headers that mean the next hop alone and are never passed on."""
HTTP_PORT: Final = 80
HTTPS_PORT: Final = 443


class HeadFault(Exception):  # noqa: N818 - a finding about a client, not a fault of this program
    """A head that is not taken; the text says why."""


Headers = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class RequestHead:
    """A request's head. Header names are in small letters; `minor` is the version behind `HTTP/1.`."""

    method: str
    target: bytes
    minor: int
    headers: Headers

    def get(self, name: bytes) -> bytes | None:
        """The first header of that name."""
        return next((value for key, value in self.headers if key == name), None)

    @property
    def has_body(self) -> bool:
        """True if a body follows."""
        return self.get(b"transfer-encoding") is not None or int(self.get(b"content-length") or b"0") > 0

    @property
    def wants_close(self) -> bool:
        """True if the client says that this is its last request."""
        words = _tokens(self.get(b"connection") or b"") | _tokens(self.get(b"proxy-connection") or b"")
        return b"close" in words or (self.minor == 0 and b"keep-alive" not in words)


def read_head(raw: bytes) -> RequestHead:
    """The parts of a head that ends in an empty line. Raises HeadFault."""
    if not raw.endswith(END):
        raise HeadFault("the head has no end")
    first, *lines = raw[: -len(END)].split(b"\r\n")
    found = _REQUEST_LINE.fullmatch(first)
    if found is None:
        raise HeadFault("the first line is no request of HTTP/1")
    if len(lines) > HEADERS_MAX:
        raise HeadFault(f"more than {HEADERS_MAX} headers")
    head = RequestHead(found[1].decode(), found[2], int(found[3]), tuple(_read_header(line) for line in lines))
    _check_framing(head)
    return head


def _read_header(line: bytes) -> tuple[bytes, bytes]:
    found = _HEADER.fullmatch(line)
    if found is None:
        raise HeadFault("a header is folded, or holds what no header holds")
    return found[1].lower(), found[2].rstrip(b" \t")


def _check_framing(head: RequestHead) -> None:
    names = [name for name, _ in head.headers]
    if any(names.count(name) > 1 for name in _ONCE):
        raise HeadFault("a header that stands once stands twice")
    length, coding = head.get(b"content-length"), head.get(b"transfer-encoding")
    if length is not None and coding is not None:
        raise HeadFault("two framings of one body")
    if length is not None and not _LENGTH.fullmatch(length):
        raise HeadFault("the length of the body is no number")
    if coding is not None and (coding.lower() != b"chunked" or head.minor == 0):
        raise HeadFault("a framing that is not known")
    if _tokens(head.get(b"connection") or b"") & _KEPT_ALWAYS:
        raise HeadFault("a header that matters to the other end is named as one of this hop")
    if head.minor == 1 and head.get(b"host") is None and head.method != "CONNECT":
        raise HeadFault("the host is not named")


def read_absolute(head: RequestHead) -> tuple[Authority, bytes]:
    """Place and path of a request as a proxy gets it; URL and Host header must name the same. Raises HeadFault."""
    found = _ABSOLUTE.fullmatch(head.target)
    if found is None:
        raise HeadFault("the target is no absolute http URL (what is encrypted goes by CONNECT)")
    place = _authority(found[1], HTTP_PORT)
    check_host(head, place, HTTP_PORT)
    path = found[2]
    return place, path if path.startswith(b"/") else b"/" + path


def read_origin(head: RequestHead, place: Authority, port_default: int) -> bytes:
    """The path of a request whose place is fixed; its Host header must name that place. Raises HeadFault."""
    if head.method == "CONNECT":
        raise HeadFault("a tunnel is asked for inside a tunnel")
    if _ORIGIN.fullmatch(head.target) is None:
        raise HeadFault("the target is no path")
    check_host(head, place, port_default)
    return head.target


def read_connect(head: RequestHead) -> Authority:
    """The place of a CONNECT request; a Host header, if there is one, must name the same host. Raises HeadFault."""
    place = _authority(head.target, None)
    if head.has_body:
        raise HeadFault("a tunnel is asked for without a body")
    if head.get(b"host") is not None:
        check_host(head, place, place.port)
    return place


def check_host(head: RequestHead, place: Authority, port_default: int) -> None:
    """Refuse a Host header that names another place. Raises HeadFault."""
    named = head.get(b"host")
    if named is not None and _authority(named, port_default) != place:
        raise HeadFault(f"the Host header names another place than {place}")


def forwarded(
    head: RequestHead, place: Authority, port_default: int, *, keeps: bool = False
) -> list[tuple[bytes, bytes]]:
    """The headers to send on: the host rewritten, this hop's own left out; a body keeps its framing.

    `keeps`: the connection may be used again.
    """
    dropped = HOP_BY_HOP | _tokens(head.get(b"connection") or b"") | {b"host", b"expect"}
    host = str(place) if place.port != port_default else str(place).rpartition(":")[0]
    kept = [(name, value) for name, value in head.headers if name not in dropped]
    if head.get(b"transfer-encoding") is not None:
        kept.append((b"transfer-encoding", b"chunked"))
    return [(b"host", host.encode("ascii")), *kept, (b"connection", b"keep-alive" if keeps else b"close")]


def without_coding(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers with a wish for an answer that can be read as it comes."""
    kept = [one for one in headers if one[0] not in (b"accept-encoding", b"range")]
    return [*kept, (b"accept-encoding", b"identity")]


def answered(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of an answer without those of the hop it came over."""
    named = b",".join(value for name, value in headers if name.lower() == b"connection")
    dropped = HOP_BY_HOP | (_tokens(named) - {b"content-length", b"content-type"})
    return [(name, value) for name, value in headers if name.lower() not in dropped]


def _authority(text: bytes, port_default: int | None) -> Authority:
    try:
        return read_authority(text.decode("ascii"), port_default)
    except UnicodeDecodeError as error:
        raise HeadFault("a host's name is written in ASCII") from error
    except HostError as error:
        raise HeadFault(f"the place is not taken as spelled: {error}") from error


def _tokens(value: bytes) -> frozenset[bytes]:
    return frozenset(word.strip().lower() for word in value.split(b",")) - {b""}
