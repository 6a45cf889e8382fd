"""A process of another user that somehow reached the socket."""

import asyncio
import os
import subprocess
import sys

import pytest
from tests.kit.memory_backend import run_daemon
from tests.kit.require import require

CONNECT = (
    "import os, socket, sys\n"
    "os.setgid(12345); os.setuid(12345)\n"
    "link = socket.socket(socket.AF_UNIX); link.settimeout(10); link.connect(sys.argv[1])\n"
    "try:\n"
    "    link.sendall(b'Content-Length: 2\\r\\n\\r\\n{}'); print('got', link.recv(100))\n"
    "except OSError: print('got', b'')\n"
)


async def test_another_user_gets_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """H01: even with the modes opened up, the kernel's word on the peer decides."""
    require(os.geteuid() == 0, "needs root to run a process as another user")
    async with run_daemon() as daemon:
        os.chmod(daemon.socket.parent, 0o755)
        os.chmod(daemon.socket, 0o666)
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", CONNECT, str(daemon.socket)],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.stdout == "got b''\n", done
        assert "another user" in caplog.text
        assert daemon.endpoint.clients == 0
