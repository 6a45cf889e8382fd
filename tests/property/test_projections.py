"""Every projection: the same whole or in batches, tolerant of any log, and as its golden file says."""

import copy
from random import Random
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.placed import RECORDINGS, TICK_US, placed_recording, placed_run
from tests.kit.projections import GOLDEN, MAKERS, PRICES, golden, outcome, plain
from tests.kit.simulation import materials as mat
from tests.kit.simulation.driver import Simulation, seeds
from tests.kit.simulation.recordings import FOLDER
from tests.kit.simulation.story import Story, call

from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.events.tool import PlanItem, TestCase
from gloveport.server.session.fold import fold_event
from gloveport.server.session.state import SessionState
from gloveport.server.session.views import context
from gloveport.server.session.views.histogram import Histogram
from gloveport.server.session.views.metrics import COUNTS, MetricsProjection
from gloveport.server.session.views.placed import Folded, Placed, project
from gloveport.server.session.views.plan import PlanProjection
from gloveport.server.session.views.samples import SampleProjection, TestCounts
from gloveport.server.session.views.task import TaskProjection
from gloveport.server.session.views.transcript import RESULT_CHARS_MAX, TranscriptProjection, fenced, shortened
from gloveport.server.session.views.usage import UsageSum
from gloveport.server.turn import inputs as inp

BORN: dict[str, Any] = {"turn_id": "t1", "goal_revision": 1}
ALL_RECORDED = [event for path in RECORDINGS for event in placed_recording(path)]
NEWER = Placed(1, TICK_US, "ThoughtSold", None)
ERASED = Placed(1, TICK_US, "ModelResponseReceived", None, erased=True)


def sessions() -> list[list[Placed]]:
    """Simulated sessions with crashes, and the recorded ones."""
    runs = [placed_run(Simulation(seed, crash_rate=0.08).run(120)) for seed in seeds(7400, 3)]
    return [*runs, *map(placed_recording, RECORDINGS)]


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_whole_or_in_batches_or_asked_in_between(name: str) -> None:
    """A replay, a stream in pieces and one that is read all the time give the same; no snapshot is needed."""
    rng = Random(7)
    for events in sessions():
        whole = outcome(name, events)
        pieces, begin = MAKERS[name](), 0
        while begin < len(events):
            end = begin + rng.randint(1, 40)
            project(pieces, events[begin:end])
            seen = pieces.finish()
            kept = plain(copy.deepcopy(seen))
            if end < len(events):
                pieces.take(events[end])
                assert plain(seen) == kept, "what was given out must not change"
                end += 1
            begin = end
        assert plain(pieces.finish()) == whole


@pytest.mark.parametrize("name", sorted(MAKERS))
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_no_log_is_refused(name: str, data: st.DataObject) -> None:
    """Any order, any repetition, any gap, clocks that jump, erased events and those of a newer version."""
    picked = data.draw(st.lists(st.sampled_from([*ALL_RECORDED, NEWER, ERASED]), max_size=40))
    times = data.draw(st.lists(st.integers(0, 10**7), min_size=len(picked), max_size=len(picked)))
    events = [
        Placed(seq, at, one.type, one.body, one.erased)
        for seq, (one, at) in enumerate(zip(picked, times, strict=True), 1)
    ]
    assert outcome(name, events) == outcome(name, events)


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_a_log_of_which_any_event_was_erased_is_told(name: str) -> None:
    """Its type and time are still there, its body is not: nothing fails, and the rest is told."""
    for path in RECORDINGS:
        events = placed_recording(path)
        for at, event in enumerate(events if len(events) < 30 else ()):
            gone = Placed(event.seq, event.at, event.type, None, erased=True)
            assert outcome(name, [*events[:at], gone, *events[at + 1 :]]) is not None


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_what_is_named_alone_need_not_be_decoded(name: str) -> None:
    """The types in `by_name` give the same without their bodies, so that nobody has to decode them."""
    bare = MAKERS[name]().by_name
    assert bare
    for events in sessions():
        lean = [Placed(e.seq, e.at, e.type, None) if e.type in bare else e for e in events]
        assert outcome(name, lean) == outcome(name, events)


def test_golden_outputs() -> None:
    """What each projection says of every recorded session; `python -m tests.kit.projections --write` after a review."""
    assert {path.name: path.read_text(encoding="ascii") for path in GOLDEN.glob("*.json")} == golden()


def test_the_fold_inside_is_the_fold() -> None:
    """Pieces of text folded together give the state that each by itself gives."""
    for path in RECORDINGS:
        state, folded = SessionState(), Folded()
        for event in placed_recording(path):
            state = fold_event(state, event.body)
            folded.take(event)
        assert folded.state == state


def test_steps_of_the_plan_keep_the_goal_they_were_made_for() -> None:
    """Open steps of an older goal are marked, done ones are not; one that was put aside stays so."""
    first = (
        PlanItem(title="look", state="done", goal_revision=1),
        PlanItem(title="mend", state="pending", goal_revision=1),
    )
    last = PlanItem(title="drop", state="superseded", goal_revision=2)
    second = (*first, PlanItem(title="tell", state="pending", goal_revision=2), last)
    events = [
        ev.GoalRevised(goal_revision=1, message_id="m1"),
        ev.PlanUpdated(turn_id="t1", goal_revision=1, items=first),
        ev.GoalRevised(goal_revision=2, message_id="m2"),
        ev.PlanUpdated(turn_id="t2", goal_revision=2, items=second),
    ]
    plan = project(PlanProjection(), [Placed(n, n, type(b).__name__, b) for n, b in enumerate(events, 1)]).finish()
    assert [(step.title, step.goal_revision, step.superseded) for step in plan.steps] == [
        ("look", 1, False), ("mend", 1, True), ("tell", 2, False), ("drop", 2, True),
    ]  # fmt: skip
    assert (plan.turn_id, plan.at, plan.goal_revision) == ("t2", 4, 2)


def test_the_task_says_what_runs_waits_and_failed() -> None:
    """One call runs, one stands in line, a message waits; later a question; at last a failure until the next turn."""
    story = (
        Story().user_says().model_answers(call(), call("run_command")).policy_says("allow").user_says("and", queue=True)
    )
    task = project(TaskProjection(), placed_run(story)).finish()
    started = story.running.started
    assert started is not None
    assert [(one.kind, one.id, one.title) for one in task.running] == [("call", "t1.c1", started.title)]
    assert [(one.kind, one.title) for one in task.waiting] == [("call", "run_command"), ("message", "and")]
    assert task.since is not None
    assert all(one.since for one in (*task.running, *task.waiting))
    task = project(TaskProjection(), placed_run(story.tool_ends().policy_says("ask"))).finish()
    assert (task.phase, [one.kind for one in task.waiting]) == ("waiting", ["approval", "message"])
    story.user_answers("denied").model_fails()
    failed = project(TaskProjection(), placed_run(story)).finish()
    assert failed.last_failure is not None
    assert (failed.phase, failed.last_failure.code) == ("idle", "model.unreachable")
    assert project(TaskProjection(), placed_run(story.user_says("again"))).finish().last_failure is None


def test_a_transcript_that_is_taken_away_piece_by_piece_is_the_same() -> None:
    """Draining at any point loses and doubles nothing; long results keep head and tail; nothing closes a fence."""
    for events in sessions():
        whole, drained, text = TranscriptProjection(), TranscriptProjection(), ""
        for event in events:
            whole.take(event)
            drained.take(event)
            text += drained.drain()
        assert text == whole.finish()
    assert fenced("a\n```\nb") == "````\na\n```\nb\n````"
    story = Story().user_says().model_answers(call()).policy_says("allow").tool_ends("ok", "x" * 9_000 + "end")
    told = project(TranscriptProjection(), placed_run(story)).finish()
    assert len(told) < RESULT_CHARS_MAX + 500
    assert "characters left out" in told
    assert "xend" in told


@given(st.text(alphabet="`a\n", max_size=40))
def test_nothing_closes_the_fence_it_stands_in(text: str) -> None:
    """Of three ticks or more, and longer than every run of them inside."""
    first, *inner, last = fenced(text).split("\n")
    assert first == last == "`" * len(first)
    assert len(first) >= 3
    assert "`" * len(first) not in "\n".join(inner)
    assert "\n".join(inner) == text.rstrip()


@given(st.integers(0, 3 * RESULT_CHARS_MAX))
def test_a_long_result_is_told_by_its_ends(size: int) -> None:
    """Up to the limit it is whole; beyond it half of the limit stands at each end, and the rest is counted."""
    text = "".join(chr(0x4E00 + number) for number in range(size))
    told, half = shortened(text), RESULT_CHARS_MAX // 2
    if size <= RESULT_CHARS_MAX:
        assert told == text
    else:
        assert told.split("\n") == [text[:half], f"[… {size - 2 * half} characters left out …]", text[-half:]]


def test_an_unknown_event_is_mentioned() -> None:
    """Nothing of a newer version or erased is passed over in silence in what people read."""
    told = project(TranscriptProjection(), [NEWER, ERASED]).finish()
    assert "ThoughtSold" in told
    assert "erased" in told
    assert project(MetricsProjection(), [NEWER, ERASED]).finish().counts["events_unknown"] == 1
    assert project(MetricsProjection(), [NEWER, NEWER]).finish().counts["events_unknown"] == 2


def sampled() -> Story:
    """A turn with a failing run, a change, a passing run, a question, then acceptance and a taking back."""
    case = TestCase(name="t", status="failed", duration_us=None, message="")

    def run(passed: int, call_id: str) -> ev.TestRunFinished:
        return ev.TestRunFinished(
            turn_id="t1", goal_revision=1, call_id=call_id, framework="pytest", passed=passed, failed=1 - passed,
            errors=0, skipped=0, cases=(case,), cases_left_out=0,
        )  # fmt: skip

    story = Story().user_says("mend it").model_answers(call("run_tests")).policy_says("allow")
    story.tool_ends("failed", "1 failed", run(0, "t1.c1")).model_answers(call("edit_file"), call("run_tests"))
    story.policy_says("ask").user_answers("once").policy_says("allow", grant_id="g1", left=0)
    story.tool_ends("ok", "edited", mat.change("t1", 1, "t1.c2", 1)).policy_says("allow")
    story.tool_ends("ok", "1 passed", run(1, "t1.c3")).model_answers()
    return decided(story, "accepted", "undone")


def decided(story: Story, *decisions: Literal["accepted", "rejected", "undone"]) -> Story:
    """The story, and then these decisions on one hunk."""
    for decision in decisions:
        facts = ev.HunkDecided(
            change_id="ch1", path="dir/a1.py", hunk_ids=("h1",), digests=("0" * 64,), decision=decision, by="user"
        )
        story._store((facts,), fold_event(story.state, facts))
    return story


def test_a_sample_holds_what_the_turn_did_and_what_became_of_it() -> None:
    """Task, calls with their verdicts and outcomes, questions, hunks decided after the turn, tests before and after."""
    events = placed_run(sampled())
    (sample,) = project(SampleProjection(), events).finish(PRICES)
    assert (sample.task, sample.end, sample.models) == (("mend it",), "completed", ("scripted/script",))
    assert [(one.tool, one.verdict, one.answer, one.outcome) for one in sample.calls] == [
        ("run_tests", "allow", None, "failed"), ("edit_file", "allow", "allowed", "ok"),
        ("run_tests", "allow", None, "ok"),
    ]  # fmt: skip
    assert (sample.approvals, sample.hunks) == ({"asked": 1, "allowed": 1}, {"accepted": 1, "undone": 1})
    assert (sample.tests_before, sample.tests_after) == (
        counts_of(0, 1), counts_of(1, 0),
    )  # fmt: skip
    assert sample.usage.requests == 3
    assert sum(sample.parts.values()) == sample.duration_us
    first = next(n for n, event in enumerate(events) if event.type == "ModelRequestStarted")
    folded = Folded()
    for event in events[: first + 1]:
        folded.take(event)
    assert sample.context_digest == context.context_digest(folded.state.history)


def test_a_sample_of_a_turn_that_only_began_and_of_one_that_asked_twice() -> None:
    """Nothing was used yet; each question counts."""
    story = Story().user_says()
    begun = [event for event in placed_run(story) if event.type != "ModelRequestStarted"]
    (sample,) = project(SampleProjection(), begun).finish()
    assert (sample.usage, sample.models) == (UsageSum(), ())
    story.model_answers(call(), call()).policy_says("ask").user_answers("denied").policy_says("ask")
    (sample,) = project(SampleProjection(), placed_run(story)).finish()
    assert sample.approvals == {"asked": 2, "denied": 1}


def test_the_task_says_since_when_a_decision_is_written() -> None:
    """A write and the proposals that wait, each with its moment and its name."""
    story = Story().user_says().model_answers(call("edit_file")).policy_says("allow")
    story.tool_ends("ok", "edited", mat.change("t1", 1, "t1.c1", 1)).model_answers()
    story.when(inp.ApplyRequested("a1", "accept", {}, "user"))
    events = placed_run(story)
    times = {event.type: event.at for event in events}
    task = project(TaskProjection(), events).finish()
    assert [(one.kind, one.id, one.title, one.since) for one in (*task.running, *task.waiting)] == [
        ("apply", "a1", "accept", times["ChangeApplyStarted"]),
        ("change", "ch1", "dir/a1.py", times["ChangeProposed"]),
    ]


def counts_of(passed: int, failed: int) -> Any:
    return TestCounts(passed, failed, 0, 0)


@pytest.mark.parametrize(
    ("decisions", "accepted", "undone"),
    [
        (("undone", "undone"), 1, 1),
        (("accepted", "undone", "accepted", "undone"), 1, 1),
        (("accepted",), 1, 0),
        (("rejected", "undone"), 1, 1),
    ],
)
def test_an_accepted_hunk_counts_once_as_undone(decisions: Any, accepted: int, undone: int) -> None:
    """However often it went to and fro: what counts is whether it holds in the end."""
    counts = project(MetricsProjection(), placed_run(decided(sampled(), *decisions))).finish().counts
    assert (counts["hunks_accepted"], counts["hunks_undone"]) == (accepted, undone)


def test_rates_are_told_with_their_counts() -> None:
    """Questions, answers, hunks taken back, tools, stops: what happened in one known story."""
    metrics = project(MetricsProjection(), placed_run(sampled().user_says("more").user_stops().model_fails())).finish()
    counts = metrics.counts
    assert (counts["approvals_asked"], counts["approvals_allowed"], counts["approvals_denied"]) == (1, 1, 0)
    assert (counts["hunks_accepted"], counts["hunks_undone"]) == (1, 1)
    assert (counts["tools_run"], counts["tools_ok"], counts["turns_cancelled"]) == (3, 2, 1)
    assert metrics.released.count == 1
    assert metrics.all_tools().count == 3
    assert set(counts) <= set(COUNTS)


def test_measures_of_sessions_add_up() -> None:
    """Joined, they are those of all sessions, in whatever order."""
    parts = [project(MetricsProjection(), events).finish() for events in sessions()]
    forth, back = MetricsProjection().finish(), MetricsProjection().finish()
    for one in parts:
        forth.join(one)
    for one in reversed(parts):
        back.join(one)
    assert forth == back
    assert forth.counts["turns"] == sum(one.counts["turns"] for one in parts) > 20


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**13), min_size=1, max_size=60), st.sampled_from([0, 50, 95, 99, 100]))
def test_a_percentile_is_never_too_low_and_hardly_too_high(values: list[int], percent: int) -> None:
    """Against the exact one, for any values."""
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    exact = sorted(values)[max(1, -(-len(values) * percent // 100)) - 1]
    told = histogram.percentile(percent)
    assert told is not None
    assert exact <= told <= exact + exact // 32 + 1
    assert histogram.count == len(values)


def test_recordings_are_there() -> None:
    """The inputs of these tests are the recorded histories."""
    assert len(RECORDINGS) >= 11
    assert (FOLDER / "approved.json") in RECORDINGS
