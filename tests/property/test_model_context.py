"""What the model is told is valid at every point of every history, and what was told stays told."""

import json
from itertools import chain, pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.placed import RECORDINGS, placed_recording, placed_run
from tests.kit.simulation.driver import Simulation, seeds
from tests.kit.simulation.story import Story, call

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.text import GO_ON
from gloveport.server.engine.prompt import model_request
from gloveport.server.session.evolve import evolve
from gloveport.server.session.fold import fold_event
from gloveport.server.session.state import AssistantEntry, CallEntry, Entry, ResultEntry, SessionState, UserEntry
from gloveport.server.session.views import context
from gloveport.server.session.views.context import (
    INTERRUPTED_TEXT,
    ContextProjection,
    context_digest,
    context_faults,
    provider_history,
)
from gloveport.server.session.views.placed import Placed, project

HISTORIES = 6
MOVES = 160
IDS = st.sampled_from(["p1", "p2", "", "call_1", "call_2", "toolu_😀", "x" * 80])
CALLS = st.builds(CallEntry, st.sampled_from(["c1", "c2", "c3"]), IDS, st.just("read_file"), st.just("{}"))
TEXTS = st.sampled_from(["", " ", "words"])
ENTRIES = st.lists(
    st.builds(UserEntry, TEXTS)
    | st.builds(AssistantEntry, TEXTS, st.lists(CALLS, max_size=3).map(tuple), st.booleans())
    | st.builds(ResultEntry, st.sampled_from(["c1", "c2", "c3", "c9"]), IDS, TEXTS, st.booleans()),
    max_size=14,
)


def histories() -> list[list[Placed]]:
    """Simulated sessions with crashes, and the recorded ones."""
    runs = [placed_run(Simulation(seed, crash_rate=0.08).run(MOVES)) for seed in seeds(7100, HISTORIES)]
    return [*runs, *map(placed_recording, RECORDINGS)]


def told_at_each_request(events: list[Placed]) -> list[list[tuple[Entry, ...]]]:
    """What each request of a session told; a compaction begins a new list, since it shortens what was told."""
    projection = ContextProjection()
    told: list[list[tuple[Entry, ...]]] = [[]]
    for event in events:
        projection.take(event)
        if event.type == "ContextCompacted":
            told.append([])
        if event.type == "ModelRequestStarted":
            told[-1].append(projection.finish())
    return told


def test_f05_the_context_is_valid_wherever_a_session_is_cut() -> None:
    """Cut after any event, as a kill does: every call has its one result, ids are unique, nothing is empty."""
    calls = 0
    for events in histories():
        projection = ContextProjection()
        for event in events:
            projection.take(event)
            if event.type in ("ModelTextDelta", "ToolExecutionProgress"):
                continue
            entries = projection.finish()
            assert context_faults(entries) == (), event
            for entry in entries:
                for one in entry.calls if isinstance(entry, AssistantEntry) else ():
                    assert isinstance(json.loads(one.arguments_json), dict)
                    calls += 1
    assert calls > 1000


def test_what_was_told_is_the_beginning_of_what_is_told_later() -> None:
    """The prefix that a provider keeps in its cache stays byte-identical over a whole session, crashes included."""
    requests = 0
    for events in histories():
        for before, after in chain.from_iterable(map(pairwise, told_at_each_request(events))):
            if before[-1:] in ((), (UserEntry(GO_ON),)):
                continue  # a blank message tells nothing; the user's own next words may take the place of ours
            assert after[: len(before)] == before
            assert context_digest(after[: len(before)]) == context_digest(before)
            requests += 1
    assert requests > 140


def test_the_state_of_a_session_tells_what_its_events_tell() -> None:
    """The projection and the request that is sent come from one fold."""
    run = Simulation(7200, crash_rate=0.05).run(MOVES)
    for events in [placed_run(run), *histories()]:
        folded = SessionState()
        for event in events:
            folded = fold_event(folded, event.body)
        assert project(ContextProjection(), events).finish() == provider_history(folded.history)
    sent = model_request(run.state, ()).messages[1:]
    assert len(sent) == len(provider_history(run.state.history))


@settings(deadline=None, max_examples=400)
@given(ENTRIES, st.integers(0, 14), st.integers(0, 14))
def test_f05_any_piece_of_any_history_is_told_validly(entries: list[Entry], begin: int, end: int) -> None:
    """A compaction that splits a pair, results without calls, calls without results, ids that repeat."""
    told = provider_history(entries[begin:end])
    assert context_faults(told) == ()
    assert provider_history(told) == told


def test_f05_one_of_three_calls_was_cancelled() -> None:
    """A kill after the first result: the two others are told as interrupted, effects unknown."""
    story = Story().user_says().model_answers(call(), call("run_command"), call("run_tests")).policy_says("allow")
    story.tool_ends("ok", "read")
    told = provider_history(story.state.history)
    assert [entry.text for entry in told if isinstance(entry, ResultEntry)] == ["read", *[INTERRUPTED_TEXT] * 2]
    assert [entry.is_error for entry in told if isinstance(entry, ResultEntry)] == [False, True, True]
    assert context_faults(told) == ()


def test_f04_broken_arguments_stay_out_of_the_history() -> None:
    """Truncated, empty and listed arguments are told as an empty object with an error result."""
    story = Story().user_says()
    story.model_answers(call(arguments='{"command":"ls'), call(arguments=""), call(arguments="[]"))
    told = provider_history(story.state.history)
    answer = next(entry for entry in told if isinstance(entry, AssistantEntry))
    assert [one.arguments_json for one in answer.calls] == ["{}"] * 3
    results = [entry for entry in told if isinstance(entry, ResultEntry)]
    assert all("nothing ran" in entry.text and entry.is_error for entry in results)
    assert context_faults(told) == ()


def test_f07_an_answer_that_broke_off_is_told_as_far_as_it_came() -> None:
    """Where the user did not speak after it, a line of ours stands between it and the next answer."""
    half, whole = AssistantEntry("half", interrupted=True), AssistantEntry("whole")
    ask, more, go_on = UserEntry("why?"), UserEntry("go on"), UserEntry(GO_ON)
    assert provider_history([ask, half]) == (ask, half, go_on)
    assert provider_history([ask, half, whole]) == (ask, half, go_on, whole)
    assert provider_history([ask, half, more, whole]) == (ask, half, more, whole)
    assert provider_history([ask, AssistantEntry("", interrupted=True), whole]) == (ask, whole)


def test_what_the_user_said_between_a_call_and_its_result_stands_after_the_result() -> None:
    """A message that overtakes a running call splits no pair."""
    ask, more = UserEntry("mend it"), UserEntry("gently")
    calls = (CallEntry("c1", "p1", "read_file", "{}"), CallEntry("c2", "p2", "read_file", "{}"))
    two, one = ResultEntry("c2", "p2", "2", False), ResultEntry("c1", "p1", "1", False)
    told = provider_history([ask, AssistantEntry("", calls), two, more, one])
    assert told == (ask, AssistantEntry("", calls), one, two, more)


def test_a_late_result_changes_nothing_that_was_told() -> None:
    """The model went on without it: it stays out."""
    history: list[Entry] = [
        UserEntry("x"),
        AssistantEntry("", (CallEntry("c1", "p1", "t", "{}"),)),
        AssistantEntry("on"),
    ]
    late = [*history, ResultEntry("c1", "p1", "late", False)]
    assert provider_history(late) == provider_history(history)
    twice: list[Entry] = [
        *history[:2],
        ResultEntry("c1", "p1", "first", False),
        ResultEntry("c1", "p1", "second", False),
    ]
    assert [entry.text for entry in provider_history(twice)][-1] == "first"


def test_a_call_that_repeats_does_not_hide_those_after_it() -> None:
    """The second telling of a call stays out, the next call of the same answer does not."""
    history = [
        UserEntry("x"),
        answer(("c1", "p1")),
        ResultEntry("c1", "p1", "1", False),
        answer(("c1", "p1"), ("c2", "p2")),
    ]
    told = provider_history(history)
    assert [[one.call_id for one in entry.calls] for entry in told if isinstance(entry, AssistantEntry)] == [
        ["c1"],
        ["c2"],
    ]


def test_ids_that_repeat_or_that_a_provider_refuses_are_replaced() -> None:
    """Servers that call every call `call_1`, and ids of another provider's alphabet."""
    story = Story().user_says().model_answers(call(), call(), call(provider_id="toolu_😀"), call(provider_id=""))
    told = provider_history(story.state.history)
    ids = [one.provider_call_id for entry in told if isinstance(entry, AssistantEntry) for one in entry.calls]
    assert ids[0] == "p1"
    assert len(set(ids)) == len(ids) == 4
    assert all(context._PLAIN_ID.fullmatch(name) for name in ids)


def answer(*calls: tuple[str, str], text: str = "", arguments: str = "{}") -> AssistantEntry:
    """An answer with calls, each by our id and the provider's."""
    return AssistantEntry(text, tuple(CallEntry(ours, theirs, "t", arguments) for ours, theirs in calls))


def result(name: str) -> ResultEntry:
    """A result for the provider's id."""
    return ResultEntry("c", name, "", False)


@pytest.mark.parametrize(
    ("entries", "faults"),
    [
        ([AssistantEntry("x")], ["entry 0: the first entry is not the user's"]),
        ([UserEntry("x"), result("p")], ["entry 1: a result that no call before it waits for"]),
        ([UserEntry("x"), answer(("c", "p"))], ["calls without a result: p"]),
        ([UserEntry("x"), answer(("c", "p"), ("d", "q"))], ["calls without a result: p, q"]),
        (
            [UserEntry("x"), answer(("c", "p"), ("d", "q")), UserEntry("y"), UserEntry("z")],
            ["entry 2: calls without a result: p, q"],
        ),
        (
            [UserEntry("x"), answer(("c", "p"), ("d", "q")), result("q"), result("p")],
            [
                "entry 2: a result that no call before it waits for",
                "entry 3: a result that no call before it waits for",
            ],
        ),
        ([UserEntry("x"), AssistantEntry(" ")], ["entry 1: empty"]),
        ([UserEntry(" ")], ["entry 0: empty"]),
        ([UserEntry("x"), answer(("c", "p"), arguments='{"a'), result("p")], ["entry 1: arguments that are no object"]),
        ([UserEntry("x"), answer(("c", "p"), arguments="a}"), result("p")], ["entry 1: arguments that are no object"]),
        ([UserEntry("x"), answer(("a", "p"), ("b", "p")), *[result("p")] * 2], ["entry 1: the id p is used twice"]),
        (
            [UserEntry("x"), answer(("c", "p")), result("p"), answer(("d", "p")), result("p")],
            ["entry 3: the id p is used twice"],
        ),
        ([UserEntry("x"), answer(("c", "p.q")), result("p.q")], ["entry 1: an id that some provider refuses"]),
        ([UserEntry("x"), answer(("c", "p"), ("d", "q")), result("p"), result("q"), UserEntry("y")], []),
    ],
)
def test_the_check_before_each_send_finds_each_fault(entries: list[Entry], faults: list[str]) -> None:
    """A control: each kind of invalid history is named with its place, and nothing else is."""
    assert list(context_faults(entries)) == faults


def test_what_would_be_refused_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should the telling ever be wrong, the request fails with words and is not sent."""
    monkeypatch.setattr("gloveport.server.engine.prompt.provider_history", tuple)
    state = evolve(SessionState(), history=(UserEntry("x"), ResultEntry("c", "p", "", False)))
    with pytest.raises(GloveportError, match="cannot be sent") as refused:
        model_request(state, ())
    assert refused.value.code is ErrorCode.INTERNAL


def test_the_digest_tells_entries_apart() -> None:
    """Equal entries have equal digests; order, kind and every field count."""
    rng = Random(1)
    entries: list[Entry] = [
        UserEntry("a"), AssistantEntry("a"), AssistantEntry("a", interrupted=True), ResultEntry("c", "p", "a", True),
        ResultEntry("c", "p", "a", False), AssistantEntry("a", (CallEntry("c", "p", "t", "{}"),)),
    ]  # fmt: skip
    assert len({context_digest([entry]) for entry in entries}) == len(entries)
    shuffled = rng.sample(entries, len(entries))
    assert shuffled != entries
    assert context_digest(shuffled) != context_digest(entries) == context_digest(list(entries))
