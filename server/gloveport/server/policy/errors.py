"""Errors of the policy room.

Purpose: typed failures of loading rules and of answering a card.
Invariant: a failure here never leaves anything allowed that was not allowed before.
Must never: be raised by `decide`, which is total.

Tree: `PolicyError` ← `RulesInvalidError`, `TooWideError`.
"""

from gloveport.protocol.errors import ErrorCode, GloveportError


class PolicyError(GloveportError):
    """Root of the room's errors."""


class RulesInvalidError(PolicyError):
    """A rule text can't be taken: its shape, its limits or its own examples do not hold."""

    def __init__(self, source: str, rule_id: str, what: str) -> None:
        super().__init__(ErrorCode.RULES_INVALID, f"{source} rule {rule_id!r}: {what}", source=source, rule=rule_id)


class TooWideError(PolicyError):
    """An answer or a grant asks for more than the card offered, or for more than any grant may hold."""

    def __init__(self, what: str) -> None:
        super().__init__(ErrorCode.TOO_WIDE, what)
