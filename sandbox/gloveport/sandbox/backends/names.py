"""The rungs: of this machine and of others.

Purpose: their names, for who needs no rung.
Invariant: strongest first.
Must never: load a backend.
"""

from typing import Final

REMOTE_NAMES: Final = ("remote-ssh", "remote-tls")
NAMES: Final = ("gvisor", "bubblewrap", "docker", "process", *REMOTE_NAMES)
"""Rungs of this machine, strongest first, and those of other machines; `memory` is for tests and is opened only by its
name."""
