"""Ask for a tool or an ability of this machine.

Purpose: a missing tool skips with its reason on a workstation and fails where everything is required.
"""

import asyncio
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gloveport.sandbox.backends.select import open_backend
from gloveport.sandbox.contract import Availability

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


def require_bubblewrap() -> None:
    """A bubblewrap rung that works here; skips or fails without one."""
    with ThreadPoolExecutor(1) as aside:
        found = aside.submit(lambda: asyncio.run(_try_bubblewrap())).result()
    require(found.ok, f"bubblewrap does not work here: {found.reason} {found.fix}")


async def _try_bubblewrap() -> Availability:
    with tempfile.TemporaryDirectory(prefix="gp-") as folder:
        backend = open_backend("bubblewrap", Path(folder))
        try:
            return await backend.probe()
        finally:
            await backend.close()
