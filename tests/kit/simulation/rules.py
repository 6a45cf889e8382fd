"""Rules by name.

Purpose: say which rule of the house a history broke.
Invariant: the name is the one under which the rule's control is known.
"""


class BrokenRuleError(AssertionError):
    """A rule does not hold; `rule` is its name."""

    def __init__(self, rule: str, detail: object) -> None:
        super().__init__(f"{rule}: {detail}")
        self.rule = rule


def hold(condition: bool, rule: str, detail: object) -> None:
    """Raise BrokenRuleError unless the condition holds."""
    if not condition:
        raise BrokenRuleError(rule, detail)
