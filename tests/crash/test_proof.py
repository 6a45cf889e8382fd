"""A small fixed part of `make crash`: kills by progress of the real daemon, and the controls that must fail."""

import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from tests.kit.amount import amount
from tests.kit.proof import coverage
from tests.kit.proof.coverage import CONTROLS, UNREACHABLE, Table, cells
from tests.kit.proof.progress import ERASURE, HOUSE, RECOVERY, RULES, TOLD, Aim
from tests.kit.proof.starting import search_path
from tests.kit.proof.workload import JOBS

ROOT = Path(__file__).resolve().parents[2]
KILLS = amount(10, 60)
"""Here; many more by `make crash`."""


def prove(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the proof in a process of its own: it adopts orphans."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "tests.kit.proof", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": search_path()},
        timeout=570,
    )


@pytest.mark.timeout(600)
def test_kills_at_any_progress_lose_and_double_nothing() -> None:
    """A few kills over the whole life of sessions: every oracle holds after each of them."""
    done = prove("--kills", str(KILLS), "--seed", "41")
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.findall(r"No failure in (\d+) kills", done.stdout)[0]) >= KILLS


@pytest.mark.timeout(600)
def test_every_negative_control_is_caught() -> None:
    """A daemon with one fault in it does not pass."""
    done = prove("--controls")
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(re.findall(r"control (\w+): caught", done.stdout)) == set(CONTROLS)


def test_a_seed_gives_the_same_course() -> None:
    """Aims follow from the seed and the points alone, and each cell is some seed's target."""
    trace = [(f"{row}|{phase}",) for row, phase in (cell.split("|") for cell in cells(between=False))]
    table = Table({job.name: trace for job in JOBS})
    targets = set()
    for seed in range(len(table.wanted)):
        assert table.course(seed) == table.course(seed)
        targets.add(table.target(seed))
    assert targets == set(cells(between=False))


def test_the_lives_that_are_chosen_fill_cells_that_are_hard_to_hit(monkeypatch: pytest.MonkeyPatch) -> None:
    """With few kills more than there have to be, although some aims miss half of the time."""
    monkeypatch.setattr(coverage, "CELL_MIN", 3)
    trace = [(f"{row}|{phase}",) for row, phase in (cell.split("|") for cell in cells(between=False))]
    table, random, seed, kills = Table({job.name: trace for job in JOBS}), Random(7), 1, 0
    while table.empty():
        seed = table.next_seed(seed)
        for aim in table.course(seed).aims:
            if random.random() < (0.5 if aim.label.startswith(("StopTool", "AttachTool")) else 0.05):
                break
            table.count((aim.label,))
            kills += 1
        seed += 1
        assert kills < 1.2 * 3 * len(table.wanted), table.empty()


def test_an_aim_survives_the_environment() -> None:
    """What the launcher reads is what was aimed at."""
    for aim in (Aim("CallModel|due", 3), Aim("any", 1, tree=True)):
        assert Aim.decode(aim.encode()) == aim


def test_unreachable_cells_are_named_with_a_reason() -> None:
    """No cell is left out silently."""
    assert all(reason for reason in UNREACHABLE.values())
    assert {cell.split("|")[0] for cell in UNREACHABLE} == {"RunTool/opaque", RECOVERY, HOUSE, ERASURE, TOLD, RULES}
