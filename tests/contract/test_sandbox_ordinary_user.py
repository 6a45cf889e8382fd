"""The contract of the rungs that need no root, kept for an ordinary user as it is for root.

Purpose: the suites of the contract and of the claims, run by a user who is nobody on this machine.
"""

import os
import re
import shutil
import subprocess
from importlib.metadata import distribution

import pytest
from tests.kit.amount import THOROUGH
from tests.security.escapes.ordinary import ORDINARY_UID, PYTHON, readable_copies

SUITES = ("contract/test_sandbox_contract.py", "contract/test_sandbox_claims.py")
PACKAGES = (
    "pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "pytest_asyncio", "pytest_timeout",
    "cryptography", "_cffi_backend",
)  # fmt: skip
"""What the suites and their kit import."""
SUITE_S = 600
TRIED_MIN = 50
RUNGS = ("process", "bubblewrap") if THOROUGH else ("bubblewrap",)
OF_ROOTS_OWN = "this_environment"
"""It is about the interpreter that runs these tests, to which an ordinary user may have no way."""


@pytest.mark.timeout(SUITE_S + 60)
@pytest.mark.parametrize("rung", RUNGS)
def test_the_suites_hold_for_an_ordinary_user(rung: str) -> None:
    """Each test of them that root passes; what asks for root alone is left out by itself."""
    with readable_copies(PACKAGES, ("kit", *SUITES)) as folder:
        library = folder / "lib"
        named = distribution("pytest-asyncio")
        for file in named.files or ():
            if file.parent.suffix == ".dist-info" and file.name == "METADATA":  # it asks for its own version
                (library / file.parent).mkdir()
                shutil.copy(named.locate_file(file), library / file)  # type: ignore[arg-type]  # - a path on this disk
        argv = [PYTHON, "-S", "-B", "-m", "pytest", "-q", "--noconftest", "-c", os.devnull, "--rootdir", str(library)]
        argv += [
            "-p",
            "pytest_asyncio.plugin",
            "-p",
            "pytest_timeout",
            "-p",
            "no:cacheprovider",
            "-k",
            f"{rung} and not {OF_ROOTS_OWN}",
        ]
        argv += ["-o", "asyncio_mode=auto", "--basetemp", str(folder / "field/tmp"), *SUITES]
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(library), "HOME": "/nonexistent"}
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        done = subprocess.run(
            argv, cwd=library / "tests", env=environment, user=ORDINARY_UID, group=ORDINARY_UID, extra_groups=[],
            capture_output=True, text=True, timeout=SUITE_S, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= TRIED_MIN, done.stdout[-1000:]
