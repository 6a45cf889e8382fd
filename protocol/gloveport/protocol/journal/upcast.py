"""The permanent upcasters: payloads of older versions brought to today's shape.

Purpose: every event ever written by a release can be read by every later one.
Invariant: an entry, once released, stays for ever and keeps its meaning; a payload that is already current, newer
than this version, or of an unknown type comes back as it was.
Must never: change its argument, drop a field it does not know, or touch a clock or a disk.

An entry `(type, n)` turns a version n payload into version n+1. Entries of one type have no gaps.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

Payload = dict[str, Any]
Upcaster = Callable[[Payload], Payload]
Registry = Mapping[tuple[str, int], Upcaster]


def _plan_items_of_a_goal(payload: Payload) -> Payload:
    """PlanUpdated 2: each item names its goal; until then that was the goal of the update."""
    items = [{**item, "goal_revision": payload["goal_revision"]} for item in payload["items"]]
    return {**payload, "items": items}


def _summary_with_items(payload: Payload) -> Payload:
    """RecoverySummarised 2: what was found stands item by item; until then it stood in the words alone."""
    return {**payload, "items": []}


def _proposal_of_one_name(payload: Payload) -> Payload:
    """ChangeProposed 2: a rename names both paths; until then a moved file was a deletion and a creation."""
    return {**payload, "renamed_from": None}


def _choice_without_image(payload: Payload) -> Payload:
    """SandboxChosen 2: an image may be chosen with it; until then it was the sandbox's own."""
    return {**payload, "image": ""}


def _erasure_without_ends(payload: Payload) -> Payload:
    """TextErased 2: it keeps what still has to hold of what was erased; until then it kept the label alone."""
    return {**payload, "calls": [], "unknowns": None, "overflows": None}


def _budget_of_tokens(payload: Payload) -> Payload:
    """BudgetSet 2: money may be limited, too; until then tokens alone were."""
    return {**payload, "turn_nano_usd": None, "session_nano_usd": None, "rates": []}


def _same(payload: Payload) -> Payload:
    """A version that only allows more values than the one before."""
    return dict(payload)


UPCASTERS: Final[Registry] = MappingProxyType(
    {
        ("PlanUpdated", 1): _plan_items_of_a_goal,
        ("RecoverySummarised", 1): _summary_with_items,
        ("ChangeProposed", 1): _proposal_of_one_name,
        ("SandboxChosen", 1): _choice_without_image,
        ("TextErased", 1): _erasure_without_ends,
        ("BudgetSet", 1): _budget_of_tokens,
        ("ChangeWithdrawn", 1): _same,
        ("ChangeApplyStarted", 1): _same,
        ("ChangeApplied", 1): _same,
        ("ChangeUnsettled", 1): _same,
        ("ChangeRefused", 1): _same,
    }
)


def upcast(event_type: str, version: int, payload: Payload, registry: Registry = UPCASTERS) -> Payload:
    """The payload in the newest shape this version knows; `payload` itself is left alone."""
    current = dict(payload)
    while (step := registry.get((event_type, version))) is not None:
        current = step(current)
        version += 1
    return current


def current_version(event_type: str, written: int, registry: Registry = UPCASTERS) -> int:
    """The version that `upcast` brings a payload written as `written` to."""
    while (event_type, written) in registry:
        written += 1
    return written


def registry_gaps(registry: Registry = UPCASTERS) -> tuple[tuple[str, int], ...]:
    """Missing steps of a registry: a type's entries must run from its lowest version without a hole."""
    versions: dict[str, list[int]] = {}
    for event_type, version in registry:
        versions.setdefault(event_type, []).append(version)
    return tuple(
        (event_type, missing)
        for event_type, known in sorted(versions.items())
        for missing in sorted(set(range(min(known), max(known))) - set(known))
    )
