"""The few calls a supervisor makes to a container engine, over its socket.

Purpose: start, follow, end and remove one container with the standard library alone.
Invariant: every call has a time limit; a connection serves one call (HTTP/1.0, so that no body is in chunks).
Must never: name a container that was not made for a run of ours.

Errors: `EngineError` with the engine's own words; `OSError` when the engine cannot be reached.
"""

import json
import socket
from typing import Any, Final

from gloveport.protocol.jail.requests import EnginePlan

CALL_S: Final = 20.0
"""How long one answer may take; starting a container on a busy machine takes seconds."""
HEADER_BYTES_MAX: Final = 64 * 1024
BODY_BYTES_MAX: Final = 16 * 1024 * 1024
RECEIVE_BYTES: Final = 64 * 1024
GONE: Final = 404


class EngineError(Exception):
    """The engine refused; `status` is its HTTP status, 0 for an answer that is none."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class EngineSocket:
    """Calls to the engine whose socket lies at `address`."""

    def __init__(self, address: str, timeout_s: float = CALL_S) -> None:
        self._address, self._timeout_s = address, timeout_s

    def call(self, method: str, path: str, body: str = "") -> Any:
        """One call; the parsed answer, None for an empty one. Raises `EngineError`, `OSError`."""
        connection, rest = self.open(method, path, body)
        with connection:
            pieces, size = [rest], len(rest)
            while piece := connection.recv(RECEIVE_BYTES):
                pieces.append(piece)
                size += len(piece)
                if size > BODY_BYTES_MAX:
                    raise EngineError(0, "the engine's answer is larger than the limit")
        answer = b"".join(pieces)
        try:
            return json.loads(answer) if answer.strip() else None
        except ValueError as error:
            raise EngineError(0, "the engine's answer is not JSON") from error

    def open(self, method: str, path: str, body: str = "") -> tuple[socket.socket, bytes]:
        """Call and keep the connection: the socket behind the head of the answer, and what came with it."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(self._timeout_s)
            connection.connect(self._address)
            raw = body.encode()
            head = f"{method} {path} HTTP/1.0\r\nHost: engine\r\nContent-Type: application/json\r\n"
            connection.sendall(f"{head}Content-Length: {len(raw)}\r\n\r\n".encode() + raw)
            status, rest = _read_head(connection)
            if status >= 400:
                raise EngineError(status, _read_words(connection, rest))
        except BaseException:
            connection.close()
            raise
        return connection, rest


def can_connect(address: str) -> bool:
    """Whether somebody listens at a socket's path."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        trial.settimeout(1.0)
        try:
            trial.connect(address)
        except OSError:
            return False
    return True


def remove_container(plan: EnginePlan) -> bool:
    """Kill and remove the run's container; False when there is none or the engine does not answer."""
    try:
        EngineSocket(plan.address).call("DELETE", f"/containers/{plan.name}?force=1&v=1")
    except (EngineError, OSError):
        return False
    return True


def _read_head(connection: socket.socket) -> tuple[int, bytes]:
    head = b""
    while b"\r\n\r\n" not in head:
        piece = connection.recv(RECEIVE_BYTES)
        if not piece or len(head) > HEADER_BYTES_MAX:
            raise EngineError(0, "the engine's answer has no head")
        head += piece
    first, _, rest = head.partition(b"\r\n\r\n")
    words = first.split(b" ", 2)
    if len(words) < 2 or not words[1].isdigit():
        raise EngineError(0, "the engine's answer is not HTTP")
    return int(words[1]), rest


def _read_words(connection: socket.socket, rest: bytes) -> str:
    """The engine's own words about a refusal."""
    while len(rest) < HEADER_BYTES_MAX and (piece := connection.recv(RECEIVE_BYTES)):
        rest += piece
    try:
        return str(json.loads(rest)["message"])
    except (ValueError, KeyError, TypeError):
        return rest.decode("utf-8", "replace")[:200] or "the engine gave no reason"


def quote(text: str) -> str:
    """A query value or part of a path, percent-encoded (the standard library's own is slow to load)."""
    return "".join(chr(byte) if chr(byte).isalnum() and byte < 128 else f"%{byte:02X}" for byte in text.encode())
