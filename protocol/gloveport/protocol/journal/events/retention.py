"""Facts about sessions that are no more.

Purpose: say which session was deleted, by whom and why, after its own log is gone.
Invariant: the fact is written in the transaction that ends the session's stream.
Must never: hold anything of what the session said.
"""

from gloveport.protocol.journal.events.base import EventBody


class SessionDeleted(EventBody):
    """A session and everything of it was deleted; `by` is a client's name, or `daemon` for what settings ask for."""

    session_id: str
    root: str
    events: int
    reason: str
    by: str
