"""This program's own Python, as a jail can run it.

Purpose: where the interpreter lies and which folders a jail must see to start it.
Invariant: the mounts are read-only and hold the interpreter and its library; installed packages only when asked for.
Must never: show a whole home folder because an interpreter lies in it.
"""

import os
import sys
from dataclasses import dataclass

from gloveport.sandbox.profile import Access, Mount, is_below


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The program to start and what it needs to see."""

    path: str
    mounts: tuple[Mount, ...]


def find_interpreter(*, packages: bool = False) -> Interpreter:
    """The real interpreter below any virtual environment; with `packages` this environment itself."""
    prefixes = {sys.base_prefix, sys.base_exec_prefix} | ({sys.prefix} if packages else set())
    roots = prefixes | {os.path.realpath(prefix) for prefix in prefixes}
    mounts = tuple(
        Mount(os.path.realpath(root), root, Access.READ_ONLY) for root in sorted(roots) if not is_below(root, "/usr")
    )
    return Interpreter(sys.executable if packages else os.path.realpath(sys.executable), mounts)
