"""House numbers: how long a file or a function may be.

Purpose: hard gates on each, and the median and 95th percentile over the whole shipped tree.
Invariant: generated files are exempt; everything else is counted.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.arch.gates.tree import TESTS, walk_all_python, walk_functions, walk_shipped

FILE_LINES_MAX: Final = 500
TEST_LINES_MAX: Final = 700
FUNCTION_LINES_MAX: Final = 70
FILE_LINES_MEDIAN_MAX: Final = 130
FILE_LINES_P95_MAX: Final = 350
FUNCTION_LINES_MEDIAN_MAX: Final = 9
FUNCTION_LINES_P95_MAX: Final = 35


@dataclass(frozen=True)
class Spread:
    """Median and 95th percentile of a set of line counts."""

    count: int
    median: float
    p95: float


def measure_spread(values: Sequence[int]) -> Spread:
    """Median and nearest-rank 95th percentile; zeros for nothing."""
    if not values:
        return Spread(0, 0, 0)
    ordered = sorted(values)
    return Spread(len(ordered), statistics.median(ordered), ordered[max(0, -(-len(ordered) * 95 // 100) - 1)])


def check_file_sizes(root: Path) -> list[str]:
    """Files over their line limit."""
    faults = []
    for source in walk_all_python(root):
        limit = TEST_LINES_MAX if source.path.startswith(TESTS) else FILE_LINES_MAX
        if source.lines > limit and not source.generated:
            faults.append(f"{source.path}: {source.lines} lines, at most {limit}")
    return faults


def check_function_sizes(root: Path) -> list[str]:
    """Functions over the line limit, decorators not counted."""
    faults = []
    for source in walk_all_python(root):
        for node in walk_functions(source):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX and not source.generated:
                faults.append(f"{source.path}:{node.lineno}: {node.name} has {length} lines")
    return faults


def measure_files(root: Path) -> Spread:
    """Spread of file lengths of the shipped tree, empty package markers left out."""
    return measure_spread(
        [s.lines for s in walk_shipped(root) if not s.generated and not s.path.endswith("__init__.py")]
    )


def measure_functions(root: Path) -> Spread:
    """Spread of function lengths of the shipped tree."""
    return measure_spread(
        [
            (node.end_lineno or node.lineno) - node.lineno + 1
            for source in walk_shipped(root)
            if not source.generated
            for node in walk_functions(source)
        ]
    )


def check_house_numbers(root: Path) -> list[str]:
    """Medians and percentiles over their house numbers."""
    files, functions = measure_files(root), measure_functions(root)
    pairs = (
        ("file lines, median", files.median, FILE_LINES_MEDIAN_MAX),
        ("file lines, p95", files.p95, FILE_LINES_P95_MAX),
        ("function lines, median", functions.median, FUNCTION_LINES_MEDIAN_MAX),
        ("function lines, p95", functions.p95, FUNCTION_LINES_P95_MAX),
    )
    return [f"{name}: {value:g}, at most {limit}" for name, value, limit in pairs if value > limit]
