"""A session in words, for reading and passing on.

Purpose: what was said, done, asked, changed and how it ended, as Markdown or plain text, block by block.
Invariant: the blocks of a session are the same however its events are handed in; what broke off is marked as such.
Must never: let what a tool printed close the fence it stands in, or leave an event of a newer version unmentioned.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal

from gloveport.protocol.journal import events as ev
from gloveport.protocol.text import counted
from gloveport.server.session.views.held import is_held_back
from gloveport.server.session.views.placed import Placed, all_but

Format = Literal["markdown", "plain"]
RESULT_CHARS_MAX: Final = 2_000
"""Of a longer result head and tail are shown."""
TITLE_CHARS_MAX: Final = 60
"""Of the first message, where it names the session."""
_TICKS: Final = re.compile("`{3,}")
_ANSWERS: Final = MappingProxyType({"superseded": "no longer asked", "withdrawn": "not needed any more"})
_LEVELS: Final = MappingProxyType({"unset": "trust not chosen yet"})
_MARKS: Final = MappingProxyType({"done": "x", "running": "~", "dropped": "-", "superseded": "-"})
_APPLIED: Final = MappingProxyType(
    {
        "accept": "written into your files",
        "reject": "dropped from the agent's copy",
        "undo": "decision taken back",
        "redo": "decision taken again",
        "restore": "put back to an earlier state",
    }
)


def shortened(text: str) -> str:
    """Head and tail of a long text, with the count of what is left out."""
    if len(text) <= RESULT_CHARS_MAX:
        return text
    half = RESULT_CHARS_MAX // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"


def fenced(text: str) -> str:
    """A text between fences that it cannot close."""
    longest = max((len(run) for run in _TICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text.rstrip()}\n{fence}"


class TranscriptProjection:
    """Tells a session block by block; holds one answer's text and what was not taken away yet."""

    by_name: ClassVar[frozenset[str]] = all_but(
        ev.SessionCreated,
        ev.UserMessageAdded,
        ev.SteeringDecided,
        ev.RetryScheduled,
        ev.ContextCompacted,
        ev.ToolStopRequested,
        ev.ResultSuperseded,
        ev.ModelRequestStarted,
        ev.ModelTextDelta,
        ev.ModelResponseReceived,
        ev.ModelStreamInterrupted,
        ev.ToolExecutionStarted,
        ev.ToolExecutionFinished,
        ev.ApprovalRequested,
        ev.ApprovalResolved,
        ev.TestRunFinished,
        ev.EgressRecorded,
        ev.InjectionSuspected,
        ev.ArtifactSuspected,
        ev.CopyUnseen,
        ev.PlanUpdated,
        ev.ChangeProposed,
        ev.HunkDecided,
        ev.ChangeApplied,
        ev.ChangeRefused,
        ev.ChangeUnsettled,
        ev.EditsTaken,
        ev.DriftDetected,
        ev.FaultsFound,
        ev.OutcomeTold,
        ev.TextErased,
        ev.SessionRulesSet,
        ev.SessionFrozen,
        ev.SessionThawed,
        ev.RecoverySummarised,
        ev.TurnFailed,
        ev.TurnCancelled,
    )

    def __init__(self, form: Format = "markdown") -> None:
        self._form = form
        self._blocks: list[str] = []
        self._size = 0
        self._pieces: list[str] = []
        self._titles: dict[str, str] = {}
        self._begun: ev.SessionCreated | None = None
        """Not told yet: the first message names a session whose title is its folder's name alone."""

    def take(self, event: Placed) -> None:
        """Take one more event in."""
        body = event.body
        if isinstance(body, ev.ModelTextDelta):
            self._pieces.append(body.text)
        elif event.erased:
            self._say("[what stood here was erased]")
        elif event.type in self.by_name:
            return
        elif body is None:
            self._say(f"[something that a newer version wrote: {event.type}]")
        elif (tell := _TELLERS.get(type(body))) is not None:
            self._tell(body, tell)

    def _tell(self, body: Any, tell: Callable[["TranscriptProjection", Any], Iterable[str]]) -> None:
        if self._begun is not None:
            self._say_begun(body.text if isinstance(body, ev.UserMessageAdded) else "")
        for block in tell(self, body):
            self._say(block)

    def _say_begun(self, message: str) -> None:
        begun, self._begun = self._begun, None
        for block in () if begun is None else self._heading(begun, message):
            self._say(block)

    def _say(self, block: str) -> None:
        if self._begun is not None:
            self._say_begun("")
        if block.strip():
            self._blocks.append(block.rstrip())
            self._size += len(block)

    def finish(self) -> str:
        """Everything told and not taken away yet."""
        begun = () if self._begun is None else self._heading(self._begun, "")
        return "".join(f"{block.rstrip()}\n\n" for block in (*begun, *self._blocks))

    def drain(self) -> str:
        """Take away what is told so far."""
        text = self.finish()
        self._blocks.clear()
        self._begun, self._size = None, 0
        return text

    @property
    def size(self) -> int:
        """Characters told and not taken away yet."""
        return self._size

    @property
    def at_rest(self) -> bool:
        """Whether the next event can be told without any that came before."""
        return not self._pieces and not self._titles and self._begun is None

    # --- how each thing is told

    def _head(self, words: str, level: int = 2) -> str:
        return f"{'#' * level} {words}" if self._form == "markdown" else words

    def _quoted(self, text: str) -> str:
        return fenced(text) if self._form == "markdown" else "\n".join(f"    {one}" for one in text.splitlines())

    def _created(self, body: ev.SessionCreated) -> Iterable[str]:
        self._begun = body
        return ()

    def _heading(self, body: ev.SessionCreated, message: str) -> Iterable[str]:
        is_folder = body.title == body.root.rpartition("/")[2]
        first = " ".join(message.split())[:TITLE_CHARS_MAX] if is_folder else ""
        yield self._head(first or body.title or "Session", 1)
        level = _LEVELS.get(body.trust_level, body.trust_level)
        yield f"{body.root} · {body.model_label} · sandbox {body.sandbox} · {level}"

    def _message(self, body: ev.UserMessageAdded) -> Iterable[str]:
        yield self._head("You")
        yield body.text

    def _steered(self, body: ev.SteeringDecided) -> Iterable[str]:
        yield f"You, to the running turn ({body.kind}): {body.text}"
        if body.words:
            yield f"[Gloveport: {body.words}]"

    def _retry(self, body: ev.RetryScheduled) -> Iterable[str]:
        if is_held_back(body):
            yield f"[not sent yet: {body.reason}]"
        else:
            yield f"[tried again: attempt {body.attempt} of {body.attempts_max}, {body.reason}]"

    def _compacted(self, body: ev.ContextCompacted) -> Iterable[str]:
        yield f"[{len(body.results)} results are shown to the model shortened from here on]"

    def _stop_asked(self, body: ev.ToolStopRequested) -> Iterable[str]:
        yield f"[{body.words}]"

    def _superseded(self, body: ev.ResultSuperseded) -> Iterable[str]:
        left = f" ({', '.join(body.left_out)} not taken)" if body.left_out else ""
        yield f"[this result came for an earlier goal and nothing follows from it{left}]"

    def _began(self, _body: ev.ModelRequestStarted) -> Iterable[str]:
        self._pieces = []
        return ()

    def _answer(self, body: ev.ModelResponseReceived) -> Iterable[str]:
        self._pieces = []
        if body.text.strip():
            yield self._head("Agent")
            yield body.text

    def _broken(self, body: ev.ModelStreamInterrupted) -> Iterable[str]:
        text, self._pieces = "".join(self._pieces), []
        if text.strip():
            yield self._head("Agent")
            yield text
        yield f"[the answer broke off: {body.reason}]"

    def _started(self, body: ev.ToolExecutionStarted) -> Iterable[str]:
        self._titles[body.call_id] = body.title
        return ()

    def _finished(self, body: ev.ToolExecutionFinished) -> Iterable[str]:
        title = self._titles.pop(body.call_id, "")
        yield f"▸ {body.tool}{f': {title}' if title else ''} · {body.outcome}"
        if body.text.strip():
            yield self._quoted(shortened(body.text))

    def _asked(self, body: ev.ApprovalRequested) -> Iterable[str]:
        yield f"? {body.card.get('title', 'May it?')}"

    def _resolved(self, body: ev.ApprovalResolved) -> Iterable[str]:
        words = _ANSWERS.get(body.decision, body.decision)
        yield f"→ {words}{f' ({body.scope})' if body.scope else ''} (by {body.by})"

    def _tests(self, body: ev.TestRunFinished) -> Iterable[str]:
        counts = f"{body.passed} passed, {body.failed} failed, {body.errors} errors, {body.skipped} skipped"
        yield f"tests, as the code under test reported them: {counts}"

    def _egress(self, body: ev.EgressRecorded) -> Iterable[str]:
        for place in body.places:
            where = f"{place.host or 'an unreadable place'}:{place.port}"
            yield f"⇄ reached {where}" if place.allowed else f"⇄ blocked by sandbox: {where} ({place.reason})"

    def _suspected(self, body: ev.InjectionSuspected) -> Iterable[str]:
        for hint in body.hints:
            yield f"⚠ looks like an injection ({hint.kind.replace('_', ' ')}, line {hint.line}): {hint.excerpt}"

    def _artifact(self, body: ev.ArtifactSuspected) -> Iterable[str]:
        if not body.looked_at:
            yield f"⚠ {body.path} is too large to be looked through for secrets"
        for place in body.secrets:
            yield f"⚠ {body.path} holds what looks like a secret ({place.kind}, line {place.line})"
        for hint in body.hints:
            where = f"{body.path}, line {hint.line}"
            yield f"⚠ looks like an injection ({hint.kind.replace('_', ' ')}, {where}): {hint.excerpt}"

    def _unseen(self, body: ev.CopyUnseen) -> Iterable[str]:
        yield f"⚠ {counted(body.files, 'file')} left in ignored folders and not looked through: {', '.join(body.paths)}"

    def _plan(self, body: ev.PlanUpdated) -> Iterable[str]:
        yield "\n".join(f"- [{_MARKS.get(one.state, ' ')}] {one.title}" for one in body.items)

    def _change(self, body: ev.ChangeProposed) -> Iterable[str]:
        old = "" if body.renamed_from is None else f"{body.renamed_from} → "
        yield f"± proposed: {body.kind.replace('_', ' ')} {old}{body.path}"

    def _hunks(self, body: ev.HunkDecided) -> Iterable[str]:
        count = len(body.digests)
        yield f"± {body.decision}: {body.path} ({count} {'hunk' if count == 1 else 'hunks'}, by {body.by})"

    def _applied(self, body: ev.ChangeApplied) -> Iterable[str]:
        yield f"± {_APPLIED[body.action]}: {', '.join(body.paths)}"

    def _refused(self, body: ev.ChangeRefused) -> Iterable[str]:
        yield f"± not written ({body.action}): {body.message}"

    def _unsettled(self, body: ev.ChangeUnsettled) -> Iterable[str]:
        yield f"± {body.action}: {body.message}"

    def _edits(self, body: ev.EditsTaken) -> Iterable[str]:
        yield f"[{body.text}]"

    def _drift(self, body: ev.DriftDetected) -> Iterable[str]:
        yield f"[your folder changed meanwhile: {body.paths_total} paths, {', '.join(body.paths)}]"

    def _faults(self, body: ev.FaultsFound) -> Iterable[str]:
        yield f"[the record is not whole: {'; '.join(body.findings)}]"

    def _told(self, body: ev.OutcomeTold) -> Iterable[str]:
        yield f"{body.text} (by {body.by})"

    def _rules(self, body: ev.SessionRulesSet) -> Iterable[str]:
        yield f"[rules of this session: {', '.join(body.ids) or 'none any more'}, by {body.by}]"

    def _erased(self, body: ev.TextErased) -> Iterable[str]:
        places = f"{counted(body.events, 'event')} and {counted(body.outputs, 'output')}"
        yield f"[a text was erased from {places}, by {body.by}]"

    def _frozen(self, body: ev.SessionFrozen) -> Iterable[str]:
        yield f"⛔ the session was frozen: {body.words} ({body.evidence})"

    def _thawed(self, body: ev.SessionThawed) -> Iterable[str]:
        yield f"⛔ the session may work again (by {body.by})"

    def _recovered(self, body: ev.RecoverySummarised) -> Iterable[str]:
        yield f"↺ {body.text}"

    def _failed(self, body: ev.TurnFailed) -> Iterable[str]:
        yield f"✗ the turn failed: {body.message} {body.hint}".rstrip()

    def _cancelled(self, body: ev.TurnCancelled) -> Iterable[str]:
        yield f"■ stopped (by {body.by})"


_TELLERS: Final[Mapping[type[ev.EventBody], Callable[[TranscriptProjection, Any], Iterable[str]]]] = MappingProxyType(
    {
        ev.SessionCreated: TranscriptProjection._created,
        ev.UserMessageAdded: TranscriptProjection._message,
        ev.SteeringDecided: TranscriptProjection._steered,
        ev.RetryScheduled: TranscriptProjection._retry,
        ev.ContextCompacted: TranscriptProjection._compacted,
        ev.ToolStopRequested: TranscriptProjection._stop_asked,
        ev.ResultSuperseded: TranscriptProjection._superseded,
        ev.ModelRequestStarted: TranscriptProjection._began,
        ev.ModelResponseReceived: TranscriptProjection._answer,
        ev.ModelStreamInterrupted: TranscriptProjection._broken,
        ev.ToolExecutionStarted: TranscriptProjection._started,
        ev.ToolExecutionFinished: TranscriptProjection._finished,
        ev.ApprovalRequested: TranscriptProjection._asked,
        ev.ApprovalResolved: TranscriptProjection._resolved,
        ev.TestRunFinished: TranscriptProjection._tests,
        ev.EgressRecorded: TranscriptProjection._egress,
        ev.InjectionSuspected: TranscriptProjection._suspected,
        ev.ArtifactSuspected: TranscriptProjection._artifact,
        ev.CopyUnseen: TranscriptProjection._unseen,
        ev.PlanUpdated: TranscriptProjection._plan,
        ev.ChangeProposed: TranscriptProjection._change,
        ev.HunkDecided: TranscriptProjection._hunks,
        ev.ChangeApplied: TranscriptProjection._applied,
        ev.ChangeRefused: TranscriptProjection._refused,
        ev.ChangeUnsettled: TranscriptProjection._unsettled,
        ev.EditsTaken: TranscriptProjection._edits,
        ev.DriftDetected: TranscriptProjection._drift,
        ev.FaultsFound: TranscriptProjection._faults,
        ev.OutcomeTold: TranscriptProjection._told,
        ev.TextErased: TranscriptProjection._erased,
        ev.SessionRulesSet: TranscriptProjection._rules,
        ev.SessionFrozen: TranscriptProjection._frozen,
        ev.SessionThawed: TranscriptProjection._thawed,
        ev.RecoverySummarised: TranscriptProjection._recovered,
        ev.TurnFailed: TranscriptProjection._failed,
        ev.TurnCancelled: TranscriptProjection._cancelled,
    }
)
