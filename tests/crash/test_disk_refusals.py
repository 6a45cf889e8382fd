"""A real daemon whose system calls fail with ENOSPC and EIO: typed, nothing lost, nothing begun, and it heals."""

import shutil

import pytest
from tests.kit.disk.refusal import Refusal
from tests.kit.disk.trial import Found, Trial
from tests.kit.require import require, require_bubblewrap

FOR_GOOD = 1_000_000


def tried(refusal: Refusal, *faults: str) -> Found:
    """One trial."""
    require(shutil.which("strace") is not None, "strace is not installed")
    require_bubblewrap()
    found = Trial(refusal, faults).run()
    assert found.hits, "the workload no longer makes this call"
    return found


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "refusal",
    [
        Refusal("write", "journal log", "ENOSPC", 10, FOR_GOOD),
        Refusal("sync", "journal log", "EIO", 5, 1),
        Refusal("write", "audit log", "EIO", 2, 1),
        Refusal("rename", "user's folder", "EIO", 4, FOR_GOOD),
        Refusal("sync", "user's folder", "ENOSPC", 1, 1),
        Refusal("make", "run folders", "EIO", 2, 1),
    ],
    ids=lambda refusal: refusal.words.replace(" ", "_"),
)
def test_a_refusal_is_typed_loses_nothing_and_heals(refusal: Refusal) -> None:
    """R6.3: no promise is broken, no effect begins without its intent, the user's files are whole."""
    found = tried(refusal)
    assert found.problems == ()


@pytest.mark.timeout(120)
def test_a_commit_that_failed_and_counts_as_done_is_caught() -> None:
    """The control: acknowledging what the disk refused breaks promises, and they are found broken."""
    found = tried(Refusal("write", "journal log", "ENOSPC", 10, FOR_GOOD), "deaf_commits")
    assert found.problems != ()
