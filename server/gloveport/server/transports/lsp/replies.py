"""Bytes of replies, errors and notifications.

Purpose: the only place that builds a JSON-RPC message of ours.
Invariant: what is returned is one whole frame; an error carries code, hint and, for faults of ours, a reference.
Must never: put a traceback, a stranger's path or an input value on the wire.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import orjson

from gloveport.protocol.errors import ERRORS, ErrorCode, GloveportError
from gloveport.protocol.wire.framing import MESSAGE_BYTES_MAX, encode_frame
from gloveport.server.transports.lsp.envelope import MessageId

if TYPE_CHECKING:
    from pydantic import BaseModel

MESSAGE_CHARS_MAX: Final = 2_000

Result: TypeAlias = "BaseModel | Mapping[str, object] | None"


def result_frame(message_id: MessageId, result: object) -> bytes:
    """The reply with `result`. Raises TypeError or ValueError when the result can't be written as JSON."""
    dump = getattr(result, "model_dump_json", None)
    body = orjson.dumps(result) if dump is None else dump(by_alias=True).encode()
    frame = encode_frame(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (orjson.dumps(message_id), body))
    if len(frame) > MESSAGE_BYTES_MAX:
        raise GloveportError(ErrorCode.TOO_LARGE, "the answer is larger than a message may be")
    return frame


def error_frame(
    message_id: MessageId | None,
    code: ErrorCode,
    message: str,
    *,
    hint: str | None = None,
    data: Mapping[str, object] | None = None,
) -> bytes:
    """The reply that says what went wrong and what to do next."""
    spec = ERRORS[code]
    body = {
        "jsonrpc": "2.0",
        "id": message_id,
        "error": {
            "code": spec.rpc,
            "message": message[:MESSAGE_CHARS_MAX],
            "data": {**(data or {}), "code": code.value, "hint": hint or spec.hint},
        },
    }
    return encode_frame(orjson.dumps(body))


def typed_error_frame(message_id: MessageId | None, error: GloveportError) -> bytes:
    """The reply of a typed failure, with those of its data that JSON can hold."""
    data = {key: value for key, value in error.data.items() if _is_plain(value)}
    return error_frame(message_id, error.code, error.message, hint=error.hint, data=data)


def message_frame(method: str, params: object, message_id: MessageId | None = None) -> bytes:
    """A notification of ours, or with an id a request of ours."""
    body: dict[str, object] = {"jsonrpc": "2.0", "method": method, "params": params}
    if message_id is not None:
        body["id"] = message_id
    return encode_frame(orjson.dumps(body))


def _is_plain(value: object) -> bool:
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError:
        return False
    return True
