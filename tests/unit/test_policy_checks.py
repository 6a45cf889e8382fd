"""What the kernel itself says of a call: each check by its name, its verdict, its words, its effect and its ceiling."""

from dataclasses import replace
from typing import Any

import pytest
from tests.kit.policy_cases import (
    BUBBLEWRAP,
    MACHINE,
    PROCESS,
    UNTRUSTED,
    USER,
    WORKSPACE,
    command,
    context,
    effect,
    judge,
    request,
)

from gloveport.server.policy.capability import Scope
from gloveport.server.policy.checks import EFFECTS_MAX, INTENDED_KINDS, ceiling_caps, check_findings, destination_host
from gloveport.server.policy.commands import ARGV_CHARS_MAX
from gloveport.server.policy.effects import EffectKind
from gloveport.server.policy.explain import KERNEL_CHECKS
from gloveport.server.policy.labels import Integrity, Label
from gloveport.server.policy.request import Request, effects_of
from gloveport.server.policy.rung import TrustLevel

RUN = command("make")
OPEN = replace(BUBBLEWRAP, network=True)
FAR = replace(BUBBLEWRAP, host="Far\u202e.example")
SECRET = replace(USER, readers=frozenset({"model:a"}))
READ = request(effect("read", "a"), tool="read_file")
STRONGEST = "gVisor, a microVM or a remote machine"
WEAK = "bubblewrap is weaker"
PROCESS_IS = "process is weaker"
HIDDEN = "a⟨U+202E⟩"
SENT = "It runs on Far⟨U+202E⟩.example: the session's copy of the project is sent there, and who runs it can read that."
NOT_SHOWN = "Confidential data has been read, and what the program would send to"


def said(call: Request, **changes: Any) -> list[str]:
    """Every finding of every check: `check verdict ceiling effect: words`."""
    found = check_findings(call, effects_of(call), context(**changes))
    return [
        f"{one.rule_id} {one.verdict} {one.ceiling} {'' if one.effect is None else one.effect.key}: {one.words}"
        for one in found
    ]


def kernel(check: str, words: str, verdict: str = "ask", ceiling: str = "once", about: str = "") -> str:
    """A finding as `said` tells it."""
    return f"kernel:{check} {verdict} {ceiling} {about}: {words}"


def deny(check: str, words: str, about: str = "") -> str:
    """A finding that nothing answers."""
    return kernel(check, words, "deny", about=about)


LONG = "The command is too long to be shown whole, so nobody can judge it."
MANY = "The call has more than 4096 effects, too many to be judged."
UNTRUSTED_READ = f"Untrusted text has been read; that asks for {STRONGEST}, and {WEAK}."
NOTHING_YOU_WROTE = "Nothing you wrote for this goal asks for it."
NOT_YOURS = "Text that you did not type may have chosen what goes there."

TABLE: tuple[tuple[str, Request, dict[str, Any], list[str]], ...] = (
    ("nothing to say", READ, {}, []),
    ("nothing to say of a run", RUN, {}, []),
    ("no program", command("", "x", understood=None), {}, [deny("empty-command", "There is no command to run.")]),
    ("blank program", command(" ", understood=None), {}, [deny("empty-command", "There is no command to run.")]),
    ("as long as can be shown", command("ls", "x" * (ARGV_CHARS_MAX - 4), understood=None), {}, []),
    (
        "longer than can be shown",
        command("ls", "x" * (ARGV_CHARS_MAX - 3), understood=None),
        {},
        [deny("oversized-command", LONG)],
    ),
    ("as many effects as can be judged", replace(READ, effects=(effect("read", "a"),) * EFFECTS_MAX), {}, []),
    ("below the workspace", replace(RUN, cwd="a/../b"), {}, []),
    (
        "outside the workspace",
        replace(RUN, cwd="../a\u202e"),
        {},
        [deny("folder-outside", f"It would run in ../{HIDDEN}, outside the workspace.")],
    ),
    ("a folder of what starts nothing", replace(READ, cwd="../a"), {}, []),
    (
        "another goal",
        replace(READ, goal_revision=1),
        {"goal_revision": 3},
        [deny("old-goal", "It belongs to goal 1; the goal is now 3.")],
    ),
    (
        "unknown effects",
        replace(READ, unknown=("x:a\u202e", "y:b")),
        {},
        [
            kernel("unknown-effect", f"It declares an effect nobody knows: x:{HIDDEN}."),
            kernel("unknown-effect", "It declares an effect nobody knows: y:b."),
        ],
    ),
    (
        "a foreign tool",
        replace(READ, tool="s__a\u202e"),
        {},
        [kernel("unknown-tool", f"s__{HIDDEN} is no tool of ours; what it really does can't be checked.")],
    ),
    (
        "a change without trust",
        request(effect("read", "a"), effect("write", "b"), effect("delete", "c")),
        {"trust_level": None},
        [
            kernel(
                "trust-unset", "You have not yet said how far you trust this workspace.", ceiling="session",
                about="write:b",
            )
        ],
    ),
    ("a look without trust", READ, {"trust_level": None}, []),
    ("a change with trust", request(effect("write", "b")), {}, []),
    (
        "no sandbox",
        replace(RUN, sandbox=None),
        {"trust_level": None},
        [deny("no-sandbox", "There is no sandbox to run it in, and nothing runs without one.")],
    ),
    (
        "a sandbox that does not work here",
        replace(RUN, sandbox=replace(PROCESS, name="docker", strength=0, missing="there is no socket at /x.")),
        {},
        [
            deny(
                "no-sandbox",
                "docker does not work here: there is no socket at /x. Nothing ran; see gloveport doctor.",
            )
        ],
    ),
    (
        "a workspace nobody trusts",
        RUN,
        {"trust_level": None},
        [deny("rung", f"This workspace counts as untrusted, which needs {STRONGEST}; {WEAK}. Nothing ran.")],
    ),
    (
        "a restricted workspace",
        replace(RUN, sandbox=PROCESS),
        {"trust_level": TrustLevel.restricted},
        [
            deny(
                "rung",
                "This workspace counts as restricted, which needs bubblewrap or a container; "
                f"{PROCESS_IS}. Nothing ran.",
            )
        ],
    ),
    (
        "what was read, in the weakest sandbox",
        replace(RUN, sandbox=PROCESS, label=UNTRUSTED),
        {},
        [
            deny(
                "rung",
                f"What has been read or written here counts as untrusted, which needs {STRONGEST}; {PROCESS_IS}. "
                "Nothing ran.",
            )
        ],
    ),
    ("what was read", replace(RUN, label=UNTRUSTED), {}, [kernel("rung", UNTRUSTED_READ)]),
    ("what lies in the worktree", RUN, {"worktree": None}, [kernel("rung", UNTRUSTED_READ)]),
    (
        "what was read, where the level asks for as much as there is",
        replace(RUN, label=UNTRUSTED),
        {"trust_level": TrustLevel.restricted},
        [kernel("rung", UNTRUSTED_READ)],
    ),
    ("what was read, where it may run", replace(RUN, label=UNTRUSTED, sandbox=MACHINE), {}, []),
    (
        "each time",
        command("env", "x", understood=None),
        {},
        [kernel("each-time", "env can start other programs named in its arguments.")],
    ),
    ("a shell that only looks", command("bash", "-c", "ls"), {}, []),
    (
        "variables",
        replace(RUN, environment=(("A", "1"), ("LD_a\u202e", "x"), ("PATH", "y"))),
        {},
        [kernel("loader-variable", f"It sets LD_{HIDDEN}, which chooses what is loaded, run or believed.")],
    ),
    (
        "not the user's word",
        request(effect("network", "x:1")),
        {},
        [kernel("not-your-word", NOT_YOURS, about="network:x:1")],
    ),
    ("the user's word", request(effect("network", "x:1"), label=USER), {}, []),
    (
        "confidential to another",
        request(effect("read", "a"), effect("network", "X\u202e:1"), label=SECRET),
        {},
        [
            kernel(
                "confidential",
                "Confidential data has been read, and x⟨U+202E⟩ is not among its readers.",
                about="network:X\u202e:1",
            )
        ],
    ),
    ("confidential to its reader", request(effect("network", "MODEL:A:1"), label=SECRET), {}, []),
    (
        "what it could take along",
        request(effect("network", "X\u202e:1"), label=USER, carried=SECRET),
        {},
        [
            kernel(
                "could-carry",
                "What it could read here is confidential in part, and x⟨U+202E⟩ is not among those who may see it.",
                about="network:X\u202e:1",
            )
        ],
    ),
    (
        "what nobody looked through, by a sink",
        request(effect("network", "x:1"), label=USER, unseen=("big\u202e",)),
        {},
        [
            kernel(
                "not-looked-through",
                "What programs left here was not looked through (big⟨U+202E⟩), and something of it could go there.",
                about="network:x:1",
            )
        ],
    ),
    (
        "what nobody looked through, by an open network",
        replace(RUN, sandbox=PROCESS, unseen=("big",)),
        {},
        [
            kernel(
                "not-looked-through",
                "What programs left here was not looked through (big), and the program could take it out.",
                ceiling=Scope.session,
            )
        ],
    ),
    ("what nobody looked through, staying here", replace(RUN, unseen=("big",)), {}, []),
    (
        "confidential by a program",
        replace(RUN, effects=(effect("network", "x:1"), effect("message", "y")), label=SECRET),
        {},
        [
            deny("confidential", f"{NOT_SHOWN} x can't be shown.", "network:x:1"),
            deny("confidential", f"{NOT_SHOWN} y can't be shown.", "message:y"),
        ],
    ),
    (
        "confidential and an open network",
        replace(RUN, label=SECRET, sandbox=OPEN),
        {},
        [kernel("open-network", "Confidential data has been read, and the program could reach the network.")],
    ),
    ("public and an open network", replace(RUN, sandbox=OPEN), {}, []),
    ("confidential, and nothing runs", replace(READ, label=SECRET, sandbox=OPEN), {}, []),
    ("elsewhere", replace(RUN, sandbox=FAR), {}, [kernel("another-machine", SENT, ceiling="session")]),
    ("elsewhere, and nothing runs", replace(READ, sandbox=FAR), {}, []),
    (
        "elsewhere, and confidential",
        replace(RUN, sandbox=FAR, label=SECRET),
        {},
        [
            deny(
                "confidential",
                "Confidential data has been read, and Far⟨U+202E⟩.example, where it would run, may not see it.",
            ),
            kernel("another-machine", SENT, ceiling="session"),
        ],
    ),
    (
        "elsewhere, and its reader",
        replace(RUN, sandbox=FAR, label=replace(SECRET, readers=frozenset({"far\u202e.example"}))),
        {},
        [kernel("another-machine", SENT, ceiling="session")],
    ),
    (
        "nobody asked",
        request(effect("read", "z"), effect("delete", "a"), effect("install", "b"), intent="absent"),
        {},
        [deny("no-sandbox", "There is no sandbox to run it in, and nothing runs without one."),
         kernel("intent", NOTHING_YOU_WROTE, about="delete:a")],
    ),
    ("nobody asked for a look", replace(READ, intent="absent"), {}, []),
    ("for ever", replace(READ, reversible=False), {}, [kernel("irreversible", "It can't be undone.")]),
)  # fmt: skip


@pytest.mark.parametrize(("call", "changes", "findings"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_a_check_says_exactly_this(call: Request, changes: dict[str, Any], findings: list[str]) -> None:
    assert said(call, **changes) == findings


def test_every_check_has_a_row() -> None:
    """All that are shown of the kernel, but what stands where rules say nothing."""
    told = {finding.split(" ")[0].removeprefix("kernel:") for row in TABLE for finding in row[3]}
    assert told | {"too-many-effects", "no-rule", "no-effect"} == set(KERNEL_CHECKS)


def test_too_many_effects_are_counted_with_those_nobody_knows() -> None:
    most = replace(READ, effects=tuple(effect("read", f"f{at}") for at in range(EFFECTS_MAX)))
    found = said(most)
    assert found == []
    assert said(replace(most, unknown=("x:y",)))[0] == deny("too-many-effects", MANY)
    more = replace(most, effects=(*most.effects, effect("read", "one more")))
    assert said(more) == [deny("too-many-effects", MANY)]


def test_the_kinds_that_must_have_been_asked_for() -> None:
    """One by one: what leaves, what is remembered or set, and what takes something away or brings it in."""
    asked = {
        "network", "publish", "message", "memory_write", "configure", "delete", "install", "git_history", "secret_read",
    }  # fmt: skip
    assert asked == {str(kind) for kind in INTENDED_KINDS}
    for kind in EffectKind:
        call = request(effect(kind, "x"), intent="absent", label=USER, sandbox=MACHINE)
        assert (kernel("intent", NOTHING_YOU_WROTE, about=f"{kind}:x") in said(call)) == (kind in asked)
        for intent in ("named", "implied"):
            assert not [one for one in said(replace(call, intent=intent)) if "kernel:intent" in one]


def test_how_long_an_answer_may_hold_is_capped_with_a_reason() -> None:
    """Each reason alone and all of them together; a sandbox where nothing runs is no reason."""
    untrusted = (Scope.session, "not for arguments that untrusted text may have chosen")
    unbound = (Scope.once, "not where a named file can't be bound to what it holds")
    weak = (Scope.session, "not in the process rung")
    none = (Scope.session, "not in no sandbox")
    nothing = replace(PROCESS, strength=0)
    for call, wanted in (
        (RUN, ()),
        (replace(RUN, label=UNTRUSTED), (untrusted,)),
        (replace(RUN, unbound=("a",)), (unbound,)),
        (replace(RUN, sandbox=PROCESS), (weak,)),
        (replace(RUN, sandbox=nothing), (none,)),
        (replace(RUN, sandbox=None), ()),
        (replace(READ, sandbox=PROCESS), ()),
        (replace(RUN, sandbox=PROCESS, unbound=("a",), label=UNTRUSTED), (untrusted, unbound, weak)),
    ):
        assert ceiling_caps(call, effects_of(call)) == wanted


@pytest.mark.parametrize("kind", list(EffectKind))
def test_only_what_starts_a_program_needs_a_sandbox(kind: EffectKind) -> None:
    call = request(effect(kind, "x"), label=USER)
    assert bool([one for one in said(call) if "no-sandbox" in one]) == (kind in {"execute", "install"})


def test_what_goes_to_an_account_of_the_users_is_bound_to_it() -> None:
    """A push lends its account to the place it goes to, and to that place alone."""
    label = Label(Integrity.USER, frozenset({"github.com", "gitlab.com"}))
    push, fetch = effect("publish", "github.com:443"), effect("network", "GitHub.com:22")
    assert said(request(push, fetch, label=label)) == []
    assert said(request(fetch, label=label)) == [
        kernel(
            "confidential", "Confidential data has been read, and github.com is not among its readers.",
            about=fetch.key,
        )
    ]  # fmt: skip
    assert len(said(request(push, effect("network", "gitlab.com:1"), label=label))) == 1


@pytest.mark.parametrize(
    ("target", "host"),
    [
        ("Example.org:443", "example.org"),
        ("Example.org", "example.org"),
        ("a:b:80", "a:b"),
        ("[::1]:80", "[::1]"),
        ("a:b", "a:b"),
        ("git push A:x", "git push a:x"),
        (":80", ""),
        ("", ""),
    ],
)
def test_the_host_of_a_target(target: str, host: str) -> None:
    assert destination_host(effect("network", target)) == host


def test_a_verdict_s_reason_tells_four_findings_and_counts_the_rest() -> None:
    """In the order of their names, each of the same words once."""
    call = request(*(effect("network", f"h{at}:1") for at in range(3)), unknown=("a:1", "b:2"), reversible=False)
    decision = judge(replace(call, label=WORKSPACE))
    assert decision.rule_ids == (
        "builtin:network.default", "kernel:irreversible", "kernel:not-your-word", "kernel:unknown-effect",
    )  # fmt: skip
    assert decision.reason.endswith(
        f"It can't be undone. {NOT_YOURS} It declares an effect nobody knows: a:1. And 1 more reason."
    )
    three = judge(replace(call, unknown=("a:1", "b:2", "c:3")))
    assert three.reason.endswith("a:1. And 2 more reasons.")
    assert judge(replace(call, unknown=("a:1",))).reason.endswith("It declares an effect nobody knows: a:1.")


def test_findings_of_one_check_stand_in_one_order_whatever_the_process() -> None:
    """The same card, with the same digest, after a restart: words part what name and effect do not."""
    unknown = tuple(f"{letter}:1" for letter in "gcafbed")
    found = judge(replace(READ, unknown=unknown)).findings
    words = [one.words for one in found if one.rule_id == "kernel:unknown-effect"]
    assert words == [f"It declares an effect nobody knows: {letter}:1." for letter in "abcdefg"]
