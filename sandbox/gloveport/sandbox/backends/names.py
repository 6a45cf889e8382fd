"""The rungs of this machine.

Purpose: their names, for who needs no rung.
Invariant: strongest first.
Must never: load a backend.
"""

from typing import Final

NAMES: Final = ("gvisor", "bubblewrap", "docker", "process")
"""Rungs of this machine, strongest first; `memory` is for tests and is opened only by its name."""
