"""Ask for a tool or an ability of this machine.

Purpose: a missing tool skips with its reason on a workstation and fails where everything is required.
"""

import os
import shutil
from pathlib import Path

import pytest

NODE_PACKAGES = Path(__file__).resolve().parents[2] / "client-vscode" / "node_modules"


def require(condition: bool, what: str) -> None:
    """Go on when `condition` holds; else skip, or fail under GLOVEPORT_REQUIRE=all, naming `what`."""
    if condition:
        return
    if os.environ.get("GLOVEPORT_REQUIRE") == "all":
        pytest.fail(what)
    pytest.skip(what)


def require_node() -> str:
    """The node program, with the client's packages in place; skips or fails without them."""
    node = shutil.which("node")
    require(node is not None, "node is not installed (Node 20 or newer)")
    require((NODE_PACKAGES / "vscode-jsonrpc").is_dir(), "the client's packages are missing (make client)")
    return str(node)
