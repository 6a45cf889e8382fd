"""Another machine for tests: an engine of its own behind an sshd and behind mutual TLS.

Purpose: real servers (Debian's sshd and dockerd with --tlsverify) on random ports of loopback, with keys made for them.
Invariant: the engine's data, socket and keys lie in a folder of its own, ended and removed with the process.
Must never: use a key or a configuration of the machine's own user.
"""

import atexit
import contextlib
import datetime
import functools
import io
import ipaddress
import os
import select
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from scripts.image import PACKAGES, find_closure, list_files, pack
from tests.kit.engines import TestEngine
from tests.kit.require import require

from gloveport.sandbox.backends.remote_choice import RemoteChoice
from gloveport.sandbox.runner.engine_api import EngineError, EngineSocket

IMAGE: Final = "gloveport/far"
HOST: Final = "127.0.0.1"
START_S: Final = 20.0
AWAY_S: Final = 30.0
"""Longer than a busy machine takes to open the way anew: a run that nobody finds again in time ends itself."""
SOON_S: Final = 5.0
"""For tests that wait for just that end."""
_PATH: Final = "/usr/sbin:/sbin:/usr/bin:/bin:/usr/local/bin"
_PACKED: Final = ("pytest", "_pytest", "py.py", "pluggy", "iniconfig", "packaging", "pygments")
"""Pure Python packages of this environment that the image has beside Debian's, so that tests run in it."""
_SSHD: Final = "mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec /usr/sbin/sshd -D -e -f {config}"


class Authority:
    """A certificate authority of a test's own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"tests {os.urandom(4).hex()}")])
        self._write("ca", self._key, self._sign(self._name, self._key, is_authority=True))

    @property
    def certificate(self) -> Path:
        """What the other side trusts."""
        return self._folder / "ca.pem"

    def issue(self, name: str, host: str = HOST) -> tuple[Path, Path]:
        """(certificate, key) for a server at `host`, or for a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self._write(name, key, self._sign(subject, key, host=host))

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, is_authority: bool = False, host: str = HOST
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=2))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if not is_authority:
            builder = builder.add_extension(alternative, critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def _write(self, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> tuple[Path, Path]:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        shown, hidden = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        shown.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        hidden.touch(mode=0o600)
        hidden.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return shown, hidden


@dataclass
class Sshd:
    """An sshd on a random port, ended by its id."""

    folder: Path
    process: subprocess.Popen[bytes]
    port: int
    host_key: str

    def cut(self) -> None:
        """End every connection, as a network that goes away does; the server takes new ones."""
        for pid in list_children(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        """End it and what it holds."""
        self.cut()
        self.process.terminate()
        self.process.wait()


class RemoteMachine:
    """One engine, reachable both ways."""

    def __init__(self) -> None:
        require(shutil.which("sshd", path=_PATH) is not None, "sshd is not installed (openssh-server)")
        require(shutil.which("ssh", path=_PATH) is not None, "ssh is not installed (openssh-client)")
        require(shutil.which("dpkg-query", path=_PATH) is not None, "the image is packed from Debian packages")
        self.folder = Path(tempfile.mkdtemp(prefix="gpf-", dir="/tmp"))
        self.authority = Authority(self.folder / "tls")
        self.tls_port = free_port()
        self.engine = self.start_engine()
        self.load_image()
        make_key(self.folder / "user")
        make_key(self.folder / "host")
        self.sshd = self.start_sshd()

    def start_engine(self) -> TestEngine:
        """The engine, on its own socket and on a port that asks for certificates."""
        certificate, key = self.authority.issue("server")
        return TestEngine(
            "-H", f"tcp://{HOST}:{self.tls_port}", "--tlsverify", "--tlscacert", str(self.authority.certificate),
            "--tlscert", str(certificate), "--tlskey", str(key), "--live-restore",
        )  # fmt: skip

    def load_image(self) -> None:
        """Give the engine the image that the rungs run in."""
        argv = ["docker", "-H", f"unix://{self.engine.socket}", "import", "-", IMAGE]
        environment = {"PATH": _PATH, "HOME": str(self.folder)}
        subprocess.run(argv, input=pack_image(), check=True, capture_output=True, env=environment)

    def start_sshd(self, host: str = "host", port: int = 0) -> Sshd:
        """An sshd with the host key of that name, which lets our user key in and forward sockets."""
        port = port or free_port()
        config = self.folder / f"sshd-{port}"
        config.write_text(
            f"Port {port}\nListenAddress {HOST}\nHostKey {self.folder / host}\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {self.folder / 'user.pub'}\nStrictModes no\nPasswordAuthentication no\n"
            "AllowStreamLocalForwarding yes\nPermitRootLogin prohibit-password\n"
            "PermitTTY no\nX11Forwarding no\nAllowAgentForwarding no\nMaxStartups 100\n",
            encoding="utf-8",
        )
        with (self.folder / f"sshd-{port}.log").open("wb") as log:
            # A folder that root's sshd asks for, in a view of its own: the machine's /run stays as it is.
            argv = ["setpriv", "--pdeathsig", "TERM", "unshare", "-m", "sh", "-c", _SSHD.format(config=config)]
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={"PATH": _PATH}, start_new_session=True
            )
        until = time.monotonic() + START_S
        while not answers(port):
            if process.poll() is not None or time.monotonic() > until:
                require(False, f"sshd does not start here: {(self.folder / f'sshd-{port}.log').read_text()[-500:]}")
            time.sleep(0.02)
        return Sshd(self.folder, process, port, read_key(self.folder / f"{host}.pub"))

    def choose(self, kind: str) -> RemoteChoice:
        """The settings of a user who has this machine."""
        common = RemoteChoice(host=HOST, image=IMAGE, away_s=AWAY_S)
        if kind == "ssh":
            return replace(
                common,
                port=self.sshd.port,
                user="root",
                socket=str(self.engine.socket),
                key=str(self.folder / "user"),
                host_key=self.sshd.host_key,
            )
        certificate, key = self.authority.issue("client")
        ca = str(self.authority.certificate)
        return replace(common, port=self.tls_port, ca=ca, cert=str(certificate), key=str(key))

    def stop(self) -> None:
        """End both servers and remove their folders."""
        self.sshd.stop()
        with contextlib.suppress(OSError, EngineError):  # containers would outlive their engine here
            engine = EngineSocket(str(self.engine.socket))
            for container in engine.call("GET", "/containers/json?all=1"):
                engine.call("DELETE", f"/containers/{container['Id']}?force=1&v=1")
        self.engine.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


@functools.cache
def remote_machine() -> RemoteMachine:
    """The other machine of this test process; it ends with the process. Skips or fails where there is none."""
    require(os.getuid() == 0, "an engine of one's own is started by root")
    machine = RemoteMachine()
    atexit.register(machine.stop)
    return machine


@functools.cache
def pack_image() -> bytes:
    """The hands' image, with a test runner and the small tools that tests of this tree use."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        pack(archive, list_files(find_closure((*PACKAGES, "util-linux"))))
        packages = Path(str(pytest.__file__)).parents[1]
        for name in _PACKED:
            archive.add(packages / name, f"usr/lib/python3/dist-packages/{name}", filter=_plain)
    return packed.getvalue()


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if entry.name.endswith("__pycache__"):
        return None
    entry.uid = entry.gid = 0
    return entry


def make_key(path: Path) -> None:
    """A key pair without a password."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)


def read_key(path: Path) -> str:
    """Type and base64 of a public key."""
    return " ".join(path.read_text(encoding="ascii").split()[:2])


def free_port() -> int:
    """A port of loopback that nobody has at this moment."""
    with socket.create_server((HOST, 0)) as taken:
        return int(taken.getsockname()[1])


def answers(port: int) -> bool:
    """Whether somebody listens."""
    try:
        socket.create_connection((HOST, port), 1.0).close()
    except OSError:
        return False
    return True


def list_children(pid: int) -> list[int]:
    """Processes below one, the deepest last."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                if int(entry.joinpath("stat").read_text().rpartition(")")[2].split()[1]) == pid:
                    found += [int(entry.name), *list_children(int(entry.name))]
    return found


class Relay:
    """A port before another one: counts what is sent there, and cuts or refuses connections when told."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = self.listen()
        self.sent = 0
        self.refuses = False
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def listen(self) -> socket.socket:
        """Where it is reached."""
        listener = socket.create_server((HOST, 0))
        self.port = int(listener.getsockname()[1])
        return listener

    def dial(self) -> socket.socket:
        """A connection to what it stands before."""
        return socket.create_connection((HOST, self._target))

    def alter(self, piece: bytes) -> bytes:
        """What becomes of a piece that comes back."""
        return piece

    def cut(self) -> None:
        """End every connection."""
        for one in list(self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """No more connections."""
        self.refuses = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                near = self._listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with near, contextlib.suppress(OSError):
            if self.refuses:
                return
            with self.dial() as far:
                self._open |= {near, far}
                try:
                    self._carry(near, far)
                finally:
                    self._open -= {near, far}

    def _carry(self, near: socket.socket, far: socket.socket) -> None:
        """Both ways, until one of them ends."""
        while True:
            for source in select.select([near, far], [], [])[0]:
                piece = source.recv(65536)
                if not piece:
                    return
                if source is near:
                    self.sent += len(piece)
                    far.sendall(piece)
                else:
                    near.sendall(self.alter(piece))


class Liar(Relay):
    """A socket before an engine's that, when told, changes one word in whatever comes back."""

    def __init__(self, path: Path, engine: Path, honest: bytes, lie: bytes) -> None:
        self.path, self._engine, self._words, self.lies = path, engine, (honest, lie), False
        super().__init__(0)

    def listen(self) -> socket.socket:
        """At its path."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.path))
        listener.listen(16)
        return listener

    def dial(self) -> socket.socket:
        """The engine itself."""
        far = socket.socket(socket.AF_UNIX)
        far.connect(str(self._engine))
        return far

    def alter(self, piece: bytes) -> bytes:
        """The other word of the same length."""
        return piece.replace(*self._words) if self.lies else piece
