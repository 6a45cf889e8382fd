"""Which sandbox strength a trust level asks for.

Purpose: the minimum strength per trust level, and the level in force from the user's choice and the labels.
Invariant: the level in force is the least trusting of its inputs; anything unknown is untrusted.
Must never: map `untrusted` to the process rung, or fall back to a weaker rung.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, unique
from types import MappingProxyType
from typing import Final

from gloveport.server.policy.labels import Integrity

STRENGTH_NONE = 0
STRENGTH_PROCESS = 1
STRENGTH_CONTAINER = 2
STRENGTH_MACHINE = 3


@unique
class TrustLevel(StrEnum):
    """How far the user trusts the code of a workspace."""

    trusted = "trusted"
    restricted = "restricted"
    untrusted = "untrusted"


MINIMUM_STRENGTH: Final[Mapping[TrustLevel, int]] = MappingProxyType(
    {
        TrustLevel.trusted: STRENGTH_PROCESS,
        TrustLevel.restricted: STRENGTH_CONTAINER,
        TrustLevel.untrusted: STRENGTH_MACHINE,
    }
)

STRENGTH_WORDS: Final[Mapping[int, str]] = MappingProxyType(
    {
        STRENGTH_NONE: "no sandbox",
        STRENGTH_PROCESS: "the process rung",
        STRENGTH_CONTAINER: "bubblewrap or a container",
        STRENGTH_MACHINE: "gVisor, a microVM or a remote machine",
    }
)

_IMPLIED: Final[Mapping[Integrity, TrustLevel]] = MappingProxyType(
    {
        Integrity.USER: TrustLevel.trusted,
        # the workspace's own text is what the user judged when choosing the level
        Integrity.WORKSPACE: TrustLevel.trusted,
        Integrity.UNTRUSTED: TrustLevel.untrusted,
    }
)


@dataclass(frozen=True, slots=True)
class SandboxFacts:
    """The sandbox a call would run in, as probed: strength 0–3, open network, and what it does and doesn't hold.

    `host`: the machine to which the session's copy of the project is sent; empty for this one.
    `missing`: why it does not work here, in words; empty where it does.
    """

    name: str
    strength: int
    network: bool
    holds: tuple[str, ...] = ()
    does_not_hold: tuple[str, ...] = ()
    statement: str = ""
    host: str = ""
    missing: str = ""


def least_trusting(*levels: TrustLevel | None) -> TrustLevel:
    """The level that asks for the strongest sandbox; None, or no level at all, is untrusted."""
    known = [TrustLevel.untrusted if level is None else level for level in levels]
    return max(known, key=MINIMUM_STRENGTH.__getitem__, default=TrustLevel.untrusted)


def trust_in_force(user_level: TrustLevel | None, pc: Integrity | None, worktree: Integrity | None) -> TrustLevel:
    """The level a run has: the user's choice, lowered by what the model has read and by what the worktree holds."""
    return least_trusting(user_level, _implied(pc), _implied(worktree))


def minimum_strength(level: TrustLevel) -> int:
    """Strength (1–3) that a run of this level needs at least."""
    return MINIMUM_STRENGTH[level]


def strength_words(strength: int) -> str:
    """Words for a strength, for a person; strengths beyond the table count as the nearest one."""
    return STRENGTH_WORDS[min(max(strength, STRENGTH_NONE), STRENGTH_MACHINE)]


def _implied(integrity: Integrity | None) -> TrustLevel:
    return TrustLevel.untrusted if integrity is None else _IMPLIED[integrity]
