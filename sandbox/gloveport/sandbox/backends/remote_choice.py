"""Which engine on another machine the user chose, and how it is reached.

Purpose: one light place for the choice, so that settings need no engine.
Invariant: a choice is the user's own, whole and spelled strictly; there is no default machine.
Must never: read a configuration of ssh or of Docker, or take anything from a workspace.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.jail.requests import LinkPlan
from gloveport.sandbox.contract import SandboxError

SSH: Final = "ssh"
TLS: Final = "tls"
SSH_PORT: Final = 22
TLS_PORT: Final = 2376
ENGINE_SOCKET: Final = "/var/run/docker.sock"
AWAY_S: Final = 60.0
AWAY_S_MIN: Final = 5.0
AWAY_S_MAX: Final = 3600.0
_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.:-]{0,252}[A-Za-z0-9])?")
_USER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,63}")
_HOST_KEY: Final = re.compile(r"(ssh-ed25519|ecdsa-sha2-nistp(256|384|521)|ssh-rsa) [A-Za-z0-9+/=]{40,2000}")


@dataclass(frozen=True, slots=True)
class RemoteChoice:
    """An engine on another machine. `host` empty: none was chosen.

    ssh uses `user`, `socket`, `key`, `host_key` (type and base64, as in a known_hosts line); TLS `ca`, `cert`, `key`.
    `image` is one that the engine has; `runtime` "" is the engine's own. `away_s`: a run ends itself over there when
    nobody was heard for so long.
    """

    host: str = ""
    port: int = 0
    user: str = ""
    socket: str = ENGINE_SOCKET
    key: str = ""
    host_key: str = ""
    ca: str = ""
    cert: str = ""
    image: str = ""
    runtime: str = ""
    away_s: float = AWAY_S

    @property
    def place(self) -> str:
        """`host` as a person is told."""
        return f"{self.user}@{self.host}" if self.user else self.host


def plan_link(choice: RemoteChoice, kind: str) -> LinkPlan:
    """The way to the engine. Raises `SandboxError` naming the setting that is missing or wrong."""
    table = f"[remote-{kind}]"
    if not choice.host:
        raise _wrong(f"No machine is named for the sandbox remote-{kind}.", f"Write {table} into your settings.")
    needed = ("key", "host_key", "user", "socket") if kind == SSH else ("key", "ca", "cert")
    for name in (*needed, "image"):
        if not getattr(choice, name):
            raise _wrong(f"{table} lacks {name}.", f"Write {name} into {table} of your settings.")
    if not _HOST.fullmatch(choice.host):
        raise _wrong(f"{table} host {choice.host!r} is no host.", "Name it as example.org or by its address.")
    if kind == SSH and not _USER.fullmatch(choice.user):
        raise _wrong(f"{table} user {choice.user!r} is no user.", "Name the user whom the machine knows.")
    if kind == SSH and not _HOST_KEY.fullmatch(choice.host_key):
        words = "Its form is that of `ssh-keyscan`: the key's type and its base64, without the host's name."
        raise _wrong(f"{table} host_key is no public key.", words)
    paths = [choice.key] + ([choice.socket] if kind == SSH else [choice.ca, choice.cert])
    for path in paths:
        if not path.startswith("/") or any(mark in path for mark in ':\0\n"'):
            raise _wrong(f"{table} {path!r} is no absolute path.", "Write the whole path.")
    return LinkPlan(
        kind=kind,
        host=choice.host,
        port=choice.port or (SSH_PORT if kind == SSH else TLS_PORT),
        user=choice.user if kind == SSH else "",
        socket=choice.socket if kind == SSH else "",
        key_file=choice.key,
        host_key=choice.host_key if kind == SSH else "",
        ca_file=choice.ca if kind == TLS else "",
        cert_file=choice.cert if kind == TLS else "",
    )


def key_files(choice: RemoteChoice) -> tuple[Path, ...]:
    """Files that no sandbox is ever shown."""
    return tuple(Path(path) for path in (choice.key, choice.cert) if path)


def _wrong(words: str, hint: str) -> SandboxError:
    return SandboxError(ErrorCode.SANDBOX_UNAVAILABLE, words, hint=hint)
