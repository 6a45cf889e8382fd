"""Simulated power loss on the shipped stack: a small fixed set, and the faults that it must catch."""

import shutil
from collections.abc import Iterator

import pytest
from tests.kit.amount import amount
from tests.kit.power.recording import Recording, choose, record
from tests.kit.power.states import Loss
from tests.kit.power.trial import try_loss
from tests.kit.require import require, require_bubblewrap

LOSSES = amount(5, 60)
"""Here; many more by `make crash TIER=power`."""


@pytest.fixture(scope="module")
def recording() -> Iterator[Recording]:
    """One recorded life of a daemon; its full replay was compared with the real folder, byte by byte."""
    require(shutil.which("strace") is not None, "strace is not installed")
    require_bubblewrap()
    made = record()
    yield made
    made.world.remove()


@pytest.mark.timeout(600)
def test_no_promise_is_broken_by_a_power_loss(recording: Recording) -> None:
    """R6.3: acknowledged is there, intents precede effects, the user's files are whole, two recoveries are one."""
    found = [try_loss(recording, choose(recording, seed)) for seed in range(LOSSES)]
    assert [one for one in found if one.problems] == []


def test_a_worktree_of_empty_files_is_put_back_and_told(recording: Recording) -> None:
    """What the power loss left of unsynced files is never proposed as the agent's change."""
    cut = next(one.at for one in recording.answered if one.method == "change/accept")
    assert try_loss(recording, Loss(cut, 1, "names_only", "ordered")).problems == ()


def _ends(recording: Recording) -> dict[str, int]:
    """Moments at which a fault is sure to show."""
    return {
        "no_sync": recording.answered[-1].at,
        "relaxed_commits": recording.answered[-1].at,
        "late_intents": next(effect.at for effect in recording.effects if effect.what == "run"),
        "unsynced_apply": next(one.at for one in recording.answered if one.method == "change/accept"),
    }


@pytest.mark.parametrize(
    ("fault", "policy", "words"),
    [
        ("no_sync", "drop", "durable and gone"),
        ("relaxed_commits", "drop", "durable and gone"),
        ("late_intents", "drop", "an effect without its intent"),
        ("unsynced_apply", "names_only", "the user's"),
    ],
)
def test_a_planted_fault_is_caught(fault: str, policy: str, words: str) -> None:
    """A daemon that does not sync what it must is found out."""
    require(shutil.which("strace") is not None, "strace is not installed")
    require_bubblewrap()
    broken = record((fault,), only_first=True)
    try:
        loss = Loss.of(f"{_ends(broken)[fault]}:1:{policy}:ordered")
        problems = try_loss(broken, loss).problems
    finally:
        broken.world.remove()
    assert any(words in problem for problem in problems), problems
