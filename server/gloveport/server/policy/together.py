"""Cards that are shown together.

Purpose: say whether the card of a call may stand beside that of the call before it, as one question of several parts.
Invariant: every part keeps its own card, digest, answer and grant; together stand only calls of one kind of effect, one
risk, one label with one provenance, in one place; what needs a look of its own is told so, and alone may differ in what
it says of the user's intent.
Must never: join what is secret, unknown, confidential or a run, leave a part out, or answer one part by another.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gloveport.server.policy.effects import EffectKind
from gloveport.server.policy.findings import KERNEL

TOGETHER_MAX: Final = 8
"""So many calls are asked about at once; nobody reads more."""
LINES_MAX: Final = 400
"""And so many lines of diff, effects and files."""
KEY: Final = "together"
_ALONE: Final = frozenset(
    {str(EffectKind.secret_read), str(EffectKind.configure), str(EffectKind.memory_write), str(EffectKind.execute)}
)
"""Effects that are always a question of their own. What a run leaves may be what the next one runs, in ways that no
card can name: none is answered before the one before it has ended."""
_SAME: Final = ("agent", "provenance", "risk", "reversible", "sandbox")


def may_join(row: Sequence[Mapping[str, Any]], other: Mapping[str, Any]) -> bool:
    """True if a card asks for the same kind of thing as the first of a row, with the same words of caution."""
    first = row[0]
    if len(row) >= TOGETHER_MAX or sum(map(_lines, (*row, other))) > LINES_MAX:
        return False
    if _stands_alone(first) or _stands_alone(other) or _kinds(first) != _kinds(other):
        return False
    born = (card["binding"] for card in (first, other))
    one, two = ({**binding, "call_id": ""} for binding in born)
    same = first["intent"] == other["intent"] or _by_itself(first)
    return one == two and same and all(first[name] == other[name] for name in _SAME)


def put_together(cards: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """The cards, each saying which of how many it is; `each`: every one is to be answered by itself.

    A single card stays as it is.
    """
    if len(cards) == 1:
        return (dict(cards[0]),)
    calls = [card["binding"]["call_id"] for card in cards]
    each = any(map(_by_itself, cards))
    row = {"of": len(cards), "calls": calls, "each": each}
    return tuple({**card, KEY: {"at": at, **row}} for at, card in enumerate(cards, start=1))


def placed_like(card: Mapping[str, Any], shown: Mapping[str, Any]) -> dict[str, Any]:
    """The card, in the company in which another was shown."""
    return {**card, KEY: shown[KEY]} if KEY in shown else dict(card)


def _by_itself(card: Mapping[str, Any]) -> bool:
    """True if no answer to several may be one to this: what it says of the user's intent is read with it alone."""
    return card["risk"] == "high" or not card["reversible"]


def _lines(card: Mapping[str, Any]) -> int:
    command = card["command"]
    words = 0 if command is None else len(command["words"])
    words += 0 if card["sends"] is None else len(card["sends"]["lines"])
    return len(card["diff"]) + len(card["effects"]) + len(card["files"]) + words


def _stands_alone(card: Mapping[str, Any]) -> bool:
    secret = card["provenance"]["confidential"] or bool(_kinds(card) & _ALONE)
    sensitive = any(one["name"] == "sensitivity" and one["level"] == "high" for one in card["factors"])
    strange = bool(card["unknown_effects"]) or f"{KERNEL}:unknown-tool" in card["rule_ids"]
    return secret or sensitive or strange or not card["effects"]


def _kinds(card: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(effect["kind"] for effect in card["effects"])
