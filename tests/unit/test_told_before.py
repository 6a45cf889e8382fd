"""What the model had been shown when it made a call."""

import json

from gloveport.server.engine.told import TOLD_CHARACTERS_MAX, told_before
from gloveport.server.policy.origins import Told
from gloveport.server.session.series import Series
from gloveport.server.session.state import AssistantEntry, CallEntry, Entry, ResultEntry, SessionState, UserEntry


def called(call_id: str, tool: str, **arguments: object) -> CallEntry:
    """A call within an answer."""
    return CallEntry(call_id, call_id, tool, json.dumps(arguments))


def state(*history: Entry) -> SessionState:
    """A session with this conversation."""
    return SessionState(history=Series(history))


def result(call_id: str, text: str) -> ResultEntry:
    """What the model was told of a call."""
    return ResultEntry(call_id, call_id, text, is_error=False)


READ = called("c1", "read_file", path="a.py")
RAN = called("c2", "run_command", argv=["ls"])
SENT = called("c4", "http_request", url="x")


def test_results_come_first_the_newest_before_the_rest_and_files_by_name() -> None:
    told = told_before(
        state(
            UserEntry("go"),
            AssistantEntry("", (READ, RAN)),
            result("c1", "of a file"),
            result("c2", "of a command"),
            AssistantEntry("", (SENT,)),
        ),
        "c4",
    )
    assert told == (
        Told("result", "run_command", "of a command"),
        Told("file", "a.py", "of a file"),
        Told("message", "", "go"),
    )


def test_what_came_after_the_answer_with_the_call_is_not_among_them() -> None:
    beside = called("c3", "read_file", path="b.py")
    history = (UserEntry("go"), AssistantEntry("", (beside, SENT)), result("c3", "beside"), UserEntry("later"))
    assert told_before(state(*history), "c4") == (Told("message", "", "go"),)


def test_a_result_whose_call_is_not_known_or_says_no_path_has_no_name() -> None:
    odd = CallEntry("c1", "c1", "read_file", "[1")
    history = (result("c0", "alone"), AssistantEntry("", (odd,)), result("c1", "odd"), AssistantEntry("", (SENT,)))
    assert told_before(state(*history), "c4") == (Told("result", "read_file", "odd"), Told("result", "", "alone"))


def test_it_ends_with_so_many_characters() -> None:
    long = "x" * (TOLD_CHARACTERS_MAX - 3)
    history = (UserEntry("four"), AssistantEntry("", (RAN,)), result("c2", long), AssistantEntry("", (SENT,)))
    assert [one.text for one in told_before(state(*history), "c4")] == [long]
