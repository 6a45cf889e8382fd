"""Facts about requests to a model.

Purpose: intent, acceptance, text as it arrives, the whole response or its interruption, usage.
Invariant: a started request ends in exactly one of ModelResponseReceived and ModelStreamInterrupted.
Must never: hold a key, a header or the whole prompt (its digest is enough).
"""

from typing import Literal

from pydantic import Field

from gloveport.protocol.journal.events.base import EventBody, HexDigest, Record, TurnBody


class ModelSelected(EventBody):
    """The model for the next requests."""

    provider: str
    model: str
    model_label: str


class ModelRequestStarted(TurnBody):
    """Intent: this request is about to be sent."""

    request_id: str
    provider: str
    model: str


class ModelRequestAccepted(TurnBody):
    """The provider's headers arrived; with its request id a lost answer can be asked for."""

    request_id: str
    provider_request_id: str | None


class ModelTextDelta(TurnBody):
    """Text arrived. `offset` counts UTF-16 code units of the answer before this piece."""

    request_id: str
    offset: int = Field(ge=0)
    text: str


class CallRecord(Record):
    """A tool call of the model. `arguments_json` is a JSON object, so that history stays valid: arguments that
    could not be parsed strictly become `{}`, with `arguments_error` saying why; such a call never runs."""

    call_id: str
    provider_call_id: str
    tool: str
    arguments_json: str
    arguments_error: str | None


class ModelResponseReceived(TurnBody):
    """The whole response: text and calls, and why the model stopped."""

    request_id: str
    text: str
    calls: tuple[CallRecord, ...]
    stop: Literal["end", "tool_calls", "length", "refusal"]
    text_digest: HexDigest


class ModelStreamInterrupted(TurnBody):
    """The stream ended early; the text that arrived is kept and marked."""

    request_id: str
    kept_utf16: int = Field(ge=0)
    code: str
    reason: str


class UsageRecorded(TurnBody):
    """Tokens that the provider counted for one request; null = it did not say."""

    request_id: str
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None


class UsageEstimated(TurnBody):
    """About so many tokens of a request that ended are in no count of its provider, by the bytes that were sent and
    that arrived. Limits of tokens count them, beside what was counted."""

    request_id: str
    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)
