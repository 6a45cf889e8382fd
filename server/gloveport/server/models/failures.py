"""From a provider's refusal to one typed error.

Purpose: a pure table from status, headers and body of an answer to `ModelError`, and the two forms of
    Retry-After.
Invariant: the provider's own words are quoted, bounded and freed of control characters; a key is never
    quoted.
Must never: decide whether to retry.
"""

import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.server.models.contract import ErrorClass, ModelError

WORDS_CHARS_MAX: Final = 500
REQUEST_ID_CHARS_MAX: Final = 200
RETRY_AFTER_S_MAX: Final = 30 * 24 * 3600.0
_MICROSECONDS: Final = 1_000_000

INSTALL_HINT: Final = "Install gloveport with [models], as README.md says; then: gloveport daemon stop"
_REQUEST_ID_HEADERS: Final = ("x-request-id", "request-id", "x-generation-id")
_QUOTA_MARKS: Final = (
    "insufficient_quota",
    "billing_error",
    "billing_hard_limit",
    "credit balance is too low",
    "exceeded your current quota",
    "quota exceeded",
    "payment required",
)
_CONTEXT_MARKS: Final = (
    "context_length_exceeded",
    "maximum context length",
    "prompt is too long",
    "context window",
    "request_too_large",
)
_TYPE_CLASSES: Final[Mapping[str, ErrorClass]] = MappingProxyType(
    {
        "overloaded_error": ErrorClass.OVERLOADED,
        "api_error": ErrorClass.SERVER,
        "server_error": ErrorClass.SERVER,
        "timeout_error": ErrorClass.SERVER,
        "rate_limit_error": ErrorClass.RATE,
        "rate_limit_exceeded": ErrorClass.RATE,
        "authentication_error": ErrorClass.AUTH,
        "permission_error": ErrorClass.AUTH,
        "invalid_request_error": ErrorClass.REFUSED,
    }
)
_STATUS_CLASSES: Final[Mapping[int, ErrorClass]] = MappingProxyType(
    {
        401: ErrorClass.AUTH,
        402: ErrorClass.QUOTA,
        403: ErrorClass.AUTH,
        408: ErrorClass.SERVER,
        413: ErrorClass.CONTEXT,
        429: ErrorClass.RATE,
        503: ErrorClass.OVERLOADED,
        529: ErrorClass.OVERLOADED,
    }
)
_CODES: Final[Mapping[ErrorClass, ErrorCode]] = MappingProxyType(
    {
        ErrorClass.CONNECT: ErrorCode.MODEL_UNREACHABLE,
        ErrorClass.IDLE: ErrorCode.MODEL_BROKEN,
        ErrorClass.SERVER: ErrorCode.MODEL_UNREACHABLE,
        ErrorClass.OVERLOADED: ErrorCode.MODEL_UNREACHABLE,
        ErrorClass.AUTH: ErrorCode.MODEL_AUTH,
        ErrorClass.RATE: ErrorCode.MODEL_RATE,
        ErrorClass.QUOTA: ErrorCode.MODEL_QUOTA,
        ErrorClass.CONTEXT: ErrorCode.MODEL_CONTEXT,
        ErrorClass.REFUSED: ErrorCode.MODEL_REFUSED,
        ErrorClass.TRUNCATED: ErrorCode.MODEL_BROKEN,
        ErrorClass.MALFORMED: ErrorCode.MODEL_BROKEN,
        ErrorClass.TOO_LARGE: ErrorCode.MODEL_BROKEN,
        ErrorClass.CONFIG: ErrorCode.MODEL_UNKNOWN,
        ErrorClass.PAUSED: ErrorCode.MODEL_UNREACHABLE,
    }
)


def parse_retry_after(value: str | None, now_us: int) -> float | None:
    """Seconds to wait, from either form of the header (seconds, or an HTTP date against `now_us`, UTC µs).

    None for a missing or senseless value; never negative, never above `RETRY_AFTER_S_MAX`.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = _seconds_until(value, now_us)
    if math.isnan(seconds):
        return None
    return min(max(seconds, 0.0), RETRY_AFTER_S_MAX)


def _seconds_until(http_date: str, now_us: int) -> float:
    from email.utils import parsedate_to_datetime  # few servers name a moment; the parser of mail stays for good

    try:
        return parsedate_to_datetime(http_date).timestamp() - now_us / _MICROSECONDS
    except (ValueError, TypeError, IndexError, OverflowError):
        return math.nan


def find_request_id(headers: Mapping[str, str]) -> str | None:
    """The provider's id of a request from its response headers (names in lower case or case-blind),
    bounded.
    """
    for name in _REQUEST_ID_HEADERS:
        value = headers.get(name)
        if value:
            return bound_words(value, REQUEST_ID_CHARS_MAX)
    return None


def bound_words(words: str, chars_max: int = WORDS_CHARS_MAX) -> str:
    """Foreign words made safe to show: one line, no control characters, at most `chars_max` characters."""
    cut = words[: chars_max * 2]
    line = " ".join("".join(c if c.isprintable() else " " for c in cut).split())
    return line if len(line) <= chars_max and len(cut) == len(words) else line[: chars_max - 1] + "…"


def provider_words(body: object) -> tuple[str, str]:
    """(type or code, message) out of an error body in any of the usual shapes; empty strings where it has
    none.
    """
    if not isinstance(body, Mapping):
        return "", body if isinstance(body, str) else ""
    inner = body.get("error", body)
    if not isinstance(inner, Mapping):
        return "", str(inner)
    kind = inner.get("code") if isinstance(inner.get("code"), str) else inner.get("type")
    message = inner.get("message")
    return (kind if isinstance(kind, str) else ""), (
        message if isinstance(message, str) else json.dumps(inner, default=str)
    )


def model_error(error_class: ErrorClass, message: str, *, request_id: str | None = None) -> ModelError:
    """An error of a class, with the code that belongs to it."""
    return ModelError(_CODES[error_class], message, error_class=error_class, provider_request_id=request_id)


def classify_answer(status: int, headers: Mapping[str, str], body: object, *, now_us: int) -> ModelError:
    """The error for an answer that is not a stream: HTTP `status`, its headers, and its body as parsed
    JSON or text.
    """
    kind, words = provider_words(body)
    error_class = _class_of_status(status, kind, words)
    said = bound_words(words) or "no words"
    return ModelError(
        _CODES[error_class],
        f"the provider answered {status}: {said}",
        error_class=error_class,
        retry_after_s=_retry_after(headers, now_us),
        provider_request_id=find_request_id(headers),
    )


def classify_event(body: object, request_id: str | None) -> ModelError:
    """The error for an error event inside a stream that had begun well."""
    kind, words = provider_words(body)
    error_class = _class_of_words(kind, words) or _TYPE_CLASSES.get(kind, ErrorClass.TRUNCATED)
    said = bound_words(words) or bound_words(kind) or "no words"
    return model_error(error_class, f"the provider ended the stream: {said}", request_id=request_id)


def _retry_after(headers: Mapping[str, str], now_us: int) -> float | None:
    wait_s = parse_retry_after(headers.get("retry-after"), now_us)
    if wait_s is not None:
        return wait_s
    wait_ms = parse_retry_after(headers.get("retry-after-ms"), now_us)
    return None if wait_ms is None else wait_ms / 1000


def _class_of_words(kind: str, words: str) -> ErrorClass | None:
    said = f"{kind} {words}".lower()
    if any(mark in said for mark in _QUOTA_MARKS):
        return ErrorClass.QUOTA
    if any(mark in said for mark in _CONTEXT_MARKS):
        return ErrorClass.CONTEXT
    return None


def _class_of_status(status: int, kind: str, words: str) -> ErrorClass:
    by_words = _class_of_words(kind, words) if status in (400, 402, 403, 413, 429) else None
    by_status = ErrorClass.SERVER if status >= 500 else ErrorClass.REFUSED
    return by_words or _STATUS_CLASSES.get(status, by_status)
