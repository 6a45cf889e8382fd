"""Commits of real repositories, given as local folders, through edit and workspace rooms, held against git.

GLOVEPORT_HISTORY_REPOS=/a:/b names the folders (bare or not), GLOVEPORT_HISTORY_COMMITS how many commits in all,
GLOVEPORT_HISTORY_SEED the seed, GLOVEPORT_HISTORY_SERVED how many go through a real daemon. Nothing of them is part of
this tree, so without the first there is nothing to play.
"""

import os
from pathlib import Path

import pytest
from tests.kit.daemon import running_daemon
from tests.kit.history.run import play_all, table
from tests.kit.history.served import pick, serve

COMMITS_DEFAULT = 5_000
SERVED_DEFAULT = 350
PROCESSES = 2
FOLDERS = tuple(Path(each) for each in os.environ.get("GLOVEPORT_HISTORY_REPOS", "").split(os.pathsep) if each)


given = pytest.mark.skipif(not FOLDERS, reason="GLOVEPORT_HISTORY_REPOS names no local repositories")


@given
@pytest.mark.timeout(3_600)
def test_real_history_is_exact(capsys: pytest.CaptureFixture[str]) -> None:
    """Every commit, its hunks accepted and rejected in a random order beside a user: byte for byte git's result."""
    commits = int(os.environ.get("GLOVEPORT_HISTORY_COMMITS", str(COMMITS_DEFAULT)))
    reports = play_all(FOLDERS, commits, int(os.environ.get("GLOVEPORT_HISTORY_SEED", "1")), PROCESSES)
    with capsys.disabled():
        print(f"\n{table(reports)}")
    assert [words for report in reports for words in report.faults] == []
    assert sum(report.played for report in reports) >= min(commits, len(FOLDERS))


@given
@pytest.mark.timeout(1_800)
async def test_a_sample_through_a_real_daemon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The commit as tool calls, its hunks decided over the wire: the folder is what git makes of it."""
    count = int(os.environ.get("GLOVEPORT_HISTORY_SERVED", str(SERVED_DEFAULT)))
    seed = int(os.environ.get("GLOVEPORT_HISTORY_SEED", "1"))
    picked = pick(FOLDERS, count, seed)
    with running_daemon(started=False) as daemon:
        served = await serve(daemon, tmp_path, picked, seed)
    with capsys.disabled():
        print("\n" + "\n".join(f"  {name:<66}{number:>9}" for name, number in sorted(served.counts.items())))
    assert served.faults == []
    assert served.counts["commits"] == len(picked) > 0
