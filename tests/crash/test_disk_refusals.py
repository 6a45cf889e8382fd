"""A real daemon whose system calls fail with ENOSPC and EIO: typed, nothing lost, nothing begun, and it heals.

Most of a trial is waiting for what does not come while the disk refuses: so the trials are made at once.
"""

import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from tests.kit.disk.refusal import Refusal
from tests.kit.disk.trial import Found, Trial
from tests.kit.require import require, require_bubblewrap

FOR_GOOD = 1_000_000
AT_ONCE = 4
REFUSALS = (
    Refusal("write", "journal log", "ENOSPC", 10, FOR_GOOD),
    Refusal("sync", "journal log", "EIO", 5, 1),
    Refusal("write", "audit log", "EIO", 2, 1),
    Refusal("rename", "user's folder", "EIO", 4, FOR_GOOD),
    Refusal("sync", "user's folder", "ENOSPC", 1, 1),
    Refusal("make", "run folders", "EIO", 2, 1),
)
DEAF = "deaf_commits"
Trials = dict[str, Future[Found]]


@pytest.fixture(scope="module")
def trials() -> Iterator[Trials]:
    """All of them begun, each in a thread with a daemon of its own; the last one is the control."""
    require(shutil.which("strace") is not None, "strace is not installed")
    require_bubblewrap()
    with ThreadPoolExecutor(AT_ONCE) as threads:
        begun = {one.words: threads.submit(Trial(one).run) for one in REFUSALS}
        begun[DEAF] = threads.submit(Trial(REFUSALS[0], (DEAF,)).run)
        yield begun


def ended(trials: Trials, words: str) -> Found:
    """One trial, when it is over."""
    found = trials[words].result()
    assert found.hits, "the workload no longer makes this call"
    return found


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.words.replace(" ", "_"))
def test_a_refusal_is_typed_loses_nothing_and_heals(refusal: Refusal, trials: Trials) -> None:
    """R6.3: no promise is broken, no effect begins without its intent, the user's files are whole."""
    assert ended(trials, refusal.words).problems == ()


def test_a_commit_that_failed_and_counts_as_done_is_caught(trials: Trials) -> None:
    """The control: acknowledging what the disk refused breaks promises, and they are found broken."""
    assert ended(trials, DEAF).problems != ()
