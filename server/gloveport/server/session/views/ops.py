"""What one event does to the view.

Purpose: map an event to `upsert`, `append` and `reset` operations on items with ids that the event itself names.
Invariant: a function of one event alone; applying an event's operations twice gives the same view.
Must never: need an earlier event, a clock or the state.

Operations (JSON objects):
    {"op": "upsert", "item": id, "kind": kind, "fields": {...}}   create at the end if absent; set the named fields
    {"op": "append", "item": id, "field": name, "offset": n, "text": s}   offset in UTF-16 units of the field so far
    {"op": "reset"}   forget everything before
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from gloveport.protocol.journal import events as ev
from gloveport.server.session.fold_labels import erased_result
from gloveport.server.session.views.ops_retry import RETRY_PROJECTORS

Op = dict[str, Any]


def upsert(item: str, kind: str, **fields: Any) -> Op:
    """Create or set the named fields of an item."""
    return {"op": "upsert", "item": item, "kind": kind, "fields": fields}


def append(item: str, field: str, offset: int, text: str) -> Op:
    """Append `text` to a text field at `offset` UTF-16 units."""
    return {"op": "append", "item": item, "field": field, "offset": offset, "text": text}


def _session(body: ev.SessionCreated) -> tuple[Op, ...]:
    fields = {
        "title": body.title,
        "root": body.root,
        "sandbox": body.sandbox,
        "trustLevel": body.trust_level,
        "model": body.model_label,
        "goalRevision": 0,
    }
    return (upsert("session", "session", **fields),)


def _renamed(body: ev.SessionRenamed) -> tuple[Op, ...]:
    return (upsert("session", "session", title=body.title),)


def _sandbox(body: ev.SandboxChosen) -> tuple[Op, ...]:
    return (upsert("session", "session", sandbox=body.sandbox, trustLevel=body.trust_level),)


def _model(body: ev.ModelSelected) -> tuple[Op, ...]:
    return (upsert("session", "session", model=body.model_label),)


def _budget(body: ev.BudgetSet) -> tuple[Op, ...]:
    tokens = {"turnTokensMax": body.turn_tokens, "sessionTokensMax": body.session_tokens}
    money = {"turnNanoUsdMax": body.turn_nano_usd, "sessionNanoUsdMax": body.session_nano_usd}
    return (upsert("session", "session", **tokens, **money),)


def _mode(body: ev.ModeChosen) -> tuple[Op, ...]:
    return (upsert("session", "session", mode=body.mode),)


def _rules(body: ev.SessionRulesSet) -> tuple[Op, ...]:
    return (upsert("session", "session", rules=list(body.ids)),)


def _goal(body: ev.GoalRevised) -> tuple[Op, ...]:
    return (upsert("session", "session", goalRevision=body.goal_revision),)


def _message(body: ev.UserMessageAdded) -> tuple[Op, ...]:
    fields = {"text": body.text, "state": "delivered", "turnId": body.turn_id, "goalRevision": body.goal_revision}
    return (upsert(f"message/{body.message_id}", "message.user", **fields),)


def _queued(body: ev.UserMessageQueued) -> tuple[Op, ...]:
    return (upsert(f"message/{body.message_id}", "message.user", text=body.text, state="queued"),)


def _unqueued(body: ev.UserMessageUnqueued) -> tuple[Op, ...]:
    fields = {"text": body.text, "state": "returned", "reason": body.reason}
    return (upsert(f"message/{body.message_id}", "message.user", **fields),)


def _edited(body: ev.UserMessageEdited) -> tuple[Op, ...]:
    return (upsert(f"message/{body.message_id}", "message.user", text=body.text),)


def _steered(body: ev.SteeringDecided) -> tuple[Op, ...]:
    read = {"verb": body.verb, "steeringKind": body.kind, "chosenBy": body.chosen_by, "rule": body.rule}
    effects = {"stream": body.stream, "plan": body.plan, "queue": body.queue, "delivery": body.delivery}
    fates = {fate.call_id: fate.fate for fate in body.calls}
    turn = {"turnId": body.turn_id, "goalRevision": body.goal_revision, "words": body.words, "by": body.by}
    return (
        upsert(f"message/{body.message_id}", "message.user", text=body.text, state="steered", steeringKind=body.kind),
        upsert(f"steering/{body.message_id}", "steering", **read, **effects, calls=fates, **turn),
    )


def _turn_started(body: ev.TurnStarted) -> tuple[Op, ...]:
    return (upsert(f"turn/{body.turn_id}", "turn", state="running", goalRevision=body.goal_revision),)


def _turn_completed(body: ev.TurnCompleted) -> tuple[Op, ...]:
    return (upsert(f"turn/{body.turn_id}", "turn", state="completed", reason=body.reason),)


def _turn_failed(body: ev.TurnFailed) -> tuple[Op, ...]:
    fields = {"state": "failed", "code": body.code, "message": body.message, "hint": body.hint}
    return (upsert(f"turn/{body.turn_id}", "turn", **fields),)


def _stopping(body: ev.TurnCancelRequested) -> tuple[Op, ...]:
    return (upsert(f"turn/{body.turn_id}", "turn", state="stopping", stoppedBy=body.by),)


def _turn_cancelled(body: ev.TurnCancelled) -> tuple[Op, ...]:
    return (upsert(f"turn/{body.turn_id}", "turn", state="cancelled", stoppedBy=body.by),)


def _request(body: ev.ModelRequestStarted) -> tuple[Op, ...]:
    fields = {"text": "", "state": "streaming", "model": f"{body.provider}/{body.model}", "turnId": body.turn_id}
    return (upsert(f"answer/{body.request_id}", "message.assistant", **fields),)


def _text(body: ev.ModelTextDelta) -> tuple[Op, ...]:
    return (append(f"answer/{body.request_id}", "text", body.offset, body.text),)


def _response(body: ev.ModelResponseReceived) -> tuple[Op, ...]:
    fields = {"text": body.text, "state": "done", "stop": body.stop}
    return (upsert(f"answer/{body.request_id}", "message.assistant", **fields),)


def _interrupted(body: ev.ModelStreamInterrupted) -> tuple[Op, ...]:
    fields = {"state": "interrupted", "code": body.code, "reason": body.reason}
    return (upsert(f"answer/{body.request_id}", "message.assistant", **fields),)


def _usage(body: ev.UsageRecorded) -> tuple[Op, ...]:
    fields = {"inputTokens": body.input_tokens, "outputTokens": body.output_tokens, "cachedTokens": body.cached_tokens}
    return (upsert(f"answer/{body.request_id}", "message.assistant", **fields),)


def _proposed(body: ev.ToolCallProposed) -> tuple[Op, ...]:
    fields = {"tool": body.tool, "arguments": body.arguments_json, "state": "proposed", "output": ""}
    return (upsert(f"tool/{body.call_id}", "tool", turnId=body.turn_id, goalRevision=body.goal_revision, **fields),)


def _decided(body: ev.PolicyDecided) -> tuple[Op, ...]:
    fields = {"verdict": body.verdict, "risk": body.risk, "reason": body.reason, "rules": list(body.rule_ids)}
    return (upsert(f"tool/{body.call_id}", "tool", **fields),)


def _asked(body: ev.ApprovalRequested, seq: int, at: int) -> tuple[Op, ...]:
    fields = {"callId": body.call_id, "card": body.card, "cardDigest": body.card_digest, "state": "pending"}
    asked = {"expiresAt": body.expires_at, "askedSeq": seq, "askedAt": at}
    return (
        upsert(f"approval/{body.approval_id}", "approval", **asked, **fields),
        upsert(f"tool/{body.call_id}", "tool", state="waiting"),
    )


def _answered(body: ev.ApprovalResolved, seq: int, at: int) -> tuple[Op, ...]:
    fields = {"state": body.decision, "by": body.by, "scope": body.scope, "grantId": body.grant_id}
    return (
        upsert(f"approval/{body.approval_id}", "approval", answeredSeq=seq, answeredAt=at, **fields),
        upsert(f"tool/{body.call_id}", "tool", state="proposed", answer=body.decision, answeredBy=body.by),
    )


def _grant(body: ev.GrantIssued) -> tuple[Op, ...]:
    return (upsert(f"grant/{body.grant_id}", "grant", scope=body.scope, sentence=body.sentence, state="in force"),)


def _grant_used(body: ev.GrantUsed) -> tuple[Op, ...]:
    state = "used up" if body.uses_left == 0 else "in force"
    return (upsert(f"grant/{body.grant_id}", "grant", usesLeft=body.uses_left, state=state),)


def _grant_revoked(body: ev.GrantRevoked) -> tuple[Op, ...]:
    return (upsert(f"grant/{body.grant_id}", "grant", state="revoked", reason=body.reason),)


def _started(body: ev.ToolExecutionStarted) -> tuple[Op, ...]:
    fields = {"title": body.title, "state": "running", "executor": body.executor, "grantId": body.grant_id}
    return (upsert(f"tool/{body.call_id}", "tool", **fields),)


def _progress(body: ev.ToolExecutionProgress) -> tuple[Op, ...]:
    return (append(f"tool/{body.call_id}", "output", body.offset, body.text),)


def _finished(body: ev.ToolExecutionFinished) -> tuple[Op, ...]:
    fields = {
        "state": body.outcome,
        "result": body.text,
        "evidence": body.evidence,
        "exitCode": body.exit_code,
        "outputBytes": body.output_bytes,
        "durationUs": body.duration_us,
    }
    return (upsert(f"tool/{body.call_id}", "tool", **fields),)


def _tool_stopping(body: ev.ToolStopRequested) -> tuple[Op, ...]:
    return (upsert(f"tool/{body.call_id}", "tool", stopping=body.manner, stopWords=body.words),)


def _late(body: ev.ResultSuperseded) -> tuple[Op, ...]:
    return (upsert(f"tool/{body.call_id}", "tool", late=True, leftOut=list(body.left_out)),)


def _tests(body: ev.TestRunFinished) -> tuple[Op, ...]:
    fields = body.model_dump(mode="json", exclude={"call_id", "turn_id", "goal_revision", "cases_left_out"})
    return (upsert(f"tests/{body.call_id}", "tests", casesLeftOut=body.cases_left_out, **fields),)


def _egress(body: ev.EgressRecorded) -> tuple[Op, ...]:
    places = [place.model_dump(mode="json") for place in body.places]
    return (upsert(f"tool/{body.call_id}", "tool", egress=places, egressLeftOut=body.left_out),)


def _released(body: ev.ReleaseIssued) -> tuple[Op, ...]:
    place = {"scheme": body.scheme, "host": body.host, "port": body.port}
    release = {**place, "sha256": body.payload_blob, "bytes": body.payload_bytes, "expiresAt": body.expires_at}
    return (upsert(f"approval/{body.approval_id}", "approval", release=release),)


def _release_used(body: ev.ReleaseUsed) -> tuple[Op, ...]:
    return (upsert(f"tool/{body.call_id}", "tool", released=body.payload_digest),)


def _suspected(body: ev.InjectionSuspected) -> tuple[Op, ...]:
    hints = [hint.model_dump(mode="json") for hint in body.hints]
    return (upsert(f"tool/{body.call_id}", "tool", hints=hints, hintsLeftOut=body.left_out),)


def _artifact(body: ev.ArtifactSuspected) -> tuple[Op, ...]:
    parts = {name: [one.model_dump(mode="json") for one in getattr(body, name)] for name in ("secrets", "hints")}
    suspected = {**parts, "leftOut": body.left_out, "lookedAt": body.looked_at}
    return (upsert(f"change/{body.change_id}", "change", suspected=suspected),)


def _unseen(body: ev.CopyUnseen) -> tuple[Op, ...]:
    return (upsert(f"tool/{body.call_id}", "tool", unseen=body.files, unseenPaths=list(body.paths)),)


def _plan(body: ev.PlanUpdated) -> tuple[Op, ...]:
    return (upsert("plan", "plan", items=[item.model_dump(mode="json") for item in body.items]),)


def _snapshot(body: ev.SnapshotTaken) -> tuple[Op, ...]:
    fields = {"files": body.files, "bytes": body.bytes_total, "notCovered": list(body.not_covered)}
    return (upsert(f"snapshot/{body.snapshot_id}", "snapshot", **fields),)


def _change(body: ev.ChangeProposed) -> tuple[Op, ...]:
    fields = {
        "path": body.path,
        "renamedFrom": body.renamed_from,
        "changeKind": body.kind,
        "baseHash": body.base_hash,
        "resultHash": body.result_hash,
        "digest": body.digest,
        "hunks": [hunk.model_dump(mode="json") for hunk in body.hunks],
        "runsByItself": body.runs_by_itself,
        "state": "pending",
        "reason": "",
    }
    return (upsert(f"change/{body.change_id}", "change", **fields),)


def _withdrawn(body: ev.ChangeWithdrawn) -> tuple[Op, ...]:
    return (upsert(f"change/{body.change_id}", "change", state=body.reason, hunks=[]),)


def _hunks(body: ev.HunkDecided) -> tuple[Op, ...]:
    fields = {"path": body.path, "hunks": list(body.digests), "decision": body.decision, "by": body.by}
    key = f"decision/{body.change_id}/{body.decision}/{body.digests[0][:16] if body.digests else 'all'}"
    return (upsert(key, "decision", **fields),)


def _apply_started(body: ev.ChangeApplyStarted) -> tuple[Op, ...]:
    return (upsert(f"apply/{body.apply_id}", "apply", action=body.action, state="writing", by=body.by),)


def _applied(body: ev.ChangeApplied) -> tuple[Op, ...]:
    return (upsert(f"apply/{body.apply_id}", "apply", action=body.action, state="done", paths=list(body.paths)),)


def _refused(body: ev.ChangeRefused) -> tuple[Op, ...]:
    fields = {"action": body.action, "state": "refused", "code": body.code, "message": body.message}
    return (upsert(f"apply/{body.apply_id}", "apply", paths=list(body.paths), **fields),)


def _edits(body: ev.EditsTaken) -> tuple[Op, ...]:
    fields = {"conflicted": list(body.conflicted), "notCovered": list(body.not_covered), "text": body.text}
    return (upsert(f"edits/{body.turn_id}", "edits", taken=list(body.taken), **fields),)


def _unsettled(body: ev.ChangeUnsettled) -> tuple[Op, ...]:
    fields = {"state": "unknown" if body.waits else "unsettled", "code": body.code, "message": body.message}
    states = {state.path: state.holds for state in body.states}
    more = {"paths": sorted(states), "states": states}
    return (upsert(f"apply/{body.apply_id}", "apply", action=body.action, **fields, **more),)


def _reconciled(body: ev.ToolReconciled) -> tuple[Op, ...]:
    return (upsert(f"tool/{body.call_id}", "tool", finding=body.finding, evidence=body.evidence),)


def _told(body: ev.OutcomeTold) -> tuple[Op, ...]:
    return (upsert(f"tool/{body.call_id}", "tool", said=body.said, saidBy=body.by),)


def _request_reconciled(body: ev.ModelRequestReconciled) -> tuple[Op, ...]:
    fields = {"fate": body.fate, "mayBeBilled": body.may_be_billed, "evidence": body.evidence}
    return (upsert(f"answer/{body.request_id}", "message.assistant", **fields),)


def _drift(body: ev.DriftDetected) -> tuple[Op, ...]:
    return (upsert("drift", "drift", paths=list(body.paths), pathsTotal=body.paths_total),)


def _faults(body: ev.FaultsFound) -> tuple[Op, ...]:
    return (upsert("faults", "faults", findings=list(body.findings), readOnly=body.read_only),)


def _erased(body: ev.TextErased) -> tuple[Op, ...]:
    told = upsert(f"erasure/{body.erase_id}", "erasure", events=body.events, outputs=body.outputs, by=body.by)
    ends = {one.call_id: one.outcome for one in body.calls}
    return (told, *(upsert(f"tool/{name}", "tool", state=end, result=erased_result(end)) for name, end in ends.items()))


def _frozen(body: ev.SessionFrozen) -> tuple[Op, ...]:
    fields = {"state": "frozen", "callId": body.call_id, "evidence": body.evidence, "words": body.words}
    return (
        upsert(f"freeze/{body.freeze_id}", "freeze", **fields),
        upsert("session", "session", frozen=True),
    )


def _thawed(body: ev.SessionThawed) -> tuple[Op, ...]:
    return (
        upsert(f"freeze/{body.freeze_id}", "freeze", state="thawed", by=body.by),
        upsert("session", "session", frozen=False),
    )


def _recovered(body: ev.RecoverySummarised) -> tuple[Op, ...]:
    return (upsert("recovery", "recovery", **body.model_dump(mode="json")),)


_PROJECTORS: Final[Mapping[type[ev.EventBody], Callable[[Any], tuple[Op, ...]]]] = MappingProxyType(
    {
        ev.SessionCreated: _session,
        ev.SessionRenamed: _renamed,
        ev.SandboxChosen: _sandbox,
        ev.ModelSelected: _model,
        ev.BudgetSet: _budget,
        ev.ModeChosen: _mode,
        ev.SessionRulesSet: _rules,
        ev.GoalRevised: _goal,
        ev.UserMessageAdded: _message,
        ev.UserMessageQueued: _queued,
        ev.UserMessageUnqueued: _unqueued,
        ev.UserMessageEdited: _edited,
        ev.SteeringDecided: _steered,
        ev.TurnStarted: _turn_started,
        ev.TurnCompleted: _turn_completed,
        ev.TurnFailed: _turn_failed,
        ev.TurnCancelRequested: _stopping,
        ev.TurnCancelled: _turn_cancelled,
        ev.ModelRequestStarted: _request,
        ev.ModelTextDelta: _text,
        ev.ModelResponseReceived: _response,
        ev.ModelStreamInterrupted: _interrupted,
        ev.UsageRecorded: _usage,
        ev.ToolCallProposed: _proposed,
        ev.PolicyDecided: _decided,
        ev.GrantIssued: _grant,
        ev.GrantUsed: _grant_used,
        ev.GrantRevoked: _grant_revoked,
        ev.ToolExecutionStarted: _started,
        ev.ToolExecutionProgress: _progress,
        ev.ToolExecutionFinished: _finished,
        ev.ToolStopRequested: _tool_stopping,
        ev.ResultSuperseded: _late,
        ev.TestRunFinished: _tests,
        ev.EgressRecorded: _egress,
        ev.ReleaseIssued: _released,
        ev.ReleaseUsed: _release_used,
        ev.InjectionSuspected: _suspected,
        ev.ArtifactSuspected: _artifact,
        ev.CopyUnseen: _unseen,
        ev.PlanUpdated: _plan,
        ev.SnapshotTaken: _snapshot,
        ev.ChangeProposed: _change,
        ev.ChangeWithdrawn: _withdrawn,
        ev.HunkDecided: _hunks,
        ev.ChangeApplyStarted: _apply_started,
        ev.ChangeApplied: _applied,
        ev.ChangeRefused: _refused,
        ev.ChangeUnsettled: _unsettled,
        ev.EditsTaken: _edits,
        ev.ToolReconciled: _reconciled,
        ev.OutcomeTold: _told,
        ev.ModelRequestReconciled: _request_reconciled,
        ev.DriftDetected: _drift,
        ev.FaultsFound: _faults,
        ev.TextErased: _erased,
        ev.SessionFrozen: _frozen,
        ev.SessionThawed: _thawed,
        ev.RecoverySummarised: _recovered,
        **RETRY_PROJECTORS,
    }
)


PLACED: Final[Mapping[type[ev.EventBody], Callable[[Any, int, int], tuple[Op, ...]]]] = MappingProxyType(
    {ev.ApprovalRequested: _asked, ev.ApprovalResolved: _answered}
)
"""Those whose items also say where in the log they stand, and when that was."""


def projector_of(body_type: type[ev.EventBody]) -> Callable[[Any], tuple[Op, ...]] | None:
    """What makes the operations of a type's bodies; null for one that no client sees, or that is `PLACED`."""
    return _PROJECTORS.get(body_type)


def erased_ops(type_name: str, seq: int) -> tuple[Op, ...]:
    """The operations of an event whose text was erased: an opaque item that says so."""
    return (upsert(f"opaque/{seq}", "opaque", type=type_name, erased=True),)


def project_ops(body: ev.EventBody | None, type_name: str, seq: int, at: int = 0) -> tuple[Op, ...]:
    """The operations of an event; one of a newer version (null body) becomes an opaque item that says so.

    `at` is when it was written, in UTC microseconds; 0 where that is not known.
    """
    if body is None:
        return (upsert(f"opaque/{seq}", "opaque", type=type_name),)
    placed = PLACED.get(type(body))
    if placed is not None:
        return placed(body, seq, at)
    projector = _PROJECTORS.get(type(body))
    return () if projector is None else projector(body)
