"""A program in a jail without a network reaches exactly what its list names, through the proxy socket alone.

Purpose: the way out end to end, with real programs and real sockets.
"""

import importlib.util
import io
import shutil
import zipfile
from collections.abc import AsyncIterator
from hashlib import sha256

import pytest
import pytest_asyncio
from anyio.abc import SocketStream
from tests.kit.egress import answering, echo, run_inside, serving, serving_tls, start_inside, trusting, way_out
from tests.kit.require import require
from tests.kit.sandboxes import Rig, on_rungs, open_rig

from gloveport.sandbox.contract import ResultKind
from gloveport.sandbox.egress.authority import LeaseAuthority
from gloveport.sandbox.egress.hosts import Authority
from gloveport.sandbox.egress.limits import EgressLimits
from gloveport.sandbox.profile import WayOut

pytestmark = pytest.mark.asyncio(loop_scope="module")

GET = """
import sys, urllib.request, urllib.error
for url in sys.argv[1:]:
    try:
        print(url, urllib.request.urlopen(url, timeout=60).read().decode())
    except urllib.error.HTTPError as error:
        print(url, error.code, error.read().decode())
    except OSError as error:
        print(url, type(error).__name__, error)
"""


@pytest_asyncio.fixture(params=on_rungs("bubblewrap", "docker"), scope="module", loop_scope="module")
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


CURL = ("--silent", "--show-error", "--max-time", "10", "--output", "-")
INSIDE = """
import os, socket, sys
print(sorted(os.listdir("/proc/self/fd")))
for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    server = socket.create_server((address, 0), family=family)
    link = socket.create_connection((address, server.getsockname()[1]), 5)
    other, _ = server.accept()
    other.sendall(b"inside"); print(address, link.recv(6).decode())
server = socket.socket(socket.AF_UNIX); server.bind("/tmp/here.sock"); server.listen(1)
link = socket.socket(socket.AF_UNIX); link.connect("/tmp/here.sock"); print("unix done")
import subprocess
print("children", subprocess.run(["sh", "-c", "wait; echo none left"], capture_output=True, text=True).stdout.strip())
try:
    print("child", os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print("no child that the program did not start")
for path in ("/run/gloveport/out/proxy.sock", "/run/gloveport/out/new"):
    try:
        os.unlink(path) if path.endswith("sock") else open(path, "w"); print("CHANGED", path)
    except OSError as error:
        print("kept", error.errno)
"""


def https_names(port: int) -> tuple[str, ...]:
    """What the list says of the one server of a test behind TLS."""
    return (f"ok.test:{port} loopback terminate",)


async def run_program(rig: Rig, way: WayOut, egress: tuple[str, ...], *argv: str) -> str:
    """Run a program of the machine in a jail with a way out; its output."""
    result = await run_inside(rig, way, egress, "", argv=argv)
    assert result.kind is ResultKind.OK, (result.evidence, result.output[-2000:])
    return result.output.decode()


async def test_programs_find_their_way_by_the_environment_alone(rig: Rig) -> None:
    """curl and Python's own client over HTTP, an opened TLS that they trust by the lease's bundle, and SOCKS."""
    outside = LeaseAuthority()
    async with serving_tls(answering(b"secret hello"), "ok.test", outside) as tls, serving(answering(b"hello")) as http:
        egress = (*https_names(tls.port), f"ok.test:{http.port} loopback")
        names = {"ok.test": ("127.0.0.1",)}
        async with way_out(rig.folder, *egress, names=names, trust=trusting(outside.root_pem)) as (way, seen):
            urls = (f"https://ok.test:{tls.port}/", f"http://ok.test:{http.port}/")
            said = (await run_inside(rig, way, egress, GET, *urls)).output.decode()
            assert said.count("hello") == 2, said
            if shutil.which("curl", path="/usr/bin"):
                assert await run_program(rig, way, egress, "curl", *CURL, *urls) == "secret hellohello"
                socks = ("--noproxy", "", "--proxy", "socks5h://127.0.0.1:3128")
                assert await run_program(rig, way, egress, "curl", *CURL, *socks, urls[1]) == "hello"
                refused = await run_program(rig, way, egress, "sh", "-c", f"curl -sS {urls[1]}x --proxy '' || true")
                assert "hello" not in refused
        assert {one.way for one in seen.contacts} >= {"http", "connect", "https"}
        assert all(one.allowed for one in seen.contacts)


LIBRARIES = """
import sys, httpx2, requests
for url in sys.argv[1:]:
    for library in (requests, httpx2):
        answer = library.get(url, timeout=60)
        print(library.__name__, answer.status_code, answer.text.splitlines()[0])
session = requests.Session()
print([session.get(url, timeout=60).text for url in sys.argv[1:3] * 2])
"""


async def test_libraries_find_it_too_and_show_what_was_blocked(rig: Rig) -> None:
    outside = LeaseAuthority()
    async with serving_tls(answering(b"secret hello"), "ok.test", outside) as tls, serving(answering(b"hello")) as http:
        egress = (*https_names(tls.port), f"ok.test:{http.port} loopback")
        async with way_out(
            rig.folder, *egress, names={"ok.test": ("127.0.0.1",)}, trust=trusting(outside.root_pem)
        ) as (way, seen):
            urls = (f"https://ok.test:{tls.port}/", f"http://ok.test:{http.port}/", f"http://no.test:{http.port}/")
            said = (await run_inside(rig, way, egress, LIBRARIES, *urls, packages=True)).output.decode()
    for library in ("requests", "httpx2"):
        assert f"{library} 200 secret hello" in said, said
        assert f"{library} 200 hello" in said
        assert f"{library} 403 Blocked by sandbox: no.test:{http.port}" in said
    assert said.count("'secret hello', 'hello'") == 2
    assert {one.place for one in seen.contacts if not one.allowed} == {Authority("no.test", http.port)}


INDEX = b'<!DOCTYPE html><body><a href="tiny-1.0-py3-none-any.whl#sha256=%s">tiny</a></body>'


async def test_a_package_index_is_read_and_not_written_to(rig: Rig) -> None:
    """pip with nothing but the environment, over TLS that the proxy opens; what would upload is refused by name."""
    package = io.BytesIO()
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        archive.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("tiny-1.0.dist-info/RECORD", "")
    content = package.getvalue()
    page = INDEX % sha256(content).hexdigest().encode()

    async def index(stream: SocketStream, received: bytearray) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += await stream.receive()
        received.extend(head)
        body, kind = (content, b"application/zip") if b".whl" in head.split(b"\r\n")[0] else (page, b"text/html")
        await stream.send(b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n" % (kind, len(body)))
        await stream.send(body)

    require(importlib.util.find_spec("pip") is not None, "pip is not installed")
    outside = LeaseAuthority()
    async with serving_tls(index, "idx.test", outside) as server:
        egress = (f"idx.test:{server.port} loopback methods=GET,HEAD",)
        async with way_out(
            rig.folder, *egress, names={"idx.test": ("127.0.0.1",)}, trust=trusting(outside.root_pem)
        ) as (way, seen):
            url = f"https://idx.test:{server.port}/simple/"
            said = (await run_inside(rig, way, egress, PIP, url, packages=True)).output.decode()
    assert "saved tiny-1.0-py3-none-any.whl" in said, said
    assert f"403 Blocked by sandbox: idx.test:{server.port}" in said
    assert [one.method for one in seen.contacts if not one.allowed] == ["POST"]
    assert all(bytes(one).startswith(b"GET ") for one in server.received if one)


PIP = """
import os, subprocess, sys, urllib.request, urllib.error
words = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir",
         "--disable-pip-version-check", "-i", sys.argv[1], "-d", "/tmp/got", "tiny"]
print(subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PIP_CONFIG_FILE": "/dev/null"}))
for name in os.listdir("/tmp/got") if os.path.isdir("/tmp/got") else ():
    print("saved", name)
try:
    urllib.request.urlopen(urllib.request.Request(sys.argv[1], data=b"upload"), timeout=60)
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""


async def test_loopback_and_unix_sockets_inside_work_beside_a_way_out(rig: Rig) -> None:
    egress = ("ok.test:80",)
    async with way_out(rig.folder, *egress, names={}) as (way, seen):
        said = (await run_inside(rig, way, egress, INSIDE)).output.decode()
    assert "127.0.0.1 inside\n::1 inside\nunix done" in said
    assert "none left" in said
    assert "no child that the program did not start" in said
    assert "['0', '1', '2', '3']" in said, "the bridge leaves the program no descriptor of its own"
    assert "CHANGED" not in said
    assert seen.contacts == []


SMTP = """
import smtplib, sys
with smtplib.SMTP(sys.argv[1], int(sys.argv[2]), timeout=60) as link:
    print(link.sendmail("a@ok.test", ["b@ok.test"], "Subject: x\\r\\n\\r\\nhello"), link.noop()[0])
"""


async def mail_server(stream: SocketStream, received: bytearray) -> None:
    """Enough of SMTP, which speaks first."""
    await stream.send(b"220 mail.test\r\n")
    data, in_text = b"", False
    while True:
        while b"\r\n" not in data:
            piece = await stream.receive()
            received.extend(piece)
            data += piece
        line, _, data = data.partition(b"\r\n")
        if in_text:
            in_text = line != b"."
            if in_text:
                continue
        words = {b"DATA": b"354 go on\r\n", b"QUIT": b"221 bye\r\n"}
        in_text = in_text or line == b"DATA"
        await stream.send(words.get(line[:4].upper(), b"250 ok\r\n"))


async def test_a_client_that_knows_no_proxy_uses_a_fixed_port(rig: Rig) -> None:
    """A server that speaks first, reached by its own name and port number."""
    async with serving(mail_server) as server:
        egress = (f"mail.test:{server.port} loopback raw",)
        async with way_out(rig.folder, *egress, names={"mail.test": ("127.0.0.1",)}) as (way, seen):
            said = (await run_inside(rig, way, egress, SMTP, "mail.test", str(server.port))).output.decode()
        assert "{} 250" in said, said
        assert b"hello" in bytes(server.received[0])
        assert seen.verdicts() == [(f"mail.test:{server.port}", True)]
        assert seen.ends[0].received_bytes > 0


async def test_without_its_owner_the_way_is_shut(rig: Rig) -> None:
    """The daemon is gone: what is open is cut, nothing new goes out, and the run goes on."""
    source = """
import socket, sys, time
def connect():
    link = socket.create_connection(("ok.test", int(sys.argv[1])), 10)
    link.sendall(b"ping"); return link, link.recv(4)
link, said = connect(); print(said.decode(), flush=True)
while True:
    try:
        if not link.recv(1): break
    except OSError: break
print("cut", flush=True)
try:
    print("AGAIN", connect()[1])
except (OSError, ValueError) as error:
    print("shut", flush=True)
"""
    async with serving(echo) as server:
        egress = (f"ok.test:{server.port} loopback raw",)
        opening = way_out(rig.folder, *egress, names={"ok.test": ("127.0.0.1",)}, limits=EgressLimits(drain_s=0.1))
        async with opening as (way, _seen):
            lease, execution = await start_inside(rig, way, egress, source, str(server.port))
            chunks = execution.output()
            assert await anext(chunks) == b"ping\n"
        said = b"".join([chunk async for chunk in chunks]).decode()
        result = await execution.result()
        await lease.release()
    assert result.kind is ResultKind.OK
    assert "cut" in said
    assert "AGAIN b'ping'" not in said
