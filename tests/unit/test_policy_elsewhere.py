"""A sandbox on another machine as policy sees it: a reader of what is sent there.

Purpose: its machine is asked about by name, and what it may not read does not run there.
"""

from dataclasses import replace

from tests.kit.policy_cases import MACHINE, WORKSPACE, command, context, effect, judge, request

from gloveport.server.policy.capability import Scope
from gloveport.server.policy.card import build_card
from gloveport.server.policy.rung import SandboxFacts

REMOTE = SandboxFacts("remote-ssh", 3, False, (), (), "", "build.example")
ASKED = "kernel:another-machine"


def test_the_machine_is_asked_about_by_its_name() -> None:
    call = command("ls", "-l", sandbox=REMOTE)
    decision = judge(call)
    assert decision.verdict == "ask"
    assert ASKED in decision.rule_ids
    assert "build.example" in decision.reason
    assert decision.need is not None
    assert decision.need.ceiling is Scope.session, "one answer may last for the session"
    card = build_card(call, decision, context(), summary="ls", diff="")
    assert any("build.example" in note for note in card["notes"])


def test_positive_control_on_this_machine_nothing_of_it_is_asked() -> None:
    assert ASKED not in judge(command("ls", "-l", sandbox=MACHINE)).rule_ids


def test_what_the_machine_may_not_read_does_not_run_there() -> None:
    """The same with the machine among its readers is asked about as ever."""
    confidential = replace(WORKSPACE, readers=frozenset({"api.example"}))
    denied = judge(command("ls", "-l", sandbox=REMOTE, label=confidential))
    assert denied.verdict == "deny"
    assert "build.example" in denied.reason
    shared = replace(WORKSPACE, readers=frozenset({"api.example", "build.example"}))
    assert judge(command("ls", "-l", sandbox=REMOTE, label=shared)).verdict == "ask"


def test_what_lies_in_the_copy_that_is_sent_counts_as_what_was_read() -> None:
    """Nothing confidential was read in this session; an earlier one left it in the folder."""
    left = replace(WORKSPACE, readers=frozenset({"api.example"}))
    denied = judge(command("ls", "-l", sandbox=REMOTE, carried=left))
    assert denied.verdict == "deny"
    assert "copy of the project" in denied.reason
    shared = replace(WORKSPACE, readers=frozenset({"build.example"}))
    assert judge(command("ls", "-l", sandbox=REMOTE, carried=shared)).verdict == "ask"
    assert judge(command("ls", "-l", sandbox=MACHINE, carried=left)).verdict == "allow", "the control: it stays here"


def test_what_runs_nothing_is_not_sent() -> None:
    call = request(effect("read", "src/app.py"), tool="read_file", sandbox=REMOTE)
    assert ASKED not in judge(call).rule_ids
