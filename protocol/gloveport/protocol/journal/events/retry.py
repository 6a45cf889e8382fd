"""Facts about trying again: pauses, overflows of the model's context, breakers.

Purpose: what failed, why it is tried again and when, what was shortened for the model, which provider is left alone.
Invariant: a scheduled retry is followed by its start or by the end of its turn; a started compaction by its result, by
    being discarded, or by the end of its turn.
Must never: hold a key, or take anything out of the log: a compaction changes what the model is shown, no more.
"""

from typing import Literal

from pydantic import Field

from gloveport.protocol.journal.events.base import EventBody, Record, TurnBody

BreakerKind = Literal["provider", "mcp", "sandbox"]
"""What a breaker guards: a provider under one key, a server of tools, the host of a sandbox."""


class RetryScheduled(TurnBody):
    """The request failed in a way that passes: it is made again at `due_at` (UTC microseconds, by the daemon's clock).

    `attempt` is the number of the attempt to come, out of at most `attempts_max`. `floor` says what the pause may not
    be shorter than: nothing, what the provider asked for, or the breaker's own pause.
    """

    request_id: str
    attempt: int = Field(ge=1)
    attempts_max: int = Field(ge=1)
    error_class: str
    backoff_us: int = Field(ge=0)
    floor: Literal["none", "retry_after", "breaker"]
    due_at: int = Field(ge=0)
    provider_request_id: str | None
    reason: str


class RetryStarted(TurnBody):
    """The pause is over: `request_id` takes the place of the failed request `retry_of`."""

    request_id: str
    retry_of: str
    attempt: int = Field(ge=1)


class ContextOverflowed(TurnBody):
    """The conversation is larger than the model's window, for the `count`-th time without a whole answer between."""

    request_id: str
    count: int = Field(ge=1)


class CompactionStarted(TurnBody):
    """What the model is shown is about to be shortened; until the result is here nothing has changed."""

    compaction_id: str
    reason: str


class ShortenedResult(Record):
    """A result of a tool of which the model is shown `kept_chars` characters, from both ends."""

    call_id: str
    kept_chars: int = Field(ge=0)


class ContextCompacted(TurnBody):
    """From here on the model is shown these results shortened; the log holds them whole."""

    compaction_id: str
    results: tuple[ShortenedResult, ...]
    chars_before: int = Field(ge=0)
    chars_after: int = Field(ge=0)


class CompactionDiscarded(TurnBody):
    """The compaction gave nothing; the model would be shown what it was shown before."""

    compaction_id: str
    reason: str


class BreakerOpened(EventBody):
    """So many failures came in a row that nothing is sent there before `until_at` (UTC microseconds)."""

    kind: BreakerKind
    name: str
    failures: int = Field(ge=0)
    until_at: int = Field(ge=0)
    reason: str


class BreakerClosed(EventBody):
    """It answers again."""

    kind: BreakerKind
    name: str
