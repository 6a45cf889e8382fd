"""Facts about what the user lets a session spend and do.

Purpose: the limits of tokens, the mode, and rules of the session's own.
Invariant: the newest of each is in force until the next one, also after a restart.
Must never: be written for anybody but the user.
"""

from typing import Literal

from pydantic import Field

from gloveport.protocol.journal.events.base import EventBody

Mode = Literal["agent", "plan"]
"""`agent` works; `plan` looks and says what it would do."""


class BudgetSet(EventBody):
    """The most tokens (input and output, as providers count them) of one turn and of the session; null = no limit."""

    turn_tokens: int | None = Field(ge=1)
    session_tokens: int | None = Field(ge=1)
    by: str


class ModeChosen(EventBody):
    """From the next call on the session works in this mode."""

    mode: Mode
    by: str


class SessionRulesSet(EventBody):
    """The session's own rules from here on, all of them, as text; `ids` names them. Empty: it has none."""

    text: str
    ids: tuple[str, ...]
    by: str
