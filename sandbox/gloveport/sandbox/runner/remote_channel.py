"""The talk with the keeper of a run on another machine, over the engine's stream of its container.

Purpose: frames out of the engine's frames, lines into the keeper's input, beats, and the place again after a cut.
Invariant: what comes is taken in order and once; after a cut everything up to the keeper's own mark is passed over.
Must never: wait for ever, or take a length from over there as room to fill.
"""

import contextlib
import json
import os
import select
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from gloveport.protocol.jail.requests import EnginePlan
from gloveport.sandbox.runner import descent, handles, keeper, keeper_store
from gloveport.sandbox.runner.engine_api import EngineError, EngineSocket

BEAT_S: Final = 2.0
SEND_S: Final = 30.0
FRAME_BYTES_MAX: Final = 32 * 1024 * 1024
RECEIVE_BYTES: Final = 256 * 1024
_ENGINE_HEAD: Final = 8
_HEAD: Final = 5
_OFFSET: Final = 8
_STDERR: Final = 2
STDERR_BYTES_MAX: Final = 2000
_MODULES: Final = (handles, descent, keeper_store, keeper)
_PACKAGES: Final = ("gloveport", "gloveport.sandbox", "gloveport.sandbox.runner")

Frame = tuple[str, Any]
"""("J", object) or ("O", (offset, bytes))."""


def keeper_argv(away_s: float) -> list[str]:
    """How the image's Python becomes the keeper; the program itself is the text."""
    parts: list[tuple[str, str]] = [(name, "") for name in _PACKAGES]
    parts += [(module.__name__, Path(str(module.__file__)).read_text("utf-8")) for module in _MODULES]
    text = (
        f"import sys, types\nfor name, source in {parts!r}:\n"
        "    module = sys.modules[name] = types.ModuleType(name)\n    module.__path__ = []\n"
        "    exec(compile(source, name, 'exec'), module.__dict__)\nmodule.main()\n"
    )
    return ["python3", "-I", "-S", "-B", "-X", "utf8", "-c", text, f"{away_s:g}"]


class FarStream:
    """One attachment to a container. `token`: pass over everything before the mark that bears it."""

    def __init__(self, engine: EngineSocket, plan: EnginePlan, token: str = "") -> None:
        path = f"/containers/{plan.name}/attach?stream=1&stdin=1&stdout=1&stderr=1"
        self._socket, self._raw = engine.open("POST", path)
        self._inner = b""
        self._mark = keeper.RESUMED + token.encode() + b"\n" if token else b""
        self.said = b""
        """What came on the other stream: words of the image's Python when it cannot run the keeper."""
        self.last_beat = time.monotonic()

    def fileno(self) -> int:
        """For a poller."""
        return self._socket.fileno()

    def close(self) -> None:
        """Let go; the container goes on."""
        self._socket.close()

    def tell(self, word: dict[str, Any]) -> None:
        """A line to the keeper. Raises OSError."""
        self._send(json.dumps(word).encode() + b"\n")

    def beat(self) -> None:
        """A sign of life, where one is due. Raises OSError."""
        if time.monotonic() - self.last_beat >= BEAT_S:
            self._send(b"\n")

    def send(self, pieces: Iterable[bytes]) -> None:
        """Raw bytes. Raises OSError."""
        for piece in pieces:
            self._send(piece)

    def _send(self, piece: bytes) -> None:
        self._socket.settimeout(SEND_S)
        self._socket.sendall(piece)
        self.last_beat = time.monotonic()

    def receive(self) -> list[Frame]:
        """The frames that one read completes. Raises OSError, also at the stream's end."""
        self._socket.settimeout(SEND_S)
        piece = self._socket.recv(RECEIVE_BYTES)
        self._raw += piece
        self._unwrap()
        frames = self._take()
        if not piece and not frames:
            raise ConnectionError("the stream of the container ended")
        return frames

    def wait(self, seconds: float, also: int) -> tuple[bool, bool]:
        """Whether there is something to read here, and on the descriptor `also`."""
        if self._raw:
            return True, False
        ready = select.select([self._socket.fileno(), also], [], [], seconds)[0]
        return self._socket.fileno() in ready, also in ready

    def _unwrap(self) -> None:
        """Each of the engine's frames: stream number, three zeros, length, bytes."""
        while len(self._raw) >= _ENGINE_HEAD:
            length = int.from_bytes(self._raw[4:_ENGINE_HEAD], "big")
            if length > FRAME_BYTES_MAX:
                raise ConnectionError("the engine's stream is out of step")
            if len(self._raw) < _ENGINE_HEAD + length:
                return
            body = self._raw[_ENGINE_HEAD : _ENGINE_HEAD + length]
            if self._raw[0] == _STDERR:
                self.said = (self.said + body)[-STDERR_BYTES_MAX:]
            else:
                self._inner += body
            self._raw = self._raw[_ENGINE_HEAD + length :]

    def _take(self) -> list[Frame]:
        if self._mark:
            before, mark, behind = self._inner.partition(self._mark)
            if not mark:
                self._inner = before[-len(self._mark) :]
                return []
            self._mark, self._inner = b"", behind
        frames: list[Frame] = []
        while len(self._inner) >= _HEAD:
            length = int.from_bytes(self._inner[1:_HEAD], "big")
            if length > FRAME_BYTES_MAX or self._inner[:1] not in (b"J", b"O"):
                raise ConnectionError("the keeper's stream is out of step")
            if len(self._inner) < _HEAD + length:
                break
            frames.append(_read(self._inner[:1], self._inner[_HEAD : _HEAD + length]))
            self._inner = self._inner[_HEAD + length :]
        return frames


def _read(kind: bytes, body: bytes) -> Frame:
    if kind == b"O":
        return "O", (int.from_bytes(body[:_OFFSET], "big"), body[_OFFSET:])
    try:
        word = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ConnectionError("the keeper's words cannot be read") from error
    if not isinstance(word, dict):
        raise ConnectionError("the keeper's words cannot be read")
    return "J", word


def make_token() -> str:
    """A word that nobody guesses."""
    return os.urandom(16).hex()


def remove_volumes(engine: EngineSocket, names: Iterable[str]) -> None:
    """Remove volumes; what is gone or still used is left to the next reap."""
    for name in names:
        with contextlib.suppress(EngineError, OSError):
            engine.call("DELETE", f"/volumes/{name}?force=1")
