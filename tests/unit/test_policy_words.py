"""Intake of plans, intent, explanations and what is shown of the rules."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit.policy_cases import BUBBLEWRAP, UNTRUSTED, command, context, default_rules, effect, judge, request

from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.protocol.journal.events.grant import PolicyDecided
from gloveport.protocol.journal.events.tool import EffectRecord
from gloveport.protocol.wire.policy import PolicyShowResult
from gloveport.server.policy import checks, decide
from gloveport.server.policy.answer import grant_from_answer
from gloveport.server.policy.capability import Scope
from gloveport.server.policy.card import build_card
from gloveport.server.policy.effects import Effect, EffectKind
from gloveport.server.policy.explain import KERNEL_CHECKS, explain, show
from gloveport.server.policy.findings import Finding
from gloveport.server.policy.intake import request_from_plan
from gloveport.server.policy.intent import intent_of
from gloveport.server.policy.labels import TOP, Integrity
from gloveport.server.policy.request import effects_of, framework_of
from gloveport.server.policy.rules.rule import Verdict

PUBLIC = LabelRecord(integrity=1, readers=None, provenance=("workspace:a.py",))
ISSUE = LabelRecord(integrity=2, readers=("model",), provenance=("issue:1",))


def test_a_plan_becomes_a_request() -> None:
    call = request_from_plan(
        call_id="c",
        tool="run_tests",
        effects=[EffectRecord(kind="execute", target="the tests"), EffectRecord(kind="read", target=".")],
        labels=[PUBLIC, ISSUE],
        arguments_digest="a" * 64,
        goal_revision=3,
        argv=["python", "-m", "pytest", "-q"],
        environment=[("B", "2"), ("A", "1")],
        file_digests=[("b", "b" * 64), ("a", "a" * 64)],
        sandbox=BUBBLEWRAP,
    )
    assert call.cwd == "."
    assert call.environment == (("A", "1"), ("B", "2"))
    assert [path for path, _ in call.file_digests] == ["a", "b"]
    assert (call.label.integrity, call.label.readers) == (Integrity.UNTRUSTED, frozenset({"model"}))
    assert call.label.provenance == ("issue:1", "workspace:a.py")
    runs = [one for one in effects_of(call) if one.kind == "execute"]
    assert [(one.target, one.fact("test_class")) for one in runs] == [("python -m pytest -q", "pytest")]


def test_what_a_command_does_beside_running_is_among_its_effects_and_measured_by_intent() -> None:
    given = {
        "call_id": "c",
        "tool": "run_command",
        "labels": [PUBLIC],
        "arguments_digest": "a" * 64,
        "goal_revision": 1,
    }
    call = request_from_plan(effects=[EffectRecord(kind="execute", target="x")], argv=["git", "push"], **given)
    assert {str(one.kind) for one in call.effects} == {"execute", "publish"}
    assert effects_of(call) == call.effects
    assert intent_of(["fix the tests"], call.effects) == "absent"
    assert intent_of(["fix the tests and push"], call.effects) == "implied"


def test_a_missing_label_is_the_worst_and_an_unknown_kind_is_kept() -> None:
    call = request_from_plan(
        call_id="c",
        tool="edit_file",
        effects=[EffectRecord(kind="teleport", target="mars")],
        labels=[PUBLIC, None],
        arguments_digest="a" * 64,
        goal_revision=1,
    )
    assert (call.label.integrity, call.label.readers) == (TOP.integrity, TOP.readers)
    assert call.unknown == ("teleport:mars",)
    assert judge(call).verdict == "ask"


@pytest.mark.parametrize(
    ("argv", "framework"),
    [(("pytest",), "pytest"), (("/usr/bin/python3.11", "-m", "pytest"), "pytest"), (("cargo", "test"), "cargo")],
)
def test_the_framework_of_a_test_run(argv: tuple[str, ...], framework: str) -> None:
    assert framework_of(argv) == framework


@pytest.mark.parametrize(
    ("text", "one", "expected"),
    [
        ("Please fix retry.py", effect("write", "src/retry.py"), "named"),
        ("Please fix it", effect("write", "src/retry.py"), "implied"),
        ("Delete the old module", effect("delete", "old.py"), "named"),
        ("old.py can go", effect("delete", "old.py"), "named"),
        ("bold.py can go", effect("delete", "old.py"), "absent"),
        ("Fix it", effect("delete", "old.py"), "absent"),
        ("Fix it and push", effect("publish", "git push"), "named"),
        ("Fix it", effect("publish", "git push"), "absent"),
        ("See api.example for the format", effect("network", "api.example:443"), "named"),
        ("See api.example.net for the format", effect("network", "api.example:443"), "absent"),
        ("", effect("read", "a.py"), "implied"),
        ("pushing", effect("publish", "git push"), "absent"),
    ],
)
def test_intent_is_in_the_users_own_words(text: str, one: Effect, expected: str) -> None:
    assert intent_of([text], [one]) == expected


def test_the_least_intended_effect_counts() -> None:
    assert intent_of(["fix a.py"], [effect("write", "a.py"), effect("publish", "git push")]) == "absent"
    assert intent_of(["fix a.py"], []) == "implied"


def test_why_says_what_decided_and_what_can_be_done() -> None:
    refused = explain(judge(command("pytest"), trust_level=None))
    assert refused.decision.startswith("Refused: This workspace counts as untrusted")
    assert "kernel:rung" in refused.decision
    assert "workspace/trust" in refused.hint
    asked = explain(judge(command("pytest")))
    assert asked.decision.startswith("Asked about:")
    assert "narrowest" in asked.hint
    forbidden = explain(judge(request(effect("write", ".git/config"))))
    assert "yourself" in forbidden.hint
    assert explain(judge(request(effect("read", "a.py"), tool="read_file"))).hint == ""


def test_why_reads_the_journals_record() -> None:
    call = command("pytest")
    card = build_card(call, judge(call), context())
    grant = grant_from_answer(card, option=0, grant_id="g-7", approval_id="a", issued_at=1_000_000)
    decision = judge(call, grant)
    record = PolicyDecided(
        turn_id="t",
        goal_revision=1,
        call_id="c",
        verdict=decision.verdict.value,
        risk=decision.risk,
        reason=decision.reason,
        rule_ids=decision.rule_ids,
        rules_hash=decision.rules_hash,
        effects=(),
        grant_id=decision.grant_id,
    )
    assert explain(record) == explain(decision)
    assert "g-7" in explain(record).decision
    assert "Revoke" in explain(record).hint


def test_one_reason_that_is_left_out_is_one() -> None:
    findings = tuple(Finding("kernel:x", Verdict.ask, f"Reason {number}.", Scope.once) for number in range(5))
    assert decide._reason(findings).endswith(" And 1 more reason.")


def test_a_long_list_of_reasons_is_counted() -> None:
    decision = judge(
        command("git", "push", "--force", intent="absent", reversible=False, label=UNTRUSTED, unknown=("x:y",))
    )
    assert "more reasons" in decision.reason


def test_everything_in_force_is_shown() -> None:
    result = PolicyShowResult.model_validate(show(default_rules()))
    assert result.rules_hash == default_rules().hash
    shown = {(rule.source, rule.rule_id) for rule in result.rules}
    assert {("builtin", rule.rule_id) for rule in default_rules().rules} <= shown
    assert {("kernel", check) for check in KERNEL_CHECKS} <= shown
    assert all(rule.justification for rule in result.rules)


def test_every_check_of_the_kernel_is_listed() -> None:
    """What decides is what is shown: the names in the code and the table are the same."""
    folder = Path(checks.__file__).parent
    used = {
        call.args[0].value
        for name in ("checks.py", "findings.py")
        for call in ast.walk(ast.parse((folder / name).read_text(encoding="utf-8")))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id in {"ask", "deny"}
        and isinstance(call.args[0], ast.Constant)
    }
    assert used == set(KERNEL_CHECKS)


def test_tools_declare_only_kinds_that_policy_knows() -> None:
    tools = Path(checks.__file__).parent.parent / "tools"
    declared = {
        call.args[0].value
        for path in tools.glob("*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in {"effect", "EffectRecord"}
        if call.args and isinstance(call.args[0], ast.Constant)
    }
    assert declared
    assert declared <= {str(kind) for kind in EffectKind}


def test_the_room_loads_neither_pydantic_nor_a_toml_parser() -> None:
    """Import cost: the kernel is loaded by every command; the parser only where rules are read."""
    program = (
        "import sys, pkgutil, importlib, gloveport.server.policy as room;"
        "[importlib.import_module(m.name) for m in pkgutil.walk_packages(room.__path__, room.__name__ + '.')];"
        "print(sorted({'pydantic', 'tomllib', 'asyncio', 'socket'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "[]"
