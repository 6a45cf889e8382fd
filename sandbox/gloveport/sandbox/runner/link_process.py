"""The process that holds the way to an engine on another machine, started by file path in isolated mode.

Purpose: a unix socket in the working folder (0700) that leads to the engine: by an ssh of its own, or by mutual TLS.
Invariant: it says on standard output when the socket is there, or why it is not, and ends when its standard input
ends; what it started ends with it. The other side is who the plan pins, or nothing is sent.
Must never: read a configuration of ssh, ask anybody anything, or take a certificate or key from the environment.

Standard input: one line, a JSON object with the fields of a `LinkPlan`. Standard output: one line, `{"ready": true}` or
`{"kind": …, "words": …}`, where kind is one of missing, host_key, denied, certificate, unreachable, settings.
"""

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time
from typing import IO, Any, cast

SOCKET_NAME = "engine.sock"
KNOWN_NAME = "known_hosts"
ALIAS = "gloveport-remote"
CONNECT_S = 15
OPEN_S = 20.0
ALIVE_S = 5
ALIVE_TRIES = 3
PIECE_BYTES = 64 * 1024
WAITING_BYTES_MAX = 1024 * 1024
Plan = dict[str, Any]
_SAID = (
    ("identification has changed", "host_key"),
    ("host key verification failed", "host_key"),
    ("no matching host key type", "host_key"),
    ("permission denied", "denied"),
    ("unprotected private key", "settings"),
    ("invalid format", "settings"),
    ("error in libcrypto", "settings"),
    ("no such identity", "settings"),
)


class NoLink(Exception):  # noqa: N818 - an outcome, not a fault of this program
    """There is no way; `kind` and words as on standard output."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(words)
        self.kind, self.words = kind, words


def main() -> None:
    """Serve until standard input ends."""
    try:
        plan = json.loads(sys.stdin.buffer.readline())
        os.umask(0o077)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(SOCKET_NAME)
        hold = {"ssh": hold_ssh, "tls": hold_tls}[plan["kind"]]
        hold(plan)
    except NoLink as error:
        say({"kind": error.kind, "words": error.words})
    except (OSError, ValueError, KeyError) as error:
        say({"kind": "settings", "words": str(error) or type(error).__name__})
    finally:
        clear()


def clear() -> None:
    """Leave nothing where the owner was killed and cannot do it."""
    for name in (SOCKET_NAME, KNOWN_NAME):
        with contextlib.suppress(OSError):
            os.unlink(name)
    with contextlib.suppress(OSError):
        os.rmdir(os.getcwd())


def say(words: dict[str, Any]) -> None:
    """One line to whoever started this."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(words).encode() + b"\n")


def ssh_argv(plan: Plan) -> list[str]:
    """The whole command; nothing of it comes from a configuration file."""
    options = {
        "BatchMode": "yes", "StrictHostKeyChecking": "yes", "UserKnownHostsFile": "/proc/self/cwd/" + KNOWN_NAME,
        "GlobalKnownHostsFile": "/dev/null", "HostKeyAlias": ALIAS, "CheckHostIP": "no", "UpdateHostKeys": "no",
        "VerifyHostKeyDNS": "no", "IdentityFile": plan["key_file"], "IdentitiesOnly": "yes", "IdentityAgent": "none",
        "PasswordAuthentication": "no", "KbdInteractiveAuthentication": "no", "ExitOnForwardFailure": "yes",
        "ServerAliveInterval": ALIVE_S, "ServerAliveCountMax": ALIVE_TRIES, "ConnectTimeout": CONNECT_S,
        "ConnectionAttempts": 1, "TCPKeepAlive": "yes", "ControlMaster": "no", "ControlPath": "none",
        "ForwardAgent": "no", "ForwardX11": "no", "PermitLocalCommand": "no", "StreamLocalBindMask": "0177",
        "HostKeyAlgorithms": host_key_algorithms(plan["host_key"]), "LogLevel": "ERROR", "Port": plan["port"],
        "User": plan["user"],
    }  # fmt: skip
    named = [part for name, value in options.items() if value for part in ("-o", f"{name}={value}")]
    forward = f"/proc/self/cwd/{SOCKET_NAME}:{plan['socket']}"
    return ["ssh", "-F", "none", "-N", "-T", "-x", "-a", *named, "-L", forward, "--", plan["host"]]


def host_key_algorithms(host_key: str) -> str:
    """Only what the pinned key can sign: another key of the same host is not even offered."""
    kind = host_key.split(" ")[0]
    return "rsa-sha2-512,rsa-sha2-256" if kind == "ssh-rsa" else kind


def hold_ssh(plan: Plan) -> None:
    """One ssh, as long as standard input is open."""
    if shutil.which("ssh") is None:
        raise NoLink("missing", "there is no program `ssh` here")
    check_private(plan["key_file"])
    with open(KNOWN_NAME, "w", encoding="ascii") as file:
        file.write(f"{ALIAS} {plan['host_key']}\n")
    with subprocess.Popen(
        ssh_argv(plan), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        preexec_fn=die_with_parent,
    ) as ssh:  # fmt: skip
        try:
            until = time.monotonic() + OPEN_S
            while not os.path.exists(SOCKET_NAME):
                if ssh.poll() is not None:
                    raise refusal(cast(IO[bytes], ssh.stderr).read().decode("utf-8", "replace"))
                if time.monotonic() > until:
                    raise NoLink("unreachable", f"ssh has made no way within {OPEN_S:g} s")
                if select.select([0], [], [], 0.01)[0]:
                    return
            os.unlink(KNOWN_NAME)  # it was read; the way stands
            say({"ready": True})
            while ssh.poll() is None and not select.select([0], [], [], 0.2)[0]:
                pass
        finally:
            ssh.terminate()


def refusal(said: str) -> NoLink:
    """Why ssh ended, from its own words."""
    words = " ".join(said.replace("\r", "").split())[-300:] or "ssh ended without a word"
    for part, kind in _SAID:
        if part in words.lower() or part in said.lower():
            return NoLink(kind, words)
    return NoLink("unreachable", words)


def check_private(path: str) -> None:
    """A key that others may read is none."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise NoLink("settings", f"the key {path} cannot be read ({error.strerror})") from error
    if not stat.S_ISREG(mode) or mode & 0o077:
        raise NoLink("settings", f"the key {path} must be a file that only you may read (chmod 600)")


def die_with_parent() -> None:
    """In the child: end when this process does."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)


def hold_tls(plan: Plan) -> None:
    """Each connection to the socket is one to the engine, by mutual TLS."""
    check_private(plan["key_file"])
    context = make_context(plan)
    try_once(plan, context)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(SOCKET_NAME)
        listener.listen(32)
        say({"ready": True})
        while True:
            ready, _, _ = select.select([0, listener.fileno()], [], [])
            if 0 in ready:
                return
            local = listener.accept()[0]
            threading.Thread(target=serve, args=(local, plan, context), daemon=True).start()


def make_context(plan: Plan) -> ssl.SSLContext:
    """Trust in the one authority that the plan names, and in nothing that the machine or its environment adds."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for path, words in ((plan["ca_file"], "authority"), (plan["cert_file"], "certificate")):
        if not os.path.isfile(path):
            raise NoLink("settings", f"there is no {words} at {path}")
    try:
        context.load_verify_locations(cafile=plan["ca_file"])
        context.load_cert_chain(plan["cert_file"], plan["key_file"], password=refuse_password)
    except (ssl.SSLError, ValueError) as error:
        raise NoLink("settings", f"authority, certificate or key cannot be used: {error}") from error
    return context


def refuse_password() -> str:
    """Nobody is asked."""
    raise ValueError("the key is locked by a password")


def connect(plan: Plan, context: ssl.SSLContext) -> ssl.SSLSocket:
    """A connection to the engine, both sides proven."""
    try:
        plain = socket.create_connection((plan["host"], plan["port"]), CONNECT_S)
    except OSError as error:
        raise NoLink("unreachable", f"{plan['host']}:{plan['port']}: {error.strerror or error}") from error
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, ALIVE_S)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, ALIVE_S)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, ALIVE_TRIES)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * ALIVE_S * (ALIVE_TRIES + 1))
    try:
        return context.wrap_socket(plain, server_hostname=plan["host"])
    except ssl.SSLCertVerificationError as error:
        plain.close()
        raise NoLink(
            "certificate", f"{plan['host']} shows a certificate that is not taken: {error.verify_message}"
        ) from error
    except OSError as error:
        plain.close()
        raise NoLink("certificate", f"{plan['host']} does not speak TLS with us: {error}") from error


def try_once(plan: Plan, context: ssl.SSLContext) -> None:
    """What is wrong is told now; an engine refuses a certificate of ours only when it is spoken to."""
    with connect(plan, context) as far:
        try:
            far.sendall(b"GET /_ping HTTP/1.0\r\nHost: engine\r\n\r\n")
            said = far.recv(PIECE_BYTES)
        except OSError as error:
            raise NoLink("certificate", f"{plan['host']} does not take our certificate: {error}") from error
    if not said.startswith(b"HTTP/"):
        raise NoLink("certificate", f"{plan['host']} does not take our certificate")


def serve(local: socket.socket, plan: Plan, context: ssl.SSLContext) -> None:
    """Carry bytes both ways until one side ends; a thread each."""
    with local:
        try:
            far = connect(plan, context)
        except (NoLink, OSError):
            return
        with far, contextlib.suppress(OSError):
            carry(local, far)


def carry(local: socket.socket, far: ssl.SSLSocket) -> None:
    """One thread, no blocking: a TLS connection is not for two."""
    local.setblocking(False)
    far.setblocking(False)
    out, back = bytearray(), bytearray()
    ended = False
    while not ended or back:
        reads = [local] * (len(out) < WAITING_BYTES_MAX and not ended) + [far] * (len(back) < WAITING_BYTES_MAX)
        writes = [local] * bool(back) + [far] * bool(out)
        if not far.pending():
            select.select(reads, writes, [])
        ended = not take(far, back) or ended
        if not ended:
            ended = not take(local, out) or ended
        give(far, out)
        give(local, back)
        if ended and not back:
            return


def take(source: socket.socket, into: bytearray) -> bool:
    """Read what is there; False at the end."""
    if len(into) >= WAITING_BYTES_MAX:
        return True
    try:
        piece = source.recv(PIECE_BYTES)
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return True
    into += piece
    return bool(piece)


def give(target: socket.socket, held: bytearray) -> None:
    """Write what goes."""
    while held:
        try:
            sent = target.send(bytes(held[:PIECE_BYTES]))
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        del held[:sent]


if __name__ == "__main__":
    main()
