"""The daemon's first moments: clients come before the rooms are open."""

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest
from tests.kit.daemon import Daemon, running_daemon

from gloveport.protocol.errors import ErrorCode, GloveportError


async def test_the_first_request_waits_for_the_rooms_and_is_answered() -> None:
    """A client that comes at once gets its answer; the version names the build."""
    with running_daemon() as daemon:
        async with daemon.client() as client:
            status = await client.call("daemon/status")
            assert client.server.version.startswith(f"{status.program_version}+")


async def test_what_keeps_the_rooms_from_opening_is_told_and_ends_the_daemon() -> None:
    """Rules with a fault: who waits is told which, the log says it in one line, and the exit code is 1."""
    home = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
    daemon = Daemon(home)
    (home / "rules.toml").write_text('version = 1\n\n[[rule]]\nid = "mine"\nverdict = "perhaps"\n')
    try:
        daemon.start()
        assert daemon.process is not None
        with pytest.raises(GloveportError) as caught:
            async with daemon.client(deciding=False) as client:
                await client.call("daemon/status")
        assert caught.value.code in (ErrorCode.RULES_INVALID, ErrorCode.UNREACHABLE)
        assert await asyncio.to_thread(daemon.process.wait, 20) == 1
        assert "mine" in daemon.log().splitlines()[-1]
        assert "Traceback" not in daemon.log()
    finally:
        daemon.kill()
        shutil.rmtree(home, ignore_errors=True)
