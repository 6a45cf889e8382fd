"""Facts about a session that was frozen for safety.

Purpose: that what a call did looked like an attack, that the session stands still since, and who let it go on.
Invariant: from `SessionFrozen` on no turn begins until `SessionThawed` names the same `freeze_id`.
Must never: be written for what an ordinary program does.
"""

from gloveport.protocol.journal.events.base import EventBody


class SessionFrozen(EventBody):
    """A security event: `evidence` is what was seen of the call, `words` what the user is told."""

    freeze_id: str
    call_id: str
    evidence: str
    words: str


class SessionThawed(EventBody):
    """The user typed what was asked for: the session may work again."""

    freeze_id: str
    by: str
