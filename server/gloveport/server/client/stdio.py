"""From an editor's pipes to the daemon's socket.

Purpose: copy standard input to the socket and the socket to standard output, until one of the ends is gone.
Invariant: ends within a second of end of input, of the socket, of the parent, or of a signal; a reader that is slow
slows only itself, since every copy waits for its own write.
Must never: print on standard output, look into a message, or import more than a process of 20 ms can afford.
"""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.wire.framing import encode_frame
from gloveport.server.client.paths import Places
from gloveport.server.client.private import open_socket, read_token

COPY_BYTES: Final = 1 << 16
PARENT_LOOK_S: Final = 0.25
DYING_S: Final = 0.2
"""A daemon that dies may still be connected to for so long after its connections have ended."""
DYING_LOOK_S: Final = 0.02
GONE: Final = b"gloveport lsp: the daemon is gone; start this language server anew, and the daemon comes back with it\n"
DRAIN_S: Final = 0.5
"""After end of input the daemon's last words may still come for so long."""


def attach(places: Places, command: Sequence[str] | None = None) -> int:
    """`gloveport lsp`: pipe to the daemon of `places`, started by `command` if absent; the exit code."""
    try:
        try:
            link = open_socket(places.socket)
        except OSError:
            from gloveport.server.client.launch import ensure_running

            ensure_running(places, command=command)
            link = open_socket(places.socket)
        return pipe(link, read_token(places.token), partial(_is_served, places))
    except (OSError, GloveportError) as error:
        words = error.advice if isinstance(error, GloveportError) else str(error)
        os.write(2, f"gloveport lsp: {words}\n".encode())
        return 1


def pipe(link: socket.socket, token: str | None, lives: Callable[[], bool]) -> int:
    """Serve this process's standard input and output by a daemon; the exit code. Call it from the main thread.

    With `token` the connection may decide whatever its editor says in initialize. `lives` is asked when the socket
    ends first: where the daemon is gone, the code is 1 and a line on standard error says what to do.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = os.getppid()
    source, sink = _take_stdio()
    if token is not None:
        link.sendall(_proof(token))
    said, heard = threading.Event(), threading.Event()
    threading.Thread(target=_say, args=(source, link, said), daemon=True).start()
    threading.Thread(target=_hear, args=(link, sink, heard), daemon=True).start()
    while not heard.wait(PARENT_LOOK_S):
        if os.getppid() != parent:
            return 1
        if said.is_set():
            heard.wait(DRAIN_S)
            return 0
    if said.is_set() or lives():
        return 0
    os.write(2, GONE)
    return 1


def _is_served(places: Places) -> bool:
    """Whether somebody still listens there: then the daemon ended this connection, as its editor asked."""
    until = time.monotonic() + DYING_S
    while time.monotonic() < until:
        try:
            open_socket(places.socket).close()
        except (OSError, GloveportError):
            return False
        time.sleep(DYING_LOOK_S)
    return True


def _take_stdio() -> tuple[int, int]:
    """Private copies of input and output; what anybody prints from now on goes to standard error."""
    source, sink = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return source, sink


def _proof(token: str) -> bytes:
    body = {"jsonrpc": "2.0", "method": "$/gloveport/prove", "params": {"decisionToken": token}}
    return encode_frame(json.dumps(body).encode())


def _say(source: int, link: socket.socket, done: threading.Event) -> None:
    try:
        while chunk := os.read(source, COPY_BYTES):
            link.sendall(chunk)
        link.shutdown(socket.SHUT_WR)
    except OSError:
        return
    finally:
        done.set()


def _hear(link: socket.socket, sink: int, done: threading.Event) -> None:
    try:
        while chunk := link.recv(COPY_BYTES):
            view = memoryview(chunk)
            while view:
                view = view[os.write(sink, view) :]
    except OSError:
        return
    finally:
        done.set()
