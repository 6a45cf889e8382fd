"""The rungs: of this machine and of others.

Purpose: their names, for who needs no rung, and which of them were used with a folder of runs.
Invariant: strongest first; a rung that made anything that may outlast its daemon is among those that were used.
Must never: load a backend.
"""

import os
from pathlib import Path
from typing import Final

REMOTE_NAMES: Final = ("remote-ssh", "remote-tls")
ENGINE_NAMES: Final = ("gvisor", "docker", *REMOTE_NAMES)
"""What these make is found with the engine, also where no folder of a run tells of it."""
NAMES: Final = ("gvisor", "bubblewrap", "docker", "process", *REMOTE_NAMES)
"""Rungs of this machine, strongest first, and those of other machines; `memory` is for tests and is opened only by its
name."""


def used_rungs(runs_dir: Path) -> tuple[str, ...]:
    """The rungs that may have left something: each makes its own folder below `runs_dir` before it makes anything else.

    That folder stays. Of a rung without an engine nothing is left where it holds no run.
    """
    return tuple(name for name in NAMES if _was_used(runs_dir / name, in_engine=name in ENGINE_NAMES))


def _was_used(folder: Path, *, in_engine: bool) -> bool:
    try:
        with os.scandir(folder) as entries:
            return in_engine or any(entries)
    except (FileNotFoundError, NotADirectoryError):
        return False
