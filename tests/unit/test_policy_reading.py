"""Which paths are kept from searches and jails, and how long a command takes to be judged."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.policy_cases import BUBBLEWRAP, command, context, default_rules, judge, with_user_rules

from gloveport.server.policy.card import build_card
from gloveport.server.policy.commands import derived_effects
from gloveport.server.policy.effects import Effect, EffectKind
from gloveport.server.policy.protected import is_sensitive, runs_by_itself
from gloveport.server.policy.reading import Reading
from gloveport.server.policy.rules.rule import Verdict, subject_of

NAMES = st.lists(
    st.sampled_from(
        ["a", "src", ".env", ".ENV.local", ".ssh", "key.pem", "conftest.py", ".git", "..", "private", "x.py"]
    ),
    min_size=1,
    max_size=4,
).map("/".join)
USER_RULE = """
version = 1
[[rule]]
id = "mine"
effects = ["read"]
paths = ["private/**"]
verdict = "deny"
justification = "mine"
match = [{ effect = "read", target = "private/a" }]
not_match = [{ effect = "read", target = "a" }]
"""


@given(NAMES)
def test_a_path_is_open_exactly_where_the_rules_allow_reading_it(path: str) -> None:
    """Whatever was asked before: what is remembered by class is what the rules say of the path itself."""
    for rules, reading in ((DEFAULT, READING), (OWN, OWN_READING)):
        said = [
            rule.verdict
            for tool, kind in (("read_file", EffectKind.read), ("search", EffectKind.search))
            for rule in rules.matching(subject_of(tool, Effect(kind, path), None))
        ]
        assert reading.is_kept(path) == any(verdict is not Verdict.allow for verdict in said)


DEFAULT, OWN = default_rules(), with_user_rules(USER_RULE)
READING, OWN_READING = Reading(DEFAULT), Reading(OWN)


def test_what_is_kept() -> None:
    """Secrets in any case and depth, what lies outside, and what the user's own rules keep."""
    assert all(READING.is_kept(path) for path in (".env", "a/.ENV", "x/.ssh/config", "k.pem", ".git/config", "../x"))
    assert not any(READING.is_kept(path) for path in ("a.py", "conftest.py", ".env.example", "private/a", ".git/HEAD"))
    assert OWN_READING.is_kept("private/a")
    assert not OWN_READING.is_kept("a")


@pytest.mark.parametrize(
    "path",
    ["Makefile", "sub/GNUmakefile", "JUSTFILE", "x.mk", "Taskfile.yml", "tox.ini", "noxfile.py", "package.json",
     "Rakefile", "CMakeLists.txt", "Dockerfile", "docker-compose.yml", "Gruntfile.js", "build.xml"],
)  # fmt: skip
def test_files_of_build_tools_run_by_themselves(path: str) -> None:
    """A lasting right to run `make` is a right to run what these say, so each writing of one is asked about."""
    assert runs_by_itself(path)
    assert not is_sensitive(path)


def test_a_card_says_that_a_lasting_right_is_one_for_changing_files() -> None:
    """Where one is offered; not where the answer holds for this call alone."""
    for argv, says in ((("make",), True), (("sh", "-c", "make"), False)):
        call = command(*argv, sandbox=BUBBLEWRAP)
        notes = build_card(call, judge(call), context())["notes"]
        assert any("have changed" in note for note in notes) == says


@pytest.mark.parametrize(
    "argv",
    [
        ("curl", "a" * 32_000),
        ("curl", "a." * 16_000),
        ("curl", "a://" * 8_000),
        ("curl", "a" * 40 + "://" + "_" * 31_000),
        ("curl", "://" * 10_000),
        ("sh", "-c", "curl " + "a+b-" * 7_500 + "://x"),
    ],
)
def test_a_long_command_is_judged_in_no_time(argv: tuple[str, ...]) -> None:
    """32 kB without a host in it: well under the second that it took to try each character as a scheme's first."""
    began = time.process_time()
    judge(command(*argv, sandbox=BUBBLEWRAP))
    assert time.process_time() - began < 0.7


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://example.org/x", "example.org:443"),
        ("HTTP://User:pw@Example.org:81/", "example.org:81"),
        ("ssh://git@host.example/x", "host.example:22"),
        ("https://" + "a" * 2_000 + "@evil.example/", "evil.example:443"),
        ("x" * 60 + "https://evil.example/", "evil.example:443"),
        ("https://[::1]:8080/", "[::1]:8080"),
    ],
)
def test_the_host_of_an_address_is_found(url: str, host: str) -> None:
    """Behind long names of users and behind other text."""
    assert host in [effect.target for effect in derived_effects(("curl", url)) if effect.kind is EffectKind.network]
