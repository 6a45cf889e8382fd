"""In place of running the tests once: run, for each mutant, the tests that touch it, in a child of its own.

Purpose: the fast part of `scripts/mutate`. Test modules are imported once; a mutant costs a fork and the tests up to
    the first that notices it. Tests that noticed a mutant of the same function go first, then those that are short and
    touch few functions.
Invariant: the job and its results are files named by MUTATION_JOB and MUTATION_RESULTS; a result is written when its
    child has ended. Mutants are chosen by the trampolines that `mutmut` wrote around each function.
Must never: count a mutant as noticed that no test ran against, let a test read what was remembered before the mutant,
    or shrink what a property found.
"""

import functools
import gc
import importlib
import json
import os
import resource
import signal
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from _pytest.runner import runtestprotocol

CPU_S_MIN = 3
"""Processor time that a test of a child has at least; an endless loop ends with it."""
CPU_TIMES = 10
"""And so many times what it takes without a mutant."""
MEMORY_BYTES = 1 << 30
"""Address space of a child: a loop that collects without end fails its test before the machine has no memory left."""
NOTICED, LEFT = 1, 0

hypothesis.settings.register_profile(
    "mutation",
    database=None,
    derandomize=True,
    deadline=None,  # of a busy machine; a mutant's time is bounded by its processor time
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
)
hypothesis.settings.load_profile("mutation")


@dataclass
class Known:
    """What the run without a mutant showed, and which tests noticed mutants of a function."""

    touching: dict[str, list[int]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    noticed_by: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    cost: Counter[int] = field(default_factory=Counter)
    """Of a test: its seconds times the functions it touches, the measure of how likely it is worth its time."""

    def __post_init__(self) -> None:
        for tests in self.touching.values():
            for at in tests:
                self.cost[at] += 1
        for at in self.cost:
            self.cost[at] = int(self.cost[at] * self.seconds[at] * 1_000_000)

    def chosen(self, function: str, budget_s: float) -> list[int]:
        """The tests for a mutant of the function, in order; together within the budget (one is always taken)."""
        first = self.noticed_by[function]
        rest = sorted(set(self.touching.get(function, ())) - set(first), key=lambda at: self.cost[at])
        taken: list[int] = []
        spent = 0.0
        for at in (*first, *rest):
            spent += self.seconds[at]
            if taken and spent > budget_s:
                break
            taken.append(at)
        return taken


def function_of(mutant: str) -> str:
    """The function that a mutant is one of."""
    return mutant.rpartition("__mutmut_")[0]


def remembered() -> list[Any]:
    """Every cache of the code under test: what it found without a mutant says nothing of one."""
    kept = (one for one in gc.get_objects() if isinstance(one, functools._lru_cache_wrapper))
    return [one for one in kept if str(one.__module__).startswith("gloveport.")]


def fails(item: pytest.Item, caches: list[Any]) -> bool:
    """Run one test; whether it failed."""
    for cache in caches:
        cache.cache_clear()
    reports = runtestprotocol(item, log=False, nextitem=None)
    return any(report.failed for report in reports)


def say(pipe: int, value: Any) -> None:
    """Hand the answer of a child to its parent, and end at once."""
    with os.fdopen(pipe, "w", encoding="utf-8") as out:
        json.dump(value, out)
    os._exit(0)


def learn(items: list[pytest.Item]) -> Known:
    """Run every test without a mutant: which functions it touches, how long it takes. What it loads, children share."""
    trampoline: Any = importlib.import_module("mutmut.mutation.trampoline")
    touched: set[str] = set()
    trampoline.record_trampoline_hit = lambda name, caller=None: touched.add(name)  # noqa: ARG005 - called by that name
    trampoline.set_mutant_under_test("stats")
    touching: dict[str, list[int]] = defaultdict(list)
    seconds: list[float] = []
    caches = remembered()
    for at, item in enumerate(items):
        touched.clear()
        began = time.process_time()
        if fails(item, caches):
            raise pytest.UsageError(f"{item.nodeid} fails without a mutant")
        seconds.append(time.process_time() - began)
        for name in touched:
            touching[name].append(at)
    return Known(touching, seconds)


def attempt(
    items: list[pytest.Item], caches: list[Any], chosen: list[int], seconds: list[float], mutant: str, pipe: int
) -> None:
    """In a child: run the chosen tests against the mutant up to the first that fails, and tell which."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    importlib.import_module("mutmut.mutation.trampoline").set_mutant_under_test(mutant)
    for at in chosen:
        signal.setitimer(signal.ITIMER_PROF, CPU_S_MIN + CPU_TIMES * seconds[at])
        if fails(items[at], caches):
            say(pipe, at)
    say(pipe, None)


def forked(work: Any, *given: Any) -> tuple[int, int]:
    """Start a child that does the work; its pid and the pipe on which it answers. It prints nothing."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ours)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        try:
            work(*given, theirs)
        finally:  # also what no test may survive: an exit, an interruption
            os._exit(9)
    os.close(theirs)
    return pid, ours


def answer_of(pipe: int) -> str:
    """All that a child said; nothing when it died."""
    with os.fdopen(pipe, encoding="utf-8") as heard:
        return heard.read()


def run_mutants(items: list[pytest.Item], known: Known, job: dict[str, Any], results: Path) -> None:
    """One child after the other, so many at a time as the job says."""
    under_way: dict[int, tuple[str, int]] = {}
    mutants, caches = list(job["mutants"]), remembered()
    gc.freeze()  # children share what is there
    until = time.monotonic() + job["minutes"] * 60
    with results.open("a", encoding="utf-8") as out:
        while mutants or under_way:
            if time.monotonic() > until:
                mutants.clear()
            if mutants and len(under_way) < job["children"]:
                mutant = mutants.pop(0)
                chosen = known.chosen(function_of(mutant), job["budget_s"])
                if not chosen:
                    print(json.dumps({"mutant": mutant, "state": "no tests", "test": None}), file=out, flush=True)
                    continue
                pid, pipe = forked(attempt, items, caches, chosen, known.seconds, mutant)
                under_way[pid] = (mutant, pipe)
                continue
            if not under_way:
                break
            pid, status = os.wait()
            if pid not in under_way:
                continue
            mutant, pipe = under_way.pop(pid)
            answer = answer_of(pipe)
            test = json.loads(answer) if answer else None
            state = "survived" if answer and test is None else "killed"
            if not answer and os.WIFSIGNALED(status) and os.WTERMSIG(status) in {signal.SIGPROF, signal.SIGKILL}:
                state = "timeout"
            if test is not None and test not in (noticed := known.noticed_by[function_of(mutant)]):
                noticed.insert(0, test)
            nodeid = None if test is None else items[test].nodeid
            print(json.dumps({"mutant": mutant, "state": state, "test": nodeid}), file=out, flush=True)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Learn, then try every mutant of the job."""
    job = json.loads(Path(os.environ["MUTATION_JOB"]).read_text(encoding="utf-8"))
    known = learn(session.items)
    print(f"{len(session.items)} tests, {sum(known.seconds):.0f} s", flush=True)
    gc.collect()
    run_mutants(session.items, known, job, Path(os.environ["MUTATION_RESULTS"]))
    return True
