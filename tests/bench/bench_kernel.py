"""Figures of the pure kernel: steps, folds, projections. Prints; asserts nothing.

Ratios are against the time that this machine needs to encode and decode one text delta, so that figures of two
machines can be compared.
"""

import time
from collections.abc import Callable

from tests.kit.simulation import materials as mat
from tests.kit.simulation.driver import Simulation
from tests.kit.simulation.opening import opened

from gloveport.protocol.journal import events as ev
from gloveport.protocol.wire.reducer import View
from gloveport.server.session.fold import fold_event
from gloveport.server.session.state import SessionState
from gloveport.server.session.views.ops import project_ops
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.machine import step


def timed(work: Callable[[], object], repeat: int = 3) -> float:
    """The best of some runs, in seconds."""
    best = float("inf")
    for _ in range(repeat):
        begun = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begun)
    return best


def delta(offset: int) -> ev.ModelTextDelta:
    """A token of text."""
    return ev.ModelTextDelta(turn_id="t1", goal_revision=1, request_id="t1.r1", offset=offset, text="token ")


def fold(state: SessionState, bodies: list[ev.EventBody]) -> SessionState:
    """The state after the bodies."""
    for body in bodies:
        state = fold_event(state, body)
    return state


def one_turn(number: int) -> list[ev.EventBody]:
    """The events of a turn with one call and twenty deltas."""
    state, bodies = opened(), []

    def feed(given: inp.Input) -> None:
        nonlocal state
        done = step(state, given)
        state = done.state
        bodies.extend(done.events)

    turn = f"t{number}"
    feed(inp.SendMessage(f"m{number}", turn, "mend it", queue=False))
    for _ in range(10):
        feed(inp.TextArrived(f"{turn}.r1", "token "))
    feed(inp.ResponseEnded(f"{turn}.r1", (inp.ModelCall("p", "read_file", "{}"),), "tool_calls", 1, 1, 0))
    plan = inp.Plan("read", (), "read_only", "killable", "memory", (), mat.PLAIN_LABEL, {})
    feed(inp.CallJudged(f"{turn}.c1", plan, mat.judgement("allow"), None))
    feed(inp.ToolEnded(f"{turn}.c1", "ok", "done", "exit", 0, None, 4, 9, mat.PLAIN_LABEL))
    for _ in range(10):
        feed(inp.TextArrived(f"{turn}.r2", "token "))
    feed(inp.ResponseEnded(f"{turn}.r2", (), "end", 1, 1, 0))
    return bodies


def main() -> None:
    """Print the figures."""
    sample = delta(0)
    unit = timed(lambda: [ev.decode_body(ev.ModelTextDelta, ev.encode_body(sample)) for _ in range(2000)]) / 2000
    print(f"unit: encode and decode one delta        {unit * 1e6:9.1f} us")

    streaming = step(opened(), inp.SendMessage("m1", "t1", "hello", queue=False)).state
    deltas: list[ev.EventBody] = [delta(6 * number) for number in range(5000)]
    folded = timed(lambda: fold(streaming, deltas))
    print(f"fold 5,000 deltas                        {folded * 1e3:9.1f} ms   {folded / 5000 / unit:5.2f} units each")

    def stream() -> None:
        state = streaming
        for _ in range(5000):
            state = step(state, inp.TextArrived("t1.r1", "token ")).state

    stepped = timed(stream)
    print(f"5,000 deltas through the machine         {stepped * 1e3:9.1f} ms   {stepped / 5000 / unit:5.2f} units each")

    turn_events = [body for number in range(3000) for body in one_turn(number)]
    long_log = (turn_events * (100_000 // len(turn_events) + 1))[:100_000]
    turns = sum(isinstance(body, ev.TurnStarted) for body in long_log)
    whole = timed(lambda: fold(opened(), long_log), repeat=1)
    half = timed(lambda: fold(opened(), long_log[:50_000]), repeat=1)
    print(
        f"fold 100,000 events ({turns} turns)        {whole * 1e3:9.1f} ms   {whole / 1e5 / unit:5.2f} units each"
        f"   second half over first: {(whole - half) / half:.2f}"
    )

    def project() -> View:
        view = View()
        for seq, body in enumerate(long_log[:20_000], 1):
            view.apply(seq, project_ops(body, "", seq))
        return view

    ops = timed(lambda: [project_ops(body, "", 1) for body in long_log[:20_000]])
    print(f"operations of an event                   {ops / 2e4 * 1e6:9.2f} us   {ops / 2e4 / unit:5.2f} units")
    reduced = timed(project, repeat=1)
    print(f"operations and reference reducer         {reduced / 2e4 * 1e6:9.2f} us   {reduced / 2e4 / unit:5.2f} units")
    view = project()
    digest = timed(view.digest, repeat=1)
    again = timed(view.digest)
    print(f"view digest of {len(view):6} items            {digest * 1e3:9.1f} ms   kept digests: {again * 1e3:.1f} ms")

    run = Simulation(1, crash_rate=0.0)
    spent = timed(lambda: run.run(2000), repeat=1)
    print(f"simulated moves with every check         {2000 / spent:9.0f} /s   {run.ledger.seq / spent:.0f} events/s")


if __name__ == "__main__":
    main()
