"""Facts about what is no more.

Purpose: say which session was deleted, by whom and why, after its own log is gone; and that a text was erased.
Invariant: the fact is written in the transaction that ends the session's stream, or erases its events.
Must never: hold anything of what was said there.
"""

from pydantic import Field

from gloveport.protocol.journal.events.base import EventBody, LabelRecord


class SessionDeleted(EventBody):
    """A session and everything of it was deleted; `by` is a client's name, or `daemon` for what settings ask for."""

    session_id: str
    root: str
    events: int
    reason: str
    by: str


class TextErased(EventBody):
    """The user had a text taken out of the record: how many events and outputs held it; `label` is kept for them."""

    erase_id: str
    events: int = Field(ge=0)
    outputs: int = Field(ge=0)
    label: LabelRecord
    by: str
