"""Credentials that a jail uses and never holds.

Purpose: put a real value in the place of its stand-in where the credential is meant for, refuse it anywhere else, and
take it out of what comes back.
Invariant: a value leaves in a header, to its own place, over TLS (or to loopback that the list names); a stand-in never
leaves at all.
Must never: put a value into a URL or a body, or let one be read back.
"""

import base64
import binascii
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, quote_plus

from gloveport.sandbox.egress.entries import Entry
from gloveport.sandbox.egress.head import Headers
from gloveport.sandbox.egress.hosts import Authority, Reach
from gloveport.sandbox.egress.wire import WireEnd

VALUE_CHARACTERS_MIN: Final = 8
"""A shorter value cannot be told from other text, so it is not lent."""
_CREDENTIAL_HEADERS: Final = frozenset({b"authorization", b"cookie", b"x-api-key", b"api-key", b"x-auth-token",
                                        b"private-token", b"x-access-token"})  # fmt: skip
_BASIC: Final = b"basic "


class CredentialRefused(Exception):  # noqa: N818 - a decision, not a fault of this program
    """A request that uses a credential wrongly; the text says how."""


@dataclass(frozen=True, slots=True)
class Loan:
    """A credential lent to one lease: the stand-in it sees, and where the value may go.

    `methods`: empty means all. `path_prefix`: ends in a slash, or is the whole path.
    """

    name: str
    stand_in: str
    value: str = field(repr=False)
    place: Authority
    methods: tuple[str, ...] = ()
    path_prefix: str = "/"

    def __post_init__(self) -> None:
        if len(self.value) < VALUE_CHARACTERS_MIN or not self.value.isascii() or not self.value.isprintable():
            raise ValueError(f"the credential {self.name} is too short, or holds what no header holds")

    def is_for(self, place: Authority, method: str, path: str) -> bool:
        """True if the value may go there."""
        plain = path.partition("?")[0]
        below = plain == self.path_prefix or (self.path_prefix.endswith("/") and plain.startswith(self.path_prefix))
        straight = not any(part in ("..", ".") for part in plain.split("/")) and "%" not in plain and "\\" not in plain
        return place == self.place and (not self.methods or method in self.methods) and below and straight


def inject(
    loans: Iterable[Loan], headers: Headers, entry: Entry, place: Authority, method: str, path: bytes, *, tls: bool
) -> tuple[Headers, tuple[str, ...]]:
    """The headers with values in the place of stand-ins, and the names of the credentials. Raises CredentialRefused."""
    known = tuple(loans)
    if any(loan.stand_in.encode() in path for loan in known):
        raise CredentialRefused("a credential stands in the URL")
    changed, used = [], []
    for name, value in headers:
        plain, is_basic = _opened(name, value)
        found = [loan for loan in known if loan.stand_in.encode() in plain]
        for loan in found:
            _check(loan, entry, place, method, path.decode("ascii"), tls=tls)
            plain = plain.replace(loan.stand_in.encode(), loan.value.encode())
        if entry.broker and name in _CREDENTIAL_HEADERS and not found:
            raise CredentialRefused(f"{name.decode()} holds a credential that was not lent")
        used += [loan.name for loan in found]
        changed.append((name, (b"Basic " + base64.b64encode(plain) if is_basic else plain) if found else value))
    return tuple(changed), tuple(dict.fromkeys(used))


def _check(loan: Loan, entry: Entry, place: Authority, method: str, path: str, *, tls: bool) -> None:
    if not loan.is_for(place, method, path):
        raise CredentialRefused(f"the credential {loan.name} is not for {method} {place} at this path")
    if not tls and entry.reach is not Reach.LOOPBACK:
        raise CredentialRefused(f"the credential {loan.name} does not go out without TLS")


def _opened(name: bytes, value: bytes) -> tuple[bytes, bool]:
    """A header's value, and what is within it where it is user and password in base64."""
    if name == b"authorization" and value[: len(_BASIC)].lower() == _BASIC:
        try:
            return base64.b64decode(value[len(_BASIC) :].strip(), validate=True), True
        except (ValueError, binascii.Error):
            return value, False
    return value, False


class Scrub:
    """Takes lent values out of an answer, in the forms in which servers echo them, however it is cut."""

    def __init__(self, loans: Iterable[Loan], sent: Headers = ()) -> None:
        pairs = {form: loan.stand_in.encode() for loan in loans for form in _forms(loan.value)}
        for name, value in sent:
            plain, is_basic = _opened(name, value)
            if is_basic and any(loan.value.encode() in plain for loan in loans):
                pairs[value[len(_BASIC) :].strip()] = b"gloveport"
        self._pairs = sorted(pairs.items(), key=lambda pair: -len(pair[0]))
        self._longest = max((len(form) for form in pairs), default=1)
        self._held = b""

    def headers(self, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """The headers to give; the length is left out, since it may change. Raises WireEnd for a coded body."""
        if any(name.lower() == b"content-encoding" and value.lower() != b"identity" for name, value in headers):
            raise WireEnd("the answer is coded, so nobody could see whether it holds the credential")
        return [(name, self._mend(value)) for name, value in headers if name.lower() != b"content-length"]

    def feed(self, data: bytes) -> bytes:
        """What can be given now: what may be the beginning of a value is held back."""
        text = self._mend(self._held + data)
        keep = max((self._overlap(text, form) for form, _ in self._pairs), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def finish(self) -> bytes:
        """What was held back."""
        held, self._held = self._held, b""
        return self._mend(held)

    def _mend(self, data: bytes) -> bytes:
        for form, stand_in in self._pairs:
            data = data.replace(form, stand_in)
        return data

    @staticmethod
    def _overlap(text: bytes, form: bytes) -> int:
        """How many of the last bytes could begin this form."""
        for size in range(min(len(form) - 1, len(text)), 0, -1):
            if form.startswith(text[-size:]):
                return size
        return 0


def _forms(value: str) -> set[bytes]:
    raw = value.encode()
    texts = {value, quote(value, safe=""), quote_plus(value), json.dumps(value)[1:-1]}
    return {text.encode() for text in texts} | {
        base64.b64encode(raw),
        base64.b64encode(raw).rstrip(b"="),
        raw.hex().encode(),
    }
