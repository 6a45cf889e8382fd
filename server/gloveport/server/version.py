"""The version of this program.

Purpose: one place for the number.
Invariant: equals the distribution's version.
Must never: need the installed metadata, which a source checkout lacks.
"""

from typing import Final

VERSION: Final = "0.1.0"
