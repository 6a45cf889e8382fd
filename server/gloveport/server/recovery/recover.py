"""One session after a restart.

Purpose: find out the fate of its model request, its running calls and its unfinished applies, and tell the user.
Invariant: findings are read-only; the summary is written before the turn goes on.
Must never: start anything by itself; what is due is returned as effects.
"""

from types import MappingProxyType
from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal.events import RecoverySummarised
from gloveport.server.engine.actor import Actor
from gloveport.server.engine.apply_run import settle_apply
from gloveport.server.engine.tool_run import reconcile_call, workspace_label
from gloveport.server.session.state import CallStage, SessionState
from gloveport.server.turn.effects import Effect
from gloveport.server.turn.inputs import CallReconciled, Input, RequestFailed, ToolEnded
from gloveport.server.turn.machine import pending_effects

_HINT = "What arrived is kept. Send a message to go on."
_WORDS: Final = MappingProxyType(
    {
        "succeeded": "had ended well",
        "failed": "had ended with a failure",
        "still_running": "was still running and is followed again",
        "not_started": "had not begun",
        "unknown": "has an unknown outcome and was not run again",
    }
)


def needs_recovery(state: SessionState) -> bool:
    """Whether something was under way when the session was last written."""
    return state.turn is not None or bool(state.applying)


async def recover(actor: Actor) -> tuple[Effect, ...]:
    """Settle what was under way; returns the effects with which the session goes on."""
    state = actor.state
    if state.read_only or not needs_recovery(state):
        return ()
    findings = await _findings(actor)
    await actor.record((_summary(state, findings),))
    effects: list[Effect] = []
    for started in tuple(state.applying.values()):
        effects += await settle_apply(actor, started)
    if state.turn is not None and state.turn.request is not None:
        words = "the daemon ended while the answer was streaming"
        given = RequestFailed(state.turn.request.request_id, ErrorCode.MODEL_BROKEN, words, _HINT)
        effects += await actor.submit(given)
    for finding in findings:
        effects += await actor.submit(_input(actor.state, finding))
    effects += [effect for effect in pending_effects(actor.state) if effect not in effects]
    return tuple(effects)


async def _findings(actor: Actor) -> tuple[CallReconciled, ...]:
    turn = actor.state.turn
    running = [call for call in turn.calls if call.stage is CallStage.RUNNING] if turn is not None else []
    return tuple([await reconcile_call(actor, call) for call in running])


def _input(state: SessionState, finding: CallReconciled) -> Input:
    stopped = state.turn is not None and state.turn.cancelled_by is not None
    if not stopped or finding.finding != "not_started":
        return finding
    return ToolEnded(
        call_id=finding.call_id,
        outcome="cancelled",
        text="Stopped by the user before it began.",
        evidence=finding.evidence,
        exit_code=None,
        output_blob=None,
        output_bytes=0,
        duration_us=None,
        label=workspace_label(state),
    )


def _summary(state: SessionState, findings: tuple[CallReconciled, ...]) -> RecoverySummarised:
    interrupted = int(state.turn is not None and state.turn.request is not None)
    words = ["The daemon was started again."]
    if interrupted:
        words.append("The answer broke off; the text that had arrived is kept and marked.")
    tools = {call.call_id: call.tool for call in state.turn.calls} if state.turn is not None else {}
    words += [f"{tools.get(item.call_id, 'A call')} {_WORDS[item.finding]} ({item.evidence})." for item in findings]
    if state.approvals:
        words.append(f"{len(state.approvals)} question(s) still wait for your answer.")
    if state.applying:
        words.append("An unfinished write into your files is looked at by comparing hashes.")
    return RecoverySummarised(
        interrupted_requests=interrupted,
        reconciled_calls=len(findings),
        pending_approvals=len(state.approvals),
        unfinished_applies=len(state.applying),
        text=" ".join(words),
    )
