"""How much a test tries: the usual part at every run, the large part by `make thorough`.

Purpose: one place that says which of the two is wanted, so that what a test leaves out is named beside it.
Invariant: the usual part alone shows that the behaviour is there; the large part looks for what is rare.
Must never: leave out a negative control.
"""

import os
from typing import Final

THOROUGH_NAME: Final = "GLOVEPORT_THOROUGH"
THOROUGH: Final = os.environ.get(THOROUGH_NAME) == "1"


def amount(usual: int, thorough: int) -> int:
    """So many of whatever a test counts."""
    return thorough if THOROUGH else usual
