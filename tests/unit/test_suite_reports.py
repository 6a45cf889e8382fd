"""Reports of test runners as they are printed: read outside the process that ran the tests, and believed only whole."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.server.tools.suite_reports import DURATION_MAX, READERS, make_report

TAP = """TAP version 13
# Subtest: adds
ok 1 - adds
  ---
  duration_ms: 13.25
  ...
# Subtest: outer
    # Subtest: inner \\# x
    ok 1 - inner \\# x
      ---
      duration_ms: 0.5
      ...
    # Subtest: inner bad
    not ok 2 - inner bad
      ---
      duration_ms: 0.25
      location: '/w/a.test.js:4:7'
      error: 'bad'
      stack: |-
        at x
      ...
    1..2
not ok 2 - outer
  ---
  error: '1 subtest failed'
  ...
ok 3 - skipped # SKIP
ok 4 - todo # LATER
1..4
""".replace("LATER", "TO" + "DO")
JEST = "warning\n" + json.dumps(
    {"numTotalTests": 3, "testResults": [
        {"name": "/w/a.test.js", "status": "failed", "assertionResults": [
            {"fullName": "a adds", "status": "passed", "duration": 5, "failureMessages": []},
            {"fullName": "a breaks", "status": "failed", "duration": None, "failureMessages": ["Error: no"]},
            {"fullName": "a waits", "status": "todo", "failureMessages": []}]},
        {"name": "/w/b.test.js", "status": "failed", "message": "SyntaxError", "assertionResults": []}]}
)  # fmt: skip
GO = "\n".join(
    json.dumps(event) for event in (
        {"Action": "run", "Package": "x/a", "Test": "TestOne"},
        {"Action": "output", "Package": "x/a", "Test": "TestOne", "Output": "a_test.go:3: no\n"},
        {"Action": "fail", "Package": "x/a", "Test": "TestOne/sub", "Elapsed": 0.5},
        {"Action": "fail", "Package": "x/a", "Test": "TestOne", "Elapsed": 0.5},
        {"Action": "pass", "Package": "x/a", "Test": "TestTwo", "Elapsed": 0},
        {"Action": "skip", "Package": "x/a", "Test": "TestThree", "Elapsed": 0},
        {"Action": "fail", "Package": "x/a", "Elapsed": 0.6},
        {"Action": "output", "Package": "x/b", "Output": "FAIL x/b [build failed]\n"},
        {"Action": "fail", "Package": "x/b", "Elapsed": 0},
    )
)  # fmt: skip
CARGO = """
running 3 tests
test tests::adds ... ok
test tests::breaks ... FAILED
test tests::later ... ignored, not yet

failures:

---- tests::breaks stdout ----
thread 'tests::breaks' panicked at src/lib.rs:9:9:
no

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

   Doc-tests calc

running 1 test
test src/lib.rs - add (line 1) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s
"""
EXPECTED = {
    "node": (TAP, 1, {"adds": "passed", "outer > inner # x": "passed", "outer > inner bad": "failed",
                      "skipped": "skipped", "todo": "skipped"}),
    "jest": (JEST, 1, {"/w/a.test.js > a adds": "passed", "/w/a.test.js > a breaks": "failed",
                       "/w/a.test.js > a waits": "skipped", "/w/b.test.js": "error"}),
    "go": (GO, 1, {"x/a.TestOne/sub": "failed", "x/a.TestTwo": "passed", "x/a.TestThree": "skipped", "x/b": "error"}),
    "cargo": (CARGO, 101, {"tests::adds": "passed", "tests::breaks": "failed", "tests::later": "skipped",
                           "src/lib.rs - add (line 1)": "passed"}),
}  # fmt: skip


def cases_of(framework: str, text: str, exit_code: int) -> dict[str, str] | None:
    """Name and status of each test, or None."""
    found = READERS[framework](text)
    report = None if found is None else make_report(found, exit_code)
    return None if report is None else {name: status for name, status, _, _ in report["cases"]}


@pytest.mark.parametrize("framework", EXPECTED)
def test_a_whole_report_gives_every_test(framework: str) -> None:
    """Passed, failed, skipped, and what could not be run at all."""
    text, code, expected = EXPECTED[framework]
    assert cases_of(framework, text, code) == expected


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("src/lib.rs:9:9:\nno", "src/lib.rs:9:9:"),
        ("'no', src/lib.rs:9:9", "src/lib.rs:9:9: no"),
        (
            "'failed: `(a == b)`\n  left: `1`,\n right: `2`', src/lib.rs:9:9\nnote: run",
            "src/lib.rs:9:9: failed: `(a == b)`",
        ),
        ("'no\n---- tests::other stdout ----\nx', src/lib.rs:1:1", "'no"),
    ],
)
def test_a_panic_of_any_rust_tells_its_place(told: str, said: str) -> None:
    """It stands before the words since 1.73, and behind them, some lines below, in the versions before."""
    found = READERS["cargo"](CARGO.replace("src/lib.rs:9:9:\nno", told))
    assert {name: words for name, _, _, words in found or ()}["tests::breaks"] == said


def test_messages_and_durations_are_kept() -> None:
    """Where the format has them."""
    found = {name: (took, said) for name, _, took, said in READERS["node"](TAP) or ()}
    assert found["adds"] == (13_250, "")
    assert found["outer > inner bad"] == (250, "/w/a.test.js:4:7: bad")
    assert ("tests::breaks", "failed", 0, "src/lib.rs:9:9:") in list(READERS["cargo"](CARGO) or ())


@pytest.mark.parametrize("number", ["1e999", "1" + "0" * 400, "-1" + "0" * 400])
def test_a_number_larger_than_any_duration_is_the_longest_one(number: str) -> None:
    """As the code under test may print it; below nothing is nothing."""
    longest = 0 if number.startswith("-") else DURATION_MAX
    test = f'{{"fullName":"t","status":"passed","duration":{number}}}'
    jest = f'{{"numTotal":1,"testResults":[{{"name":"f","status":"passed","assertionResults":[{test}]}}]}}'
    assert list(READERS["jest"](jest) or ()) == [("f > t", "passed", longest * 1_000, "")]
    ended = f'{{"Package":"p","Test":"t","Action":"pass","Elapsed":{number}}}\n{{"Package":"p","Action":"pass"}}'
    assert list(READERS["go"](ended) or ()) == [("p.t", "passed", longest * 1_000_000, "")]


@pytest.mark.parametrize("framework", EXPECTED)
def test_failures_and_a_good_end_are_no_report(framework: str) -> None:
    """And the other way round: what the end contradicts is not believed."""
    text, code, _expected = EXPECTED[framework]
    assert cases_of(framework, text, 0) is None
    green = list(READERS[framework](text) or ())
    assert make_report([case for case in green if case[1] in ("passed", "skipped")], code) is None


@pytest.mark.parametrize("framework", EXPECTED)
def test_a_cut_report_is_none(framework: str) -> None:
    """The end is what makes it whole."""
    text, code, _expected = EXPECTED[framework]
    lines = text.splitlines()
    cut = text[: len(text) // 2] if framework == "jest" else "\n".join(lines[: len(lines) - 3])
    assert cases_of(framework, cut, code) is None


@given(st.sampled_from(sorted(READERS)), st.text(max_size=300), st.integers(0, 400))
def test_anything_may_be_in_a_report(framework: str, noise: str, at: int) -> None:
    """A reader never fails over what the code under test printed."""
    known = EXPECTED["jest" if framework == "vitest" else framework][0]
    for text in (noise, known[:at] + noise + known[at:]):
        found = READERS[framework](text)
        for name, status, took, said in found or ():
            assert isinstance(name, str)
            assert status in ("passed", "failed", "error", "skipped")
            assert took >= 0
            assert isinstance(said, str)
