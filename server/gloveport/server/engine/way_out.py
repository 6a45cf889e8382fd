"""The way out of a call's runs: who is told, what is noted, and what the user's settings say of places.

Purpose: open a lease's proxy for the places that were judged, note every decision on disk before it takes effect, and
sum it up for the journal.
Invariant: a line of the log is written before its connection is made; what is reached is what the card named.
Must never: let a place through that the call's intent does not name.
"""

import json
import os
import secrets
import shutil
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal.events import EgressPlace, EgressRecorded
from gloveport.sandbox.contract import SandboxError
from gloveport.sandbox.egress.credentials import Loan
from gloveport.sandbox.egress.entries import WILDCARD, Entry, EntryError, read_entry
from gloveport.sandbox.egress.hosts import Authority, Reach
from gloveport.sandbox.egress.limits import EgressLimits
from gloveport.sandbox.egress.resolver import Resolver, SystemResolver
from gloveport.sandbox.egress.watch import Contact, ContactEnd
from gloveport.sandbox.egress.way import open_way_out
from gloveport.sandbox.profile import WayOut
from gloveport.server.accounts import Account, Database, MailAccount
from gloveport.server.settings import Credential

LOG_FILE: Final = "egress.jsonl"
OLD_LOG_FILE: Final = "egress.1.jsonl"
LOG_BYTES_MAX: Final = 16 * 1024 * 1024
"""Beyond it the log is put aside, and the one before it is dropped; the sums are in the journal for good."""
FOLDER: Final = "egress"
TOLD_MAX: Final = 10
PLACES_MAX: Final = 100
UNREADABLE: Final = ("", 0)


@dataclass(slots=True)
class Notes:
    """What the runs of one call of a session tried, by place and verdict; sums alone."""

    session_id: str = ""
    places: dict[tuple[str, int, bool], EgressPlace] = field(default_factory=dict)
    traces: dict[str, tuple[str, int, bool]] = field(default_factory=dict)
    left_out: int = 0

    def decided(self, contact: Contact) -> None:
        """Count a decision."""
        host, port = UNREADABLE if contact.place is None else (contact.place.host, contact.place.port)
        key = (host, port, contact.allowed)
        known = self.places.get(key)
        if known is not None:
            self.places[key] = known.model_copy(update={"attempts": known.attempts + 1})
        elif len(self.places) < PLACES_MAX:
            self.places[key] = EgressPlace(
                host=host, port=port, allowed=contact.allowed, reason=contact.reason, trace_id=contact.trace_id,
                attempts=1, sent_bytes=0, received_bytes=0,
                credentials=(),
            )  # fmt: skip
        else:
            self.left_out += 1
        if contact.allowed:
            self.traces[contact.trace_id] = key

    def ended(self, end: ContactEnd) -> None:
        """Add an end's bytes to its place."""
        key = self.traces.pop(end.trace_id, None)
        known = None if key is None else self.places.get(key)
        if known is not None:
            sums = {
                "sent_bytes": known.sent_bytes + end.sent_bytes,
                "received_bytes": known.received_bytes + end.received_bytes,
                "credentials": tuple(dict.fromkeys((*known.credentials, *end.credentials))),
            }
            self.places[known.host, known.port, known.allowed] = known.model_copy(update=sums)

    def words(self) -> str:
        """What the model is told of places that were refused; empty where none was."""
        blocked = [one for one in self.places.values() if not one.allowed]
        told = [f"{one.host or 'what names no place'}:{one.port} ({one.reason})" for one in blocked[:TOLD_MAX]]
        more = f" and {len(blocked) - TOLD_MAX} more" if len(blocked) > TOLD_MAX else ""
        return f"[blocked by sandbox: {'; '.join(told)}{more}]" if told else ""

    def fact(self, turn_id: str, goal_revision: int, call_id: str) -> tuple[EgressRecorded, ...]:
        """What is told in the session; nothing where nothing was tried."""
        if not self.places:
            return ()
        return (
            EgressRecorded(
                turn_id=turn_id, goal_revision=goal_revision, call_id=call_id, places=tuple(self.places.values()),
                left_out=self.left_out,
            ),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class WaysOut:
    """Opens ways out below a folder of the daemon's.

    `known`: entries of the user's settings, which say how places are reached; `credentials` are the user's too.
    """

    data_dir: Path
    now_us: Callable[[], int]
    known: Callable[[], tuple[str, ...]] = tuple
    credentials: Callable[[], tuple[Credential, ...]] = tuple
    mail: Callable[[], MailAccount | None] = lambda: None
    databases: Callable[[], tuple[Database, ...]] = tuple
    resolver: Resolver = field(default_factory=SystemResolver)
    limits: EgressLimits = field(default_factory=EgressLimits)

    def open(
        self,
        call_id: str,
        places: tuple[str, ...],
        notes: Notes,
        loans: tuple[Loan, ...] = (),
        account: Account | None = None,
    ) -> tuple[tuple[str, ...], AbstractAsyncContextManager[WayOut]]:
        """The list for these places (`host:port`), and the way out that holds it. Raises SandboxError.

        With an `account` its place carries the hand's own protocol, and its password is handed over once.
        """
        own = None if account is None else account.place
        entries = (
            replace(self.entry_of(place), raw=True) if place == own else self.entry_of(place) for place in places
        )
        lent = {loan.place for loan in loans}
        egress = tuple(str(replace(one, broker=Authority(one.host, one.port) in lent or one.broker)) for one in entries)
        watch = _Noting(self, call_id, notes)
        return egress, open_way_out(
            self.data_dir / FOLDER,
            call_id,
            egress,
            watch,
            resolver=self.resolver,
            limits=self.limits,
            loans=loans,
            secret=b"" if account is None or account.password is None else account.password.reveal().encode(),
        )

    def entry_of(self, place: str) -> Entry:
        """The entry for a place: the settings' own where they name it, else plain. Raises SandboxError."""
        try:
            entry = read_entry(place)
            if place != str(Authority(entry.host, entry.port)) or entry.host.startswith(WILDCARD):
                raise EntryError(f"{place!r} is not one host and port, spelled plainly")
            for known in map(read_entry, self.known()):
                if known.matches(entry.host, entry.port):
                    return replace(known, host=entry.host)
        except EntryError as error:
            raise SandboxError(ErrorCode.SANDBOX_REFUSED, str(error), hint="Name a host and a port.") from error
        return entry

    def lend(self, name: str) -> tuple[Loan, Credential]:
        """A credential for one run, under a stand-in that is new each time. Raises SandboxError."""
        known = self.credentials()
        credential = next((one for one in known if one.name == name), None)
        if credential is None:
            names = ", ".join(sorted(one.name for one in known)) or "none"
            words = f"there is no credential {name!r}; there are: {names}"
            raise SandboxError(ErrorCode.SANDBOX_REFUSED, words, hint="The user names credentials in the settings.")
        entry = self.entry_of(credential.place)
        stand_in = f"gloveport-{secrets.token_hex(16)}"
        place_of = Authority(entry.host, entry.port)
        try:
            value = credential.value.reveal()
            return Loan(name, stand_in, value, place_of, credential.methods, credential.path), credential
        except ValueError as error:
            raise SandboxError(ErrorCode.SANDBOX_REFUSED, str(error), hint="Set its variable and restart.") from error

    def mail_account(self) -> MailAccount:
        """How the user's mail goes out. Raises SandboxError where it is not set up, or would go out in the clear."""
        known = self.mail()
        if known is None:
            words = "no mail account is set up"
            raise SandboxError(ErrorCode.SANDBOX_REFUSED, words, hint="The user writes [mail] into the settings.")
        self._check(known.account)
        return known

    def database(self, name: str) -> Database:
        """The database of this name. Raises SandboxError."""
        known = self.databases()
        found = next((one for one in known if one.name == name), None)
        if found is None:
            names = ", ".join(sorted(one.name for one in known)) or "none"
            words = f"there is no database {name!r}; there are: {names}"
            raise SandboxError(ErrorCode.SANDBOX_REFUSED, words, hint="The user names databases in the settings.")
        self._check(found.account)
        return found

    def _check(self, account: Account) -> None:
        """Raise SandboxError where an account's place cannot carry its protocol, or a password would be readable."""
        entry = self.entry_of(account.place)
        if entry.terminates:
            words = f"{account.place} is listed for single requests, so nothing else is carried there"
            raise SandboxError(ErrorCode.SANDBOX_REFUSED, words, hint="Mend its line in [network] places.")
        if account.tls == "none" and entry.reach is not Reach.LOOPBACK:
            words = f"what is said to {account.place} without TLS could be read on the way"
            raise SandboxError(ErrorCode.SANDBOX_REFUSED, words, hint="Set its tls in the settings.")

    def recall(self, call_id: str, notes: Notes) -> None:
        """Take into the notes what an earlier daemon wrote down of this call; what did not end has no bytes."""
        for name in (OLD_LOG_FILE, LOG_FILE):
            try:
                with (self.data_dir / name).open(encoding="ascii") as file:
                    for line in file:
                        if call_id in line:
                            _recall_line(line, call_id, notes)
            except (OSError, UnicodeDecodeError):
                continue

    def note(self, line: dict[str, Any]) -> None:
        """Append a line to the log. Raises OSError."""
        path = self.data_dir / LOG_FILE
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.write(fd, json.dumps(line, ensure_ascii=True).encode() + b"\n")
            is_full = os.fstat(fd).st_size > LOG_BYTES_MAX
        finally:
            os.close(fd)
        if is_full:
            path.replace(path.with_name(OLD_LOG_FILE))


def erase_lines(data_dir: Path, session_id: str) -> None:
    """Take the lines of a deleted session out of the log; called where `note` is, so that no line comes between."""
    mark = f'"session_id": {json.dumps(session_id)},'.encode()
    for path in (data_dir / OLD_LOG_FILE, data_dir / LOG_FILE):
        try:
            lines = path.read_bytes().splitlines(keepends=True)
        except FileNotFoundError:
            continue
        kept = [line for line in lines if mark not in line]
        if len(kept) < len(lines):
            aside = path.with_suffix(".new")
            fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.writelines(kept)
            aside.replace(path)


def clear_ways(data_dir: Path) -> None:
    """Remove what an earlier daemon's ways out left; nobody listens there any more."""
    shutil.rmtree(data_dir / FOLDER, ignore_errors=True)


def _recall_line(line: str, call_id: str, notes: Notes) -> None:
    try:
        told = json.loads(line)
        if told["call_id"] != call_id:
            return
        if "allowed" in told:
            place = Authority(told["host"], told["port"]) if told["host"] else None
            notes.decided(
                Contact(told["trace_id"], told["way"], told["method"], place, bool(told["allowed"]), told["reason"])
            )
        else:
            sizes = int(told["sent_bytes"]), int(told["received_bytes"])
            used = tuple(map(str, told["credentials"]))
            notes.ended(ContactEnd(told["trace_id"], told["address"], *sizes, told["status"], told["cut"], used))
    except (ValueError, KeyError, TypeError):
        return  # a line that was torn by the crash


class _Noting:
    """The watch of one call: the log first, then the sums."""

    def __init__(self, ways: WaysOut, call_id: str, notes: Notes) -> None:
        self._ways, self._call_id, self._notes = ways, call_id, notes

    async def decided(self, contact: Contact) -> None:
        """Write a decision down before it takes effect; where it cannot be written, the connection is not made."""
        place = contact.place
        self._ways.note(
            {
                "at": self._ways.now_us(), "session_id": self._notes.session_id, "call_id": self._call_id,
                "trace_id": contact.trace_id, "way": contact.way,
                "method": contact.method, "host": "" if place is None else place.host,
                "port": 0 if place is None else place.port, "allowed": contact.allowed, "reason": contact.reason,
            }
        )  # fmt: skip
        self._notes.decided(contact)

    async def ended(self, end: ContactEnd) -> None:
        """Write down how an attempt ended."""
        self._notes.ended(end)
        self._ways.note(
            {
                "at": self._ways.now_us(), "session_id": self._notes.session_id, "call_id": self._call_id,
                "trace_id": end.trace_id, "address": end.address,
                "sent_bytes": end.sent_bytes, "received_bytes": end.received_bytes, "status": end.status,
                "cut": end.cut, "credentials": end.credentials,
            }
        )  # fmt: skip
