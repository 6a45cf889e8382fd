"""Facts about a turn's life.

Purpose: begin, stop request and the three ends.
Invariant: every started turn has exactly one end: completed, failed or cancelled.
Must never: be written by anything but the machine.
"""

from gloveport.protocol.journal.events.base import TurnBody


class TurnStarted(TurnBody):
    """A turn began with this message."""

    message_id: str


class TurnCompleted(TurnBody):
    """The model ended its answer and nothing is left to run."""

    reason: str


class TurnFailed(TurnBody):
    """The turn could not go on; `code` is of the error table, `hint` says what to do next."""

    code: str
    message: str
    hint: str


class TurnCancelRequested(TurnBody):
    """Somebody pressed stop: no new model request and no new tool starts after this event."""

    by: str


class TurnCancelled(TurnBody):
    """The turn is stopped and nothing of it runs any more."""

    by: str
