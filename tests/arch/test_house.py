"""The gates of the house, turned on the real tree."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.arch.gates import imports, sizes, style, traces
from tests.arch.gates.tree import parse

ROOT = Path(__file__).resolve().parents[2]
Gate = Callable[[Path], list[str]]

GATES: tuple[Gate, ...] = (
    sizes.check_file_sizes,
    sizes.check_function_sizes,
    sizes.check_house_numbers,
    style.check_module_docstrings,
    style.check_public_docstrings,
    style.check_file_names,
    style.check_packages,
    style.check_test_names,
    style.check_broad_excepts,
    style.check_suppressions,
    style.check_module_state,
    style.check_annotations,
    style.check_no_mocks,
    traces.check_traces,
    imports.check_kernel_purity,
    imports.check_protocol_purity,
    imports.check_runner_bareness,
    imports.check_clients,
    imports.check_bounds,
    imports.check_doors,
    imports.check_circles,
    imports.check_roots,
)


@pytest.fixture(scope="module", autouse=True)
def _parsed_once() -> Iterator[None]:
    """The trees of all files are held for these tests alone."""
    yield
    parse.cache_clear()


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.__name__)
def test_gate_holds(gate: Gate) -> None:
    """No fault in the tree."""
    faults = gate(ROOT)
    assert not faults, "\n".join(faults)


def test_import_contracts_hold() -> None:
    """The floors, by import-linter, exactly as `make check` runs it."""
    done = run_import_linter(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def run_import_linter(root: Path) -> subprocess.CompletedProcess[str]:
    """Run the contracts of a tree's pyproject.toml over that tree."""
    program = (
        "import sys; sys.path[:0] = ['protocol', 'sandbox', 'server'];"
        "from importlinter.cli import lint_imports_command as run; run(['--no-cache', '--no-logo'])"
    )
    return subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, timeout=110, check=False
    )
