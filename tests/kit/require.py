"""Ask for a tool or an ability of this machine.

Purpose: a missing tool skips with its reason on a workstation and fails where everything is required.
"""

import os

import pytest


def require(condition: bool, what: str) -> None:
    """Go on when `condition` holds; else skip, or fail under GLOVEPORT_REQUIRE=all, naming `what`."""
    if condition:
        return
    if os.environ.get("GLOVEPORT_REQUIRE") == "all":
        pytest.fail(what)
    pytest.skip(what)
