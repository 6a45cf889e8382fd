"""What must hold when a life is over: nothing is left, and the end is that of an uncrashed run.

Purpose: look for leftovers outside the record, and compare the record with that of a life without a kill.
Invariant: a difference is excused by the journal alone: a try that the record calls interrupted or unknown.
Must never: clean up before it has looked.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.kit.proof.house import House
from tests.kit.proof.oracles import STAGED
from tests.kit.proof.record import Record, read_folder
from tests.kit.proof.user import User

from gloveport.server.audit.log import AUDIT_FILE
from gloveport.server.audit.reading import verify_log
from gloveport.server.session.state import Phase

_STOPPED: Final = ("killed", "unknown", "lost")
NOBODYS: Final = "erased-message"
"""Whose turn it is when its message was erased."""
LEAVE_S: Final = 20.0
"""How long processes may take to be gone after the daemon has ended."""
Baseline = tuple[dict[str, list[Any]], list[Any]]
"""A life without a kill: what is compared of each message's turn, and the decisions."""
KEPT: Final = {
    "UserMessageAdded": ("text",),
    "ModelResponseReceived": ("text", "stop"),
    "ToolCallProposed": ("tool", "arguments_json"),
    "ApprovalResolved": ("decision", "scope"),
    "GrantIssued": ("scope",),
    "ToolExecutionStarted": ("tool", "recovery", "stop_class"),
    "ToolExecutionFinished": ("tool", "outcome", "exit_code"),
    "PlanUpdated": ("items",),
    "ChangeProposed": ("path", "kind", "base_hash", "result_hash"),
    "TurnCompleted": ("reason",),
    "TurnCancelled": (),
    "TurnFailed": ("code",),
}
"""What is compared of a turn: its events of these types, and of each these fields."""


def turns_of(record: Record, house: House) -> dict[str, list[Any]]:
    """The last try of each message, as what is compared of it."""
    found: dict[str, list[Any]] = {}
    current: list[Any] = []
    tag = NOBODYS
    reconciled = {body["call_id"] for body in record.bodies("ToolReconciled")}
    ended = {body["turn_id"] for body in record.bodies("TurnCancelled")}
    stopped = {body["call_id"] for body in record.bodies("ToolExecutionStarted") if body["turn_id"] in ended}
    for event in record.session:
        if event.type not in KEPT:
            continue
        if event.erased is not None:
            if event.type == "UserMessageAdded":
                current, tag = [], NOBODYS
            continue
        body = json.loads(event.payload)
        if body.get("outcome") in _STOPPED and body["call_id"] in reconciled & stopped:
            body["outcome"] = "cancelled"  # the stop was the last daemon's, or its supervisor died; the record tells
        if body.get("outcome") == "unknown":
            body["outcome"] = "lost"  # who looks for the supervisor says one, who waited for it the other
        if event.type == "UserMessageAdded":
            name, _, attempt = str(body["text"]).partition(" try ")
            current = found[name] = []
            tag = f"{name}-{attempt.partition('.')[0]}"
        elif current or "turn_id" in body:
            current.append([event.type, [_plain(body[field], house, tag) for field in KEPT[event.type]]])
    return found


def _plain(value: Any, house: House, tag: str) -> Any:
    """A value without what differs from life to life."""
    text = json.dumps(value).replace(str(house.folder), "LIFE").replace(tag, "TRY")
    return json.loads(text)


def decisions_of(record: Record) -> list[Any]:
    """The decisions about changes that were carried out, in order."""
    return [[body["action"], sorted(body["paths"])] for body in record.bodies("ChangeApplied")]


def check_same(record: Record, house: House, user: User, baseline: Baseline) -> Iterator[str]:
    """Messages that needed one try, and all decisions, went as in a life without a kill.

    A second try begins with what the first one did, so of it the end alone is compared.
    """
    turns, decisions = baseline
    now = turns_of(record, house)
    for name, wanted in turns.items():
        went = now.get(name, [])
        if any(tries > 1 and name.startswith(said) for said, tries in user.memory.tries.items()):
            went, wanted = went[-1:], wanted[-1:]
        if went != wanted:
            yield f"{name!r} went otherwise than without a kill: {went} instead of {wanted}"
    if decisions_of(record) != decisions:
        yield f"decisions {decisions_of(record)} instead of {decisions}"


def check_ended(record: Record, house: House) -> Iterator[str]:
    """Everything that began has ended, on record and in the files."""
    state = record.folded().state
    if state.phase is not Phase.IDLE or state.applying or state.approvals:
        yield f"something is still under way: {state.phase}, {dict(state.applying)}, {dict(state.approvals)}"
    finished = {body["call_id"] for body in record.bodies("ToolExecutionFinished")}
    finished |= {call["call_id"] for body in record.bodies("TextErased") for call in body["calls"]}
    yield from (
        f"{body['call_id']} was proposed and never ended"
        for body in record.bodies("ToolCallProposed")
        if body["call_id"] not in finished
    )
    files, wanted = read_folder(house.root), house.job.files(house.witness)
    if files != wanted:
        yield f"the user's folder holds {files} instead of {wanted}"
    audit = verify_log(house.home / AUDIT_FILE)
    if not audit.ok or audit.losses:
        yield f"the audit log: {audit.reason} {audit.losses}"


def check_leftovers(record: Record, house: House) -> Iterator[str]:
    """No run folder, temporary file, staged file, mount or control group stays."""
    yield from (f"a run folder stays: {path.name}" for path in house.home.glob("runs/*/*"))
    yield from (f"a temporary file stays: {path.name}" for path in house.temporary.iterdir())
    yield from (
        f"a staged file stays: {path.relative_to(house.folder)}"
        for path in house.folder.rglob(f"{STAGED}*")
        if path.parent != house.folder
    )
    mounts = Path("/proc/self/mountinfo").read_text()
    if str(house.folder) in mounts:
        yield "a mount stays"
    calls = {body["call_id"] for body in record.bodies("ToolExecutionStarted")}
    yield from (
        f"a control group stays: {path}"
        for kind in ("", "memory", "pids")
        for path in Path("/sys/fs/cgroup", kind).glob("gloveport-*")
        if any(call_id in path.name for call_id in calls)
    )


def reap() -> None:
    """Take leave of ended children; this process adopts what a dead daemon leaves (it is the subreaper)."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return


def children(but: int) -> dict[int, str]:
    """Processes of which this one is the parent and that still live, by pid; the one that belongs here left out."""
    reap()
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == but:
            continue
        try:
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if int(parent) == os.getpid() and state != "Z":
            found[int(entry.name)] = line
    return found


def check_orphans(nursery: int) -> Iterator[str]:
    """Nothing that a daemon started outlives the work: every orphan is a child of this process."""
    deadline = time.monotonic() + LEAVE_S
    while (left := children(nursery)) and time.monotonic() < deadline:
        time.sleep(0.01)
    yield from (f"process {pid} stays: {line}" for pid, line in left.items())
