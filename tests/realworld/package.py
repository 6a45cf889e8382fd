"""A third-party package, pinned by version and hash, broken by a patch, and the script that repairs it.

The source distribution is fetched through the ordinary installer of packages and is not part of this tree.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest
from tests.kit.require import require

NAME = "toolz"
VERSION = "1.0.0"
SHA256 = "2c86e3d9a04798ac556793bced838816296a2f085017664e4995cb40a1047a02"
HERE = Path(__file__).resolve().parent
PATCH = HERE / "toolz.patch"
SCRIPT = HERE / "toolz.toml"
EXPECTED_FAILING = (
    "toolz/tests/test_dicttoolz.py::TestCustomMapping::test_update_in",
    "toolz/tests/test_dicttoolz.py::TestDefaultDict::test_update_in",
    "toolz/tests/test_dicttoolz.py::TestDict::test_update_in",
    "toolz/tests/test_itertoolz.py::test_partition_all",
)
FETCH_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Prepared:
    """The broken package: its folder, the script for the scripted model, what run_tests is given (nothing: all),
    and the tests that fail now.
    """

    root: Path
    script: Path
    test_paths: tuple[str, ...]
    expected_failing: tuple[str, ...]


def prepare(tmp_path: Path) -> Prepared:
    """Fetches, unpacks and breaks the package below `tmp_path`. Skips (or fails, where all is required) without an
    installer, git or a package index.
    """
    require(shutil.which("git") is not None, "git is not installed")
    root = unpack(fetch(tmp_path / "fetched"), tmp_path / NAME)
    apply_patch(root, PATCH)
    return Prepared(root, SCRIPT, (), EXPECTED_FAILING)


def fetch(folder: Path, name: str = NAME, version: str = VERSION, sha256: str = SHA256) -> Path:
    """The archive, checked against its hash."""
    folder.mkdir(parents=True)
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{name}=={version} --hash=sha256:{sha256}\n")
    options = ["--quiet", "--disable-pip-version-check", "--require-hashes", "--no-deps", "--no-binary", name]
    argv = [*_installer(), "download", *options, "--dest", str(folder), "--requirement", str(wanted)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    if done.returncode and "hash" in done.stderr.lower():
        pytest.fail(f"{name} {version} is not what was pinned: {done.stderr}")
    require(done.returncode == 0, f"the package index gave no {name} {version}: {done.stderr.strip()[-300:]}")
    (archive,) = folder.glob(f"*{version}.tar.gz")
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == sha256
    return archive


def _installer() -> list[str]:
    """The environment of the tests may have been made without an installer of its own."""
    candidates = [[sys.executable, "-m", "pip"], ["pip3"], ["pip"], ["python3", "-m", "pip"]]
    for argv in candidates:
        if shutil.which(argv[0]) is None:
            continue
        if subprocess.run([*argv, "--version"], capture_output=True, timeout=60, check=False).returncode == 0:
            return argv
    require(False, "pip is not installed (python3-pip)")
    raise AssertionError("not reached")


def unpack(archive: Path, target: Path) -> Path:
    """Regular files alone, each beneath the target; the archive's single top folder is dropped."""
    with tarfile.open(archive) as tar:
        for member in tar:
            parts = PurePosixPath(member.name).parts[1:]
            if not member.isreg() or not parts:
                continue
            assert ".." not in parts
            path = target.joinpath(*parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            source = tar.extractfile(member)
            assert source is not None
            path.write_bytes(source.read())
    return target


def apply_patch(root: Path, patch: Path) -> None:
    """Applies a unified diff with git, as a plain folder, whatever repository lies around it."""
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(root.resolve().parent)}
    subprocess.run(["git", "apply", str(patch)], cwd=root, env=environment, check=True, timeout=60)
