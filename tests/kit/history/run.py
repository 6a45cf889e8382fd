"""Many commits of many repositories, over processes, and the table of what they showed.

Purpose: `python -m tests.kit.history.run --commits N --seed S FOLDER…` plays N commits over the folders given.
Invariant: a commit is played or counted as not played, with the reason; a fault names repository, commit and seed.
Must never: leave anything behind: every play has a folder of its own, which goes with it.
"""

import argparse
import multiprocessing
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio
from tests.kit.history.pieces import sections
from tests.kit.history.play import Outcome, Play
from tests.kit.history.repository import Repository
from tests.kit.workspaces import quick_folder

PATHS_MAX: Final = 600
BYTES_MAX: Final = 16 << 20
CHUNK: Final = 40
FAULTS_SHOWN_MAX: Final = 40


@dataclass(slots=True)
class Report:
    """Sums over commits of one repository or of all."""

    name: str
    played: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def add(self, other: "Report") -> None:
        """Take another's sums in."""
        self.played += other.played
        self.counts.update(other.counts)
        self.faults.extend(other.faults)


def play_chunk(job: tuple[str, tuple[str, ...], int]) -> Report:
    """Some commits of one repository."""
    folder, names, seed = job
    repository = Repository(Path(folder))
    report = Report(repository.name)
    try:
        with quick_folder() as base:
            for name, rows in repository.commits(names):
                if not rows or len(rows) > PATHS_MAX:
                    report.counts["commit: not played (empty, not in this copy, or above PATHS_MAX)"] += 1
                    continue
                _play_one(repository, name, rows, base, seed, report)
    finally:
        repository.close()
    return report


def _play_one(
    repository: Repository, name: str, rows: Sequence[tuple[str, ...]], base: Path, seed: int, report: Report
) -> None:
    try:
        commit = repository.read(name, rows)
    except LookupError:
        report.counts["commit: not played (the copy lacks a content)"] += 1
        return
    if commit.bytes_total > BYTES_MAX:
        report.counts["commit: not played (more than BYTES_MAX)"] += 1
        return
    folder = Path(tempfile.mkdtemp(dir=base))
    try:
        outcome: Outcome = anyio.run(Play(commit, sections(repository.patch(name)), folder, seed).run)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report.played += 1
    report.counts.update(outcome.counts)
    report.faults.extend(f"{repository.name} {name[:12]} seed {seed}: {words}" for words in outcome.faults)


def play_all(folders: Sequence[Path], commits: int, seed: int, processes: int) -> list[Report]:
    """`commits` in all, in equal parts as far as the repositories have them."""
    jobs = list(_jobs(folders, commits, seed))
    reports: dict[str, Report] = {}
    done = 0
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for report in pool.imap_unordered(play_chunk, jobs):
            reports.setdefault(report.name, Report(report.name)).add(report)
            for words in report.faults:
                print(f"FAULT {words}", file=sys.stderr, flush=True)
            done += report.played
            print(f"{done} commits", file=sys.stderr, flush=True)
    return [reports[name] for name in sorted(reports)]


def _jobs(folders: Sequence[Path], commits: int, seed: int) -> Iterator[tuple[str, tuple[str, ...], int]]:
    samples = []
    left = commits
    # The small ones give all they have; the large ones make up for it.
    for number, (folder, every) in enumerate(sorted(_sizes(folders, seed), key=lambda pair: len(pair[1]))):
        share = left // (len(folders) - number)
        samples.append((folder, every[:share]))
        left -= min(share, len(every))
    chunks = [
        (str(folder), names[at : at + CHUNK], seed) for folder, names in samples for at in range(0, len(names), CHUNK)
    ]
    yield from sorted(chunks, key=lambda job: job[1])


def _sizes(folders: Sequence[Path], seed: int) -> Iterator[tuple[Path, tuple[str, ...]]]:
    for folder in folders:
        repository = Repository(folder)
        try:
            yield folder, repository.sample(1_000_000, seed)
        finally:
            repository.close()


def table(reports: Iterable[Report]) -> str:
    """The figures in lines."""
    total = Report("all")
    lines = [f"{'repository':<34}{'commits':>8}{'comparisons':>13}{'hunks':>9}{'faults':>8}"]
    for report in reports:
        total.add(report)
        lines.append(_row(report))
    lines.append(_row(total))
    lines += [f"  {name:<66}{count:>9}" for name, count in sorted(total.counts.items())]
    lines += [f"FAULT {words}" for words in total.faults[:FAULTS_SHOWN_MAX]]
    return "\n".join(lines)


def _row(report: Report) -> str:
    counts = report.counts
    figures = f"{report.played:>8}{counts['comparisons']:>13}{counts['hunks']:>9}{len(report.faults):>8}"
    return f"{report.name:<34}{figures}"


def main(arguments: Sequence[str]) -> int:
    """Play and print; 1 when there is a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--commits", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args(arguments)
    begun = time.monotonic()
    reports = play_all(chosen.folders, chosen.commits, chosen.seed, chosen.processes)
    print(table(reports))
    print(f"{time.monotonic() - begun:.0f} s, {chosen.processes} processes")
    return 1 if any(report.faults for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
