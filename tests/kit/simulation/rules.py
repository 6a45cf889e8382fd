"""How a rule of the house is held.

Purpose: one error for every broken rule, with the rule's name.
Invariant: a rule that holds says nothing.
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
