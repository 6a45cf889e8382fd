"""Starting the daemon when none runs.

Purpose: a detached daemon with a log file, waited for until it answers `initialize`.
Invariant: the daemon's program, working folder and environment owe nothing to the folder the caller stands in.
Must never: stop a daemon, start a second one beside a living one, or hand on variables that are not named here.
"""

import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.framing import Body, FrameReader, encode_frame
from gloveport.protocol.wire.version import PROTOCOL_VERSION
from gloveport.server.client.paths import Places, find_places
from gloveport.server.client.private import make_private_dir, open_socket, unusable_dir

START_TIMEOUT_S: Final = 20.0
PROBE_TIMEOUT_S: Final = 5.0
POLL_S: Final = 0.01
RACE_S: Final = 0.2
"""After our child failed: so long may the one that won take to write its name into the lock file."""
LOCK_NAME: Final = "daemon.lock"
LOG_WORDS_BYTES: Final = 400
_LOG_HEAD: Final = re.compile(r"\A\d{4}-\d\d-\d\d [\d:,.]+ [A-Z]+ [\w.]+: ")
MODULE_START: Final = ("-P", "-m", "gloveport.server", "daemon")
"""`-P`: modules are never taken from the working folder."""
KEPT_NAMES: Final = frozenset(
    {"HOME", "LOGNAME", "USER", "PATH", "SHELL", "LANG", "TZ", "TMPDIR"}
    | {"DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "SSL_CERT_FILE", "SSL_CERT_DIR"}
    | {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}
    | {"OPENAI_API_KEY", "ANTHROPIC_API_KEY"}
)
REFUSED_NAMES: Final = frozenset({"PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "LD_PRELOAD", "LD_LIBRARY_PATH"})
SETTINGS_NAME: Final = "config.toml"
KEPT_PREFIXES: Final = ("LC_", "XDG_", "GLOVEPORT_")


@dataclass(frozen=True, slots=True)
class Probe:
    """Who answers at a socket."""

    server_version: str
    protocol_version: int


def ensure_running(
    places: Places,
    *,
    command: Sequence[str] | None = None,
    environ: Mapping[str, str] | None = None,
    timeout_s: float = START_TIMEOUT_S,
) -> Probe:
    """Attach to the daemon at `places`, or start one and wait until it answers.

    `command` is what to start instead of this interpreter's `gloveport daemon`.

    Raises:
        GloveportError: UNREACHABLE when it does not come up, VERSION_MISMATCH, UNSAFE_DIRECTORY.
    """
    make_private_dir(places.data_dir)
    found = probe(places.socket)
    if found is None:
        child = _spawn(places, command or (sys.executable, *MODULE_START), environ)
        found = _wait_answer(places, child, timeout_s)
    if found.protocol_version != PROTOCOL_VERSION:
        raise GloveportError(
            ErrorCode.VERSION_MISMATCH,
            f"the running daemon ({found.server_version}) speaks protocol {found.protocol_version},"
            f" this client {PROTOCOL_VERSION}",
        )
    return found


def probe(socket_path: Path, timeout_s: float = PROBE_TIMEOUT_S) -> Probe | None:
    """Who answers `initialize` at a socket; None when nobody does. Raises UNSAFE_DIRECTORY."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"processId": None, "capabilities": {}}}
    frames = FrameReader()
    try:
        with open_socket(socket_path, timeout_s) as link:
            link.sendall(encode_frame(json.dumps(body).encode()))
            while chunk := link.recv(1 << 16):
                for item in frames.feed(chunk):
                    return _read_probe(json.loads(item.data)) if isinstance(item, Body) else None
    except (OSError, ValueError):
        return None
    return None


def _read_probe(answer: dict[str, Any]) -> Probe | None:
    try:
        result = answer["result"]
        ours = result["capabilities"]["experimental"]["gloveport"]
        return Probe(str(result["serverInfo"]["version"]), int(ours["protocolVersion"]))
    except (KeyError, TypeError):
        return None


def _spawn(places: Places, command: Sequence[str], environ: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        log = os.open(places.log, flags, 0o600)
    except OSError as error:
        raise unusable_dir(places.data_dir, error) from error
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=places.data_dir,
            env=daemon_environment(os.environ if environ is None else environ, places),
            start_new_session=True,
        )
    finally:
        os.close(log)


def daemon_environment(environ: Mapping[str, str], places: Places) -> dict[str, str]:
    """What of the caller's environment a daemon gets; modules are found where this process found them."""
    named = KEPT_NAMES | _key_names(places.config_dir / SETTINGS_NAME)
    kept = {key: value for key, value in environ.items() if key in named or key.startswith(KEPT_PREFIXES)}
    if kept.get("GLOVEPORT_HOME") or find_places(kept) != places:
        kept["GLOVEPORT_HOME"] = os.fspath(places.data_dir)  # absolute: the daemon stands in another folder
    kept["PYTHONPATH"] = os.pathsep.join(os.path.dirname(root) for root in sys.modules["gloveport"].__path__)
    return kept


def _key_names(settings: Path) -> frozenset[str]:
    """The variables that the user's settings name as holders of keys; faults in the file are the daemon's to tell."""
    try:
        models = tomllib.loads(settings.read_text(encoding="utf-8")).get("models", ())
    except (OSError, ValueError):
        return frozenset()
    entries = [entry for entry in models if isinstance(entry, dict)] if isinstance(models, list) else []
    names = (entry.get("key_env") for entry in entries)
    return frozenset(name for name in names if isinstance(name, str) and name not in REFUSED_NAMES)


def _wait_answer(places: Places, child: subprocess.Popen[bytes], timeout_s: float) -> Probe:
    """Wait for whoever answers: our child, or the daemon it lost a race to."""
    deadline = time.monotonic() + timeout_s
    lost_at: float | None = None
    while (now := time.monotonic()) < deadline:
        if (found := probe(places.socket, min(deadline - now, PROBE_TIMEOUT_S))) is not None:
            child.returncode = child.returncode or 0  # it lives on without us; its end is not ours to collect
            return found
        if lost_at is None and child.poll() not in (None, 0):
            lost_at = now
        if lost_at is not None and now - lost_at > RACE_S and not _owner_lives(places.data_dir):
            break
        time.sleep(POLL_S)
    ended = child.poll()
    words = f"ended with code {ended}" if ended is not None else f"did not answer in {timeout_s:g} s"
    raise GloveportError(
        ErrorCode.UNREACHABLE, f"the daemon {words}: {_last_words(places.log)}", hint=f"Read its log: {places.log}"
    )


def _owner_lives(data_dir: Path) -> bool:
    """Whether the lock file names a living process: then somebody else's daemon is on its way up."""
    try:
        owner = int(json.loads((data_dir / LOCK_NAME).read_bytes())["pid"])
        if owner <= 0:  # let go of; the number would mean our own group
            return False
        os.kill(owner, 0)
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return True


def _last_words(log: Path) -> str:
    """The last line of a log, without when and by whom it was written."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - LOG_WORDS_BYTES))
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
    except OSError:
        return "it left no log"
    return _LOG_HEAD.sub("", lines[-1]) if lines else "it left no words"
