"""What test runners say of single tests, read outside the process that ran them.

Purpose: from a runner's own report format to counts and cases, for node, vitest, jest, go and cargo.
Invariant: a report that is not whole, or that contradicts itself, is none.
Must never: execute or resolve anything of a report; it was written by the code under test.

A report is `{"exit", "counts", "cases", "left_out"}` as the probes print it: cases are (name, status, microseconds,
message) with the statuses passed, failed, error and skipped.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from gloveport.server.tools.pytest_probe import CASES_MAX, MESSAGE_CHARACTERS_MAX

Case = tuple[str, str, int, str]
Report = Mapping[str, Any]
NAME_CHARACTERS_MAX: Final = 1024
DEPTH_MAX: Final = 32
DURATION_MAX: Final = 1_000_000_000
"""Of a test, in whatever unit its runner has: what is longer is told as this."""
_STATUSES: Final = ("passed", "failed", "error", "skipped")
_TAP_LEFT_OUT: Final = "SKIP|TO" + "DO"
_TAP_POINT: Final = re.compile(rf"^( *)(not )?ok \d+ - (.*?)( # (?:{_TAP_LEFT_OUT})\b.*)?$")
_TAP_PLAN: Final = re.compile(r"^1\.\.(\d+)$")
_TAP_DURATION: Final = re.compile(r"^ *duration_ms: ([0-9.]+)$")
_TAP_PLACE: Final = re.compile(r"^ *location: '(.*)'$")
_TAP_ERROR: Final = re.compile(r"^ *error: (.*)$")
_CARGO_TEST: Final = re.compile(r"^test (.+?)(?: - should panic)? \.\.\. (ok|FAILED|ignored)(?:, .*)?$")
_CARGO_BEGIN: Final = re.compile(r"^running \d+ tests?$")
_CARGO_RESULT: Final = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;")
_CARGO_PANIC: Final = re.compile(r"^thread '([^']+)'.* panicked at (.*)$")
_CARGO_PLACE: Final = re.compile(r"', (\S+:\d+:\d+)$")
"""Before Rust 1.73 the place stands behind the words, often some lines below."""
_CARGO_WORDS_LINES_MAX: Final = 50
_CARGO_NEXT: Final = ("thread '", "---- ")
_JEST: Final = MappingProxyType({"passed": "passed", "failed": "failed", "pending": "skipped", "skipped": "skipped",
                                 "todo": "skipped", "disabled": "skipped"})  # fmt: skip
_GO: Final = MappingProxyType({"pass": "passed", "fail": "failed", "skip": "skipped"})


def make_report(cases: Iterable[Case], exit_code: int | None) -> Report | None:
    """The report of these cases; None when the process's end contradicts them (failures and a good end, or none)."""
    rows = sorted(cases, key=lambda case: case[1] not in ("failed", "error"))
    counts = Counter(status for _, status, _, _ in rows)
    bad = counts["failed"] + counts["error"]
    if exit_code is None or (bad > 0) != (exit_code != 0):
        return None
    kept = [(name[:NAME_CHARACTERS_MAX], how, took, said[:MESSAGE_CHARACTERS_MAX]) for name, how, took, said in rows]
    return {
        "exit": exit_code,
        "counts": {status: counts[status] for status in _STATUSES},
        "cases": kept[:CASES_MAX],
        "left_out": max(0, len(kept) - CASES_MAX),
    }


def read_tap(text: str) -> Iterator[Case] | None:
    """Node's runner in the TAP format; None unless the plan at the end names as many top points as there are."""
    points: dict[int, list[list[Any]]] = {}
    planned, last = -1, list[Any]()
    for line in text.splitlines():
        if found := _TAP_POINT.match(line):
            depth = len(found.group(1)) // 4
            if depth > DEPTH_MAX:
                return None
            skipped = found.group(4) is not None
            how = "skipped" if skipped else "failed" if found.group(2) else "passed"
            last = [(found.group(3).replace("\\#", "#"),), how, 0, "", points.pop(depth + 1, [])]
            points.setdefault(depth, []).append(last)
        elif (plan := _TAP_PLAN.match(line)) is not None:
            planned = int(plan.group(1))
        elif last and (took := _TAP_DURATION.match(line)):
            last[2] = _microseconds(took.group(1), 1_000)
        elif last and last[1] == "failed" and not last[3] and (place := _TAP_PLACE.match(line)):
            last[3] = f"{place.group(1)}: "
        elif last and last[3][-2:] in ("", ": ") and (said := _TAP_ERROR.match(line)):
            last[3] += said.group(1).strip("'\"|- ")
    tops = points.get(0, [])
    return _flatten(tops, ()) if planned == len(tops) else None


def _flatten(points: list[list[Any]], above: tuple[str, ...]) -> Iterator[Case]:
    """Tests without tests of their own; one that failed by itself beside them is told too."""
    for name, how, took, said, inner in points:
        names = (*above, *name)
        found = list(_flatten(inner, names))
        yield from found
        if not inner or (how == "failed" and not any(case[1] == "failed" for case in found)):
            yield " > ".join(names), how, took, said


def read_jest(text: str) -> Iterator[Case] | None:
    """The JSON of jest, which vitest writes too: the last object of the output that has its fields."""
    at = text.rfind('{"num')
    if at < 0:
        return None
    try:
        told, _end = json.JSONDecoder().raw_decode(text, at)
        return iter(list(_jest_cases(told)))
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return None


def _jest_cases(told: Any) -> Iterator[Case]:
    for suite in told["testResults"]:
        tests = suite["assertionResults"]
        for test in tests:
            said = "\n".join(str(words) for words in test.get("failureMessages") or ())
            name = f"{suite['name']} > {test['fullName']}"
            yield name, _JEST[test["status"]], _microseconds(test.get("duration") or 0, 1_000), said
        if suite["status"] == "failed" and not any(test["status"] == "failed" for test in tests):
            yield str(suite["name"]), "error", 0, str(suite.get("message") or "the file could not be run")


def read_go(text: str) -> Iterator[Case] | None:
    """The events of `go test -json`; None when a package that began did not end."""
    ended: dict[tuple[str, str], tuple[str, int]] = {}
    said: dict[tuple[str, str], str] = {}
    begun: set[tuple[str, str]] = set()
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        try:
            event = json.loads(line)
            key, action = (str(event["Package"]), str(event.get("Test", ""))), event["Action"]
        except (ValueError, RecursionError, KeyError, TypeError):
            continue
        begun.add(key)
        if action == "output" and len(said.get(key, "")) < MESSAGE_CHARACTERS_MAX:
            said[key] = said.get(key, "") + str(event.get("Output", ""))
        elif action in _GO:
            ended[key] = (_GO[action], _microseconds(event.get("Elapsed") or 0, 1_000_000))
    packages = {package for package, _ in begun}
    if not packages or any((package, "") not in ended for package in packages):
        return None
    return _go_cases(ended, said)


def _go_cases(ended: Mapping[tuple[str, str], tuple[str, int]], said: Mapping[tuple[str, str], str]) -> Iterator[Case]:
    """Tests without subtests; a package that failed without a failing test is one error."""
    holders = {(package, name.rpartition("/")[0]) for package, name in ended if "/" in name}
    broken = {package for (package, name), (how, _) in ended.items() if name and how == "failed"}
    for (package, name), (how, took) in ended.items():
        words = said.get((package, name), "").strip() if how == "failed" else ""
        if name and (package, name) not in holders:
            yield f"{package}.{name}", how, took, words
        elif not name and how == "failed" and package not in broken:
            yield package, "error", took, words or "the package could not be tested"


def read_cargo(text: str) -> Iterator[Case] | None:
    """The lines of `cargo test`; None unless each binary that began has its result, which agrees with its lines."""
    found: list[Case] = []
    told: Counter[str] = Counter()
    panics: dict[str, str] = {}
    results = 0
    lines = text.splitlines()
    for at, line in enumerate(lines):
        results -= bool(_CARGO_BEGIN.match(line))
        if test := _CARGO_TEST.match(line):
            how = {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}[test.group(2)]
            found.append((test.group(1), how, 0, ""))
        elif result := _CARGO_RESULT.match(line):
            results += 1
            for status, count in zip(("passed", "failed", "skipped"), result.groups(), strict=True):
                told[status] += int(count)
        elif panic := _CARGO_PANIC.match(line):
            panics.setdefault(panic.group(1), _panic_words(panic.group(2), lines[at : at + _CARGO_WORDS_LINES_MAX]))
    counted = Counter(how for _, how, _, _ in found)
    if results or not told or any(counted[status] != told[status] for status in ("passed", "failed", "skipped")):
        return None
    return ((name, how, took, panics.get(name, "")) for name, how, took, _ in found)


def _panic_words(words: str, lines: list[str]) -> str:
    """What a panic said, its place first; `lines` begin with the one that tells of it."""
    if not words.startswith("'"):
        return words
    for at, line in enumerate(lines):
        if at and line.startswith(_CARGO_NEXT):
            break
        if place := _CARGO_PLACE.search(line):
            return place.group(1) + ": " + words.removesuffix(place.group(0)).removeprefix("'")
    return words


def _microseconds(value: Any, scale: int) -> int:
    """A duration as a whole, never negative or endless; raises TypeError or ValueError for what is no number."""
    number = value if isinstance(value, int) else float(value)  # a whole number may be too large for a float
    return int(min(max(number, 0), DURATION_MAX) * scale) if number == number else 0


READERS: Final[Mapping[str, Callable[[str], Iterator[Case] | None]]] = MappingProxyType(
    {"node": read_tap, "vitest": read_jest, "jest": read_jest, "go": read_go, "cargo": read_cargo}
)
