"""The contract between the engine and a provider of model replies.

Purpose: one vocabulary for every provider: what is asked (`ModelRequest`) and what comes back (a stream of
    `Part`s).
Invariant: a stream yields `Accepted` first, then any deltas, and `Stop` last; a stream that fails raises
    `ModelError` and never yields `Stop`, so a consumer that saw `Stop` has the whole reply.
Must never: parse or mend tool arguments (`arguments_json` is the provider's text, byte for byte), retry,
    or know of sessions and policy.

Errors: `ModelError` is this room's root; its `code` says what the user can do, its `error_class` what went
    wrong.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Literal, Protocol, TypeAlias

from gloveport.protocol.errors import ErrorCode, GloveportError


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool offered to the model; `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ToolCallPart:
    """A call the model asks for; `arguments_json` is unparsed text and may be empty, cut or no JSON at
    all.
    """

    call_id: str
    name: str
    arguments_json: str


@dataclass(frozen=True, slots=True)
class SystemText:
    """Standing instructions; providers send all of them ahead of the conversation."""

    text: str


@dataclass(frozen=True, slots=True)
class UserText:
    """Words of the user."""

    text: str


@dataclass(frozen=True, slots=True)
class AssistantTurn:
    """An earlier reply of the model; each call must be answered by a `ToolResultPart` before the next
    turn.
    """

    text: str
    calls: tuple[ToolCallPart, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolResultPart:
    """What a call gave; `call_id` names a call of the assistant turn before it."""

    call_id: str
    text: str
    is_error: bool = False


ChatMessage: TypeAlias = SystemText | UserText | AssistantTurn | ToolResultPart


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request: the conversation so far, the tools on offer, and the most tokens the reply may take."""

    model: str
    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int = 8_192


@dataclass(frozen=True, slots=True)
class Accepted:
    """The provider took the request (its headers arrived); the id is what its support asks for."""

    provider_request_id: str | None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer; never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of the model's reasoning where the provider shows it; never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolArgsDelta:
    """A piece of the arguments of call number `index` of this reply; the first piece of a call may be
    empty.
    """

    index: int
    call_id: str
    name: str
    args_fragment: str


@dataclass(frozen=True, slots=True)
class UsagePart:
    """Tokens of this request so far; a later one replaces an earlier one.

    `input_tokens` counts everything sent, cached or not; `cached_tokens` is the share of it read from a
    cache.
    """

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0


StopReason: TypeAlias = Literal["end", "tool_calls", "length", "refusal"]


@dataclass(frozen=True, slots=True)
class Stop:
    """The end of a whole reply. With reason `length` the last call may be cut short and must not be run."""

    reason: StopReason
    calls: tuple[ToolCallPart, ...] = ()


Part: TypeAlias = Accepted | TextDelta | ReasoningDelta | ToolArgsDelta | UsagePart | Stop
PartStream: TypeAlias = AbstractAsyncContextManager[AsyncIterator[Part]]


@unique
class ErrorClass(StrEnum):
    """What went wrong, for the one owner of retries and for the circuit breaker."""

    CONNECT = "connect"
    IDLE = "idle"
    SERVER = "server"
    OVERLOADED = "overloaded"
    AUTH = "auth"
    RATE = "rate"
    QUOTA = "quota"
    CONTEXT = "context_overflow"
    REFUSED = "refused"
    TRUNCATED = "truncated"
    MALFORMED = "malformed"
    TOO_LARGE = "too_large"
    CONFIG = "config"
    PAUSED = "paused"
    """Not sent: the provider is left alone for a moment."""


class ModelError(GloveportError):
    """A request that gave no whole reply. Parts yielded before it stay valid and are worth keeping.

    `retry_after_s` is the pause the provider asked for, in seconds, or None when it named none.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        error_class: ErrorClass,
        retry_after_s: float | None = None,
        provider_request_id: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(
            code,
            message,
            hint=hint,
            error_class=error_class.value,
            retry_after_s=retry_after_s,
            provider_request_id=provider_request_id,
        )
        self.error_class = error_class
        self.retry_after_s = retry_after_s
        self.provider_request_id = provider_request_id


@unique
class Fate(StrEnum):
    """What a provider can say later about a request it was sent."""

    FINISHED = "finished"
    NEVER_ACCEPTED = "never_accepted"


class ApiKey(Protocol):
    """Something that holds a key and shows it only when asked by name."""

    def reveal(self) -> str:
        """The key itself; for the one header it goes into."""


class Provider(Protocol):
    """A source of model replies. One instance serves many requests, also at the same time, on one event
    loop.
    """

    @property
    def name(self) -> str:
        """Short stable name for settings and the journal: `scripted`, `openai` or `anthropic`."""

    @property
    def label(self) -> str:
        """Honest name for people: says who answers and where, and that a script is a script."""

    def stream(self, request: ModelRequest) -> PartStream:
        """`async with provider.stream(r) as parts: async for part in parts`; nothing is sent before the first
        step of the iteration. Leaving the block, or cancelling, closes the connection at once.

        Raises `ModelError` from the iteration, after all parts that arrived were yielded.
        """

    async def lookup(self, provider_request_id: str) -> Fate | None:
        """What became of an earlier request; None when the provider cannot say (it may have been done and
        billed).
        """

    async def close(self) -> None:
        """Gives connections back; may be called twice. Streams must have ended before."""
