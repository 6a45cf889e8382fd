"""The program that looks around inside a jail; its source is handed to an interpreter there.

Purpose: try what should be impossible and report what happened, as one JSON object on standard output.
Invariant: standard library only, one self-contained file; a failed attempt is reported by its errno's name.
Must never: judge, or harm anything when an attempt succeeds.
"""

import ctypes
import errno
import json
import os
import platform
import signal
import socket
import stat
import struct
import sys
from collections.abc import Callable
from types import MappingProxyType

CONNECT_S = 1.0
_NUMBERS = MappingProxyType({"x86_64": (56, 272, 250), "aarch64": (220, 97, 219)})
_NEW_USER = 0x10000000
_VSOCK, _ALG = 40, 38
_CLONE3 = 435
_GET_NO_NEW_PRIVS = 39
_SEIZE = 0x4206
_FAMILIES_USUAL = (2, 10, 16)


def attempt(action: Callable[..., object], *arguments: object) -> str:
    """`done` or the name of the error."""
    try:
        action(*arguments)
    except TimeoutError:
        return "TIMEOUT"
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "done"


def call(number: int, *arguments: int) -> int:
    """A raw system call; raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    result = int(libc.syscall(ctypes.c_long(number), *(ctypes.c_ulong(value) for value in arguments)))
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def clone_into_user_namespace(number: int) -> None:
    """The raw call that a list of library names misses."""
    pid = call(number, _NEW_USER | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def inject_into_terminal() -> None:
    """TIOCSTI on a terminal of our own."""
    import fcntl
    import pty

    _main, side = pty.openpty()
    fcntl.ioctl(side, 0x5412, b"x")


def clone3_into_user_namespace() -> None:
    """Its flags lie in memory, where no filter can look."""
    wish = ctypes.create_string_buffer(struct.pack("8Q", _NEW_USER, 0, 0, 0, signal.SIGCHLD, 0, 0, 0))
    pid = call(_CLONE3, ctypes.addressof(wish), 64)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def can_open(family: int) -> bool:
    """Whether any socket of a family can be had."""
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        try:
            socket.socket(family, kind).close()
        except OSError:
            continue
        return True
    return False


def try_calls() -> dict[str, str]:
    """Calls that a filter refuses."""
    numbers = _NUMBERS.get(platform.machine())
    tried = {
        "socket_vsock": attempt(lambda: socket.socket(_VSOCK, socket.SOCK_STREAM).close()),
        "socket_alg": attempt(lambda: socket.socket(_ALG, socket.SOCK_SEQPACKET).close()),
        "terminal_injection": attempt(inject_into_terminal),
    }
    others = [number for number in range(3, 48) if number not in _FAMILIES_USUAL and can_open(number)]
    tried["socket_others"] = "done" if others else "EAFNOSUPPORT"
    if numbers is not None:
        clone, unshare, keyctl = numbers
        tried["clone3_user_namespace"] = attempt(clone3_into_user_namespace)
        tried["clone_user_namespace"] = attempt(clone_into_user_namespace, clone)
        tried["keyctl"] = attempt(call, keyctl, 1, 0)
        if tried["clone_user_namespace"] != "done":  # would change this process
            tried["unshare_user_namespace"] = attempt(call, unshare, _NEW_USER)
    return tried


def connect(family: int, address: object) -> None:
    """Connect and close."""
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.settimeout(CONNECT_S)
        sock.connect(address)  # type: ignore[arg-type] # - an address of whatever family was asked for


def serve_loopback(family: int, host: str) -> None:
    """Listen, connect, accept: a test's server and client."""
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.bind((host, 0))
        server.listen(1)
        connect(family, server.getsockname()[:2])
        server.accept()[0].close()


def serve_unix(folder: str) -> None:
    """The same over a unix socket in the temporary folder."""
    path = os.path.join(folder, f"probe-{os.getpid()}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(path)
        server.listen(1)
        connect(socket.AF_UNIX, path)
        server.accept()[0].close()
    os.unlink(path)


def write_file(path: str) -> None:
    """Create or overwrite."""
    with open(path, "w", encoding="utf-8") as file:
        file.write("probe")


def read_any(path: str) -> None:
    """List a folder or read a file."""
    if os.path.isdir(path):
        os.listdir(path)
    else:
        with open(path, "rb") as file:
            file.read(1)


def list_descriptors() -> dict[str, str]:
    """Open descriptors and what they lead to."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            to = os.readlink(f"/proc/self/fd/{name}")
            # gVisor calls "host" whatever its own process was given; what that is, its type tells.
            is_pipe = to.startswith("host:") and stat.S_ISFIFO(os.fstat(int(name)).st_mode)
        except OSError:  # the listing's own
            continue
        found[name] = f"pipe:{to}" if is_pipe else to
    return found


def read_status() -> dict[str, str]:
    """Rights of this process as the kernel tells them."""
    wanted = ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp", "Uid")
    with open("/proc/self/status", encoding="utf-8") as file:
        pairs = [line.rstrip("\n").split(":", 1) for line in file]
    found = {name: value.strip() for name, value in pairs if name in wanted}
    # Kernels that are programs themselves leave lines out; the call is there.
    libc = ctypes.CDLL(None, use_errno=True)
    return {"NoNewPrivs": str(libc.prctl(_GET_NO_NEW_PRIVS, 0, 0, 0, 0)), **found}


def reach_process(pid: int, word: str) -> dict[str, str]:
    """Signal and trace a process outside, if it shows by its own word; another one of that number is left alone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if word.encode() not in file.read():
                return {}
    except OSError:
        return {}
    traced = ctypes.CDLL(None).ptrace(_SEIZE, pid, 0, 0) == 0
    return {"traced": "done" if traced else "EPERM", "signalled": attempt(os.kill, pid, signal.SIGTERM)}


def find_secrets(canaries: list[str]) -> list[str]:
    """Canaries found in the environment of any process that can be seen."""
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    held = file.read().decode("utf-8", "replace")
            except OSError:
                continue
            found |= {canary for canary in canaries if canary in held}
    return sorted(found)


def look(request: dict[str, list[str]]) -> dict[str, object]:
    """Everything that is asked for."""
    folder = os.environ.get("TMPDIR", "/")
    return {
        "environment": dict(os.environ),
        "descriptors": list_descriptors(),
        "status": read_status(),
        "calls": try_calls(),
        "connect_host": {
            port: attempt(connect, socket.AF_INET, ("127.0.0.1", int(port))) for port in request.get("host_ports", [])
        },
        "connect_outside": attempt(connect, socket.AF_INET, ("192.0.2.1", 9)),
        "connect_unix": {
            path: attempt(connect, socket.AF_UNIX, path.replace("@", "\0", 1))
            for path in request.get("unix_sockets", [])
        },
        "loopback": attempt(serve_loopback, socket.AF_INET, "127.0.0.1"),
        "loopback_6": attempt(serve_loopback, socket.AF_INET6, "::1"),
        "unix": attempt(serve_unix, folder),
        "reads": {path: attempt(read_any, path) for path in request.get("reads", [])},
        "writes": {path: attempt(write_file, path) for path in request.get("writes", [])},
        "process": reach_process(int(request["process"][0]), request["process"][1]) if "process" in request else {},
        "secrets": find_secrets(request.get("canaries", [])),
        "processes": sum(name.isdigit() for name in os.listdir("/proc")),
    }


if __name__ == "__main__":
    json.dump(look(json.load(sys.stdin)), sys.stdout)
