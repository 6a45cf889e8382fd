"""Drives the machine through a seeded history and holds the invariants at every step.

Purpose: the loop of an engine without IO: choose an input, step, store, fold, project, perform; crash and recover.
Invariant: equal seeds give equal histories; a failure names its seed, its move and the last inputs.
"""

import json
import os
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from random import Random
from typing import Any, Final

from tests.kit.simulation import erasing, ledger, opening
from tests.kit.simulation import materials as mat
from tests.kit.simulation.digest import state_digest
from tests.kit.simulation.monitor import Monitor
from tests.kit.simulation.retrying import WAITED
from tests.kit.simulation.rules import BrokenRuleError, hold
from tests.kit.simulation.world import World

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal.events import EventBody
from gloveport.protocol.wire.reducer import View, ViewGapError
from gloveport.server.session.fold import fold_event
from gloveport.server.session.state import CallStage, SessionState
from gloveport.server.session.views.ops import Op, project_ops
from gloveport.server.turn import effects as eff
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.draft import Step, TurnError
from gloveport.server.turn.machine import pending_effects, step

Stepper = Callable[[SessionState, inp.Input], Step]
Projector = Callable[[EventBody | None, str, int], tuple[Op, ...]]
REFUSALS: Final = frozenset(
    {ErrorCode.TURN_BUSY, ErrorCode.TURN_MISMATCH, ErrorCode.APPROVAL_UNKNOWN, ErrorCode.SUPERSEDED,
     ErrorCode.SESSION_FROZEN, ErrorCode.BUDGET, ErrorCode.UNPRICED, ErrorCode.TOOL_UNKNOWN}
)  # fmt: skip
WORLD_INPUTS: Final = (
    inp.RequestAccepted,
    inp.TextArrived,
    inp.ResponseEnded,
    inp.RequestFailed,
    *WAITED,
    inp.CallJudged,
    inp.CallRejected,
    inp.ToolProgressed,
    inp.ToolEnded,
    inp.ApplyDone,
    inp.ApplyRefused,
    inp.ApplyUnsettled,
)
CHECKPOINT_MOVES: Final = 200
DRAIN_MOVES_MAX: Final = 60
TRACE: Final = 12
INTEGER_MAX: Final = 2**53 - 1

RARE: Final[tuple[inp.Input, ...]] = (
    inp.ApprovalRechecked("a0", holds=False),
    inp.CallReconciled("c0", "unknown", "nobody knows"),
    inp.RecordLost("the log was damaged"),
    inp.TakenUp(),
    inp.ApplyRefused("a0", "change.conflict", "it changed", ()),
    inp.ApplyUnsettled("a0", "change.unsettled", "in part", {}, waits=False),
)
"""What seldom comes, as first examples for probes."""


class Simulation:
    """One session's history under one seed."""

    def __init__(
        self,
        seed: int,
        *,
        crash_rate: float = 0.02,
        erase_rate: float = 0.0,
        stepper: Stepper = step,
        projector: Projector = project_ops,
        rng: Random | None = None,
    ) -> None:
        self.seed = seed
        self.rng = rng or Random(seed)
        self.stepper = stepper
        self.projector = projector
        self.crash_rate = crash_rate
        self.erase_rate = erase_rate
        self.erasures = 0
        self.world = World(self.rng)
        self.ledger = ledger.Ledger()
        self.monitor = Monitor()
        self.state = SessionState()
        self.view = View()
        self.twice = View()
        self.moves = 0
        self.crashes = 0
        self.recovering: list[inp.Input] = []
        self.past: deque[inp.Input] = deque(maxlen=150)
        self.examples: dict[type[inp.Input], inp.Input] = {type(given): given for given in RARE}
        self.trace: deque[str] = deque(maxlen=TRACE)
        self.reached: set[tuple[str, str]] = set()
        self._snapshot: tuple[list[dict[str, Any]], int] = ([], 0)
        self._store(opening.first_events(), opening.opened())

    # --- running

    def run(self, moves: int) -> "Simulation":
        """Make moves, then bring the session to rest and check everything once more. Raises BrokenRuleError."""
        try:
            for _ in range(moves):
                self.move()
            self.drain()
            self.checkpoint()
        except AssertionError as broken:
            rule = broken.rule if isinstance(broken, BrokenRuleError) else "assertion"
            rates = f"crash_rate={self.crash_rate} erase_rate={self.erase_rate}"
            where = f"{broken}\nseed={self.seed} {rates} move={self.moves}; the last inputs:\n"
            raise BrokenRuleError(rule, where + "\n".join(self.trace)) from broken
        return self

    def move(self) -> None:
        """One input or crash, chosen by the seed."""
        self.moves += 1
        self.world.now += self.rng.randint(1, 10_000)
        chance = self.rng.random()
        if self.erase_rate and self.rng.random() < self.erase_rate and self._rests():
            self.erase()
        elif chance < self.crash_rate:
            self.crash(self.rng.choice(("between steps", "before append", "after append")))
        elif self.recovering:
            self._recover()
        elif chance > 0.9 and self.past:
            self.late(self.rng.choice(self.past))
        elif chance > 0.84:
            self.probe()
        elif chance > 0.78:
            fact = mat.outside_fact(self.rng, list(self.state.grants), self.moves)
            self._store((fact,), fold_event(self.state, fact))
        else:
            self.feed(self._choose())
        if self.moves % CHECKPOINT_MOVES == 0:
            self.checkpoint()

    def _choose(self) -> inp.Input:
        offers = self.world.offers(self.state)
        (chosen,) = self.rng.choices([make for _, make in offers], [weight for weight, _ in offers])
        return chosen()

    def drain(self) -> None:
        """Press stop and let everything end: the session must come to rest in a bounded number of moves."""
        for _ in range(DRAIN_MOVES_MAX):
            if self.recovering:
                self._recover()
                continue
            if self.state.turn is None and not self.state.applying:
                break
            if self.state.turn is not None and self.state.turn.cancelled_by is None:
                self.feed(inp.CancelTurn(None, "user"))
                continue
            self.feed(self._end_something())
        hold(self.state.turn is None and not self.state.applying, "stop leads to idle", self.state.phase)
        hold(not self.state.queue and not self.state.steering, "no message is left behind", self.state.queue)

    def _end_something(self) -> inp.Input:
        for _ in range(10_000):
            given = self._choose()
            if isinstance(given, inp.RequestFailed | inp.ToolEnded | inp.ApplyDone | inp.ApplyRefused):
                return given
            if isinstance(given, inp.ApplyUnsettled) and not given.waits:
                return given
        raise BrokenRuleError("somebody works on it", f"nothing ends what is open in {self.state.phase}")

    # --- one step

    def feed(self, given: inp.Input, *, performed: bool = True) -> Step | None:
        """Step, store, fold, project, perform; null when the machine refused."""
        self.trace.append(f"  {self.state.phase}: {given!r}"[:400])
        self.reached.add((self.state.phase, type(given).__name__))
        self.examples[type(given)] = given
        before = self.state
        live = bool(self.recovering) or self.world.is_live(given)
        try:
            result = self.stepper(before, given)
        except TurnError as refused:
            hold(refused.code in REFUSALS, "typed refusal", refused.code)
            hold(self.state == before, "a refusal changes nothing", refused.code)
            return None
        if self.moves % 8 == 0:
            hold(self.stepper(before, given) == result, "pure", type(given).__name__)
        if not live:
            hold(not result.events and not result.effects, "late inputs change nothing", repr(given)[:200])
        self._store(result.events, result.state)
        self.world.settle(given)
        self.past.append(given)
        for effect in result.effects:
            self._check_intent(effect)
            if performed:
                self._perform(effect)
        if performed:
            self._check_rest()
        return result

    def _store(self, bodies: Any, carried: SessionState) -> None:
        entries = self.ledger.append(bodies, self.world.now)
        folded = self.state
        for entry, body in zip(entries, bodies, strict=True):
            hold(entry.body == body, "encodes and decodes", type(body).__name__)
            self.monitor.take(entry.body)
            folded = fold_event(folded, entry.body)
            self._project(entry)
        hold(folded == carried, "the carried state is the fold", "states differ")
        self.state = folded

    def _project(self, entry: ledger.Entry) -> None:
        ops = self.projector(entry.body, entry.type, entry.seq)
        hold(list(ops) == json.loads(json.dumps(ops)), "operations are plain JSON", entry.type)
        for op in ops:
            _check_numbers(op, entry.type)
        if self.erasures:  # it may belong to what was erased
            apply_known(self.view, entry.seq, ops)
            apply_known(self.twice, entry.seq, ops)
            return
        hold(self.view.apply(entry.seq, ops), "new events are taken", entry.seq)
        hold(not self.view.apply(entry.seq, ops), "seen events are dropped", entry.seq)
        self.twice.apply(2 * entry.seq, ops)
        self.twice.apply(2 * entry.seq + 1, ops)

    # --- effects

    def _check_intent(self, effect: eff.Effect) -> None:
        state, turn = self.state, self.state.turn
        call = state.call(getattr(effect, "call_id", ""))
        intended = False
        match effect:
            case eff.CallModel(request_id):
                intended = turn is not None and turn.request is not None and turn.request.request_id == request_id
                stopped = turn is not None and turn.cancelled_by is not None
                intended = intended and not stopped
            case eff.JudgeCall():
                intended = call is not None and call.stage is CallStage.PROPOSED
                intended = intended and turn is not None and turn.cancelled_by is None
            case eff.RunTool(call_id):
                intended = call is not None and call.stage is CallStage.RUNNING and call.started is not None
                intended = intended and turn is not None and turn.cancelled_by is None
                hold(
                    call is not None and call.goal_revision == state.goal_revision,
                    "nothing starts for an old goal",
                    effect,
                )
                hold(self.world.performed[call_id] == 0, "performed at most once", call_id)
            case eff.AttachTool():
                intended = call is not None and call.stage is CallStage.RUNNING
            case eff.StopModel():
                intended = turn is not None and (turn.cancelled_by is not None or turn.is_request_late)
            case eff.StopTool():
                intended = turn is not None and call is not None
                late = call is not None and call.goal_revision < state.goal_revision
                intended = intended and (late or (turn is not None and turn.cancelled_by is not None))
            case eff.ApplyChanges(apply_id):
                intended = apply_id in state.applying
            case eff.DropWait():
                intended = turn is None or turn.retry is None or turn.cancelled_by is not None
            case eff.WaitRetry() | eff.ShrinkContext():
                intended = effect in self.world.waits.expected(state)
        hold(intended, "no effect without intent", effect)

    def _perform(self, effect: eff.Effect) -> None:
        self.world.take(effect)

    def _check_rest(self) -> None:
        """What the state waits for is what the world works on, no more and no less."""
        if self.recovering:
            return
        turn, world = self.state.turn, self.world
        request = {turn.request.request_id} if turn is not None and turn.request is not None else set()
        hold(set(world.streams) == request, "somebody works on it", f"streams {sorted(world.streams)}, state {request}")
        running = {c.call_id for c in turn.calls if c.stage is CallStage.RUNNING} if turn is not None else set()
        hold(set(world.runs) == running, "somebody works on it", f"runs {sorted(world.runs)}, state {sorted(running)}")
        hold(world.applies == set(self.state.applying), "somebody works on it", "applies")
        live = {
            key
            for key in world.judging
            if (call := self.state.call(key)) is not None and call.stage is CallStage.PROPOSED
        }
        world.judging &= live
        hold(world.waits.at_rest(self.state), "somebody works on it", f"waits of {self.state.phase}")
        waited = world.waits.expected(self.state)
        expected = {eff.JudgeCall(key) for key in live} | waited
        hold(set(pending_effects(self.state)) == expected, "pending effects are the unfinished ones", expected)
        if turn is not None:
            at_work = bool(request or running or live or waited or self.state.approvals)
            hold(at_work, "somebody works on it", f"nothing is under way in {self.state.phase}")
            deaf_streams = [key for key, stream in world.streams.items() if not stream.stopped]
            wanted = turn.cancelled_by is None and not turn.is_request_late
            hold(wanted or not deaf_streams, "a stop reaches what runs", deaf_streams)
            unwanted = [c for c in turn.calls if turn.cancelled_by is not None or c.goal_revision < turn.goal_revision]
            runs = [world.runs[c.call_id] for c in unwanted if c.call_id in world.runs]
            deaf = [run for run in runs if not run.stopped and run.end is None]
            hold(not deaf, "a stop reaches what runs", sorted(world.runs))

    # --- faults of the world

    def late(self, given: inp.Input) -> None:
        """Deliver something again; when its subject is over it must change nothing."""
        if isinstance(given, inp.CallReconciled):
            if given.call_id not in self.world.runs:
                hold(self.feed(given) == Step((), (), self.state), "late inputs change nothing", given.call_id)
        elif isinstance(given, WORLD_INPUTS) and not self.world.is_live(given):
            self.feed(given)
        elif isinstance(given, inp.ApprovalAnswered) and given.approval_id not in self.state.approvals:
            hold(self.feed(given) is None, "cards are answered once", given.approval_id)
        elif isinstance(given, inp.TellOutcome):
            known = {one.call_id for one in self.state.unknowns}
            hold(given.call_id in known or self.feed(given) is None, "what nobody knows is told once", given.call_id)

    def probe(self) -> None:
        """Ask, without storing anything, what one earlier input of each kind would do here."""
        for kind, given in self.examples.items():
            self.reached.add((self.state.phase, kind.__name__))
            try:
                result = self.stepper(self.state, given)
            except TurnError as refused:
                hold(refused.code in REFUSALS, "typed refusal", refused.code)
                continue
            folded = self.state
            for body in result.events:
                folded = fold_event(folded, body)
            hold(folded == result.state, "the carried state is the fold", kind.__name__)
            if isinstance(given, WORLD_INPUTS) and not self.world.is_live(given):
                hold(not result.events and not result.effects, "late inputs change nothing", kind.__name__)

    def crash(self, where: str) -> None:
        """Die between two steps, with a step not yet stored, or with a step stored and nothing of it performed."""
        self.trace.append(f"  crash {where}")
        self.crashes += 1
        if where != "between steps":
            given = self.recovering[0] if self.recovering else self._choose()
            if where == "after append":
                self.feed(given, performed=False)
        self._reload()

    def _rests(self) -> bool:
        return not self.recovering and self.state.turn is None and not self.state.applying

    def erase(self) -> None:
        """Take some of what was said out of the record; the session is read anew and acts as before."""
        done = erasing.choose_some(self.rng, self.ledger, self.state, self.moves)
        self.trace.append(f"  erased {sorted(done.seqs)}"[:400])
        before = self.state
        self.ledger.erase(done.seqs)
        self.ledger.append((done.fact,), self.world.now)
        self.state = erasing.fold_all(self.ledger)
        erasing.check(fold_event(before, done.fact), self.state, done)
        self.monitor.take(done.fact)
        for message_id in done.messages:
            self.monitor.messages.erased(message_id)
        self.erasures += 1
        self.view, self.twice = self._read_view(), self._read_view()
        self._snapshot = ([], 0)
        self._check_rest()
        self.ledger.verify()

    def _read_view(self) -> View:
        view = View()
        for seq, name, body in self.ledger.read_whole():
            apply_known(view, seq, self.projector(body, name, seq))
        return view

    def _reload(self) -> None:
        reloaded = erasing.fold_all(self.ledger)
        hold(reloaded == self.state, "a reload gives the same state", "states differ")
        self.state = reloaded
        self.world.crash(self.state)
        self.recovering = self.world.recoveries(self.state)
        self._finish_recovery()

    def _recover(self) -> None:
        self.feed(self.recovering[0])
        self.recovering.pop(0)
        self._finish_recovery()

    def _finish_recovery(self) -> None:
        if self.recovering:
            return
        for effect in pending_effects(self.state):
            if effect not in {eff.JudgeCall(key) for key in self.world.judging}:
                self._check_intent(effect)
                self._perform(effect)
        self._check_rest()

    # --- the whole log

    def checkpoint(self) -> None:
        """Fold and project the whole log from its bytes; catch up from an old snapshot with overlap."""
        self.ledger.verify()
        state, scratch, caught_up = SessionState(), View(), View()
        items, mark = self._snapshot
        caught_up.load(json.loads(json.dumps(items)), mark)
        overlap = self.rng.randint(0, mark)
        for seq, name, body in self.ledger.read_whole():
            state = state if body is None else fold_event(state, body)
            ops = json.loads(json.dumps(self.projector(body, name, seq)))
            apply_known(scratch, seq, ops) if self.erasures else scratch.apply(seq, ops)
            if seq > overlap:
                apply_known(caught_up, seq, ops) if self.erasures else caught_up.apply(seq, ops)
        hold(state == self.state, "replay gives the same state", "states differ")
        hold(state_digest(state) == state_digest(self.state), "replay gives the same state", "digests differ")
        for name, other in (("scratch", scratch), ("twice", self.twice), ("snapshot and tail", caught_up)):
            hold(other.digest() == self.view.digest(), "views converge", name)
            hold(other.items() == json.loads(json.dumps(self.view.items())), "views converge", name)
        self._snapshot = (json.loads(json.dumps(self.view.items())), self.view.watermark)


def apply_known(view: View, seq: int, ops: Iterable[Op]) -> None:
    """Apply once; what belongs to something that was erased is left out, as the daemon does."""
    if seq <= view.watermark:
        return
    for op in ops:
        with suppress(ViewGapError):
            view.apply_op(op)
    view.watermark = seq


def _check_numbers(value: Any, where: str) -> None:
    """Numbers that reach a client are integers that every client keeps exactly."""
    if isinstance(value, dict):
        for part in value.values():
            _check_numbers(part, where)
    elif isinstance(value, list | tuple):
        for part in value:
            _check_numbers(part, where)
    elif isinstance(value, float):
        raise BrokenRuleError("integers only", where)
    elif isinstance(value, int):
        hold(abs(value) <= INTEGER_MAX, "integers only", where)


def seeds(default: int, count: int) -> list[int]:
    """The seeds of a run: GLOVEPORT_SEED replays one, GLOVEPORT_SEEDS asks for more."""
    if one := os.environ.get("GLOVEPORT_SEED"):
        return [int(one)]
    return list(range(default, default + int(os.environ.get("GLOVEPORT_SEEDS", count))))
