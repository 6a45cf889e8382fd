"""A turn told step by step: given, when, then.

Purpose: let a scenario read as what the user, the model, policy and the tools do, on the real machine.
Invariant: every step of a story passes the same checks as a simulated one; nothing here is random.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.kit.simulation import materials as mat
from tests.kit.simulation.driver import Simulation
from tests.kit.simulation.world import Truth

from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.events.steering import SteeringKind
from gloveport.protocol.journal.events.tool import Outcome
from gloveport.server.session.fold import fold_event
from gloveport.server.session.state import Call, CallStage, Phase
from gloveport.server.turn import effects as eff
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.draft import Step


def call(tool: str = "read_file", arguments: str = '{"path":"a.py"}', provider_id: str = "p1") -> inp.ModelCall:
    """A tool call as a model gives it."""
    return inp.ModelCall(provider_id, tool, arguments)


class Story(Simulation):
    """A session to which things happen in the order in which they are told."""

    def __init__(self) -> None:
        super().__init__(seed=0)
        self.moves = 8  # every step is also checked for purity
        self.last: Step | None = None
        self.mark = self.ledger.seq
        self.messages = 0

    def when(self, given: inp.Input) -> "Story":
        """Something happens; `news` and `effects` then speak of this step alone."""
        self.mark = self.ledger.seq
        self.last = self.feed(given)
        return self

    # --- who does what

    def user_says(self, text: str = "mend it", *, queue: bool = False) -> "Story":
        self.messages += 1
        return self.when(inp.SendMessage(f"m{self.messages}", f"t{self.messages}", text, queue))

    def user_steers(self, text: str, kind: SteeringKind | None = None, *, message_id: str | None = None) -> "Story":
        """Say something to the running turn; `message_id` names a queued message that is meant."""
        self.messages += message_id is None
        name, words = (f"m{self.messages}", text) if message_id is None else (message_id, None)
        return self.when(inp.SteerMessage(name, self.turn_id, words, kind, "user"))

    def user_interrupts(self, text: str = "do this instead") -> "Story":
        self.messages += 1
        number = self.messages
        return self.when(inp.InterruptMessage(f"m{number}", f"t{number}", self.turn_id, text, "user"))

    def user_stops(self) -> "Story":
        return self.when(inp.CancelTurn(None, "user"))

    def user_answers(self, decision: str, *, grant_id: str = "g1", call_id: str | None = None) -> "Story":
        """Allow `once`, for the `turn` or the `session`; or `denied`; or let it be `expired`. `call_id`: of several."""
        (card,) = (one for one in self.state.approvals.values() if call_id in (None, one.call_id))
        if decision in ("denied", "expired"):
            refused = inp.ApprovalAnswered(card.approval_id, card.card_digest, decision, None, "user")  # type: ignore[arg-type] # narrowed above
            return self.when(refused)
        grant = mat.grant(grant_id, decision, card.call_id)
        return self.when(inp.ApprovalAnswered(card.approval_id, card.card_digest, "allowed", grant, "user"))

    def model_streams(self, *pieces: str) -> "Story":
        for piece in pieces:
            self.when(inp.TextArrived(self.request_id, piece))
        return self

    def model_answers(self, *calls: inp.ModelCall, stop: Any = None) -> "Story":
        ending: Any = stop or ("tool_calls" if calls else "end")
        return self.when(inp.ResponseEnded(self.request_id, calls, ending, 10, 5, 0))

    def model_fails(self, code: str = "model.unreachable") -> "Story":
        return self.when(inp.RequestFailed(self.request_id, code, "the line broke", "Try again."))

    def model_breaks(
        self, error_class: str, *, pause_us: int | None = None, words: str = "the line broke", now_us: int = 1_000_000
    ) -> "Story":
        """The request fails in a way that the table of retries knows."""
        trouble = inp.Trouble(error_class, now_us, pause_us, "req_7")
        return self.when(inp.RequestFailed(self.request_id, "model.unreachable", words, "Try again.", trouble))

    def pause_ends(self) -> "Story":
        """The timer of the pause under way."""
        return self.when(inp.RetryDue(self.pause.request_id))

    def context_shrinks(self, *call_ids: str, kept: int = 200, after: int = 50) -> "Story":
        """The compaction under way ends with these results shortened."""
        results = tuple(ev.ShortenedResult(call_id=one, kept_chars=kept) for one in call_ids)
        return self.when(inp.ContextShrunk(self.compaction_id, results, 100, after))

    def shrinking_fails(self, words: str = "nothing is left to shorten") -> "Story":
        """The compaction under way gives nothing."""
        return self.when(inp.ShrinkFailed(self.compaction_id, words))

    def fact_is_written(self, body: ev.EventBody) -> "Story":
        """A command writes a fact beside the machine."""
        self.mark = self.ledger.seq
        self._store((body,), fold_event(self.state, body))
        return self

    def policy_says(
        self, verdict: str, *, grant_id: str | None = None, left: int | None = None, stop_class: str = "killable"
    ) -> "Story":
        """Policy judges the call that is next, which can be stopped as its class says."""
        judged = self.next_call
        card = mat.card(f"{judged.call_id}.{judged.asks}", None) if verdict == "ask" else None
        plan = replace(mat.some_plan(self.rng), stop_class=stop_class)  # type: ignore[arg-type]  # named by its class
        return self.when(inp.CallJudged(judged.call_id, plan, mat.judgement(verdict, grant_id, left), card))

    def policy_asks_together(self, count: int) -> "Story":
        """Policy asks about so many calls at once."""
        assert self.state.turn is not None
        asked = [one for one in self.state.turn.calls if one.stage is CallStage.PROPOSED][:count]
        first, *others = (
            inp.CallJudged(
                one.call_id, mat.some_plan(self.rng), mat.judgement("ask"), mat.card(f"{one.call_id}.{one.asks}", None)
            )
            for one in asked
        )
        return self.when(replace(first, beside=tuple(others)))

    def tool_is_refused(self, message: str) -> "Story":
        return self.when(inp.CallRejected(self.next_call.call_id, message))

    def tool_prints(self, text: str) -> "Story":
        return self.when(inp.ToolProgressed(self.running.call_id, text))

    def tool_ends(self, outcome: Outcome = "ok", text: str = "done", *facts: ev.EventBody) -> "Story":
        return self.when(self.tool_end(self.running.call_id, outcome, text, *facts))

    def tool_end(self, call_id: str, outcome: Outcome = "ok", text: str = "done", *facts: ev.EventBody) -> inp.Input:
        code = 0 if outcome == "ok" else None
        return inp.ToolEnded(call_id, outcome, text, "exit status", code, None, 4, 9, mat.PLAIN_LABEL, facts)

    def daemon_restarts(self, finding: Truth | None = None, *, cards_hold: bool = True, lost: str = "") -> "Story":
        """Kill it; read the log again; find out what became of what was under way."""
        self.mark = self.ledger.seq
        self._reload_with(finding)
        told: list[inp.Input] = [inp.RecordLost(lost)] if lost else []
        self.recovering = [*told, *(given for given in self.recovering if not isinstance(given, inp.RecordLost))]
        effects: list[eff.Effect] = []
        while self.recovering:
            given = self.recovering[0]
            if isinstance(given, inp.ApprovalRechecked):
                given = inp.ApprovalRechecked(given.approval_id, cards_hold)
            self.last = self.feed(given)
            assert self.last is not None
            effects += self.last.effects
            self.recovering.pop(0)
            self._finish_recovery()
        self.last = Step((), tuple(effects), self.state)
        return self

    def _reload_with(self, finding: Truth | None) -> None:
        running = [c for c in self.state.turn.calls if c.stage is CallStage.RUNNING] if self.state.turn else []
        self._reload()
        if running and finding is not None:
            (one,) = running
            if finding == "not_started":
                self.world.performed[one.call_id] = 0
            self.world.truths = {one.call_id: finding}
            self.recovering = [
                inp.CallReconciled(g.call_id, finding, "seen") if isinstance(g, inp.CallReconciled) else g
                for g in self.recovering
            ]

    # --- what can be seen

    @property
    def turn_id(self) -> str:
        return self.state.turn.turn_id if self.state.turn is not None else "none"

    @property
    def request_id(self) -> str:
        assert self.state.turn is not None
        assert self.state.turn.request is not None
        return self.state.turn.request.request_id

    @property
    def pause(self) -> ev.RetryScheduled:
        assert self.state.turn is not None
        assert self.state.turn.retry is not None
        return self.state.turn.retry

    @property
    def compaction_id(self) -> str:
        assert self.state.turn is not None
        assert self.state.turn.compaction is not None
        return self.state.turn.compaction

    @property
    def next_call(self) -> Call:
        assert self.state.turn is not None
        assert self.state.turn.next_proposed is not None
        return self.state.turn.next_proposed

    @property
    def running(self) -> Call:
        assert self.state.turn is not None
        (one,) = [c for c in self.state.turn.calls if c.stage is CallStage.RUNNING]
        return one

    @property
    def refused(self) -> bool:
        """Whether the last input was refused."""
        return self.last is None

    @property
    def effects(self) -> tuple[eff.Effect, ...]:
        """What the last step asked of the world."""
        return self.last.effects if self.last is not None else ()

    @property
    def news(self) -> list[str]:
        """The type names of the events since the last thing that happened."""
        return [entry.type for entry in self.ledger.read() if entry.seq > self.mark]

    def facts(self, kind: type[ev.EventBody]) -> list[Any]:
        """All events of a type."""
        return [entry.body for entry in self.ledger.read() if isinstance(entry.body, kind)]

    def item(self, item_id: str) -> Mapping[str, Any]:
        """The fields of a view item."""
        found: dict[str, Any] = {item["id"]: item["fields"] for item in self.view.items()}
        fields: Mapping[str, Any] = found[item_id]
        return fields

    def outcomes(self) -> list[str]:
        """How the calls ended, in order."""
        return [body.outcome for body in self.facts(ev.ToolExecutionFinished)]

    def ends(self) -> "Story":
        """The session must be at rest; the whole log is checked once more."""
        assert self.state.phase is Phase.IDLE
        self.checkpoint()
        return self
