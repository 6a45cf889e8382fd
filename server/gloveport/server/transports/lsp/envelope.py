"""JSON-RPC envelopes: bytes in, one typed message out.

Purpose: tell requests, notifications, responses and faults apart, and keep the id of a faulty request.
Invariant: every body yields exactly one message; a fault carries the id it must be answered with.
Must never: raise, look into params, or write.
"""

import json
from dataclasses import dataclass
from typing import Final

import orjson

from gloveport.protocol.errors import ErrorCode

SALVAGE_BYTES_MAX: Final = 1 << 20
"""Bodies up to this size are read a second time, slowly, to find the id of a request that can't be taken."""

MessageId = int | str


@dataclass(frozen=True, slots=True)
class Request:
    """A message that must be answered."""

    id: MessageId
    method: str
    params: object


@dataclass(frozen=True, slots=True)
class Notification:
    """A message that is never answered."""

    method: str
    params: object


@dataclass(frozen=True, slots=True)
class Response:
    """The client's answer to a request of ours; `error` is None on success."""

    id: MessageId
    result: object
    error: object


@dataclass(frozen=True, slots=True)
class Fault:
    """A body that is no message; answered with `code` under `id` (null when it is not known)."""

    id: MessageId | None
    code: ErrorCode
    message: str


Message = Request | Notification | Response | Fault


def decode(body: bytes) -> Message:
    """The message in `body`."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return _salvage(body)
    if isinstance(value, list):
        return Fault(None, ErrorCode.INVALID_REQUEST, "batches are not taken; send one message per frame")
    if not isinstance(value, dict):
        return Fault(None, ErrorCode.INVALID_REQUEST, "a message is a JSON object")
    return _classify(value)


def _classify(value: dict[str, object]) -> Message:
    known = _message_id(value.get("id"))
    if value.get("jsonrpc") != "2.0":
        return Fault(known, ErrorCode.INVALID_REQUEST, 'a message says "jsonrpc": "2.0"')
    if "method" not in value:
        if known is not None and ("result" in value or "error" in value):
            return Response(known, value.get("result"), value.get("error"))
        return Fault(known, ErrorCode.INVALID_REQUEST, "a message names a method or answers a request")
    method, params = value["method"], value.get("params")
    if not isinstance(method, str):
        return Fault(known, ErrorCode.INVALID_REQUEST, "a method's name is a string")
    if "id" not in value:
        return Notification(method, params)
    if known is None:
        return Fault(None, ErrorCode.INVALID_REQUEST, "a request's id is an integer or a string")
    return Request(known, method, params)


def _message_id(value: object) -> MessageId | None:
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None


def _salvage(body: bytes) -> Fault:
    """A body our fast reader refuses may still be JSON (half a surrogate pair): then its sender waits for its id."""
    if len(body) <= SALVAGE_BYTES_MAX:
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and (known := _message_id(value.get("id"))) is not None:
            if not _is_text(known):
                known = None
            return Fault(known, ErrorCode.PARSE, "the message holds text or numbers that are not valid UTF-8 JSON")
    return Fault(None, ErrorCode.PARSE, "the body is not valid JSON")


def _is_text(value: MessageId) -> bool:
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError:
        return False
    return True
