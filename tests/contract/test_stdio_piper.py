"""From an editor's pipes to the daemon: what goes through, and what ends it."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from typing import Any, Protocol

import orjson
import pytest
from tests.kit.memory_backend import run_daemon
from tests.kit.raw_client import until

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.framing import encode_frame
from gloveport.server.client.launch import ensure_running, probe
from gloveport.server.client.paths import Places, find_places
from gloveport.server.journal.lease import DataLease, read_owner

PIPER = "import sys; from gloveport.server.client import paths, stdio; sys.exit(stdio.attach(paths.find_places()))"
DAEMON = Path(__file__).resolve().parents[1] / "kit" / "memory_daemon.py"
SOON_S = 60.0
"""Longer than anything here takes on a machine that is busy elsewhere."""


def environment(home: Path) -> dict[str, str]:
    """Where the piper finds modules and daemon."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "GLOVEPORT_HOME": str(home)}


class Start(Protocol):
    """Starts a piper with pipes for input, output and errors."""

    def __call__(self, home: Path, program: str = PIPER, **more: Any) -> subprocess.Popen[bytes]: ...


@pytest.fixture
def start_piper() -> Iterator[Start]:
    """Pipers that are gone when the test is."""
    started: list[subprocess.Popen[bytes]] = []

    def start(home: Path, program: str = PIPER, **more: Any) -> subprocess.Popen[bytes]:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        piper = subprocess.Popen([sys.executable, "-c", program], env=environment(home), **pipes)
        started.append(piper)
        return piper

    yield start
    for piper in started:
        piper.kill()
        for stream in (piper.stdin, piper.stdout, piper.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        piper.wait()


def request(name: int, method: str, params: object = None) -> bytes:
    """A framed request."""
    return encode_frame(orjson.dumps({"jsonrpc": "2.0", "id": name, "method": method, "params": params}))


def read_message(piper: subprocess.Popen[bytes]) -> Any:
    """The next message on the piper's output."""
    assert piper.stdout is not None
    name, _, length = piper.stdout.readline().partition(b":")
    assert name == b"Content-Length", name
    assert piper.stdout.readline() == b"\r\n"
    return orjson.loads(piper.stdout.read(int(length)))


def write(piper: subprocess.Popen[bytes], data: bytes) -> None:
    """To the piper's input."""
    assert piper.stdin is not None
    piper.stdin.write(data)
    piper.stdin.flush()


def finish(piper: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Wait for the end; what was left on output and errors."""
    try:
        return piper.communicate(timeout=SOON_S)
    except subprocess.TimeoutExpired:
        piper.kill()
        piper.communicate()
        raise


async def in_thread(work: Callable[[], Any]) -> Any:
    """Run blocking test code beside the daemon."""
    return await asyncio.to_thread(work)


async def test_requests_go_through_and_may_decide(start_piper: Start) -> None:
    """The piper proves the token for its editor; end of input ends it, with the last reply delivered."""
    async with run_daemon() as daemon:

        def talk() -> None:
            piper = start_piper(daemon.socket.parent)
            write(piper, request(1, "initialize", {"capabilities": {}}))
            answer = read_message(piper)
            assert answer["result"]["capabilities"]["experimental"]["gloveport"]["deciding"] is True
            write(piper, request(2, "session/list"))
            out, err = finish(piper)
            assert b'"id":2' in out
            assert (err, piper.returncode) == (b"", 0)

        await in_thread(talk)
        await until(lambda: daemon.endpoint.clients == 0)


async def test_a_large_message_goes_through(start_piper: Start) -> None:
    """H05: 5 MB each way, more than any buffer between."""
    title = "é" * 2_500_000
    async with run_daemon() as daemon:

        def talk() -> None:
            piper = start_piper(daemon.socket.parent)
            write(piper, request(1, "initialize"))
            read_message(piper)
            write(piper, request(2, "session/start", {"clientRequestId": "1", "root": "/r", "title": title}))
            assert read_message(piper)["result"]["title"] == title
            finish(piper)

        await in_thread(talk)


async def test_noise_does_not_reach_the_stream(start_piper: Start) -> None:
    """H06: prints, warnings and children of the process go to standard error."""
    noisy = (
        "import os, sys, threading, warnings\n"
        "def noise():\n"
        "    while not os.path.sameopenfile(1, 2): pass\n"
        "    print('noise', flush=True); os.write(1, b'noise'); os.system('echo noise'); warnings.warn('noise')\n"
        "threading.Thread(target=noise).start()\n"
    )
    async with run_daemon() as daemon:

        def talk() -> None:
            piper = start_piper(daemon.socket.parent, noisy + PIPER)
            write(piper, request(1, "initialize"))
            assert read_message(piper)["id"] == 1
            out, err = finish(piper)
            assert out == b""
            assert err.count(b"noise") >= 3

        await in_thread(talk)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_signals_end_it_at_once(start_piper: Start, number: signal.Signals) -> None:
    """Stock fault: SIGINT was ignored for seconds. The daemon sees the client leave and lives on."""
    async with run_daemon() as daemon:

        def talk() -> None:
            piper = start_piper(daemon.socket.parent)
            write(piper, request(1, "initialize"))
            read_message(piper)
            piper.send_signal(number)
            piper.wait(SOON_S)
            finish(piper)

        await in_thread(talk)
        await until(lambda: daemon.endpoint.clients == 0)


async def test_dead_parent_is_noticed(start_piper: Start) -> None:
    """H02: the editor is killed while somebody else still holds the pipes open."""
    launcher = (
        "import os, subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', {PIPER!r}])\n"
        "os.write(2, b'%d\\n' % child.pid)\n"
        "time.sleep(600)\n"
    )
    async with run_daemon() as daemon:
        source, keep = os.pipe()
        editor = start_piper(daemon.socket.parent, launcher, stdin=source)
        os.close(source)

        def talk() -> None:
            os.write(keep, request(1, "initialize"))
            read_message(editor)

        try:
            await in_thread(talk)
            assert daemon.endpoint.clients == 1
            editor.kill()
            await in_thread(lambda: finish(editor))  # its output ends only when the piper is gone too
            await until(lambda: daemon.endpoint.clients == 0)
        finally:
            os.close(keep)


async def test_the_daemons_end_ends_it(start_piper: Start) -> None:
    """Nothing hangs on a socket that nobody serves; it fails, and says what to do."""
    async with run_daemon() as daemon:
        piper = start_piper(daemon.socket.parent)

        def greet() -> None:
            write(piper, request(1, "initialize"))
            read_message(piper)

        await in_thread(greet)
        daemon.socket.unlink()  # nobody can be reached there any more, as after a kill
        daemon.stop.set()
        await in_thread(lambda: piper.wait(SOON_S))
        _, err = await in_thread(lambda: finish(piper))
        assert piper.returncode == 1
        assert err.startswith(b"gloveport lsp: the daemon is gone; start this language server anew")


async def test_an_editor_that_leaves_is_no_failure(start_piper: Start) -> None:
    """After `exit` the daemon ends the connection while it goes on: exit code 0, without a word."""
    async with run_daemon() as daemon:

        def leave() -> None:
            piper = start_piper(daemon.socket.parent)
            write(piper, request(1, "initialize", {"capabilities": {}}))
            read_message(piper)
            write(piper, request(2, "shutdown"))
            read_message(piper)
            write(piper, encode_frame(orjson.dumps({"jsonrpc": "2.0", "method": "exit"})))
            piper.wait(SOON_S)
            assert (finish(piper)[1], piper.returncode) == (b"", 0)

        await in_thread(leave)


@contextmanager
def fresh_home() -> Iterator[Places]:
    """A data directory with a short path; the daemon that was started for it is ended."""
    folder = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
    places = find_places({"GLOVEPORT_HOME": str(folder / "home")})
    try:
        yield places
    finally:
        end_daemon(places)
        rmtree(folder)


def end_daemon(places: Places) -> None:
    """End the daemon that was started for a test, and wait until it let go of its directory."""
    owner = read_owner(places.data_dir)
    if owner is None:
        return
    if probe(places.socket) is not None:
        os.kill(owner.pid, signal.SIGTERM)
    began = time.monotonic()
    while time.monotonic() - began < SOON_S:
        with suppress(GloveportError), DataLease.acquire(places.data_dir):
            return
        time.sleep(0.01)
    raise TimeoutError("the daemon did not end")


COMMAND = (sys.executable, str(DAEMON))


def test_a_daemon_is_started_when_none_runs_and_only_one(start_piper: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three at once: all are served by one daemon, slow as it comes up, and it outlives them."""
    monkeypatch.setenv("GLOVEPORT_TEST_SLOW_START", "0.8")
    with fresh_home() as places:
        program = PIPER.replace("find_places()", f"find_places(), {list(COMMAND)!r}")
        pipers = [start_piper(places.data_dir, program) for _ in range(3)]
        for piper in pipers:
            write(piper, request(1, "initialize"))
        for piper in pipers:
            assert read_message(piper)["result"]["serverInfo"]["name"] == "gloveport"
            finish(piper)
        assert len(list(places.data_dir.glob("started.*"))) == 1
        found = probe(places.socket)
        assert found is not None
        assert ensure_running(places, command=("/nonexistent",)) == found
        assert places.data_dir.stat().st_mode & 0o777 == 0o700
        assert places.log.stat().st_mode & 0o777 == 0o600
        end_daemon(places)
        assert probe(places.socket) is None


def test_a_daemon_that_fails_is_told_with_its_last_words() -> None:
    """No waiting for the full time, and the reason is at hand."""
    with fresh_home() as places:
        failing = (sys.executable, "-c", "raise SystemExit('the disk is full')")
        with pytest.raises(GloveportError) as told:
            ensure_running(places, command=failing)
        assert told.value.code is ErrorCode.UNREACHABLE
        assert "the disk is full" in told.value.message
        assert str(places.log) in told.value.hint


def test_a_daemon_that_fails_is_told_at_once_where_one_ended_before() -> None:
    """The one before let go of its lock: it is nobody who is still on the way up."""
    with fresh_home() as places:
        places.data_dir.mkdir(mode=0o700)
        DataLease.acquire(places.data_dir).release()
        owner = read_owner(places.data_dir)
        assert owner is not None
        assert owner.pid == 0
        failing = (sys.executable, "-c", "raise SystemExit('the settings are wrong')")
        with pytest.raises(GloveportError, match="the settings are wrong"):
            ensure_running(places, command=failing, timeout_s=3600.0)


def test_the_daemons_environment_is_an_allowlist(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an editor's workspace may have set does not come along, nor do modules of the working folder."""
    with fresh_home() as places:
        for name in ("PYTHONSTARTUP", "PYTHONHOME", "LD_PRELOAD", "NODE_OPTIONS", "MY_SECRET"):
            monkeypatch.setenv(name, "planted")
        monkeypatch.setenv("MY_KEY", "wanted")
        monkeypatch.setenv("GLOVEPORT_HOME", os.path.relpath(places.data_dir))
        places.config_dir.mkdir(mode=0o700, exist_ok=True)
        (places.config_dir / "config.toml").write_text(
            '[[models]]\nkey_env = "MY_KEY"\n[[models]]\nkey_env = "LD_PRELOAD"'
        )
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/planted", *sys.path]))
        show = "import os, sys; sys.exit(repr(sorted(os.environ.items())) + os.getcwd())"
        with pytest.raises(GloveportError):
            ensure_running(places, command=(sys.executable, "-c", show))
        told = places.log.read_text()
        assert "planted" not in told
        assert "('MY_KEY', 'wanted')" in told
        assert f"'GLOVEPORT_HOME', '{places.data_dir}'" in told
        assert told.strip().endswith(str(places.data_dir))


def test_without_a_daemon_to_start_it_says_so(start_piper: Start) -> None:
    """One line on standard error, exit code 1, nothing on the protocol's stream."""
    with fresh_home() as places:
        program = PIPER.replace("find_places()", "find_places(), ['/nonexistent/daemon']")
        out, err = finish(start_piper(places.data_dir, program))
        assert out == b""
        assert err.count(b"\n") == 1
        assert b"gloveport lsp: " in err
        assert not places.socket.exists()
