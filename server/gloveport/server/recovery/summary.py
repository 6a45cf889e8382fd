"""What a restart found, in words.

Purpose: one summary for the user: what goes on, what is unknown, what to do.
Invariant: every finding has an item; the text is the items' words.
Must never: say that something did not happen when nobody knows.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from gloveport.protocol.journal.events import RecoveredItem, RecoverySummarised
from gloveport.protocol.text import counted
from gloveport.server.engine.tool_run import REPEATABLE
from gloveport.server.journal.records import Loss
from gloveport.server.recovery.findings import Drift, Findings
from gloveport.server.session.state import Call, SessionState
from gloveport.server.turn.inputs import CallReconciled
from gloveport.server.turn.restart import RESTARTS_PER_ANSWER_MAX

PATHS_TOLD_MAX: Final = 5
_BEGIN: Final = "The daemon was started again."
_CALLS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "succeeded": "had ended well",
        "failed": "had ended with a failure",
        "still_running": "was still running and is followed again",
        "not_started": "had not begun",
        "unknown": "has an unknown outcome and was not run again",
    }
)
_LOOK: Final = "Look whether it took effect, then say so in a message; the agent goes on from there."


def summarise(state: SessionState, findings: Findings, loss: Loss | None, mended: str = "") -> RecoverySummarised:
    """The summary of findings about a state, as it was before they were acted on; `mended` tells of its worktree."""
    items = tuple(_items(state, findings, loss))
    if mended:
        items = (*items, RecoveredItem(kind="fault", ref="", outcome="mended", text=mended, next=""))
    return RecoverySummarised(
        interrupted_requests=int(findings.request is not None),
        reconciled_calls=len(findings.calls),
        pending_approvals=len(findings.cards),
        unfinished_applies=len(state.applying),
        text=" ".join([_BEGIN, *(f"{item.text} {item.next}".strip() for item in items)]),
        items=items,
    )


def _items(state: SessionState, findings: Findings, loss: Loss | None) -> Iterator[RecoveredItem]:
    yield from _request(state, findings)
    for finding in findings.calls:
        yield _call(state.call(finding.call_id), finding)
    yield from _cards(findings)
    for apply_id in state.applying:
        words = "An unfinished write into your files is looked at by comparing hashes."
        yield RecoveredItem(kind="apply", ref=apply_id, outcome="compared", text=words, next="")
    if findings.drift is not None:
        yield from _drift(findings.drift)
    if loss is not None:
        yield _loss(loss, under_way=state.turn is not None)


def _request(state: SessionState, findings: Findings) -> Iterator[RecoveredItem]:
    turn, request = state.turn, findings.request
    if turn is not None and turn.retry is not None:
        words = "The pause before the model is asked again goes on."
        yield RecoveredItem(kind="request", ref=turn.retry.request_id, outcome="waits", text=words, next="")
    if turn is not None and turn.compaction is not None:
        words = "Shortening what the model is shown was broken off; it left nothing and is made again from the whole."
        yield RecoveredItem(kind="request", ref=turn.compaction, outcome="made_again", text=words, next="")
    if turn is None or request is None:
        return
    kept = "the text that had arrived is kept and marked"
    if turn.cancelled_by is not None:
        outcome, words, hint = "stopped", f"The answer broke off; {kept}.", ""
    elif turn.restarts >= RESTARTS_PER_ANSWER_MAX:
        words = f"The answer broke off {turn.restarts + 1} times in a row; {kept}, and it is not asked for again."
        outcome, hint = "given_up", "Send a message to go on."
    else:
        twice = "" if request.fate == "never_accepted" else " (its provider may count it twice)"
        outcome, words, hint = "asked_again", f"The answer broke off; {kept}. It is asked for again{twice}.", ""
    yield RecoveredItem(kind="request", ref=request.request_id, outcome=outcome, text=words, next=hint)


def _call(call: Call | None, finding: CallReconciled) -> RecoveredItem:
    title = call.started.title if call is not None and call.started is not None else "A call"
    repeated = call is not None and call.started is not None and call.started.recovery in REPEATABLE
    words = "is made again" if repeated else _CALLS[finding.finding]
    hint = _LOOK if finding.finding == "unknown" else ""
    text = f"{title}: it {words} ({finding.evidence})."
    return RecoveredItem(kind="call", ref=finding.call_id, outcome=finding.finding, text=text, next=hint)


def _cards(findings: Findings) -> Iterator[RecoveredItem]:
    for card in findings.cards:
        if card.holds is False:
            outcome, words = "asked_again", "What a question showed has changed meanwhile: it is asked anew."
        elif card.holds:
            outcome, words = "waits", "A question still waits for your answer."
        else:
            outcome = "waits"
            words = "A question still waits; what it shows could not be checked now, and is when you answer."
        yield RecoveredItem(kind="approval", ref=card.approval_id, outcome=outcome, text=words, next="")


def _drift(drift: Drift) -> Iterator[RecoveredItem]:
    if drift.failure:
        words = f"Your folder could not be looked at: {drift.failure}."
        yield RecoveredItem(kind="drift", ref="", outcome="unknown", text=words, next="")
    elif drift.total:
        more = f" and {drift.total - PATHS_TOLD_MAX} more" if drift.total > PATHS_TOLD_MAX else ""
        words = f"Changed in your folder meanwhile: {', '.join(drift.paths[:PATHS_TOLD_MAX])}{more}."
        hint = "The agent gets it when the next turn begins."
        yield RecoveredItem(kind="drift", ref="", outcome="changed", text=words, next=hint)


def _loss(loss: Loss, *, under_way: bool) -> RecoveredItem:
    ended = " The turn that was under way is ended." if under_way else ""
    words = (
        f"Lost or set aside as damaged: {counted(loss.events, 'recorded event')} of this session from number"
        f" {loss.from_seq} on: {loss.reason}. What is shown here ends before them.{ended}"
    )
    return RecoveredItem(kind="loss", ref="", outcome="lost", text=words, next="Look at your files before you go on.")
