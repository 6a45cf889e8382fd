"""What the doctor found, as data.

Purpose: one line per probe: verdict, evidence, fix; the same fields that clients are sent.
Invariant: a verdict follows from evidence and the rung's own claim; a claim without evidence does not hold.
Must never: call something held that the rung does not claim.
"""

from dataclasses import dataclass
from enum import StrEnum, unique

from gloveport.sandbox.contract import Availability, Claim


@unique
class Verdict(StrEnum):
    """A probe's outcome."""

    HOLDS = "holds"
    DOES_NOT_HOLD = "does_not_hold"
    NOT_CLAIMED = "not_claimed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One probe's line; `fix` is empty when it holds."""

    name: str
    verdict: Verdict
    evidence: str
    fix: str


def judge(
    name: str, claims: tuple[Claim, ...], availability: Availability, fault: str | None, seen: str, fix: str = ""
) -> Finding:
    """`fault` says what was seen to be wrong, None when nothing was; `seen` is the evidence when it holds.

    `fix` mends a broken one; empty is: do not use it.
    """
    missing = [claim for claim in claims if claim not in availability.holds]
    if missing:
        words = dict(availability.does_not_hold).get(missing[0], "This sandbox does not claim it.")
        evidence = words if fault is None else f"{words} Seen: {fault}"
        return Finding(name, Verdict.NOT_CLAIMED, evidence, "Choose a stronger sandbox where this matters.")
    if fault is not None:
        usual = "Do not use this sandbox for code you do not trust; report this finding."
        return Finding(name, Verdict.DOES_NOT_HOLD, fault, fix or usual)
    return Finding(name, Verdict.HOLDS, seen, "")
