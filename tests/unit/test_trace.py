"""The latency split of a turn: which part counts when, what comes late, and a clock that is set back."""

from collections.abc import Sequence

import pytest
from tests.kit.placed import RECORDINGS, placed_recording, placed_run
from tests.kit.simulation import materials as mat
from tests.kit.simulation.driver import Simulation, seeds
from tests.kit.simulation.story import Story, call

from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.events.base import EventBody
from gloveport.server.cli.view_words import shares
from gloveport.server.session.views.placed import Placed, project
from gloveport.server.session.views.trace import LATE_MAX, TraceProjection, TurnTrace
from gloveport.server.session.views.trace_turn import LINES_MAX, PARTS, VERIFYING_TOOLS
from gloveport.server.tools.registry import builtin_toolbox

BORN = {"turn_id": "t1", "goal_revision": 1}


def timed(*moments: tuple[int, EventBody | str]) -> list[Placed]:
    """Events at times; a name alone stands for an event whose body says nothing."""
    return [
        Placed(seq, at, what, None) if isinstance(what, str) else Placed(seq, at, type(what).__name__, what)
        for seq, (at, what) in enumerate(moments, 1)
    ]


def only(events: Sequence[Placed]) -> TurnTrace:
    (turn,) = project(TraceProjection(), events).finish().turns
    assert sum(turn.parts.values()) == turn.duration_us
    return turn


def spent(turn: TurnTrace) -> dict[str, int]:
    """The parts that count."""
    return {name: us for name, us in turn.parts.items() if us}


def begun(at: int = 0) -> list[tuple[int, EventBody | str]]:
    start = ev.TurnStarted(turn_id="t1", goal_revision=1, message_id="m1")
    return [(at, ev.GoalRevised(goal_revision=1, message_id="m1")), (at, start), (at, request("r1"))]


def request(name: str) -> ev.ModelRequestStarted:
    return ev.ModelRequestStarted(turn_id="t1", goal_revision=1, request_id=name, provider="p", model="m")


def accepted(name: str) -> ev.ModelRequestAccepted:
    return ev.ModelRequestAccepted(turn_id="t1", goal_revision=1, request_id=name, provider_request_id=None)


def answered(name: str) -> ev.ModelResponseReceived:
    return ev.ModelResponseReceived(
        turn_id="t1", goal_revision=1, request_id=name, text="", calls=(), stop="end", text_digest="0" * 64
    )


def proposed(name: str, tool: str = "read_file") -> ev.ToolCallProposed:
    return ev.ToolCallProposed(
        turn_id="t1", goal_revision=1, call_id=name, provider_call_id="p", tool=tool, arguments_json="{}",
        arguments_digest="0" * 64, label=mat.PLAIN_LABEL,
    )  # fmt: skip


def started(name: str, tool: str = "read_file") -> ev.ToolExecutionStarted:
    return ev.ToolExecutionStarted(
        turn_id="t1", goal_revision=1, call_id=name, tool=tool, title="read a.py", arguments_digest="0" * 64,
        effects=(), recovery="read_only", stop_class="killable", executor="memory", fingerprint=(),
        label=mat.PLAIN_LABEL, grant_id=None, security_context={},
    )  # fmt: skip


def finished(name: str, tool: str = "read_file", turn_id: str = "t1", revision: int = 1) -> ev.ToolExecutionFinished:
    return ev.ToolExecutionFinished(
        turn_id=turn_id, goal_revision=revision, call_id=name, tool=tool, outcome="ok", text="", evidence="",
        exit_code=0, output_blob=None, output_bytes=0, duration_us=1, label=mat.PLAIN_LABEL,
    )  # fmt: skip


def asked(name: str) -> ev.ApprovalRequested:
    return ev.ApprovalRequested(
        turn_id="t1", goal_revision=1, call_id=name, approval_id="a1", card={"title": "Run it?"},
        card_digest="0" * 64, expires_at=None,
    )  # fmt: skip


def allowed(name: str) -> ev.ApprovalResolved:
    return ev.ApprovalResolved(
        turn_id="t1", goal_revision=1, call_id=name, approval_id="a1", card_digest="0" * 64, decision="allowed",
        scope="once", grant_id=None, by="user",
    )  # fmt: skip


DONE = ev.TurnCompleted(turn_id="t1", goal_revision=1, reason="end")
EDITS = ev.EditsTaken(turn_id="t1", taken=("a.py",), conflicted=(), not_covered=(), text="taken")
AWAY = ev.RecoverySummarised(
    interrupted_requests=0,
    reconciled_calls=1,
    pending_approvals=0,
    unfinished_applies=0,
    text="started again",
    items=(),
)


def test_every_part_of_a_turn() -> None:
    """Edits taken over, first words, words, a call in the queue, a question, a run, tests: each its own time."""
    turn = only(
        timed(
            *begun(0),
            (5, EDITS),
            (12, accepted("r1")),
            (30, "ModelTextDelta"),
            (50, "ModelTextDelta"),
            (90, answered("r1")),
            (90, proposed("c1")),
            (90, proposed("c2", "run_tests")),
            (100, asked("c1")),
            (1_100, allowed("c1")),
            (1_103, started("c1")),
            (1_203, finished("c1")),
            (1_210, started("c2", "run_tests")),
            (2_210, finished("c2", "run_tests")),
            (2_214, request("r2")),
            (2_215, accepted("r2")),
            (2_300, answered("r2")),
            (2_301, DONE),
        )
    )
    assert spent(turn) == {
        "context_build": 5, "first_token": 25 + 1, "generation": 60 + 85, "tool_queue": 10 + 3 + 7, "approval": 1_000,
        "tool_run": 100, "verification": 1_000, "unaccounted": 4 + 1,
    }  # fmt: skip
    assert (turn.duration_us, turn.first_token_us, turn.first_action_us, turn.end) == (2_301, 30, 1_103, "completed")
    lines = {f"{line.kind}/{line.id}": (line.begins_us, line.lasts_us) for line in turn.lines}
    assert lines["approval/a1"] == (100, 1_000)
    assert lines["call/c1"] == (90, 1_113)
    assert lines["edits/r1"] == (5, 0)


def test_a_retry_a_compaction_and_time_without_a_daemon() -> None:
    """None of them counts as the model's or a tool's time."""
    broken = ev.ModelStreamInterrupted(
        turn_id="t1", goal_revision=1, request_id="r1", kept_utf16=0, code="model.rate_limited", reason="slow down"
    )
    turn = only(
        timed(
            *begun(0),
            (10, broken),
            (10, "RetryScheduled"),
            (3_010, request("r2")),
            (3_020, answered("r2")),
            (3_020, "CompactionStarted"),
            (3_520, "ContextCompacted"),
            (3_520, proposed("c1")),
            (3_520, started("c1")),
            (3_600, "ToolExecutionProgress"),
            (9_600, AWAY),
            (9_650, finished("c1")),
            (9_650, DONE),
        )
    )
    assert spent(turn) == {
        "first_token": 10 + 10, "retry": 3_000, "compaction": 500, "tool_run": 80 + 50, "away": 6_000,
    }  # fmt: skip
    assert [(line.kind, line.lasts_us) for line in turn.lines if line.kind in ("retry", "compaction")] == [
        ("retry", 3_000), ("compaction", 500),
    ]  # fmt: skip
    away = next(line for line in turn.lines if line.kind == "away")
    assert (away.begins_us, away.lasts_us) == (3_600, 6_000)


def test_each_restart_has_its_time_and_they_sum_up() -> None:
    """Two restarts in one run, the first told in two events: the lines last what the part has."""
    turn = only(
        timed(
            *begun(0),
            (10, answered("r1")),
            (10, proposed("c1")),
            (10, started("c1")),
            (100, "DriftDetected"),
            (120, AWAY),
            (200, AWAY),
            (250, finished("c1")),
            (250, DONE),
        )
    )
    lines = [(line.begins_us, line.lasts_us) for line in turn.lines if line.kind == "away"]
    assert lines == [(10, 110), (120, 80)]
    assert turn.parts["away"] == 190


def test_a_request_that_was_held_back_is_no_line() -> None:
    """What the breaker did not let out is a pause, not a request to the provider."""
    held = ev.RetryScheduled(
        **BORN, request_id="r1", attempt=1, attempts_max=5, error_class="paused", backoff_us=1, floor="breaker",
        due_at=1, provider_request_id=None, reason="left alone",
    )  # fmt: skip
    broke = ev.ModelStreamInterrupted(**BORN, request_id="r1", kept_utf16=0, code="model.unreachable", reason="later")
    turn = only(timed(*begun(0), (10, broke), (10, held), (20, request("r2")), (30, DONE)))
    assert [line.id for line in turn.lines if line.kind == "request"] == ["r2"]
    assert [line.title for line in turn.lines if line.kind == "retry"] == ["paused"]


def test_d10_a_clock_that_is_set_back_makes_no_part_negative() -> None:
    """An hour back in mid-turn: that step counts as nothing and is told; what follows is measured as it was."""
    hour = 3_600_000_000
    turn = only(
        timed(*begun(hour), (hour + 10, "ModelTextDelta"), (5, "ModelTextDelta"), (25, answered("r1")), (26, DONE))
    )
    assert spent(turn) == {"first_token": 10, "generation": 20, "unaccounted": 1}
    assert turn.clock_set_back == 1


def test_time_from_the_stop_to_the_end() -> None:
    """What was under way counts on; the release is told by itself."""
    stop = ev.TurnCancelRequested(turn_id="t1", goal_revision=1, by="user")
    end = ev.TurnCancelled(turn_id="t1", goal_revision=1, by="user")
    turn = only(
        timed(*begun(0), (10, answered("r1")), (10, proposed("c1")), (10, started("c1")), (50, stop), (90, end))
    )
    assert (turn.released_us, turn.end, spent(turn)) == (40, "cancelled", {"first_token": 10, "tool_run": 80})


def test_late_results_stand_in_the_trace() -> None:
    """A result of a goal that was changed, and one of a turn that ended: listed with both revisions."""
    revised = ev.GoalRevised(goal_revision=2, message_id="m2")
    report = project(
        TraceProjection(),
        timed(
            *begun(0), (1, answered("r1")), (1, proposed("c1")), (1, proposed("c2")), (2, started("c1")), (3, revised),
            (3, finished("c2")), (9, finished("c1")), (9, DONE), (20, finished("c3", turn_id="t1")),
        ),
    ).finish()  # fmt: skip
    assert [(late.call_id, late.goal_revision, late.current_revision) for late in report.late] == [
        ("c1", 1, 2), ("c3", 1, 2),
    ]  # fmt: skip
    (turn,) = report.turns
    assert next(line for line in turn.lines if line.id == "c1").lasts_us == 8


def test_r7_3_a_result_of_a_corrected_goal_stands_in_the_trace() -> None:
    """The real machine: a correction while a call runs; what it ends with is late, and what was said is on its line."""
    story = Story().user_says().model_answers(call("edit_file")).policy_says("allow")
    story.user_steers("no, the other file", kind="correct").tool_ends("ok", "edited")
    report = project(TraceProjection(), placed_run(story)).finish()
    assert [(late.call_id, late.goal_revision, late.current_revision) for late in report.late] == [("t1.c1", 1, 2)]
    (turn,) = report.turns
    assert [line.outcome for line in turn.lines if line.kind == "steering"] == ["correct"]


def test_the_parts_sum_up_in_every_history_wherever_it_is_cut() -> None:
    """Simulated sessions with crashes, clocks that jump both ways, and all recordings; asking changes nothing."""
    histories = [placed_run(Simulation(seed, crash_rate=0.08).run(160)) for seed in seeds(7300, 5)]
    turns = 0
    for events in [*histories, *map(placed_recording, RECORDINGS)]:
        asked_often, asked_once = TraceProjection(), TraceProjection()
        for number, event in enumerate(events):
            jumped = event if number % 17 else Placed(event.seq, event.at - 5_000, event.type, event.body)
            asked_often.take(jumped)
            asked_once.take(jumped)
            for turn in asked_often.finish().turns[-1:]:
                assert sum(turn.parts.values()) == turn.duration_us
                assert min(turn.parts.values()) >= 0
                assert tuple(turn.parts) == PARTS
        assert asked_often.finish() == asked_once.finish()
        turns += len(asked_once.finish().turns)
    assert turns > 30


def test_a_real_turn_has_every_call_on_its_line() -> None:
    """What the machine writes: both requests, the question and the call, with how each ended."""
    story = Story().user_says().model_streams("I look").model_answers(call("run_command")).policy_says("ask")
    story.user_answers("once").policy_says("allow", grant_id="g1", left=0).tool_ends("failed").model_answers()
    turn = only(placed_run(story))
    assert [(line.kind, line.outcome) for line in turn.lines] == [
        ("request", "tool_calls"), ("call", "failed"), ("approval", "allowed"), ("request", "end"),
    ]  # fmt: skip


def test_an_erased_event_still_ends_what_its_type_ends() -> None:
    """The body is gone, the moment is not: the request's line is closed, the turn has failed, parts sum up."""
    failed = ev.TurnFailed(turn_id="t1", goal_revision=1, code="model.refused", message="no", hint="ask")
    events = timed(*begun(), (7, answered("r1")), (9, failed), (20, "SessionRenamed"))
    turn = only([event if event.at not in (7, 9) else erased(event) for event in events])
    assert (turn.end, turn.code, turn.duration_us) == ("failed", "", 9)
    assert [(line.kind, line.lasts_us, line.outcome) for line in turn.lines] == [("request", 7, "")]
    assert spent(turn) == {"first_token": 7, "unaccounted": 2}


def erased(event: Placed) -> Placed:
    """The event after its payload was erased."""
    return Placed(event.seq, event.at, event.type, None, erased=True)


def test_each_absence_of_the_daemon_has_its_line_and_each_jump_back_counts() -> None:
    """Numbered in order; a turn that was stopped and still runs is not released yet."""
    stop = ev.TurnCancelRequested(turn_id="t1", goal_revision=1, by="user")
    turn = only(timed(*begun(10), (20, AWAY), (15, "ModelTextDelta"), (30, AWAY), (9, "ModelTextDelta"), (40, stop)))
    assert [(line.id, line.title) for line in turn.lines if line.kind == "away"] == [
        ("1", "started again"), ("2", "started again"),
    ]  # fmt: skip
    assert (turn.clock_set_back, turn.released_us, turn.end) == (2, None, "running")
    before = timed((99, "SessionRenamed"), (9, "SessionRenamed"), *begun(10))
    assert only(before).clock_set_back == 0


def test_an_answer_without_words_was_made_since_its_headers() -> None:
    """However many events lie between the headers and the answer."""
    turn = only(timed(*begun(), (3, accepted("r1")), (5, "UsageRecorded"), (9, "UsageRecorded"), (20, answered("r1"))))
    assert spent(turn) == {"first_token": 3, "generation": 17}


def test_lines_and_late_results_have_a_most_and_the_rest_is_counted() -> None:
    """A turn of any length costs a bounded room; a line that is there is still closed."""
    calls = [f"c{number}" for number in range(LINES_MAX + 2)]
    many = [(1, proposed(name)) for name in calls]
    late = [(3, finished(name, turn_id="t0")) for name in calls[: LATE_MAX + 3]]
    report = project(TraceProjection(), timed(*begun(), *many, (2, finished("c0")), *late)).finish()
    (turn,) = report.turns
    assert (len(turn.lines), turn.lines_left_out) == (LINES_MAX, 3)
    assert [line.lasts_us for line in turn.lines if line.id == "c0"] == [1]
    assert (len(report.late), report.late_left_out) == (LATE_MAX, 3)
    assert report.late[0].call_id == "c0"


@pytest.mark.parametrize("name", sorted(VERIFYING_TOOLS))
def test_the_tools_that_verify_exist(name: str) -> None:
    """A renamed tool would silently count as any other."""
    assert name in {spec.name for spec in builtin_toolbox().specs()}


@pytest.mark.parametrize("spent", [(232_700, 1_820_000, 146_100, 43_200, 102_700, 1_970_000), (1, 1, 1), (0, 5, 0)])
def test_percents_of_a_turn_sum_up_to_a_hundred(spent: tuple[int, ...]) -> None:
    """Each is within one of its exact share."""
    found = shares(spent)
    assert sum(found) == 100
    assert all(abs(one * 100 / sum(spent) - share) < 1 for one, share in zip(spent, found, strict=True))
    assert shares((0, 0)) == (0, 0)
