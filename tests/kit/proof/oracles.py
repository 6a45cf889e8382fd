"""What must hold after every death, whatever the moment.

Purpose: hold the record against what a client knows for good, what the witness saw and what the user's folder holds.
Invariant: each oracle is a pure look and returns complaints in words; no complaint means it holds.
Must never: excuse anything that the journal does not explain.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.kit.proof.record import Record
from tests.kit.proof.user import Memory
from tests.kit.proof.workload import RULED, SECRET

from gloveport.protocol.journal.envelope import CURSOR_DIGEST_CHARS, decode_cursor

TESTS_TOKEN: Final = "tested"
STAGED: Final = ".gloveport-"
"""Names of files that a decision under way stages beside the user's; none may be left when it has ended."""


def check_chain(record: Record) -> Iterator[str]:
    """Every stream follows from its beginning."""
    yield from record.broken


def check_answers(record: Record, memory: Memory) -> Iterator[str]:
    """Every answer that was given is recorded, as it was given."""
    for known in memory.acknowledged:
        name = str(getattr(known.params, "client_request_id", ""))
        recorded = record.answers.get(name)
        if recorded is not None and recorded["result"] != known.answer.model_dump(mode="json"):
            yield f"the answer of {known.method} ({name}) is recorded differently"
        nothing_done = known.method == "turn/cancel" and getattr(known.answer, "turn_id", None) is None
        if recorded is None and not nothing_done:
            yield f"the answer of {known.method} ({name}) was given and is not recorded"


def check_shown(record: Record, memory: Memory, *, durable_only: bool = False) -> Iterator[str]:
    """What was shown is there. After a power loss only what was called durable has to be."""
    cursors = {memory.durable} if durable_only else {*memory.cursors, memory.durable}
    for text in filter(None, cursors):
        cursor = decode_cursor(text)
        digest = record.digest_at(cursor.seq)
        if digest is None:
            yield f"event {cursor.seq} was shown and is gone; the record ends at {len(record.session)}"
        elif digest[:CURSOR_DIGEST_CHARS] != cursor.digest:
            yield f"event {cursor.seq} is another one than the one that was shown"
    types = {event.seq: event.type for event in record.session}
    for seq, known_type in memory.seqs.items():
        if not durable_only and types.get(seq) != known_type:
            yield f"event {seq} was shown as {known_type} and is {types.get(seq)}"


def started_tokens(record: Record) -> Counter[str]:
    """How often the intent to run each token is on record; tests have one token of their own."""
    arguments = {body["call_id"]: body["arguments_json"] for body in record.bodies("ToolCallProposed")}
    found: Counter[str] = Counter()
    for body in record.bodies("ToolExecutionStarted"):
        token = _token(body["tool"], arguments.get(body["call_id"], ""))
        if token:
            found[token] += 1
    return found


def _token(tool: str, arguments: str) -> str:
    if tool == "run_tests":
        return TESTS_TOKEN
    return str(json.loads(arguments)["argv"][2]) if tool == "run_command" else ""


def finished_tokens(record: Record, outcomes: frozenset[str]) -> Counter[str]:
    """How many runs of each token ended in one of these outcomes after they began."""
    arguments = {body["call_id"]: body["arguments_json"] for body in record.bodies("ToolCallProposed")}
    began = {body["call_id"] for body in record.bodies("ToolExecutionStarted")}
    found: Counter[str] = Counter()
    for body in record.bodies("ToolExecutionFinished"):
        if body["call_id"] in began and body["outcome"] in outcomes:
            found[_token(body["tool"], arguments.get(body["call_id"], ""))] += 1
    return found


def check_effects(record: Record, tokens: tuple[str, ...]) -> Iterator[str]:
    """The witness saw nothing without an intent on record, and nothing twice; what is called done was seen."""
    seen, intended = Counter(tokens), started_tokens(record)
    for token, times in seen.items():
        if times > intended[token]:
            yield f"{token} ran {times} times; the record holds {intended[token]} intents"
    for token, times in finished_tokens(record, frozenset({"ok"})).items():
        if token and seen[token] < times:
            yield f"{token} is recorded as done {times} times; the witness saw it {seen[token]} times"


def check_calls(record: Record) -> Iterator[str]:
    """A call begins at most once and ends at most once."""
    for type_name in ("ToolExecutionStarted", "ToolExecutionFinished"):
        for call_id, times in Counter(body["call_id"] for body in record.bodies(type_name)).items():
            if times > 1:
                yield f"{type_name} of {call_id} is recorded {times} times"


def check_grants(record: Record) -> Iterator[str]:
    """A right that holds once served one call, none was used more often than it says, and every use is on record."""
    once = {body["grant_id"] for body in record.bodies("GrantIssued") if body["scope"] == "once"}
    used = Counter((body["grant_id"], body["call_id"]) for body in record.bodies("GrantUsed"))
    served: Counter[str] = Counter()
    for body in record.bodies("ToolExecutionStarted"):
        if body["grant_id"] is None:
            continue
        served[body["grant_id"]] += 1
        if used[body["grant_id"], body["call_id"]] != 1:
            yield f"{body['call_id']} began on {body['grant_id']} and its use is not recorded"
    uses = Counter(body["grant_id"] for body in record.bodies("GrantUsed"))
    for body in record.bodies("GrantIssued"):
        name, most = body["grant_id"], body["grant"].get("uses_left")
        if most is not None and uses[name] > most:
            yield f"{name} holds for {most} uses and was used {uses[name]} times"
    yield from (f"{name} holds once and served {served[name]} calls" for name in once if served[name] > 1)


def check_labels(record: Record) -> Iterator[str]:
    """What was read is never forgotten: integrity only sinks, provenance only grows."""
    integrity, provenance = 0, frozenset[str]()
    for state in record.states():
        if state.label.integrity < integrity or not provenance <= set(state.label.provenance):
            yield f"the label was {integrity}, {sorted(provenance)} and became {state.label}"
        integrity, provenance = state.label.integrity, frozenset(state.label.provenance)


def check_settled(record: Record) -> Iterator[str]:
    """What the user said of a call that nobody knows is told once."""
    for call_id, times in Counter(body["call_id"] for body in record.bodies("OutcomeTold")).items():
        if times > 1:
            yield f"what became of {call_id} was told {times} times"


def check_ruled(record: Record) -> Iterator[str]:
    """From the rules of the session on nothing that they ask about begins without an answer."""
    ruled = False
    arguments = {body["call_id"]: body["arguments_json"] for body in record.bodies("ToolCallProposed")}
    for event in record.session:
        ruled = ruled or event.type == "SessionRulesSet"
        if not ruled or event.type != "ToolExecutionStarted" or event.erased is not None:
            continue
        body = json.loads(event.payload)
        if body["tool"] == "write_file" and RULED in arguments.get(body["call_id"], "") and body["grant_id"] is None:
            yield f"{body['call_id']} began without an answer although a rule asks"


def check_erased(record: Record) -> Iterator[str]:
    """A text is erased whole, with the fact that says so, or not at all."""
    facts = [event.seq for event in record.session if event.type == "TextErased"]
    erased = [event.seq for event in record.session if event.erased is not None]
    if erased and (not facts or max(erased) > max(facts)):
        yield f"events {erased} are erased and {facts} say so"
    pieces: dict[str, str] = {}
    for event in record.session[: max(facts, default=0)]:
        if SECRET.encode() in event.payload:
            yield f"event {event.seq} ({event.type}) holds the text and is before {facts}"
        if event.type == "ModelTextDelta" and event.erased is None:
            body = json.loads(event.payload)
            pieces[body["request_id"]] = pieces.get(body["request_id"], "") + body["text"]
    yield from (f"pieces of {name} hold the text" for name, text in pieces.items() if SECRET in text)


def check_gone(home: Path, text: str = SECRET) -> Iterator[str]:
    """No file of the daemon's holds what was erased."""
    for path in sorted(home.rglob("*")):
        if path.is_file() and not path.is_symlink() and text.encode() in path.read_bytes():
            yield f"{path.relative_to(home)} holds what was erased"


def text_hash(text: str) -> str:
    """SHA-256 as plans name contents."""
    return hashlib.sha256(text.encode()).hexdigest()


def _hash_in(state: list[Any] | None) -> str | None:
    return None if state is None else str(state[1])


def check_files(record: Record, base: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """Each of the user's files is what it was, or what a recorded decision makes of it."""
    may: dict[str, set[str | None]] = {path: {text_hash(text)} for path, text in base.items()}
    for body in record.bodies("ChangeApplyStarted"):
        for step in body["plan"]["steps"]:
            if step["side"] == "root":
                may.setdefault(step["path"], {None}).update({_hash_in(step["before"]), _hash_in(step["after"])})
    for path in sorted({*may, *now}):
        found = text_hash(now[path]) if path in now else None
        if path not in may and not path.split("/")[-1].startswith(STAGED):
            yield f"{path} appeared in the user's folder without a decision"
        elif path in may and found not in may[path]:
            yield f"{path} of the user holds what nobody decided"


def check_death(
    record: Record, memory: Memory, tokens: tuple[str, ...], base: Mapping[str, str], now: Mapping[str, str]
) -> list[str]:
    """Everything that must hold at once after any death."""
    return [
        *check_chain(record),
        *check_answers(record, memory),
        *check_shown(record, memory),
        *check_effects(record, tokens),
        *check_calls(record),
        *check_grants(record),
        *check_labels(record),
        *check_settled(record),
        *check_ruled(record),
        *check_erased(record),
        *check_files(record, base, now),
    ]
