"""The agent reaches outside through the whole daemon: asked first, one place, noted, and the rest refused by name."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio.abc import SocketStream
from tests.kit.daemon import Daemon, allow_all, request_id, run_turn, running_daemon, send, start_session, trust
from tests.kit.egress import Server, answering, serving
from tests.kit.require import require_bubblewrap

from gloveport.protocol.wire.session import SessionDeleteParams
from gloveport.protocol.wire.turn import WhyParams

VALUE = "the-real-value-of-the-forge"
TRY = """
import os, sys, urllib.request, urllib.error
os.environ.pop("NO_PROXY"), os.environ.pop("no_proxy")  # the server of this test lies on loopback
opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": "http://127.0.0.1:3128"}))
for url in sys.argv[1:]:
    try:
        print("GOT", opener.open(url, timeout=60).read().decode())
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode())
"""


def calls(script: Path, *wanted: dict[str, Any]) -> None:
    """A model that makes these calls."""
    steps: list[dict[str, Any]] = [{"when": {"turn": 0}, "calls": list(wanted)}, {"text": "Done."}]
    script.write_text(json.dumps({"name": "out", "steps": steps}))


Told = tuple[Daemon, list[dict[str, Any]], Any]


@asynccontextmanager
async def told(tmp_path: Path, server: Server, *wanted: dict[str, Any], settings: str = "") -> AsyncIterator[Told]:
    """The daemon after a turn with these calls, its tool items, and what `why` says of the first."""
    require_bubblewrap()
    root, script = tmp_path / "root", tmp_path / "script.json"
    root.mkdir(exist_ok=True)
    (root / "try.py").write_text(TRY)
    calls(script, *wanted)
    with running_daemon(started=False) as daemon:
        daemon.write_settings(
            f'[[models]]\nprovider = "scripted"\nmodel = "test"\nscript = "{script}"\n'
            f'[network]\nplaces = ["127.0.0.1:{server.port} loopback"]\n{settings}'
        )
        daemon.start(FORGE=VALUE)
        async with daemon.client() as client:
            await trust(client, root)
            session = await start_session(client, root, provider="scripted", model="test")
            await send(client, session.session_id, "fetch it")
            assert await run_turn(client, session.session_id) == "completed"
            follow = client.follow(session.session_id)
            await anext(follow)
            items = follow.view.items()
            tool = next(item for item in items if item["kind"] == "tool")
            params = WhyParams(session_id=session.session_id, call_id=tool["id"].removeprefix("tool/"))
            yield daemon, items, await client.call("tool/why", params)


def log_of(daemon: Daemon) -> list[dict[str, Any]]:
    """The lines of the way out's log."""
    return [json.loads(line) for line in (daemon.home / "egress.jsonl").read_text().splitlines()]


async def test_one_request_is_asked_made_and_noted(tmp_path: Path) -> None:
    async with serving(answering(b"hello", headers="Set-Cookie: a=b\r\nETag: x\r\n")) as server:
        url = f"http://127.0.0.1:{server.port}/a?b=c"
        call = {"name": "http_request", "arguments": {"url": url, "headers": {"X-One": "1"}}}
        async with told(tmp_path, server, call) as (daemon, items, why):
            card = next(item for item in items if item["kind"] == "approval")["fields"]["card"]
            tool = next(item for item in items if item["kind"] == "tool")["fields"]
            lines = log_of(daemon)
            audit = (daemon.home / "audit.jsonl").read_text()
            async with daemon.client() as client:
                gone = SessionDeleteParams(client_request_id=request_id(), session_id=lines[0]["session_id"])
                await client.call("session/delete", gone)
            left = log_of(daemon)
    assert tool["state"] == "ok", tool
    assert "HTTP 200" in tool["result"]
    assert "hello" in tool["result"]
    assert "etag: x" in tool["result"].lower()
    assert "a=b" not in tool["result"]
    assert card["destinations"] == [f"127.0.0.1:{server.port}"]
    assert f"GET {url}" in card["effects"][0]["words"]
    assert "X-One: 1" in card["effects"][0]["words"]
    assert [option["scope"] for option in card["options"]] == ["once"]
    assert b"x-one: 1" in bytes(server.received[0]).lower()
    (place,) = tool["egress"]
    assert (place["host"], place["port"], place["allowed"], place["attempts"]) == ("127.0.0.1", server.port, True, 1)
    assert place["received_bytes"] > 5
    assert [line["trace_id"] for line in lines] == [place["trace_id"]] * 2
    assert len(why.network) == 1
    assert f"reached 127.0.0.1:{server.port}, 1 times" in why.network[0]
    assert place["trace_id"] in why.network[0]
    assert '"action":"egress"' in audit
    assert f'"egress":["127.0.0.1:{server.port} loopback"]' in audit
    assert left == []


async def test_a_command_reaches_what_it_named_and_nothing_else(tmp_path: Path) -> None:
    async with serving(answering(b"hello")) as server, serving(answering(b"other")) as other:
        urls = [f"http://127.0.0.1:{port}/" for port in (server.port, other.port)]
        arguments = {"argv": ["python3", "try.py", *urls], "network": [f"127.0.0.1:{server.port}"]}
        async with told(tmp_path, server, {"name": "run_command", "arguments": arguments}) as (_daemon, items, why):
            card = next(item for item in items if item["kind"] == "approval")["fields"]["card"]
            tool = next(item for item in items if item["kind"] == "tool")["fields"]
    assert "GOT hello" in tool["result"], tool
    assert f"Blocked by sandbox: 127.0.0.1:{other.port}" in tool["result"]
    assert f"[blocked by sandbox: 127.0.0.1:{other.port} (the list does not name it)]" in tool["result"]
    assert other.received == []
    assert card["destinations"] == [f"127.0.0.1:{server.port}"]
    assert any("only those named here are reached" in note for note in card["notes"])
    assert [(place["port"], place["allowed"]) for place in tool["egress"]] == [(server.port, True), (other.port, False)]
    assert f"blocked by sandbox: 127.0.0.1:{other.port}" in why.network[1]


@pytest.mark.parametrize(
    "place", ["127.0.0.1", "http://a.example", "a.example:443 raw", "A.example:443", "*.a.example:443"]
)
async def test_a_place_is_spelled_plainly(tmp_path: Path, place: str) -> None:
    async with serving(answering(b"hello")) as server:
        arguments = {"argv": ["true"], "network": [place]}
        async with told(tmp_path, server, {"name": "run_command", "arguments": arguments}) as (_daemon, items, _why):
            tool = next(item for item in items if item["kind"] == "tool")["fields"]
            assert not any(item["kind"] == "approval" for item in items)
    assert tool["state"] == "invalid", tool


async def test_a_credential_is_used_and_never_seen(tmp_path: Path) -> None:
    """The card says so, the server gets the value, and neither model, record, log nor worktree ever hold it."""

    async def parrot(stream: SocketStream, received: bytearray) -> None:
        received.extend(await stream.receive())
        body = bytes(received)
        await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    async with serving(parrot) as server:
        place = f"127.0.0.1:{server.port}"
        settings = f'[[credentials]]\nname = "forge"\nvalue_env = "FORGE"\nplace = "{place}"\npath = "/v1/"\n'
        good, bad = ({"url": f"http://{place}/{path}", "credential": "forge"} for path in ("v1/x", "v2/x"))
        wanted = [{"name": "http_request", "arguments": one} for one in (good, bad)]
        async with told(tmp_path, server, *wanted, settings=settings) as (daemon, items, why):
            cards = [item["fields"]["card"] for item in items if item["kind"] == "approval"]
            first, second = (item["fields"] for item in items if item["kind"] == "tool")
            files = [path for path in daemon.home.rglob("*") if path.is_file() and path.name != "config.toml"]
            holding = [path.name for path in files if VALUE.encode() in path.read_bytes()]
    assert f"authorization: Bearer {VALUE}".encode() in bytes(server.received[0])
    assert "authorization: Bearer" in first["result"]
    assert "is not for GET" in second["result"]
    assert len(server.received) == 1
    assert cards[0]["title"] == "Publish this?"
    assert "(the credential forge)" in cards[0]["effects"][0]["words"]
    assert "with the credential forge" in why.network[0]
    assert holding == []


USE = """
import os, urllib.request
os.environ.pop("NO_PROXY"), os.environ.pop("no_proxy")
import sys
request = urllib.request.Request(sys.argv[1], headers={"Authorization": "token " + os.environ["FORGE"]})
print(urllib.request.urlopen(request, timeout=60).read().decode(), os.environ["FORGE"].startswith("gloveport-"))
"""


async def test_a_program_uses_a_credential_by_its_stand_in(tmp_path: Path) -> None:
    async with serving(answering(b"hello")) as server:
        place = f"127.0.0.1:{server.port}"
        settings = f'[[credentials]]\nname = "forge"\nvalue_env = "FORGE"\nplace = "{place}"\n'
        (tmp_path / "root").mkdir()
        (tmp_path / "root" / "use.py").write_text(USE)
        arguments = {"argv": ["python3", "use.py", f"http://{place}/"], "credentials": ["forge"]}
        wanted = {"name": "run_command", "arguments": arguments}
        async with told(tmp_path, server, wanted, settings=settings) as (_daemon, items, why):
            card = next(item for item in items if item["kind"] == "approval")["fields"]["card"]
            tool = next(item for item in items if item["kind"] == "tool")["fields"]
    assert "hello True" in tool["result"], tool["result"]
    assert f"authorization: token {VALUE}".encode() in bytes(server.received[0])
    assert card["title"] == "Publish this?"
    assert [option["scope"] for option in card["options"]] == ["once"]
    assert any("with the credential forge" in effect["words"] for effect in card["effects"])
    assert "with the credential forge" in why.network[0]


OUTLIVE = """
import os, sys, time, urllib.request, urllib.error
os.environ.pop("NO_PROXY"), os.environ.pop("no_proxy")
for name in ("first", "second"):
    try:
        print(name, urllib.request.urlopen(sys.argv[1], timeout=30).read().decode(), flush=True)
    except (OSError, urllib.error.HTTPError) as error:
        print(name, "shut", flush=True)
    while name == "first" and not os.path.exists("go"):
        time.sleep(0.05)
"""


async def test_a_run_that_outlives_its_daemon_reaches_nothing_more(tmp_path: Path) -> None:
    """The way out ends with the daemon; the next one tells what was reached before, from what was written down."""
    require_bubblewrap()
    root, script = tmp_path / "root", tmp_path / "script.json"
    root.mkdir()
    (root / "try.py").write_text(OUTLIVE)
    async with serving(answering(b"hello")) as server:
        place = f"127.0.0.1:{server.port}"
        arguments = {"argv": ["python3", "try.py", f"http://{place}/"], "network": [place]}
        calls(script, {"name": "run_command", "arguments": arguments})
        with running_daemon(started=False) as daemon:
            daemon.write_settings(
                f'[[models]]\nprovider = "scripted"\nmodel = "test"\nscript = "{script}"\n'
                f'[network]\nplaces = ["{place} loopback"]\n'
            )
            daemon.start()
            async with daemon.client() as client:
                await trust(client, root)
                session = await start_session(client, root, provider="scripted", model="test")
                await send(client, session.session_id, "fetch it")
                follow = client.follow(session.session_id)
                async for _ in follow:
                    if any("first hello" in str(item["fields"].get("output")) for item in follow.view.items()):
                        break
                    await allow_all(client, session.session_id)
            daemon.kill()
            worktree = next((daemon.home / "sessions").glob("*/worktree"))
            (worktree / "go").touch()
            daemon.start()
            async with daemon.client() as client:
                assert await run_turn(client, session.session_id) == "completed"
                follow = client.follow(session.session_id)
                await anext(follow)
                tool = next(item for item in follow.view.items() if item["kind"] == "tool")["fields"]
    assert "second shut" in tool["result"], tool["result"]
    assert [(place["port"], place["allowed"], place["attempts"]) for place in tool["egress"]] == [
        (server.port, True, 1)
    ]
    assert tool["egress"][0]["received_bytes"] > 5
    assert len(server.received) == 1
