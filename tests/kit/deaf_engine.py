"""A real engine that keeps some of its words to itself.

Purpose: stands before an engine's socket and blanks chosen words in what it says of containers, as engines do that miss
an event on a busy machine; it can be late with them too.
Invariant: everything else passes as it is; a blanked word keeps its length.
"""

import contextlib
import select
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

FLAG: Final = (b'"OOMKilled":true', b'"OOMKilled":null')
EVENT: Final = (b'"oom"', b'"???"')
PROCESS: Final = (b'"Pid":', b'"???":')
PIECE: Final = 65536
_TOLD: Final = (b"GET /containers/", b"GET /events")


@contextlib.contextmanager
def deaf_engine(real: str, front: Path, *blanked: tuple[bytes, bytes], late_s: float = 0.0) -> Iterator[str]:
    """The address of an engine that never says the `blanked` words; `real` and the answer are `unix://` addresses.

    What it says of a container comes `late_s` seconds late.
    """
    words = dict(blanked)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(front))
        listener.listen(64)
        threading.Thread(
            target=_accept, args=(listener, real.removeprefix("unix://"), words, late_s), daemon=True
        ).start()
        try:
            yield f"unix://{front}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, real: str, words: Mapping[bytes, bytes], late_s: float) -> None:
    with contextlib.suppress(OSError):
        while True:
            client = listener.accept()[0]
            threading.Thread(target=_serve, args=(client, real, words, late_s), daemon=True).start()


def _serve(client: socket.socket, real: str, words: Mapping[bytes, bytes], late_s: float) -> None:
    """Both ways until the engine is done; what it says to a question about containers loses the `words`."""
    with client, socket.socket(socket.AF_UNIX) as engine, contextlib.suppress(OSError):
        engine.connect(real)
        first = client.recv(PIECE)
        time.sleep(late_s if first.startswith(_TOLD[0]) else 0.0)
        engine.sendall(first)
        blanked = words if first.startswith(_TOLD) else {}
        left, open_ends = b"", [client, engine]
        while engine in open_ends:
            for one in select.select(open_ends, [], [])[0]:
                piece = one.recv(PIECE)
                if not piece:
                    open_ends.remove(one)
                if one is engine:
                    left = _tell(client, left + piece, blanked, is_last=not piece)
                elif piece:
                    engine.sendall(piece)
                else:
                    engine.shutdown(socket.SHUT_WR)


def _tell(client: socket.socket, said: bytes, words: Mapping[bytes, bytes], *, is_last: bool) -> bytes:
    """Hand on whole lines (an answer ends in one); what is not one yet is given back."""
    cut = said.rfind(b"\n") + 1 if words and not is_last else len(said)
    ready = said[:cut]
    for word, blank in words.items():
        ready = ready.replace(word, blank)
    client.sendall(ready)
    return said[cut:]
