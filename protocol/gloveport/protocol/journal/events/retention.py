"""Facts about what is no more.

Purpose: say which session was deleted, by whom and why, after its own log is gone; and that a text was erased.
Invariant: the fact is written in the transaction that ends the session's stream, or erases its events.
Must never: hold anything of what was said there.
"""

from typing import ClassVar

from pydantic import Field

from gloveport.protocol.journal.events.base import EventBody, LabelRecord, Record


class SessionDeleted(EventBody):
    """A session and everything of it was deleted; `by` is a client's name, or `daemon` for what settings ask for."""

    session_id: str
    root: str
    events: int
    reason: str
    by: str


class ErasedCall(Record):
    """A call whose result was erased, and how it ended."""

    call_id: str
    outcome: str


class OpenCall(Record):
    """A call of which nobody knows whether it took effect."""

    call_id: str
    tool: str


class TextErased(EventBody):
    """The user had a text taken out of the record: how many events and outputs held it.

    What the erased ones said and has to hold on is kept here: the label, how calls ended whose results are gone, the
    calls with an unknown outcome (null: as the rest of the record says), and how often the conversation did not fit.
    """

    version: ClassVar[int] = 2

    erase_id: str
    events: int = Field(ge=0)
    outputs: int = Field(ge=0)
    label: LabelRecord
    by: str
    calls: tuple[ErasedCall, ...]
    unknowns: tuple[OpenCall, ...] | None
    overflows: int | None = Field(ge=0)
