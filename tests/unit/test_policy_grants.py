"""Cards, answers, grants: what a user says holds for exactly what was shown."""

from dataclasses import replace
from typing import Any

import pytest
from tests.kit.policy_cases import (
    BUBBLEWRAP,
    MACHINE,
    PROCESS,
    UNTRUSTED,
    USER,
    command,
    context,
    effect,
    judge,
    request,
    verdict,
)

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.ids import Sha256
from gloveport.protocol.journal.events.base import decode_body, encode_body
from gloveport.protocol.journal.events.grant import GrantIssued
from gloveport.server.policy.answer import grant_from_answer, grant_from_issued, issued_fields, option_for
from gloveport.server.policy.capability import Scope
from gloveport.server.policy.card import build_card, card_digest
from gloveport.server.policy.errors import TooWideError
from gloveport.server.policy.grant import Grant, grant_from_plain
from gloveport.server.policy.request import Request

MINUTE_US = 60_000_000


def card_of(call: Request, **changes: Any) -> dict[str, Any]:
    return build_card(call, judge(call, **changes), context(**changes), summary="what the tool says")


def allow(call: Request, scope: Scope = Scope.once, **answer: Any) -> Grant:
    """The grant of an answer with this scope to the card of a call."""
    card = card_of(call)
    option = option_for(card, scope)
    assert option is not None, card["refused_scopes"]
    given = {"grant_id": "g-1", "approval_id": "call-1.a1", "issued_at": 1_000_000, **answer}
    return grant_from_answer(card, option=option, **given)


@pytest.mark.parametrize("scope", list(Scope))
def test_every_offer_answers_the_call_it_was_made_for(scope: Scope) -> None:
    """B08: what was allowed is not asked about again."""
    call = command("pytest", "-q", tool="run_tests")
    decision = judge(call, allow(call, scope))
    assert decision.verdict == "allow"
    assert decision.grant_id == "g-1"
    assert decision.need is None
    assert decision.grant_uses_left == (0 if scope is Scope.once else None)


def test_every_option_of_a_card_answers_the_next_identical_call() -> None:
    """B08: a lasting offer really matches the next identical call, which has another id."""
    call = command("mypy", "src", file_digests=(("src", Sha256("b" * 64)),))
    card = card_of(call)
    assert {one["scope"] for one in card["options"]} == {"once", "turn", "session", "workspace"}
    for option, shown in enumerate(card["options"]):
        grant = grant_from_answer(card, option=option, grant_id="g", approval_id="a", issued_at=1_000_000)
        again = replace(call, call_id="call-2")
        assert verdict(call, grant) == "allow"
        assert verdict(again, grant) == ("ask" if shown["scope"] == "once" else "allow"), shown["sentence"]


def test_b16_no_right_lasts_for_a_named_file_that_cannot_be_bound() -> None:
    """Only this once is offered, the card tells the file, and a right from before does not answer."""
    call = command("mypy", "src")
    card = card_of(call)
    lasting = next(at for at, one in enumerate(card["options"]) if one["scope"] == "workspace")
    grant = grant_from_answer(card, option=lasting, grant_id="g", approval_id="a", issued_at=1_000_000)
    assert verdict(call, grant) == "allow"
    unbound = replace(call, unbound=("hard.py",))
    assert verdict(unbound, grant) == "ask"
    shown = card_of(unbound)
    assert {one["scope"] for one in shown["options"]} == {"once"}
    assert any("hard.py" in note for note in shown["notes"])


@pytest.mark.parametrize(
    "change",
    [
        {"argv": ("pytest", "-x")},
        {"cwd": "sub"},
        {"environment": (("CI", "1"),)},
        {"file_digests": (("script.sh", Sha256("c" * 64)),)},
        {"arguments_digest": Sha256("d" * 64)},
        {"tool": "run_command"},
        {"sandbox": PROCESS},
        {"label": UNTRUSTED, "sandbox": MACHINE},
    ],
    ids=lambda change: next(iter(change)),
)
def test_an_answer_holds_for_exactly_what_was_shown(change: dict[str, Any]) -> None:
    """B16: argv, folder, variables, files, sandbox and provenance are checked again when it runs."""
    call = command("pytest", "-q", tool="run_tests", file_digests=(("script.sh", Sha256("b" * 64)),))
    grant = allow(call)
    assert verdict(call, grant) == "allow"
    assert verdict(replace(call, **change), grant) == "ask"


def test_a_lasting_exact_grant_is_bound_to_the_script_it_ran() -> None:
    """B16: `python script.py` allowed for the session asks again when the script has changed."""
    call = command("python", "tool.py", file_digests=(("tool.py", Sha256("b" * 64)),))
    grant = allow(call, Scope.session)
    assert verdict(replace(call, call_id="call-2"), grant) == "allow"
    assert verdict(replace(call, file_digests=(("tool.py", Sha256("c" * 64)),)), grant) == "ask"


def test_a_lasting_grant_is_for_one_tool() -> None:
    call = command("pytest", "-q")
    grant = allow(call, Scope.session)
    assert verdict(replace(call, call_id="call-2"), grant) == "allow"
    assert verdict(replace(call, tool="run_tests"), grant) == "ask"


@pytest.mark.parametrize(
    "change",
    [
        {"cwd": "sub"},
        {"environment": (("CI", "1"),)},
        {"label": UNTRUSTED},
        {"sandbox": BUBBLEWRAP},
        {"sandbox": replace(MACHINE, network=True)},
        {"file_digests": (("tool.py", Sha256("c" * 64)),)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_lasting_grant_is_bound_to_place_variables_files_and_provenance(change: dict[str, Any]) -> None:
    """B16: each of them alone ends the match."""
    call = command("python", "tool.py", sandbox=MACHINE, file_digests=(("tool.py", Sha256("b" * 64)),))
    grant = allow(call, Scope.session)
    assert verdict(replace(call, call_id="call-2"), grant) == "allow"
    assert verdict(replace(call, call_id="call-2", **change), grant) == "ask"


def test_a_grant_that_names_one_request_answers_no_other() -> None:
    """Whatever its scope says: a stored grant is read strictly."""
    call = command("pytest", "-q")
    grant = allow(call, Scope.session)
    assert verdict(call, replace(grant, bound=replace(grant.bound, request=Sha256("f" * 64)))) == "ask"


def test_a_stronger_sandbox_is_within_a_grant_and_a_weaker_or_open_one_is_not() -> None:
    call = command("pytest")
    grant = allow(call, Scope.session)
    assert verdict(replace(call, sandbox=MACHINE), grant) == "allow"
    assert verdict(replace(call, sandbox=replace(BUBBLEWRAP, network=True)), grant) == "ask"
    assert verdict(replace(call, sandbox=PROCESS), grant) == "ask"


def test_scopes_end_where_they_say() -> None:
    call = command("pytest", "-q", tool="run_tests")
    next_goal = replace(call, goal_revision=2)
    ends: dict[Scope, list[dict[str, Any]]] = {
        Scope.turn: [{"turn_id": "t-2"}, {"session_id": "s-2"}, {"workspace_id": "w-2"}, {"agent": "main/child"}],
        Scope.session: [
            {"session_id": "s-2"},
            {"workspace_id": "w-2"},
            {"agent": "main/child"},
            {"trust_generation": 1},
        ],
        Scope.workspace: [{"workspace_id": "w-2"}, {"agent": "main/child"}, {"trust_generation": 1}],
    }
    for scope, changes in ends.items():
        grant = allow(call, scope)
        for change in changes:
            assert verdict(call, grant, **change) == "ask", (scope, change)
    assert verdict(next_goal, allow(call, Scope.turn), goal_revision=2) == "ask"
    assert verdict(next_goal, allow(call, Scope.session), goal_revision=2, turn_id="t-2") == "allow"
    assert verdict(next_goal, allow(call, Scope.workspace), goal_revision=2, session_id="s-2") == "allow"


def test_a_subagent_needs_a_grant_of_its_own_and_is_named_on_its_card() -> None:
    """B17: a right of the parent is not the child's; the card says who asks."""
    call = command("pytest", tool="run_tests")
    assert verdict(call, allow(call, Scope.workspace), agent="main/child") == "ask"
    assert card_of(call, agent="main/child")["agent"] == "main/child"


def test_ended_grants_do_not_count() -> None:
    call = command("pytest")
    grant = allow(call, Scope.session)
    assert grant.expires_at is not None
    assert verdict(call, grant, now=grant.expires_at - 1) == "allow"
    assert verdict(call, grant, now=grant.expires_at) == "ask"
    assert verdict(call, replace(grant, revoked_at=5)) == "ask"
    assert verdict(call, replace(grant, uses_left=0)) == "ask"
    counted = judge(call, replace(grant, uses_left=5))
    assert (counted.verdict, counted.grant_uses_left) == ("allow", 4)


def test_no_right_to_run_reaches_outside() -> None:
    """A lasting right to run tests, or this very command, lets no place through; one answer is for that one place."""
    plain = command("pytest", "-q", tool="run_tests")
    network, other = effect("network", "a.example:443"), effect("network", "b.example:443")
    for scope in (Scope.turn, Scope.session):
        grant = allow(plain, scope)
        assert judge(plain, grant).verdict == "allow"
        outside = replace(plain, effects=(*plain.effects, network))
        asked = judge(outside, grant)
        assert asked.verdict == "ask"
        assert [option["scope"] for option in card_of(outside)["options"]] == ["once"]
    once = allow(outside)
    assert judge(outside, once).verdict == "allow"
    assert judge(replace(plain, effects=(*plain.effects, other)), once).verdict == "ask"
    assert judge(replace(outside, effects=(*outside.effects, other)), once).verdict == "ask"


def test_the_narrowest_grant_answers() -> None:
    call = command("pytest", "-q", tool="run_tests")
    wide = replace(allow(call, Scope.workspace), grant_id="wide")
    narrow = replace(allow(call), grant_id="narrow")
    assert judge(call, wide, narrow).grant_id == "narrow"
    assert judge(call, narrow, wide).grant_id == "narrow"


# ---- what is never lasting ----


@pytest.mark.parametrize(
    "call",
    [
        command("git", "push"),
        command("npm", "install", "left-pad"),
        command("bash", "-c", "pytest"),
        command("rm", "-rf", "build"),
        command("make", environment=(("LD_PRELOAD", "./e.so"),)),
        request(effect("read", ".env"), tool="read_file"),
        request(effect("write", "conftest.py")),
        request(effect("write", "a.py"), reversible=False),
        request(effect("network", "api.example:443"), tool="http_request"),
        request(effect("delete", "src", recursive="true"), tool="delete_file"),
        request(unknown=("teleport:mars",)),
        command("pytest", label=UNTRUSTED),
    ],
    ids=lambda call: call.argv[0] if call.argv else (call.effects or call.unknown)[0],
)
def test_irreversible_and_sensitive_calls_are_asked_each_time(call: Request) -> None:
    card = card_of(call)
    assert [one["scope"] for one in card["options"]] == ["once"]
    assert {one["scope"] for one in card["refused_scopes"]} == {"turn", "session", "workspace"}
    assert all(one["reason"] for one in card["refused_scopes"])
    assert verdict(call, allow(call)) == "allow"
    forged = replace(allow(call), scope=Scope.session, uses_left=None, bound=replace(allow(call).bound, request=None))
    assert verdict(call, forged) == "ask"


def test_no_grant_answers_a_deny() -> None:
    call = command("pytest")
    grant = allow(call, Scope.workspace)
    assert verdict(replace(call, goal_revision=2), grant) == "deny"
    assert verdict(call, replace(grant, trust_generation=0), trust_level=None) == "deny"


@pytest.mark.parametrize("scope", [Scope.turn, Scope.session, Scope.workspace])
def test_workspace_grants_are_not_for_the_process_rung_or_untrusted_text(scope: Scope) -> None:
    on_process = card_of(command("pytest", tool="run_tests", sandbox=PROCESS))
    untrusted = card_of(command("pytest", tool="run_tests", sandbox=MACHINE, label=UNTRUSTED))
    for card in (on_process, untrusted):
        assert (option_for(card, scope) is None) == (scope is Scope.workspace)


# ---- answers ----


def test_an_answer_may_narrow_the_scope_the_uses_and_the_time() -> None:
    call = command("pytest", "-q", tool="run_tests")
    grant = allow(call, Scope.session, narrowed_to={"scope": "turn", "uses": 2}, expires_at=1_000_000 + MINUTE_US)
    assert (grant.scope, grant.uses_left, grant.expires_at) == (Scope.turn, 2, 1_000_000 + MINUTE_US)
    assert grant.turn_id == "t-1"
    assert judge(call, grant).grant_uses_left == 1


def test_an_answer_may_narrow_the_targets() -> None:
    call = command("pytest", "tests")
    card = card_of(call)
    prefix = next(at for at, one in enumerate(card["options"]) if one["capability"]["pattern"]["kind"] == "argv_prefix")
    narrowed = {
        "tool": "run_command",
        "kinds": ["execute"],
        "pattern": {"kind": "argv_exact", "value": ["pytest", "a.py"]},
    }
    grant = grant_from_answer(
        card, option=prefix, narrowed_to={"capability": narrowed}, grant_id="g", approval_id="a", issued_at=1_000_000
    )
    assert verdict(command("pytest", "a.py"), grant) == "allow"
    assert verdict(call, grant) == "ask"


@pytest.mark.parametrize(
    "wide",
    [
        {"narrowed_to": {"scope": "workspace"}},
        {"narrowed_to": {"scope": "for ever"}},
        {"narrowed_to": {"scope": "once"}},
        {"narrowed_to": {"uses": 0}},
        {"narrowed_to": {"uses": True}},
        {"narrowed_to": {"kinds": ["network"]}},
        {"narrowed_to": {"capability": "all"}},
        {"narrowed_to": {"capability": {"tool": "run_tests"}}},
        {
            "narrowed_to": {
                "capability": {
                    "tool": "run_command",
                    "kinds": ["execute"],
                    "pattern": {"kind": "test_class", "value": ["pytest"]},
                }
            }
        },
        {
            "narrowed_to": {
                "capability": {
                    "tool": "run_tests",
                    "kinds": ["execute", "network"],
                    "pattern": {"kind": "test_class", "value": ["pytest"]},
                }
            }
        },
        {
            "narrowed_to": {
                "capability": {
                    "tool": "run_tests",
                    "kinds": ["execute"],
                    "pattern": {"kind": "test_class", "value": ["make"]},
                }
            }
        },
        {
            "narrowed_to": {
                "capability": {
                    "tool": "run_tests",
                    "kinds": ["execute"],
                    "pattern": {"kind": "argv_prefix", "value": ["python"]},
                }
            }
        },
        {"expires_at": 1_000_000},
        {"expires_at": 1_000_000 + 1000 * 60 * MINUTE_US},
        {"option": 99},
        {"option": -1},
    ],
    ids=str,
)
def test_an_answer_never_widens(wide: dict[str, Any]) -> None:
    card = card_of(command("pytest", "-q", tool="run_tests"))
    given = {"option": option_for(card, Scope.session), "grant_id": "g", "approval_id": "a", "issued_at": 1_000_000}
    with pytest.raises(TooWideError) as refused:
        grant_from_answer(card, **{**given, **wide})
    assert refused.value.code is ErrorCode.TOO_WIDE


def test_an_answer_never_goes_past_the_last_option_or_the_one_use() -> None:
    card = card_of(command("pytest", "-q", tool="run_tests"))
    given = {"grant_id": "g", "approval_id": "a", "issued_at": 1_000_000}
    with pytest.raises(TooWideError):
        grant_from_answer(card, option=len(card["options"]), **given)
    with pytest.raises(TooWideError):
        grant_from_answer(card, option=0, narrowed_to={"uses": 2}, **given)


def test_over_broad_grants_are_refused_even_when_forged() -> None:
    """B07: a grant for `env` or `bash` with anything behind it is no grant."""
    call = command("pytest")
    grant = allow(call, Scope.session)
    for argv in (("env",), ("bash",), ("sudo",), ("xargs",), ("python", "-c")):
        forged = replace(
            grant, capability=replace(grant.capability, pattern=replace(grant.capability.pattern, value=argv))
        )
        assert verdict(command(*argv, "rm", "x"), forged) == "ask"


# ---- the journal ----


@pytest.mark.parametrize("scope", list(Scope))
def test_a_grant_survives_the_journal(scope: Scope) -> None:
    call = command("pytest", "-q", tool="run_tests", environment=(("CI", ""),))
    grant = allow(call, scope)
    stored = decode_body(GrantIssued, encode_body(GrantIssued(**issued_fields(grant))))
    assert isinstance(stored, GrantIssued)
    assert grant_from_issued(stored) == grant
    assert stored.sentence
    assert verdict(call, *[one for one in [grant_from_issued(stored)] if one]) == "allow"
    used = grant_from_issued(stored, uses=1)
    assert used is not None
    assert verdict(call, used) == ("ask" if scope is Scope.once else "allow")


def test_a_stored_grant_that_is_not_whole_is_no_grant() -> None:
    plain = allow(command("pytest"), Scope.session).to_plain()
    assert grant_from_plain(plain) is not None
    for name in plain:
        assert grant_from_plain({key: value for key, value in plain.items() if key != name}) is None
        assert grant_from_plain({**plain, name: {"x": object()}}) is None
    assert grant_from_plain(None) is None
    assert grant_from_plain([]) is None


# ---- the card ----


def test_a_card_says_everything_and_holds_no_time() -> None:
    call = command("pip", "install", "x", label=UNTRUSTED, file_digests=(("setup.py", Sha256("b" * 64)),))
    card = card_of(call)
    assert card["title"] == "Install this?"
    assert card["command"]["text"] == "pip install x"
    assert card["sandbox"]["name"] == "bubblewrap"
    assert (card["sandbox"]["strength"], card["sandbox"]["strength_needed"]) == (2, 3)
    assert card["provenance"]["integrity"] == "untrusted"
    assert card["provenance"]["sources"] == ["issue:214"]
    assert card["risk"] == "high"
    assert len(card["factors"]) == 8
    assert card["files"] == [{"path": "setup.py", "sha256": "b" * 64}]
    assert any("install" in one["words"] for one in card["effects"])
    assert card == card_of(call, now=9_999_999)
    assert card_digest(card) == card_digest(card_of(call))
    assert "within 10 minutes" in card["options"][0]["sentence"]


def test_a_card_fits_the_journal_and_its_digest_survives_it() -> None:
    from gloveport.protocol.journal.events.grant import ApprovalRequested

    card = card_of(command("echo", "a\u202eb", "\ue000", "ü"))
    body = ApprovalRequested(
        turn_id="t",
        goal_revision=1,
        call_id="c",
        approval_id="a",
        card=card,
        card_digest=card_digest(card),
        expires_at=None,
    )
    stored = decode_body(ApprovalRequested, encode_body(body))
    assert isinstance(stored, ApprovalRequested)
    assert card_digest(stored.card) == stored.card_digest


def test_b10_the_whole_command_is_shown_with_nothing_hidden() -> None:
    """B10: padding, control and bidi characters, line breaks and the far end of a long command are visible."""
    hidden = command(
        "echo", "ok" + " " * 200 + "&& touch PWN", "a\u202egpj.exe", "\x1b[8mx", "one\ntwo", "x" * 3000 + "END"
    )
    card = card_of(hidden)
    text = card["command"]["text"]
    assert "⟨200 spaces⟩&& touch PWN" in text
    assert "⟨U+202E⟩" in text
    assert "⟨ESC⟩" in text
    assert "one⟨LF⟩two" in text
    assert text.endswith("END")
    assert card["command"]["hidden_characters"] == 3
    assert not any(character in repr(text) for character in "\u202e\x1b")


def test_a_card_differs_wherever_the_call_does() -> None:
    base = command("pytest", "-q")
    others = [
        replace(base, argv=("pytest", "-x")),
        replace(base, cwd="sub"),
        replace(base, label=USER),
        replace(base, sandbox=MACHINE),
        replace(base, file_digests=(("a", Sha256("b" * 64)),)),
        replace(base, environment=(("CI", "1"),)),
        replace(base, call_id="call-2"),
    ]
    digests = {card_digest(card_of(call)) for call in [base, *others]}
    assert len(digests) == len(others) + 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (command("curl", "https://evil.example"), ["has no network"]),
        (command("pip", "install", "x"), ["has no network"]),
        (command("pytest", sandbox=PROCESS), ["leaves the network open", "act as you", "have changed"]),
        (command("pytest"), ["have changed"]),
        (request(effect("write", "conftest.py")), []),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_card_says_what_will_not_work_and_what_is_not_held(call: Request, words: list[str]) -> None:
    notes = card_of(call)["notes"]
    assert len(notes) == len(words)
    assert all(word in note for word, note in zip(words, notes, strict=True))


def test_destinations_are_named_with_their_port() -> None:
    card = card_of(request(effect("network", "api.example:8443", data="2 files"), tool="http_request"))
    assert card["destinations"] == ["api.example:8443"]
    assert "sending 2 files" in card["effects"][0]["words"]
    assert card_of(command("curl", "https://evil.example/x"))["destinations"] == ["evil.example:443"]
