"""The table of retries: what each kind of failure asks for, and how long to wait.

Purpose: one place that knows which failures pass by themselves, how often and after what pause they are tried again,
    and the words for those that are not.
Invariant: pure; a pause is never shorter than its floor; attempts, pauses and their sum are bounded.
Must never: use chance: the jitter follows from the request's id, which differs between sessions.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, unique
from types import MappingProxyType
from typing import Final, Literal

SECOND_US: Final = 1_000_000
DAY_US: Final = 24 * 3600 * SECOND_US
ATTEMPTS_MAX: Final = 5
"""Attempts to get one answer, the first included; a pause that a breaker asked for is no attempt."""
PAUSE_BASE_US: Final = SECOND_US
PAUSE_GROWN_US_MAX: Final = 30 * SECOND_US
"""How long a pause grows by itself."""
PAUSE_ASKED_US_MAX: Final = 120 * SECOND_US
"""A longer pause than this is not waited for: the turn ends and says until when."""
WAITED_US_MAX: Final = 15 * 60 * SECOND_US
"""All pauses for one answer together."""
JITTER_PARTS: Final = 4
"""A pause is made longer by up to one part in so many."""
OVERFLOW_TRIES_MAX: Final = 3
"""How often in a row a conversation that does not fit is shortened, over turns; a whole answer begins anew."""

Floor = Literal["none", "retry_after", "breaker"]


@unique
class Treatment(StrEnum):
    """What a failure asks for."""

    BACK_OFF = "try again after a pause"
    SHRINK = "shorten what the model is shown, then try again"
    TELL_FIELDS = "tell the model which fields are wrong"
    OBSERVE = "the model sees the refusal and chooses another way"
    AGENT = "the model reads the result and goes on"
    ASK_USER = "find out what happened, or ask the user; never again by itself"
    STOP = "end the turn with words"


@dataclass(frozen=True, slots=True)
class Row:
    """One row: the failures it speaks of (classes of model failures, or outcomes of calls) and what they ask for."""

    name: str
    treatment: Treatment
    failures: frozenset[str]


TABLE: Final = (
    Row(
        "throttled, broken or out of reach",
        Treatment.BACK_OFF,
        frozenset({"rate", "overloaded", "server", "connect", "idle", "truncated", "paused"}),
    ),
    Row("larger than the model's window", Treatment.SHRINK, frozenset({"context_overflow"})),
    Row("arguments of a call do not fit its schema", Treatment.TELL_FIELDS, frozenset({"invalid"})),
    Row("not permitted", Treatment.OBSERVE, frozenset({"denied", "policy"})),
    Row("a build or a test failed", Treatment.AGENT, frozenset({"failed", "timeout", "oom", "killed"})),
    Row("an effect whose outcome is unknown", Treatment.ASK_USER, frozenset({"lost", "unknown"})),
    Row(
        "no key, no quota, or a request that will not be taken",
        Treatment.STOP,
        frozenset({"auth", "quota", "refused", "malformed", "too_large", "config"}),
    ),
)
"""The seven rows. What is in none of them is never tried again."""

_TREATMENTS: Final[Mapping[str, Treatment]] = MappingProxyType(
    {failure: row.treatment for row in TABLE for failure in row.failures}
)
NOT_REPEATED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "auth": "it was asked once and is not asked again by itself",
        "quota": "a used-up quota does not come back in a moment, so it is not asked again by itself",
    }
)
"""Words for endings without a retry; they stand behind what happened."""


def treatment_of(failure: str) -> Treatment:
    """What a class of failures, or the outcome of a call, asks for."""
    return _TREATMENTS.get(failure, Treatment.STOP)


@dataclass(frozen=True, slots=True)
class Again:
    """Try again after `backoff_us`; `attempt` is the number of the attempt to come."""

    attempt: int
    backoff_us: int
    floor: Floor


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Do not try again: what happened and what to do next."""

    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Tried:
    """What was tried for the answer that is due: the number of the last attempt and the pauses so far."""

    attempt: int
    waited_us: int


def plan_retry(
    failure: str, words: str, hint: str, tried: Tried, pause_us: int | None, request_id: str, now_us: int
) -> Again | GiveUp:
    """What to do about a failure that passes by itself; `words` and `hint` are the failure's own.

    `pause_us` is what the provider or the breaker asks for, from `now_us` on.
    """
    paused = failure == "paused"
    attempt = tried.attempt if paused else tried.attempt + 1
    if attempt > ATTEMPTS_MAX:
        return GiveUp(f"{_stopped(words)}; it was tried {ATTEMPTS_MAX} times", hint)
    floor_us = pause_us or 0
    if floor_us > PAUSE_ASKED_US_MAX:
        until, length = moment_words(now_us + floor_us), length_words(floor_us)
        alone, then = f"until {until} ({length})", f"after {until}"
        if floor_us >= DAY_US:  # a time of the day would be taken for today's
            alone, then = f"for {length}", f"when {length} have passed"
        message = f"{_stopped(words)}; it is to be left alone {alone}"
        return GiveUp(message, f"Send the message again {then}, or choose another model.")
    grown = tried.waited_us // JITTER_PARTS if paused else PAUSE_BASE_US << (attempt - 2)
    pause = max(floor_us, PAUSE_BASE_US, min(grown, PAUSE_GROWN_US_MAX))
    backoff = pause + pause * _spread(request_id) // (JITTER_PARTS * _SPREAD)
    if tried.waited_us + backoff > WAITED_US_MAX:
        return GiveUp(f"{_stopped(words)}; it was waited for {length_words(tried.waited_us)}", hint)
    if floor_us == 0:
        return Again(attempt, backoff, "none")
    return Again(attempt, backoff, "breaker" if paused else "retry_after")


def stop_words(failure: str, words: str) -> str:
    """What happened, for a failure that is not tried again."""
    return f"{_stopped(words)}; {NOT_REPEATED[failure]}" if failure in NOT_REPEATED else words


def overflow_words(count: int, why: str) -> str:
    """Words for a conversation that did not fit `count` times in a row and is not shortened any more."""
    row = f" ({count} times in a row)" if count > 1 else ""
    return f"the conversation does not fit the model's window{row}: {_stopped(why)}; what was changed is kept"


_SPREAD: Final = 1 << 16


def _spread(request_id: str) -> int:
    """A number below `_SPREAD` that looks like chance and follows from the id."""
    return int.from_bytes(hashlib.sha256(request_id.encode("utf-8", "replace")).digest()[:2], "big")


def _stopped(words: str) -> str:
    return words.strip().rstrip(".")


def length_words(span_us: int) -> str:
    """A length of time in the unit that fits, rounded up."""
    seconds = -(-span_us // SECOND_US)
    if seconds < 120:
        return f"{seconds} s"
    minutes = -(-seconds // 60)
    if minutes < 120:
        return f"{minutes} min"
    hours = -(-minutes // 60)
    return f"{hours} h" if hours < 48 else f"{-(-hours // 24)} days"


def moment_words(at_us: int) -> str:
    """The time of the day of a moment, with its zone."""
    minutes = -(-at_us // (60 * SECOND_US)) % (24 * 60)
    return f"{minutes // 60:02}:{minutes % 60:02} UTC"
