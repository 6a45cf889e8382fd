"""The list of what may be reached, and the decision about one attempt.

Purpose: entries as one line of text each, and allow or refuse with the reason.
Invariant: nothing is allowed that no entry names by host and port; reading an entry's text gives the entry.
Must never: look anything up, or match by a piece of a label.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum, unique
from typing import Any, Final

from gloveport.sandbox.egress.hosts import (
    Authority,
    HostError,
    Reach,
    is_public_suffix,
    read_port,
    read_typed_host,
    split_port,
)

ENTRIES_MAX: Final = 64
ENTRY_CHARACTERS_MAX: Final = 512
WILDCARD: Final = "*."
_REACHES: Final = ("loopback", "private")
_METHOD: Final = re.compile(r"[A-Z]{1,16}")
_OPTIONS: Final = "loopback, private, raw, terminate, credential=broker, methods=GET,HEAD"


class EntryError(ValueError):
    """An entry that is not taken; the text says why."""


@unique
class Via(StrEnum):
    """How an attempt speaks: a readable request, or bytes that only the two ends can read."""

    HTTP = "http"
    TERMINATED = "https"
    TUNNEL = "tunnel"


@dataclass(frozen=True, slots=True)
class Entry:
    """What one line of the list lets through.

    `host`: canonical, or `*.` before one: exactly one label more. `reach`: which addresses its name may lead to.
    `raw`: any protocol, not only HTTP and TLS. `methods`: of HTTP; empty means all. `terminates`: TLS is opened by the
    proxy, so that single requests are seen. `broker`: no credential but the broker's own may be sent.
    """

    host: str
    port: int
    reach: Reach = Reach.PUBLIC
    raw: bool = False
    methods: tuple[str, ...] = ()
    terminate: bool = False
    broker: bool = False

    @property
    def terminates(self) -> bool:
        """True where single requests have to be seen also inside TLS."""
        return self.terminate or self.broker or bool(self.methods)

    def matches(self, host: str, port: int) -> bool:
        """True if the entry names this canonical host and port, label by label."""
        if port != self.port:
            return False
        if not self.host.startswith(WILDCARD):
            return host == self.host
        _first, dot, rest = host.partition(".")
        return bool(dot) and rest == self.host.removeprefix(WILDCARD)

    def __str__(self) -> str:
        words = [str(Authority(self.host, self.port))]
        words += [] if self.reach is Reach.PUBLIC else [self.reach.value]
        words += [name for name, is_set in (("raw", self.raw), ("terminate", self.terminate)) if is_set]
        words += ["credential=broker"] if self.broker else []
        words += [f"methods={','.join(self.methods)}"] if self.methods else []
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of an attempt; `reason` is for people. `entry` is the one that lets it through."""

    allowed: bool
    reason: str
    entry: Entry | None = None


def read_entry(text: str) -> Entry:
    """An entry from `host:port` and options behind it, parted by one space. Raises EntryError."""
    if len(text) > ENTRY_CHARACTERS_MAX:
        raise EntryError(f"an entry has at most {ENTRY_CHARACTERS_MAX} characters")
    place, *options = text.split(" ")
    try:
        host, port = _read_place(place)
    except HostError as error:
        raise EntryError(f"{place[:80]!r}: {error}") from error
    entry = Entry(host, port)
    for option in options:
        entry = replace(entry, **_read_option(option))
    kinds = ["reach" if option in _REACHES else option.partition("=")[0] for option in options]
    if len(set(kinds)) != len(kinds):
        raise EntryError(f"{text!r} says one thing twice")
    if entry.raw and entry.terminates:
        raise EntryError("a raw entry carries bytes that nobody reads; methods and credentials cannot be held there")
    return entry


def _read_option(option: str) -> dict[str, Any]:
    match option.partition("="):
        case (("loopback" | "private"), "", ""):
            return {"reach": Reach(option)}
        case (("raw" | "terminate"), "", ""):
            return {option: True}
        case ("credential", "=", "broker"):
            return {"broker": True}
        case ("methods", "=", names):
            return {"methods": _read_methods(names)}
        case _:
            raise EntryError(f"{option[:40]!r} is no option of an entry; there are: {_OPTIONS}")


def read_entries(texts: Iterable[str]) -> tuple[Entry, ...]:
    """All entries of a list. Raises EntryError."""
    entries = tuple(read_entry(text) for text in texts)
    if len(entries) > ENTRIES_MAX:
        raise EntryError(f"at most {ENTRIES_MAX} entries")
    return entries


def decide(entries: Iterable[Entry], place: Authority, via: Via, method: str = "") -> Verdict:
    """Whether an attempt goes through. A name that only resembles an entry is another name."""
    named = [entry for entry in entries if entry.matches(place.host, place.port)]
    if not named:
        return Verdict(False, "the list does not name it")
    if via is Via.TUNNEL:
        return Verdict(True, f"listed as {named[0]}", named[0])
    for entry in named:
        if not entry.methods or method in entry.methods:
            return Verdict(True, f"listed as {entry}", entry)
    return Verdict(False, f"the list lets only {', '.join(named[0].methods)} through, not {method}")


def _read_place(place: str) -> tuple[str, int]:
    name, port = split_port(place)
    if port is None:
        raise HostError("the port is not named")
    if not name.startswith(WILDCARD):
        return read_typed_host(name), read_port(port)
    base = read_typed_host(name.removeprefix(WILDCARD))
    if base.replace(".", "").isdecimal() or "." not in base or is_public_suffix(base):
        raise HostError("a star stands below a name of somebody's own, never below a public suffix")
    return WILDCARD + base, read_port(port)


def _read_methods(names: str) -> tuple[str, ...]:
    methods = tuple(names.split(","))
    if not all(_METHOD.fullmatch(name) for name in methods) or len(set(methods)) != len(methods):
        raise EntryError("methods are named in capitals, each once, parted by commas")
    return methods
