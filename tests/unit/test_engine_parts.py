"""Parts of the engine that need no room: what a model is told, audit lines, folding, undo order."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.protocol.journal.envelope import StoredEvent
from gloveport.protocol.journal.events import ChangeApplied, ChangeRefused, SessionRenamed, encode_body
from gloveport.server.audit.line import LINE_BYTES_MAX, Action, Link, make_line
from gloveport.server.commands.undoing import standing
from gloveport.server.engine.bookkeeping import entries_of
from gloveport.server.engine.folding import Loaded, body_of, fold_stored
from gloveport.server.engine.prompt import BROKEN_OFF, model_request
from gloveport.server.models.contract import AssistantTurn, SystemText, ToolResultPart, UserText
from gloveport.server.secrets.detect import Redactor
from gloveport.server.session.state import AssistantEntry, CallEntry, ResultEntry, SessionState, UserEntry
from gloveport.server.tools.registry import builtin_toolbox

SECRET = "correct-horse-battery-staple"


def same(text: str) -> str:
    """No redaction."""
    return text


def stored(kind: str, payload: dict[str, Any] | bytes, *, seq: int = 1, version: int = 1) -> StoredEvent:
    """An event as the journal gives it."""
    raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return StoredEvent("session/s", 1, seq, kind, version, 5, raw, "d")


def test_a_request_is_the_history_in_order() -> None:
    """Standing words first; interrupted text is marked; an answer without anything is left out; results keep ids."""
    call = CallEntry("t.c1", "p1", "read_file", '{"path":"a"}')
    history = (
        UserEntry("do"),
        AssistantEntry("", ()),
        AssistantEntry("I look", (call,)),
        ResultEntry("t.c1", "p1", "content", False),
        AssistantEntry("Half", interrupted=True),
        UserEntry("go on"),
    )
    tools = builtin_toolbox().specs()
    request = model_request(SessionState(model="m", history=history), tools)
    assert isinstance(request.messages[0], SystemText)
    kinds = [type(message) for message in request.messages[1:]]
    assert kinds == [UserText, AssistantTurn, ToolResultPart, AssistantTurn, UserText]
    assert request.messages[2].calls[0].call_id == request.messages[3].call_id == "p1"
    assert request.messages[4].text == f"Half\n{BROKEN_OFF}"
    assert (request.model, request.tools) == ("m", tools)


ACTIONS = {
    "ToolExecutionStarted": Action.EXEC_START,
    "PolicyDecided": Action.DECISION,
    "ApprovalResolved": Action.APPROVAL,
    "ChangeApplied": Action.CHANGE_APPLY,
    "ToolReconciled": Action.RECONCILE,
}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=3000),
    lambda inner: st.lists(inner, max_size=150) | st.dictionaries(st.text(max_size=9), inner, max_size=9),
    max_leaves=60,
)


@pytest.mark.parametrize(("kind", "action"), ACTIONS.items())
def test_each_action_has_a_line(kind: str, action: Action) -> None:
    """With its event and place; what is no action has none."""
    (entry,) = entries_of(
        stored(kind, {"by": "me", "verdict": "allow", "security_context": {"sandbox": "b"}}, seq=7), same
    )
    assert entry is not None
    assert (entry.action, entry.actor, entry.decision, entry.sandbox_id) == (action, "me", "allow", "b")
    assert (entry.params["event"], entry.params["seq"]) == (kind, 7)
    assert entries_of(stored("ModelTextDelta", {}), same) == ()


@pytest.mark.parametrize(("outcome", "action"), [("oom", Action.OOM_KILL), ("timeout", Action.TIMEOUT)])
def test_ends_by_a_limit_have_their_own_action(outcome: str, action: Action) -> None:
    """Not only exec_end."""
    (entry,) = entries_of(stored("ToolExecutionFinished", {"outcome": outcome}), same)
    assert entry is not None
    assert entry.action is action


@given(st.dictionaries(st.sampled_from(["paths", "effects", "title", "evidence", "plan", "by"]), json_values))
def test_no_event_is_too_long_for_a_line(payload: dict[str, Any]) -> None:
    """Whatever an event holds, its line can be written."""
    (entry,) = entries_of(stored("ChangeApplied", payload), same)
    assert entry is not None
    assert len(make_line(Link(1), entry).text) <= LINE_BYTES_MAX


def test_lines_hold_no_secret_and_stay_json() -> None:
    """A secret beside quotes and backslashes in a nested place."""
    redact = Redactor([SECRET]).redact
    evidence = f'"password": "{SECRET}\\", and \\'
    body = {"outcome": "ok", "evidence": evidence, "more": {"deep": [SECRET]}}
    (entry,) = entries_of(stored("ToolExecutionFinished", body), redact)
    assert entry is not None
    assert SECRET not in json.dumps(entry.params)
    assert "password" in entry.params["evidence"]


def test_folding_counts_what_it_does_not_know_and_shows_what_was_erased() -> None:
    """Newer types and versions make the state read-only; an erased event does not; refusals are kept."""
    refused = ChangeRefused(apply_id="a1", action="accept", code="change.conflict", message="m", paths=("p",))
    renamed = encode_body(SessionRenamed(title="t"))
    events = [
        stored("SessionRenamed", renamed),
        stored("ChangeRefused", encode_body(refused), seq=2),
        stored("SessionRenamed", b"{}", seq=3)._replace(erased="secret"),
    ]
    loaded = Loaded()
    fold_stored(loaded, events)
    assert (loaded.state.title, loaded.state.read_only, loaded.seq) == ("t", False, 3)
    assert loaded.refusals == {"a1": refused}
    assert body_of(events[2]) is None
    fold_stored(loaded, [stored("FromTheFuture", {}, seq=4), stored("SessionRenamed", renamed, seq=5, version=99)])
    assert (loaded.state.unknown_events, loaded.state.read_only) == (2, True)


def applied(name: str, path: str, before: str, after: str, action: Any = "accept") -> ChangeApplied:
    """A decision that took one file from one content to another."""
    record = {"steps": [{"side": "root", "path": path, "before": before, "after": after}]}
    return ChangeApplied(apply_id=name, action=action, paths=(path,), record=record, by="me")


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.booleans(), st.integers(0, 5)), max_size=14))
def test_the_decisions_in_force_are_those_not_undone(moves: list[tuple[str, bool, int]]) -> None:
    """A model: files with stacks of decisions, undone and redone in any order that the files allow."""
    content = {"a": 0, "b": 0}
    done: list[tuple[str, str, int, int]] = []  # in force: name, path, before, after
    log: list[ChangeApplied] = []
    undone: dict[str, tuple[str, str, int, int]] = {}
    for number, (path, undoing, which) in enumerate(moves):
        name = f"n{number}"
        if not undoing:
            one = (name, path, content[path], number + 1)
            done.append(one)
            log.append(applied(name, path, str(one[2]), str(one[3])))
            content[path] = number + 1
            continue
        last = [one for one in done if one[3] == content[one[1]]]
        redo = [(undo, one) for undo, one in undone.items() if one[2] == content[one[1]]]
        if which % 2 and redo:
            undo, one = redo[-1]
            del undone[undo]
            done.append(one)
            log.append(applied(name, one[1], str(one[2]), str(one[3]), "undo"))
            content[one[1]] = one[3]
        elif last:
            one = last[which % len(last)]
            done.remove(one)
            undone[name] = one
            log.append(applied(name, one[1], str(one[3]), str(one[2]), "undo"))
            content[one[1]] = one[2]
    assert {each.apply_id for each in standing(log)} == {one[0] for one in done}
