"""A card whole, its notes one by one, and what is said of a decision and of rules."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest
from tests.kit.policy_cases import (
    BUBBLEWRAP,
    PROCESS,
    UNTRUSTED,
    USER,
    command,
    context,
    default_rules,
    effect,
    judge,
    request,
)

from gloveport.protocol.ids import Sha256
from gloveport.server.policy.capability import Scope
from gloveport.server.policy.card import QUESTIONS, build_card, card_digest
from gloveport.server.policy.effects import EffectKind
from gloveport.server.policy.explain import KERNEL_CHECKS, Explanation, explain, show
from gloveport.server.policy.labels import Integrity, Label
from gloveport.server.policy.protected_table import PathClass
from gloveport.server.policy.request import Leaving, Request, request_digest
from gloveport.server.policy.rules.rule import Rule, Source, Verdict
from gloveport.server.policy.rules.ruleset import build_ruleset

SHA = Sha256("b" * 64)
HIDDEN, SHOWN = "a\u202eb", "a⟨U+202E⟩b"


def card_of(call: Request, **given: Any) -> dict[str, Any]:
    """The card of a call in the ordinary circumstances."""
    return build_card(call, judge(call), context(), **given)


RUN = "run `npm test 'a⟨U+202E⟩b'`"
KEYS = ["execute:npm test 'a\u202eb'", "network:API.example:443", "network:b.example:1"]
CALL = command(
    "npm", "test", HIDDEN,
    cwd="sub", environment=(("CI", HIDDEN),), file_digests=((HIDDEN, SHA),), unbound=(HIDDEN, "c"),
    label=Label(Integrity.UNTRUSTED, None, ("z", "a\u202e")),
    effects=(effect("network", "API.example:443", data="x\ny"), effect("network", "b.example:1")),
    unknown=("beam:\u202e",), intent="named", sandbox=replace(BUBBLEWRAP, statement="Said."), understood=None,
    payload=Leaving("network", "https", "api.example\u202e", 443, SHA, 12),
    sources=Label(Integrity.USER, None, ("user",)),
)  # fmt: skip
WHOLE: dict[str, Any] = {
    "version": 1,
    "title": "Let this reach the network?",
    "summary": SHOWN,
    "tool": "run_command",
    "agent": "main/x⟨U+202E⟩",
    "command": {
        "text": "npm test 'a⟨U+202E⟩b'",
        "words": ["npm", "test", SHOWN],
        "hidden_characters": 1,
        "cwd": "sub",
        "environment": [["CI", SHOWN]],
        "shell": False,
    },
    "diff": [f"+\t{SHOWN}", "-c"],
    "effects": [
        {
            "kind": "network", "target": "API.example:443", "words": "reach `API.example:443` (sending x⟨LF⟩y)",
            "notes": [],
        },
        {"kind": "network", "target": "b.example:1", "words": "reach `b.example:1`", "notes": []},
        {"kind": "execute", "target": "npm test 'a⟨U+202E⟩b'", "words": RUN, "notes": []},
    ],
    "unknown_effects": ["beam:⟨U+202E⟩"],
    "destinations": ["API.example:443", "b.example:1"],
    "files": [{"path": SHOWN, "sha256": SHA}],
    "sandbox": {
        "name": "bubblewrap", "strength": 2, "strength_words": "bubblewrap or a container", "strength_needed": 3,
        "needed_words": "gVisor, a microVM or a remote machine", "network": False, "holds": ["no network"],
        "does_not_hold": [], "statement": "Said.",
    },
    "notes": [
        f"What these hold can't be told, so the answer isn't bound to it, and none lasts: {SHOWN}, c.",
        "The sandbox has no network: what reaches out from it will fail, allowed or not.",
    ],
    "provenance": {
        "integrity": "untrusted",
        "words": "Untrusted text was read before these arguments were chosen, and may have chosen them.",
        "confidential": False, "readers": None, "sources": ["a⟨U+202E⟩", "z"], "origins_left_out": 0,
        "origins": [{"kind": "user", "name": "", "integrity": "user"}],
    },
    "sends": None,
    "release": {
        "effect": "network", "scheme": "https", "host": "api.example\u202e", "port": 443, "sha256": SHA,
        "bytes": 12,
        "words": "Allowed once, exactly what is shown goes to https://api.example⟨U+202E⟩:443: 12 bytes, SHA-256 "
        f"{'b' * 16}…; no redirect is followed.",
        "label": {"integrity": 2, "readers": None, "provenance": ["a\u202e", "z"]},
    },
    "intent": "named",
    "reversible": True,
    "risk": "high",
    "factors": [
        {"name": "effect", "level": "high", "words": "it declares an effect nobody knows"},
        {"name": "scope", "level": "low", "words": "only what it names"},
        {"name": "reversibility", "level": "high", "words": "what has left can't be called back"},
        {"name": "sensitivity", "level": "low", "words": "nothing confidential has been read"},
        {"name": "destination", "level": "high", "words": "it goes to api.example"},
        {"name": "intent", "level": "high", "words": "untrusted text may have chosen the arguments"},
        {
            "name": "sandbox", "level": "high",
            "words": "it would run in bubblewrap or a container, less than untrusted code needs",
        },
        {"name": "history", "level": "medium", "words": "no grant of yours covers it"},
    ],
    "rule_ids": [
        "builtin:execute.default", "builtin:network.default", "kernel:not-your-word", "kernel:rung",
        "kernel:unknown-effect",
    ],
    "binding": {
        "call_id": "call-1", "workspace_id": "w-1", "session_id": "s-1", "turn_id": "t-1",
        "agent": "main/x\u202e", "goal_revision": 1, "trust_generation": 5,
    },
}  # fmt: skip
OPTION = {
    "scope": "once",
    "sentence": f"{RUN}; reach `API.example:443`; reach `b.example:1`; `beam:⟨U+202E⟩`, once, within 10 "
    "minutes, in a sandbox as strong as this one or stronger",
    "uses": 1,
    "lifetime_s": 600,
    "capability": {
        "tool": "run_command", "kinds": ["execute", "network"],
        "pattern": {"kind": "call_exact", "value": [*KEYS, "beam:\u202e"]},
    },
    "bound": {
        "request": request_digest(CALL), "files": [[HIDDEN, SHA]], "cwd": "sub", "environment": [["CI", HIDDEN]],
        "strength_min": 2, "network": False, "integrity_max": 2,
    },
}  # fmt: skip


def test_a_card_whole() -> None:
    """Every field of one card, from literals: no name and no value is left out."""
    where: dict[str, Any] = {"agent": "main/x\u202e", "trust_generation": 5}
    decision = judge(CALL, **where)
    card = build_card(CALL, decision, context(**where), summary=HIDDEN, diff=f"+\t{HIDDEN}\n-c\r\n")
    assert decision.need is not None
    assert [one.key for one in decision.need.effects] == KEYS
    refused = [{"scope": one, "reason": decision.need.ceiling_reason} for one in ("turn", "session", "workspace")]
    rest = {"reason": decision.reason, "rules_hash": default_rules().hash, "refused_scopes": refused}
    assert card == {**WHOLE, **rest, "options": [OPTION]}


def test_a_card_without_a_word_of_the_tools_and_without_a_program() -> None:
    card = card_of(request(effect("write", "conftest.py"), label=replace(USER, readers=frozenset({"m\u202e", "a"}))))
    assert (card["summary"], card["diff"], card["command"], card["sandbox"], card["release"]) == (
        "",
        [],
        None,
        None,
        None,
    )
    assert card["provenance"] == {
        "integrity": "user",
        "words": "Only your own words led to these arguments.",
        "confidential": True,
        "readers": ["a", "m⟨U+202E⟩"],
        "sources": ["message:1"],
        "origins": [],
        "origins_left_out": 0,
    }
    assert card["notes"] == []


@pytest.mark.parametrize(
    ("path", "noted"),
    [("src/a.py", 0), ("conftest.py", 1), (".env", 1), ("../a\u202e", 1), (".git/config", 2)],
)
def test_an_effect_notes_what_is_special_about_its_path(path: str, noted: int) -> None:
    """And nothing about an ordinary one, a word of a command or what is no path."""
    decision = judge(request(effect("write", path), effect("network", path), effect("delete", path, **{"from": "rm"})))
    card = build_card(request(), decision, context())
    assert [len(one["notes"]) for one in card["effects"]] == [noted, 0, 0]
    for note in card["effects"][0]["notes"]:
        assert "\u202e" not in note
        assert note.startswith(path.removeprefix("../").split("/")[0].replace("\u202e", "⟨U+202E⟩"))


NO_NETWORK = "The sandbox has no network: what reaches out from it will fail, allowed or not."
OPEN = "The sandbox leaves the network open: the program can reach any host."
LISTED = "Of all places only those named here are reached; the rest is refused and named."
WEAK = "Code that runs here can act as you; the sandbox guards against accidents only."
LASTS = "A right that lasts also holds when files that the program runs or reads have changed."
FAR = "It runs on another machine, far⟨U+202E⟩: the copy of the project is sent there."
UNBOUND = "What these hold can't be told, so the answer isn't bound to it, and none lasts:"
PLACE = effect("network", "x.example:1")
MAKE = command("make")
LIST = replace(BUBBLEWRAP, holds=("egress_list",))


@pytest.mark.parametrize(
    ("call", "notes"),
    [
        (MAKE, [LASTS]),
        (command("rm", "-r", "a"), []),
        (replace(MAKE, unbound=("a", "b")), [f"{UNBOUND} a, b."]),
        (command("curl", "https://x.example/"), [NO_NETWORK]),
        (command("pip", "install", "x"), [NO_NETWORK]),
        (command("git", "push", sandbox=LIST), [NO_NETWORK]),
        (replace(MAKE, effects=(PLACE,)), [NO_NETWORK]),
        (replace(MAKE, effects=(PLACE,), sandbox=LIST), [LISTED]),
        (command("curl", "https://x.example/", sandbox=LIST), [NO_NETWORK]),
        (replace(MAKE, effects=(PLACE,), sandbox=replace(LIST, network=True)), [OPEN]),
        (replace(MAKE, sandbox=LIST), [LASTS]),
        (replace(MAKE, sandbox=replace(BUBBLEWRAP, network=True)), [OPEN, LASTS]),
        (replace(MAKE, sandbox=PROCESS), [OPEN, WEAK, LASTS]),
        (replace(MAKE, sandbox=replace(BUBBLEWRAP, host="far\u202e")), [FAR, LASTS]),
        (request(effect("write", "a"), reversible=False), []),
    ],
    ids=str,
)  # fmt: skip
def test_the_notes_of_a_card(call: Request, notes: list[str]) -> None:
    """What will not work, what the sandbox does not hold, and what a right that lasts means: these and no others."""
    assert card_of(call)["notes"] == notes


def test_the_question_is_that_of_the_gravest_effect_that_is_asked_about() -> None:
    """Every kind has its question; of two, the one that stands earlier in the table asks."""
    assert set(QUESTIONS) == set(EffectKind)
    kinds = list(QUESTIONS)
    rules = build_ruleset([])
    for at, grave in enumerate(kinds):
        for other in kinds[at:]:
            call = request(effect(other, "x"), effect(grave, "y"), label=USER, sandbox=BUBBLEWRAP)
            decision = judge(call, rules=rules)
            assert build_card(call, decision, context())["title"] == QUESTIONS[grave]
    assert card_of(request(unknown=("x:y",), tool="edit_file"))["title"] == "Let edit_file do this?"
    assert card_of(request(tool=f"s__{HIDDEN}"))["title"] == f"Let s__{SHOWN} do this?"
    assert card_of(command("pytest", tool="run_tests"))["title"] == "Run the tests?"
    assert card_of(command("pytest"))["title"] == "Run this command?"
    asked = request(effect("read", "a"), effect("write", "conftest.py"), tool="edit_file")
    assert card_of(asked)["title"] == "Write this file?"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("+  x", "+  x"),
        ("-\tx\u202e", "-\tx⟨U+202E⟩"),
        (" \t y", " \t y"),
        ("", ""),
        ("+" + " " * 64 + "x", "+" + " " * 64 + "x"),
        ("+" + " " * 80 + "x", "+" + " " * 64 + "⟨16 spaces⟩x"),
        ("x\ty", "x⟨TAB⟩y"),
        ("++ x", "++ x"),
    ],
)
def test_a_line_of_a_diff_keeps_its_indentation_and_hides_nothing(line: str, shown: str) -> None:
    assert card_of(request(effect("write", "conftest.py")), diff=line + "\nnext")["diff"] == [shown, "next"]


def test_the_digest_is_that_of_the_canonical_text() -> None:
    """Sorted, without spaces, in ASCII; what is no JSON has none."""
    text = '{"a":[1,null,"\\u00e9"],"b":{"c":true}}'
    card = {"b": {"c": True}, "a": [1, None, "é"]}
    assert card_digest(card) == hashlib.sha256(text.encode("ascii")).hexdigest()
    assert json.loads(text) == card
    with pytest.raises(ValueError, match="JSON compliant"):
        card_digest({"a": float("nan")})


# ---- why, and what is in force ----

FULL = Rule(
    "full", Source.user, frozenset({EffectKind.write, EffectKind.execute}), Verdict.ask, "Why.", ("t\u202e", "u"),
    frozenset({PathClass.sensitive, PathClass.never}), ("a/**", "b"), (("make", "x y"), ("ls",)), ("h", "i:1"), True,
    True, Scope.session,
)  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "shown"),
    [
        (
            FULL,
            {
                "verdict": "ask",
                "conditions": [
                    "tool: t⟨U+202E⟩, u",
                    "class of path: never, sensitive",
                    "path: a/**, b",
                    "command: make 'x y', ls",
                    "host: h, i:1",
                    "many files at once",
                    "a command that only looks",
                ],
                "ceiling": "session",
            },
        ),
        (
            replace(
                FULL, verdict=Verdict.deny, tools=(), classes=frozenset(), paths=(), argv=(), hosts=(), mass=False,
                only_looks=False,
            ),
            {"verdict": "deny", "conditions": ["few files", "a command that may do more than look"], "ceiling": ""},
        ),
        (
            replace(
                FULL, source=Source.builtin, verdict=Verdict.allow, tools=(), classes=frozenset(), paths=(), argv=(),
                hosts=(), mass=None, only_looks=None, fallback=True,
            ),
            {"source": "builtin", "verdict": "allow", "conditions": ["no other rule speaks"], "ceiling": ""},
        ),
    ],
    ids=["ask", "deny", "allow"],
)  # fmt: skip
def test_a_rule_is_shown_with_every_condition(rule: Rule, shown: dict[str, Any]) -> None:
    first, *rest = show(build_ruleset([rule]))["rules"]
    plain = {"rule_id": "full", "source": "user", "justification": "Why.", "effects": ["execute", "write"]}
    assert first == {**plain, **shown}
    assert rest == [
        {"rule_id": check, "source": "kernel", "verdict": verdict, "justification": words}
        for check, (verdict, words) in KERNEL_CHECKS.items()
    ]


ONE_CALL = "You would be asked when it is called; the narrowest answer holds for that one call."
YOURSELF = "No answer can allow it; do it yourself if you want it done."


@pytest.mark.parametrize(
    ("verdict", "rule_ids", "grant", "said", "hint"),
    [
        ("allow", ("a:b",), None, "Allowed: R. Risk low. Decided by a:b.", ""),
        ("allow", ("kernel:rung",), None, "Allowed: R. Risk low. Decided by kernel:rung.", ""),
        (
            "allow", ("a:b", "c:d"), "g-1", "Allowed: R. Grant g-1 answered. Risk low. Decided by a:b, c:d.",
            "Revoke the grant to be asked again.",
        ),
        ("ask", ("a:b",), None, "Asked about: R. Risk low. Decided by a:b.", ONE_CALL),
        ("deny", ("a:b",), None, "Refused: R. Risk low. Decided by a:b.", YOURSELF),
        ("deny", (), None, "Refused: R. Risk low. Decided by .", YOURSELF),
        (
            "deny", ("a:b", "kernel:rung"), None, "Refused: R. Risk low. Decided by a:b, kernel:rung.",
            "Choose a stronger sandbox (sandbox/choose), or change the trust level (workspace/trust).",
        ),
        (
            "deny", ("kernel:no-sandbox",), None, "Refused: R. Risk low. Decided by kernel:no-sandbox.",
            "Run gloveport doctor to see which sandboxes work here and what is missing.",
        ),
        (
            "ask", ("kernel:trust-unset",), None, "Asked about: R. Risk low. Decided by kernel:trust-unset.",
            "Say how far you trust the workspace: workspace/trust.",
        ),
        (
            "deny", ("kernel:old-goal",), None, "Refused: R. Risk low. Decided by kernel:old-goal.",
            "Nothing to do; it was proposed for a goal that has changed.",
        ),
        (
            "deny", ("kernel:confidential",), None, "Refused: R. Risk low. Decided by kernel:confidential.",
            "Send it yourself, or start a session that has read nothing confidential.",
        ),
    ],
)  # fmt: skip
def test_why_in_words(verdict: str, rule_ids: tuple[str, ...], grant: str | None, said: str, hint: str) -> None:
    decision = judge(request(effect("read", "a"), tool="read_file"))
    given: Any = {"verdict": Verdict(verdict), "risk": "low", "reason": "R.", "rule_ids": rule_ids, "grant_id": grant}
    assert explain(replace(decision, **given)) == Explanation(said, hint)


def test_untrusted_words_are_told_as_such() -> None:
    card = card_of(command("make", label=UNTRUSTED))
    assert card["provenance"]["words"].startswith("Untrusted text was read before these arguments were chosen")
    assert card_of(MAKE)["provenance"]["words"] == "Text of this project was read before these arguments were chosen."
