"""tool/why, tool/settle: why a call ended as it did, and what its user says of one whose outcome nobody knows.

Purpose: the handler that reads a call's record, and the one that takes the user's word.
Invariant: what is told stands in the journal.
Must never: judge anew.
"""

import re
from types import MappingProxyType
from typing import Final

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import session_stream
from gloveport.protocol.journal.events import (
    EgressPlace,
    EgressRecorded,
    EventBody,
    OutcomeTold,
    PolicyDecided,
    ToolCallProposed,
    ToolExecutionFinished,
    ToolExecutionStarted,
    ToolReconciled,
)
from gloveport.protocol.wire.turn import ToolSettleParams, ToolSettleResult, WhyParams, WhyResult
from gloveport.server.commands.house import House
from gloveport.server.commands.once import Once
from gloveport.server.engine.actor import Actor
from gloveport.server.engine.folding import body_of
from gloveport.server.engine.perform import start as start_effects
from gloveport.server.journal.records import ClientRequest
from gloveport.server.tools.contract import REFUSED
from gloveport.server.transports.port import Caller
from gloveport.server.turn.draft import Step
from gloveport.server.turn.inputs import TellOutcome

READ_EVENTS = 500
READ_BYTES = 4 * 1024 * 1024

_HINTS: Final = MappingProxyType(
    {
        "denied": "Allow it when asked, or ask for another way.",
        "timeout": "Give it more time, or narrow what it runs.",
        "oom": "It used more memory than its limit; narrow what it runs.",
        "policy": "The sandbox refused what it tried; see the evidence.",
        "lost": "Whether it took effect is unknown; look, then say what you found (tool/settle).",
        "unknown": "Whether it took effect is unknown; look, then say what you found (tool/settle).",
    }
)


_SAID: Final = MappingProxyType({"done": "treat it as done", "not_done": "it did not take effect"})
_REFUSED: Final = re.compile(re.escape(REFUSED) + r"([^,;]+)")


def _first_refused(evidence: str) -> str:
    found = _REFUSED.search(evidence)
    return "" if found is None else found.group(1).strip()


async def why(house: House, params: WhyParams, caller: Caller) -> WhyResult:
    """The decision, the evidence of the outcome, and what can be done."""
    actor = await house.sessions.open(params.session_id)
    found = await _facts_of(house, actor, params.call_id)
    if not found:
        raise GloveportError(
            ErrorCode.TOOL_UNKNOWN, f"there is no call {params.call_id!r} in this session", hint="See gloveport show."
        )
    tool = next((body.tool for body in found if isinstance(body, ToolCallProposed)), "")
    decisions = [
        f"{body.verdict} ({body.risk} risk): {body.reason} [{', '.join(body.rule_ids)}]"
        for body in found
        if isinstance(body, PolicyDecided)
    ]
    ended = [body for body in found if isinstance(body, ToolExecutionFinished)]
    notes = [f"{body.finding}: {body.evidence}" for body in found if isinstance(body, ToolReconciled)]
    said = [f"{_SAID[body.said]} (by {body.by})" for body in found if isinstance(body, OutcomeTold)]
    began = any(isinstance(body, ToolExecutionStarted) for body in found)
    outcome = ended[-1].outcome if ended else ("running" if began else "waiting")
    evidence = "; ".join([*notes, *(body.evidence for body in ended)])
    return WhyResult(
        call_id=params.call_id,
        tool=tool,
        decision=" then ".join(decisions) or "not judged yet",
        outcome=outcome,
        evidence=evidence,
        hint="" if said else _HINTS.get(outcome, ""),
        said=" ".join(said),
        first_refused=_first_refused(evidence),
        network=tuple(
            _place_words(place) for body in found if isinstance(body, EgressRecorded) for place in body.places
        ),
    )


async def settle(house: House, params: ToolSettleParams, caller: Caller, once: Once) -> ToolSettleResult:
    """Take the user's word for a call whose outcome nobody knows. Raises TURN_BUSY, TOOL_UNKNOWN."""
    actor = await house.sessions.open(params.session_id)
    told: list[ToolSettleResult] = []

    def answer(decided: Step) -> ClientRequest:
        told.extend(ToolSettleResult(text=body.text) for body in decided.events if isinstance(body, OutcomeTold))
        return once.request(told[0])

    given = TellOutcome(params.call_id, params.said, caller.client_name or "client")
    start_effects(actor, await actor.submit(given, answer))
    return told[0]


def _place_words(place: EgressPlace) -> str:
    where = f"{place.host}:{place.port}" if place.host else "a request that cannot be read"
    if not place.allowed:
        return f"blocked by sandbox: {where}, {place.attempts} times: {place.reason} (trace {place.trace_id})"
    sizes = f"{place.sent_bytes} bytes sent, {place.received_bytes} received"
    used = f", with the credential {', '.join(place.credentials)}" if place.credentials else ""
    return f"reached {where}, {place.attempts} times{used}: {sizes} (trace {place.trace_id})"


async def _facts_of(house: House, actor: Actor, call_id: str) -> list[EventBody]:
    stream, after = session_stream(actor.session_id), 0
    found: list[EventBody] = []
    while events := await house.sessions.room.journal.read(stream, after, READ_EVENTS, READ_BYTES):
        after = events[-1].seq
        for event in events:
            body = body_of(event)
            if body is not None and getattr(body, "call_id", None) == call_id:
                found.append(body)
    return found
