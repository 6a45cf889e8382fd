"""Puts the pieces of a reply together.

Purpose: collect tool-call fragments into whole calls and hold the limits of one reply.
Invariant: `arguments_json` of a finished call is the exact concatenation of its fragments; no text that leaves
    here holds half of a surrogate pair.
Must never: parse, trim or mend arguments.
"""

import json
from dataclasses import dataclass, field, replace
from typing import Final

from gloveport.server.models.contract import (
    ChatMessage,
    ErrorClass,
    ModelError,
    Stop,
    StopReason,
    ToolArgsDelta,
    ToolCallPart,
)
from gloveport.server.models.failures import bound_words, model_error

REPLY_CHARS_MAX: Final = 8 * 1024 * 1024
CALLS_MAX: Final = 128
NAME_CHARS_MAX: Final = 256


class HalfPairs:
    """Joins surrogate halves over pieces: some servers cut text between them. A half that stays alone inside a
    piece becomes U+FFFD; one at the very end of a reply is dropped, being no character.
    """

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def join(self, piece: str) -> str:
        """What is whole of the text so far."""
        if not self._held and piece.isascii():
            return piece
        text = self._held + piece
        self._held = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return sound_text(text[: len(text) - len(self._held)])


def sound_text(text: str) -> str:
    """The text with surrogate pairs joined and lone halves replaced, so that it can be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


@dataclass(slots=True)
class _Slot:
    call_id: str
    name: str
    fragments: list[str] = field(default_factory=list)
    halves: HalfPairs = field(default_factory=HalfPairs)


class ReplyAssembler:
    """Collects one reply. Slots are what a provider calls the index of a call; ours count from 0 in order
    seen.
    """

    __slots__ = ("_chars", "_reasoning", "_slots", "_text")

    def __init__(self) -> None:
        self._slots: list[_Slot] = []
        self._text = HalfPairs()
        self._reasoning = HalfPairs()
        self._chars = 0

    @property
    def count(self) -> int:
        """How many calls were begun."""
        return len(self._slots)

    def take_text(self, piece: str) -> str:
        """A piece of the answer, counted and whole; perhaps empty. Raises `ModelError` (too large)."""
        return self._count(self._text.join(piece))

    def take_reasoning(self, piece: str) -> str:
        """The same for a piece of reasoning."""
        return self._count(self._reasoning.join(piece))

    def _count(self, text: str) -> str:
        self._chars += len(text)
        if self._chars > REPLY_CHARS_MAX:
            raise self._too_large(f"more than {REPLY_CHARS_MAX} characters")
        return text

    def begin_call(self, call_id: str, name: str) -> int:
        """Opens a call and gives its index; an empty id becomes one that is unique within this reply."""
        if len(self._slots) >= CALLS_MAX:
            raise self._too_large(f"more than {CALLS_MAX} calls")
        index = len(self._slots)
        self._slots.append(
            _Slot(bound_words(call_id, NAME_CHARS_MAX) or f"call_{index}", bound_words(name, NAME_CHARS_MAX))
        )
        return index

    def name_call(self, index: int, name: str) -> None:
        """Gives a call its name, if it has none yet: some servers send the name late, some repeat it."""
        slot = self._slots[index]
        slot.name = slot.name or bound_words(name, NAME_CHARS_MAX)

    def add_fragment(self, index: int, fragment: str) -> ToolArgsDelta:
        """Adds a piece of the arguments of call `index`, which must be open."""
        slot = self._slots[index]
        piece = self._count(slot.halves.join(fragment))
        slot.fragments.append(piece)
        return ToolArgsDelta(index, slot.call_id, slot.name, piece)

    def call_id(self, index: int) -> str:
        """The id of call `index`."""
        return self._slots[index].call_id

    def has_fragments(self, index: int) -> bool:
        """Whether any character of arguments arrived for call `index`."""
        return any(self._slots[index].fragments)

    def finish(self, reason: StopReason) -> Stop:
        """The end of the reply; a plain end with calls in it is an end for the calls' sake."""
        calls = tuple(ToolCallPart(s.call_id, s.name, "".join(s.fragments)) for s in self._slots)
        return Stop("tool_calls" if reason == "end" and calls else reason, calls)

    def _too_large(self, what: str) -> ModelError:
        return model_error(ErrorClass.TOO_LARGE, f"the reply is too large: {what}")


def history_arguments(arguments_json: str) -> dict[str, object]:
    """Arguments of a past call as a provider's history accepts them.

    Arguments that are no JSON object were never run; in the history they stand as an empty object beside the
    error result that says why, since a provider refuses every later request that carries broken ones.
    """
    try:
        value = json.loads(arguments_json, parse_constant=_refuse_constant)
        text = json.dumps(value, ensure_ascii=False)
        value = value if sound_text(text) is text else json.loads(sound_text(text))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def sound_messages(messages: tuple[ChatMessage, ...]) -> tuple[ChatMessage, ...]:
    """The conversation with texts that can be sent: a file or a command may have given lone surrogates."""
    return tuple(m if sound_text(m.text) is m.text else replace(m, text=sound_text(m.text)) for m in messages)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
