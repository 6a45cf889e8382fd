"""An event as clients get it.

Purpose: the one form of an event within `session/events`, put together from bytes that are JSON already.
Invariant: every event of a stream begins with the same bytes as long as its epoch lasts.
Must never: parse or check what it is given.
"""

from functools import lru_cache
from typing import Final

import orjson

STARTS_KEPT_MAX: Final = 256


@lru_cache(maxsize=STARTS_KEPT_MAX)
def start_of(stream: str, epoch: int) -> bytes:
    """What every event of this stream and epoch begins with; its seq follows."""
    return b'{"stream":%b,"epoch":%d,"seq":' % (orjson.dumps(stream), epoch)


@lru_cache(maxsize=STARTS_KEPT_MAX)
def kind_of(type_name: str) -> bytes:
    """What follows an event's time; its operations follow, and one closing brace."""
    return b',"type":%b,"ops":' % orjson.dumps(type_name)


def event_json(stream: str, epoch: int, seq: int, at: int, type_name: str, ops: bytes) -> bytes:
    """The whole event; `at` is UTC microseconds, `ops` the JSON array of what it does to the view."""
    return b'%b%d,"at":%d%b%b}' % (start_of(stream, epoch), seq, at, kind_of(type_name), ops)
