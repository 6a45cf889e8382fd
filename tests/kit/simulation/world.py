"""A world without IO: what the engine, the model, the tools and the user could do next.

Purpose: take effects, offer the inputs that can follow from them, remember what was really performed.
Invariant: `performed` outlives a crash, as a witness outside the daemon would; everything else dies with it.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Final, Literal

from tests.kit.simulation import materials as mat
from tests.kit.simulation import steering
from tests.kit.simulation.retrying import Waits, some_failure

from gloveport.protocol.journal.events.tool import Outcome
from gloveport.server.session.state import CallStage, SessionState
from gloveport.server.turn import effects as eff
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.calls import neighbours

Offer = tuple[int, Callable[[], inp.Input]]
Truth = Literal["succeeded", "failed", "still_running", "not_started", "unknown"]
FREE_OUTCOMES: Final[tuple[Outcome, ...]] = (
    "ok", "ok", "ok", "ok", "ok", "failed", "timeout", "oom", "killed", "policy", "lost", "unknown",
)  # fmt: skip
STOPPED_OUTCOMES: Final[tuple[Outcome, ...]] = ("killed", "cancelled", "ok", "lost")
APPROVAL_LIFE_US: Final = 40_000
FATES: Final[tuple[Literal["finished", "never_accepted", "unknown"], ...]] = ("finished", "never_accepted", "unknown")
LOSS_RATE: Final = 0.1
"""How many restarts find that acknowledged events are gone."""


@dataclass
class Stream:
    """A request to the model under way."""

    accepted: bool = False
    stopped: bool = False


@dataclass
class Run:
    """A tool that runs; `end` is what it is bound to end with."""

    stopped: bool = False
    end: Outcome | None = None


class World:
    """Takes effects and offers inputs."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.now = 1_000_000
        self.count = 0
        self.streams: dict[str, Stream] = {}
        self.judging: set[str] = set()
        self.runs: dict[str, Run] = {}
        self.applies: set[str] = set()
        self.truths: dict[str, Truth] = {}
        self.performed: Counter[str] = Counter()
        self.waits = Waits(rng)

    def number(self) -> int:
        """The next id's number."""
        self.count += 1
        return self.count

    # --- effects

    def take(self, effect: eff.Effect) -> None:
        """Begin an effect."""
        match effect:
            case eff.CallModel(request_id):
                self.streams[request_id] = Stream()
            case eff.StopModel(request_id) if request_id in self.streams:
                self.streams[request_id].stopped = True
            case eff.JudgeCall(call_id):
                self.judging.add(call_id)
            case eff.RunTool(call_id):
                self.performed[call_id] += 1
                self.runs[call_id] = Run()
            case eff.AttachTool(call_id):
                ends: dict[str, Outcome] = {"succeeded": "ok", "failed": "failed"}
                self.runs[call_id] = Run(end=ends.get(self.truths.get(call_id, "")))
            case eff.StopTool(call_id) if call_id in self.runs:
                self.runs[call_id].stopped = True
            case eff.ApplyChanges(apply_id):
                self.applies.add(apply_id)
            case _:
                self.waits.take(effect)

    def settle(self, given: inp.Input) -> None:
        """An input was taken: what it ends is over."""
        match given:
            case inp.RequestAccepted(request_id, _) if request_id in self.streams:
                self.streams[request_id].accepted = True
            case inp.ResponseEnded(request_id) | inp.RequestFailed(request_id):
                self.streams.pop(request_id, None)
            case inp.CallJudged(call_id) | inp.CallRejected(call_id):
                self.judging.discard(call_id)
            case inp.ToolEnded(call_id):
                self.runs.pop(call_id, None)
            case inp.ApplyUnsettled(waits=True):
                pass
            case inp.ApplyDone(apply_id) | inp.ApplyRefused(apply_id) | inp.ApplyUnsettled(apply_id):
                self.applies.discard(apply_id)
            case _:
                self.waits.settle(given)

    def is_live(self, given: inp.Input) -> bool:
        """Whether what an input speaks of is still awaited."""
        match given:
            case inp.RequestAccepted(key) | inp.TextArrived(key) | inp.ResponseEnded(key) | inp.RequestFailed(key):
                return key in self.streams
            case inp.CallJudged(key) | inp.CallRejected(key):
                return key in self.judging
            case inp.ToolProgressed(key) | inp.ToolEnded(key):
                return key in self.runs
            case inp.ApplyDone(key) | inp.ApplyRefused(key) | inp.ApplyUnsettled(key):
                return key in self.applies
        return self.waits.is_live(given)

    # --- crash

    def crash(self, state: SessionState) -> None:
        """The daemon dies: effects under way are gone, some tools run on or have ended meanwhile."""
        self.streams.clear()
        self.judging.clear()
        self.applies.clear()
        fates: tuple[Truth, ...] = ("succeeded", "failed", "still_running", "still_running", "unknown")
        self.truths = {
            call.call_id: self.rng.choice(fates) if self.performed[call.call_id] else "not_started"
            for call in (state.turn.calls if state.turn else ())
            if call.stage is CallStage.RUNNING
        }
        self.runs.clear()
        self.waits.crash()

    def recoveries(self, state: SessionState) -> list[inp.Input]:
        """What a restart finds out about a state, one input per open end."""
        found: list[inp.Input] = []
        if state.turn is not None and state.turn.request is not None:
            request_id = state.turn.request.request_id
            found.append(inp.RequestInterrupted(request_id, self.rng.choice(FATES), "the provider was asked"))
        for call_id, truth in self.truths.items():
            finding = truth if truth == "still_running" or self.rng.random() < 0.85 else "unknown"
            found.append(inp.CallReconciled(call_id, finding, f"probe says {finding}"))
        ends = [self._apply_end(apply_id, state) for apply_id in state.applying]
        # Those that wait are looked at again with each command.
        self.applies |= {end.apply_id for end in ends if isinstance(end, inp.ApplyUnsettled) and end.waits}
        found += ends
        changed = [one for one in state.approvals if self.rng.random() < 0.3]
        found += [inp.ApprovalRechecked(one, holds=one not in changed) for one in state.approvals]
        lost = [inp.RecordLost("the log was damaged")] if self.rng.random() < LOSS_RATE else []
        return [*lost, *found, inp.TakenUp()]

    # --- offers

    def offers(self, state: SessionState) -> list[Offer]:
        """Everything that can happen next, with weights."""
        return [
            *self._stream_offers(),
            *self.waits.offers(state),
            *self._judge_offers(state),
            *self._tool_offers(state),
            *self._card_offers(state),
            *self._user_offers(state),
            *steering.offers(self.rng, state, self.number),
        ]

    def _stream_offers(self) -> Iterator[Offer]:
        for key, stream in self.streams.items():
            if not stream.accepted:
                yield 8, partial(inp.RequestAccepted, key, "req_1")
            yield 16, partial(self._piece, key)
            yield 20, partial(self._response, key)
            yield 16 if stream.stopped else 6, partial(self._failure, key)

    def _piece(self, key: str) -> inp.Input:
        return inp.TextArrived(key, mat.some_text(self.rng))

    def _output(self, key: str) -> inp.Input:
        return inp.ToolProgressed(key, mat.some_text(self.rng))

    def _response(self, key: str) -> inp.Input:
        calls = mat.some_calls(self.rng)
        stop: Literal["tool_calls", "end"] = "tool_calls" if calls else "end"
        return inp.ResponseEnded(key, calls, self.rng.choice((stop, stop, "length")), 10, self.rng.choice((None, 5)), 0)

    def _failure(self, key: str) -> inp.Input:
        return some_failure(self.rng, key, self.now)

    def _judge_offers(self, state: SessionState) -> Iterator[Offer]:
        for key in sorted(self.judging):
            yield 40, partial(self._judged, key, state)
            yield 5, partial(inp.CallRejected, key, "There is no such tool.")

    def _judged(self, key: str, state: SessionState) -> inp.Input:
        plan = mat.some_plan(self.rng)
        usable = [g for g in state.grants.values() if g.scope != "once" or g.grant.get("call") == key]
        if usable and self.rng.random() < 0.8:
            grant = self.rng.choice(usable)
            left = 0 if grant.scope == "once" else None
            return inp.CallJudged(key, plan, mat.judgement("allow", grant.grant_id, left), None)
        verdict = self.rng.choice(("allow", "allow", "allow", "ask", "ask", "deny"))
        expires = self.now + APPROVAL_LIFE_US if self.rng.random() < 0.5 else None
        shown = mat.card(f"{key}.{self.number()}", expires) if verdict == "ask" else None
        return inp.CallJudged(key, plan, mat.judgement(verdict), shown, self._beside(key, state) if shown else ())

    def _beside(self, key: str, state: SessionState) -> tuple[inp.CallJudged, ...]:
        """Some of the calls behind, asked about together with this one."""
        behind = neighbours(state.turn, key) if state.turn is not None else ()
        asked = behind[: self.rng.choice((0, 1, len(behind)))] if behind else ()
        return tuple(self._asked(one.call_id) for one in asked)

    def _asked(self, key: str) -> inp.CallJudged:
        card = mat.card(f"{key}.{self.number()}", None)
        return inp.CallJudged(key, mat.some_plan(self.rng), mat.judgement("ask"), card)

    def _tool_offers(self, state: SessionState) -> Iterator[Offer]:
        for key, run in self.runs.items():
            yield 15, partial(self._output, key)
            yield 25, partial(self._ended, key, run, state)

    def _ended(self, key: str, run: Run, state: SessionState) -> inp.Input:
        free = self.rng.choice(STOPPED_OUTCOMES if run.stopped else FREE_OUTCOMES)
        outcome = run.end if run.end is not None else free
        turn = state.turn
        call = state.call(key)
        revision = call.goal_revision if call is not None else 1
        facts = mat.tool_facts(self.rng, turn.turn_id, revision, key, self.number()) if turn else ()
        return inp.ToolEnded(
            call_id=key,
            outcome=outcome,
            text=mat.some_text(self.rng),
            evidence="exit status",
            exit_code=0 if outcome == "ok" else None,
            output_blob=None,
            output_bytes=3,
            duration_us=20,
            label=self.rng.choice(mat.LABELS),
            facts=facts,
        )

    def _card_offers(self, state: SessionState) -> Iterator[Offer]:
        for key, card in state.approvals.items():
            deny = inp.ApprovalAnswered(key, card.card_digest, "denied", None, "user")
            yield 20, partial(self._allow, key, state)
            yield 8, partial(replace, deny)
            yield 2, partial(replace, deny, card_digest=mat.sha("another card"))
            if card.expires_at is not None and card.expires_at <= self.now:
                yield 20, partial(replace, deny, decision="expired", by="timer")

    def _allow(self, key: str, state: SessionState) -> inp.Input:
        card = state.approvals[key]
        grant = mat.grant(
            f"g{self.number()}", self.rng.choice(("once", "once", "once", "turn", "session")), card.call_id
        )
        return inp.ApprovalAnswered(key, card.card_digest, "allowed", grant, "user")

    def _user_offers(self, state: SessionState) -> Iterator[Offer]:
        yield 16 if state.turn is None else 3, self._message
        yield 1, lambda: inp.CancelTurn(self.rng.choice((None, "t-other")), "user")
        if state.turn is not None:
            turn_id = state.turn.turn_id
            yield 1, lambda: inp.CancelTurn(turn_id, "user")
        for queued in state.queue:
            yield 1, partial(inp.UnqueueMessage, queued.message_id)
        yield 1, lambda: inp.UnqueueMessage("m-other")
        yield 30 if state.frozen else 1, lambda: inp.ThawSession("user")
        yield (
            1 if self.rng.random() < 0.3 else 0,
            lambda: inp.FreezeSession(f"audit-{self.number()}", "line 7 was edited 😀", "Look at the record."),
        )
        yield (
            9 if state.unknowns and state.turn is None else 1,
            lambda: inp.TellOutcome(self._unknown(state), self.rng.choice(("done", "not_done")), "user"),
        )
        yield 2, self._apply
        for apply_id in sorted(self.applies):
            yield 6, partial(self._apply_end, apply_id, state)

    def _unknown(self, state: SessionState) -> str:
        """Mostly a call whose outcome is unknown."""
        names = [one.call_id for one in state.unknowns]
        return self.rng.choice([*names, *names, "t1.c1"])

    def _message(self) -> inp.Input:
        number = self.number()
        return inp.SendMessage(f"m{number}", f"t{number}", mat.clean_text(self.rng), self.rng.random() < 0.7)

    def _apply(self) -> inp.Input:
        actions: tuple[Literal["accept", "reject", "undo"], ...] = ("accept", "reject", "undo")
        action = self.rng.choice(actions)
        return inp.ApplyRequested(f"a{self.number()}", action, {"steps": [{"path": "a.py"}]}, "user")

    def _apply_end(self, apply_id: str, state: SessionState) -> inp.Input:
        chance = self.rng.random()
        if chance < 0.14:
            waits = chance < 0.06
            return inp.ApplyUnsettled(apply_id, "change.unsettled", "look at it", {"a.py": "suspect"}, waits)
        if chance < 0.3:
            return inp.ApplyRefused(apply_id, "change.conflict", "the file changed", ("a.py",))
        facts = mat.decided_facts(self.rng, list(state.changes))
        return inp.ApplyDone(apply_id, ("a.py",), {"files": [{"path": "a.py"}]}, facts)
