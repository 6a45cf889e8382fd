"""Taking secrets out of text that arrives in pieces.

Purpose: what `Redactor` does, over a stream: a secret cut in two by the pieces is found all the same.
Invariant: the outputs joined hold no known value and none of its spellings, however the stream was cut; what is
    held back is bounded by the longest known value and the two limits below.
Must never: let go of the beginning of what may still become a secret.
"""

from typing import Final

from gloveport.server.secrets.automaton import ROOT
from gloveport.server.secrets.detect import Redactor

LINE_BYTES_MAX: Final = 4 * 1024
"""The longest unfinished line that is held for what it may become."""

KEY_BYTES_MAX: Final = 16 * 1024
"""The longest unfinished private key that is held."""

_KEY_BEGIN: Final = b"-----BEGIN "
_KEY_MARK: Final = b"PRIVATE KEY-----"


class StreamRedactor:
    """Feed pieces, show what comes back, and finish. One per stream.

    A known value is never let through. A credential known only by its shape is found when it stands on one line of
    usual length, or is a private key of usual size; for that, the unfinished line is held back. A redactor without
    shapes holds back only what may become a known value.
    """

    __slots__ = ("_automaton", "_held", "_redactor", "_state")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._automaton = redactor.automaton()
        self._state = ROOT
        self._held = b""

    def feed(self, piece: str) -> str:
        """What may be shown of the stream so far and was not yet."""
        return self.feed_bytes(piece.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def finish(self) -> str:
        """The rest; the stream has ended."""
        return self.finish_bytes().decode("utf-8", "surrogatepass")

    def feed_bytes(self, piece: bytes) -> bytes:
        """`feed` for bytes; cuts never fall inside a character that was fed whole."""
        data = self._held + piece
        self._state = self._automaton.walk(self._state, piece)
        keep = self._keep_from(data)
        self._held = data[keep:]
        return self._redactor.redact_bytes(data[:keep])

    def finish_bytes(self) -> bytes:
        """`finish` for bytes."""
        data, self._held = self._held, b""
        return self._redactor.redact_bytes(data)

    def _keep_from(self, data: bytes) -> int:
        """Where the part begins that cannot be shown yet."""
        keep = len(data) - self._automaton.open_length(self._state)
        if self._redactor.uses_shapes:
            keep = min(keep, _line_from(data), _key_from(data))
        places = self._redactor.known_places(data) + self._redactor.shape_places(data)
        for start, end in sorted(places, reverse=True):
            if start < keep < end:
                keep = start
        return keep


def _line_from(data: bytes) -> int:
    start = data.rfind(b"\n") + 1
    return start if len(data) - start <= LINE_BYTES_MAX else len(data)


def _key_from(data: bytes) -> int:
    start = data.rfind(_KEY_BEGIN)
    if start < 0 or len(data) - start > KEY_BYTES_MAX:
        return len(data)
    head, ended, _ = data[start + len(_KEY_BEGIN) :].partition(b"-----")
    is_key = not ended or head.endswith(_KEY_MARK.removesuffix(b"-----"))
    return start if is_key and data.count(_KEY_MARK, start) < 2 else len(data)
