"""A program in a jail without a network reaches exactly what its list names, through the proxy socket alone.

Purpose: the way out end to end, with real programs and real sockets.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.kit.egress import answering, run_inside, serving, way_out
from tests.kit.sandboxes import Rig, open_rig

from gloveport.sandbox.contract import ResultKind

pytestmark = pytest.mark.asyncio(loop_scope="module")

GET = """
import sys, urllib.request, urllib.error
for url in sys.argv[1:]:
    try:
        print(url, urllib.request.urlopen(url, timeout=10).read().decode())
    except urllib.error.HTTPError as error:
        print(url, error.code, error.read().decode())
    except OSError as error:
        print(url, type(error).__name__, error)
"""


@pytest_asyncio.fixture(params=["bubblewrap", "docker"], scope="module", loop_scope="module")
async def rig(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    async with open_rig(request.param) as rig:
        yield rig


async def test_exactly_the_listed_server_is_reached(rig: Rig) -> None:
    async with serving(answering(b"hello")) as server, serving(answering(b"other")) as other:
        egress = (f"server.test:{server.port} loopback",)
        names = {"server.test": ("127.0.0.1",), "other.test": ("127.0.0.1",)}
        async with way_out(rig.folder, *egress, names=names) as (way, seen):
            urls = (f"http://server.test:{server.port}/a?b", f"http://server.test:{other.port}/",
                    f"http://other.test:{server.port}/", f"http://127.0.0.1:{server.port}/")  # fmt: skip
            result = await run_inside(rig, way, egress, GET, *urls)
    assert result.kind is ResultKind.OK, result.output
    lines = result.output.decode()
    assert "/a?b hello" in lines
    assert f"Blocked by sandbox: server.test:{other.port}" in lines
    assert f"Blocked by sandbox: other.test:{server.port}" in lines
    assert "URLError" in lines.splitlines()[-1], "the jail's own loopback is not the host's"
    assert other.received == []
    assert seen.verdicts() == [
        (f"server.test:{server.port}", True),
        (f"server.test:{other.port}", False),
        (f"other.test:{server.port}", False),
    ]
    assert not list(rig.folder.glob("ways/*"))
