"""What the model is told of a session: its messages, answers, calls and their results.

Purpose: turn the folded history into one that every provider takes, and check it before it is sent.
Invariant: each call is followed by exactly one result, ids are unique and plain, no answer is empty, the first entry is
    the user's; what was told once stays, byte for byte, the beginning of what is told later.
Must never: guess the outcome of a call: one without a result is told as interrupted, its effects unknown.

Two things that happened are not told. A result that came after the model had gone on without it would change what was
told before. An answer without words and calls says nothing. An answer that broke off is told as far as it came; where
the user did not speak after it, a line of ours asks the model to go on, so that roles still take turns.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import ClassVar, Final

from gloveport.protocol.text import GO_ON
from gloveport.server.session.state import AssistantEntry, CallEntry, Entry, ResultEntry, UserEntry
from gloveport.server.session.views.placed import Folded, Placed

INTERRUPTED_TEXT: Final = (
    "Interrupted, effects unknown: no result of this call was recorded. Look before you repeat it."
)
CALL_ID_CHARS_MAX: Final = 40
"""The longest id of a call that every provider takes."""
_PLAIN_ID: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{CALL_ID_CHARS_MAX}}}")


class _Telling:
    """Collects what is told, one entry of the history at a time."""

    def __init__(self) -> None:
        self.told: list[Entry] = []
        self._ids: set[str] = set()
        self._calls: set[str] = set()
        self._count = 0
        self._open: dict[str, CallEntry] = {}
        self._results: dict[str, ResultEntry] = {}
        self._said: list[UserEntry] = []
        self._broken = False

    def take(self, entry: Entry) -> None:
        if isinstance(entry, UserEntry):
            self._user(entry)
        elif isinstance(entry, ResultEntry):
            self._result(entry)
        else:
            self._assistant(entry)

    def _user(self, entry: UserEntry) -> None:
        if not entry.text.strip():
            return
        self._broken = False
        if self._open:
            self._said.append(entry)
        else:
            self.told.append(entry)

    def _result(self, entry: ResultEntry) -> None:
        call = self._open.get(entry.call_id)
        if call is not None and entry.call_id not in self._results:
            self._results[entry.call_id] = replace(entry, provider_call_id=call.provider_call_id)

    def _assistant(self, entry: AssistantEntry) -> None:
        self.close()
        text = entry.text if entry.text.strip() else ""
        calls = tuple(self._named(entry.calls))
        if not self.told or not (text or calls):
            return
        if isinstance(self.told[-1], AssistantEntry):
            self.told.append(UserEntry(GO_ON))
        self.told.append(replace(entry, text=text, calls=calls))
        self._broken = entry.interrupted
        self._open = {call.call_id: call for call in calls}

    def _named(self, calls: Iterable[CallEntry]) -> Iterator[CallEntry]:
        """The calls under ids that no other call of the history has."""
        for call in calls:
            if call.call_id in self._calls:
                continue
            self._calls.add(call.call_id)
            self._count += 1
            name = call.provider_call_id
            while name in self._ids or _PLAIN_ID.fullmatch(name) is None:
                name = f"call_{self._count}"
                self._count += 1
            self._ids.add(name)
            yield replace(call, provider_call_id=name)

    def close(self) -> None:
        """Give every open call its one result, then what the user said meanwhile."""
        for call_id, call in self._open.items():
            unknown = ResultEntry(call_id, call.provider_call_id, INTERRUPTED_TEXT, is_error=True)
            self.told.append(self._results.get(call_id, unknown))
        self.told += self._said
        self._open, self._results, self._said = {}, {}, []
        if self._broken:
            self.told.append(UserEntry(GO_ON))
            self._broken = False


def provider_history(history: Iterable[Entry]) -> tuple[Entry, ...]:
    """What is told of a history, whatever is missing from it: a beginning, an end, results, answers."""
    telling = _Telling()
    for entry in history:
        telling.take(entry)
    telling.close()
    return tuple(telling.told)


def context_faults(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Why a provider would refuse these entries; empty for valid ones. One pass, nothing is parsed."""
    faults: list[str] = []
    wanted: list[str] = []
    seen: set[str] = set()
    for number, entry in enumerate(entries):
        where = f"entry {number}"
        if number == 0 and not isinstance(entry, UserEntry):
            faults.append(f"{where}: the first entry is not the user's")
        if isinstance(entry, ResultEntry):
            if not wanted or wanted.pop(0) != entry.provider_call_id:
                faults.append(f"{where}: a result that no call before it waits for")
            continue
        if wanted:
            faults.append(f"{where}: calls without a result: {', '.join(wanted)}")
            wanted = []
        if not entry.text.strip() and not (isinstance(entry, AssistantEntry) and entry.calls):
            faults.append(f"{where}: empty")
        for call in entry.calls if isinstance(entry, AssistantEntry) else ():
            faults += _call_faults(call, seen, where)
            wanted.append(call.provider_call_id)
    return (*faults, f"calls without a result: {', '.join(wanted)}") if wanted else tuple(faults)


def _call_faults(call: CallEntry, seen: set[str], where: str) -> Iterator[str]:
    if call.provider_call_id in seen:
        yield f"{where}: the id {call.provider_call_id} is used twice"
    if _PLAIN_ID.fullmatch(call.provider_call_id) is None:
        yield f"{where}: an id that some provider refuses"
    if not (call.arguments_json.startswith("{") and call.arguments_json.endswith("}")):
        yield f"{where}: arguments that are no object"
    seen.add(call.provider_call_id)


def context_digest(entries: Sequence[Entry]) -> str:
    """SHA-256 over the entries, one after another: equal beginnings are told by equal digests of them."""
    return RunningDigest().after(entries)


class RunningDigest:
    """The digest of a history that grows, each entry read once. One that changed at its beginning needs another."""

    def __init__(self) -> None:
        self._digest, self._read = hashlib.sha256(), 0

    def after(self, history: Sequence[Entry]) -> str:
        """The digest of the whole history."""
        for entry in history[self._read :]:
            line = json.dumps(_plain(entry), ensure_ascii=True, separators=(",", ":"))
            self._digest.update(line.encode() + b"\n")
        self._read = max(self._read, len(history))
        return self._digest.hexdigest()


def _plain(entry: Entry | CallEntry) -> list[object]:
    values = (getattr(entry, one.name) for one in fields(entry))
    parts = [list(map(_plain, value)) if isinstance(value, tuple) else value for value in values]
    return [type(entry).__name__, *parts]


NO_HISTORY: Final = frozenset(
    {
        "ApprovalRequested", "ApprovalResolved", "ChangeApplied", "ChangeApplyStarted", "ChangeProposed",
        "ChangeRefused", "ChangeUnsettled", "ChangeWithdrawn", "EditsTaken", "GrantIssued", "GrantRevoked", "GrantUsed",
        "HunkDecided", "ModelRequestAccepted", "PlanUpdated", "PolicyDecided", "RecoverySummarised", "SnapshotTaken",
        "DriftDetected", "EgressRecorded", "TestRunFinished", "ToolExecutionProgress", "ToolReconciled",
        "UsageRecorded", "ContentLabelled", "ReleaseIssued", "ReleaseUsed", "InjectionSuspected",
        "ArtifactSuspected", "SessionFrozen", "SessionThawed", "BudgetSet", "ModeChosen",
        "SessionRulesSet", "CopyUnseen", "SpendReserved", "UsageEstimated",
    }
)  # fmt: skip
"""Types that change nothing of what the model is told."""


class ContextProjection:
    """The model's context from events alone."""

    by_name: ClassVar[frozenset[str]] = NO_HISTORY

    def __init__(self) -> None:
        self._folded = Folded()

    def take(self, event: Placed) -> None:
        """Take one more event in."""
        if event.type not in self.by_name:
            self._folded.take(event)

    def finish(self) -> tuple[Entry, ...]:
        """What a request would tell the model now."""
        return provider_history(self._folded.state.history)
