"""A PostgreSQL server of the test's own.

Purpose: make a cluster in a folder, serve it on a port of loopback, end it.
Invariant: it runs as a user without rights where the test runs as root; nothing of it is left.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kit.require import require

NOBODY = 65534
PASSWORD = "the-real-password-of-the-database"
START_S = 180.0
START_TRIES = 5


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return found[-1].parent if found else None


def _speak_tls(data: Path, certificate: bytes, key: bytes, user: int | None) -> list[str]:
    """Lay both where the server reads them; its options."""
    for name, body in (("server.crt", certificate), ("server.key", key)):
        path = data / name
        path.touch(mode=0o600)
        path.write_bytes(body)
        if user is not None:
            os.chown(path, user, user)
    return ["-c", "ssl=on"]


def _start(programs: Path, folder: Path, options: list[str], user: int | None) -> "tuple[subprocess.Popen[bytes], int]":
    """A server that takes statements, and its port; another port where somebody else took it meanwhile."""
    for _ in range(START_TRIES):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = subprocess.Popen(
            [str(programs / "postgres"), *options, "-p", str(port)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder, user=user, group=user,
        )  # fmt: skip
        asks = [str(programs / "pg_isready"), "-q", "-h", str(folder), "-p", str(port)]
        deadline = time.monotonic() + START_S
        while server.poll() is None and time.monotonic() < deadline:
            if subprocess.run(asks, check=False).returncode == 0:  # by its own socket: no other server answers there
                return server, port
            time.sleep(0.05)
        server.terminate()
        server.wait(START_S)
    raise AssertionError("no PostgreSQL server could be started")


@contextmanager
def postgres(*statements: str, tls: tuple[bytes, bytes] | None = None) -> Iterator[int]:
    """A server with a role `reader` and these statements run; its port. `tls`: its certificate and key."""
    programs = _programs()
    require(programs is not None, "no PostgreSQL server is installed")
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="gp-pg-", dir="/tmp"))
    user = NOBODY if os.getuid() == 0 else None
    if user is not None:
        os.chown(folder, NOBODY, NOBODY)
    secret, data = folder / "secret", folder / "data"
    secret.write_text(PASSWORD)
    if user is not None:
        os.chown(secret, NOBODY, NOBODY)

    def run(*words: str) -> None:
        subprocess.run(
            words,
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=folder,
            env={"PGPASSWORD": PASSWORD},
            user=user,
            group=user,
        )

    words = ("--auth=scram-sha-256", "--username=owner", f"--pwfile={secret}", "--no-sync", "--locale=C", "-E", "UTF8")
    run(str(programs / "initdb"), "-D", str(data), *words)
    options = ["-D", str(data), "-k", str(folder), "-h", "127.0.0.1", "-F"]
    if tls is not None:
        options += _speak_tls(data, *tls, user)
    try:
        server, port = _start(programs, folder, options, user)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    try:
        role = f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}' IN ROLE pg_write_all_data, pg_read_all_data"
        for statement in (role, *statements):
            run(
                str(programs / "psql"),
                "-qh",
                "127.0.0.1",
                "-p",
                str(port),
                "-U",
                "owner",
                "-d",
                "postgres",
                "-c",
                statement,
            )
        yield port
    finally:
        server.terminate()
        server.wait(START_S)
        shutil.rmtree(folder, ignore_errors=True)
