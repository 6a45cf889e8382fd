"""What holds for every test.

Purpose: a property takes the time it takes: how busy the machine is decides no test; pytest's own limit catches a hang.
How many examples it tries is said once here, for each run and for `make thorough`, where it names no number itself.
What takes long begins first, so that no worker ends with one long file while the others have none left.
Invariant: everything else of the profile that is in force (a CI's own, say) stays; tests of one file keep their order.
Must never: hold a fixture or change what a test sees.
"""

import gc
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings
from tests.kit.amount import THOROUGH

settings.register_profile("usual", settings(deadline=None, max_examples=60))
settings.register_profile("thorough", settings(deadline=None, max_examples=600))
settings.load_profile("thorough" if THOROUGH else "usual")

HERE: Final = Path(__file__).parent
LONG_FILES: Final = (
    "security/test_escapes.py",
    "contract/test_sandbox_ordinary_user.py",
    "security/test_doctor_broken.py",
    "contract/test_sandbox_survival.py",
    "contract/test_remote_rungs.py",
    "contract/test_sandbox_claims.py",
    "contract/test_sandbox_contract.py",
    "security/test_doctor_broken_remote.py",
    "crash/test_power_loss.py",
    "crash/test_proof.py",
    "e2e/test_command_line_changes.py",
    "e2e/test_command_line_places.py",
    "e2e/test_command_line.py",
    "crash/test_crash_matrix.py",
    "e2e/test_command_line_first_steps.py",
    "security/test_jail_walls.py",
    "crash/test_disk_refusals.py",
    "crash/test_workspace_crash.py",
    "e2e/editors/test_editors.py",
    "contract/test_engine_memory.py",
    "contract/test_engines.py",
)
LONG_FOLDERS: Final = ("security", "crash", "e2e", "contract", "property")
"""Folders whose tests start processes, those that start most of them first; the rest are thousands of short tests."""


gc.disable()  # until everything is collected: what thousands of tests are made of is no garbage


def pytest_collection_finish() -> None:
    """From here on garbage is looked for, and not among what stays until the end."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what takes long before what does not."""
    items.sort(key=lambda item: _rank(item.path))


def _rank(path: Path) -> int:
    parts = path.relative_to(HERE).parts if path.is_relative_to(HERE) else ("",)
    name = "/".join(parts)
    if name in LONG_FILES:
        return LONG_FILES.index(name)
    folder = parts[0]
    return len(LONG_FILES) + (LONG_FOLDERS.index(folder) if folder in LONG_FOLDERS else len(LONG_FOLDERS))
