"""File systems of their own for tests, in an image.

Purpose: mount a fresh file system of a kind that the machine's own disk need not have.
Invariant: it is unmounted, and its image gone, at the end.
Must never: touch a disk of the machine.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.kit.require import require


@contextmanager
def mounted_image(kind: str, size_bytes: int, *options: str) -> Iterator[Path]:
    """The top of a new file system, made by `mkfs.<kind> <options>`; skips where no image can be mounted."""
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        pytest.skip("mounting an image needs root and a loop device: not a tool that is missing")
    require(shutil.which(f"mkfs.{kind}") is not None, f"mkfs.{kind} is not installed")
    with tempfile.TemporaryDirectory(prefix="gp-") as folder:
        image, mounted = Path(folder, "image"), Path(folder, "mounted")
        with image.open("wb") as file:
            file.truncate(size_bytes)
        subprocess.run([f"mkfs.{kind}", "-q", *options, image], check=True, capture_output=True)
        mounted.mkdir()
        done = subprocess.run(["mount", "-o", "loop", image, mounted], check=False, capture_output=True)
        if done.returncode:
            pytest.skip(f"this kernel mounts no image of {kind}")
        try:
            yield mounted
        finally:
            subprocess.run(["umount", "--lazy", mounted], check=True)
