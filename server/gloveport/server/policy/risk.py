"""How risky a call is.

Purpose: a monotone table over eight factors, each with its level and its words; not a yes or no.
Invariant: a more sensitive, less reversible, wider, less intended or less confined call never has a lower risk, nor has
one that was never granted before.
Must never: look at the command's text; only at effects, targets, labels and the sandbox.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum, unique
from types import MappingProxyType
from typing import Final

from gloveport.server.policy.checks import destination_host, runs_program
from gloveport.server.policy.display import escape_display
from gloveport.server.policy.effects import OUTGOING_KINDS, PATH_KINDS, SINK_KINDS, Effect, EffectKind
from gloveport.server.policy.labels import Integrity
from gloveport.server.policy.protected import Mark, marks
from gloveport.server.policy.protected_table import PathClass
from gloveport.server.policy.request import Context, Request
from gloveport.server.policy.rules.rule import subject_of
from gloveport.server.policy.rung import STRENGTH_PROCESS, minimum_strength, strength_words, trust_in_force
from gloveport.server.policy.words import VERBS

MEDIUMS_THAT_MAKE_HIGH = 4


@unique
class Level(IntEnum):
    """Levels of risk and of its factors."""

    low = 0
    medium = 1
    high = 2


@dataclass(frozen=True, slots=True)
class Factor:
    """One of the eight factors, with why in words."""

    name: str
    level: Level
    words: str


EFFECT_LEVELS: Final[Mapping[EffectKind, Level]] = MappingProxyType(
    {
        EffectKind.read: Level.low,
        EffectKind.search: Level.low,
        EffectKind.write: Level.low,
        EffectKind.delete: Level.medium,
        EffectKind.execute: Level.medium,
        EffectKind.install: Level.high,
        EffectKind.network: Level.high,
        EffectKind.git_history: Level.high,
        EffectKind.publish: Level.high,
        EffectKind.secret_read: Level.high,
        EffectKind.memory_write: Level.medium,
        EffectKind.configure: Level.high,
        EffectKind.message: Level.high,
    }
)

CLASS_LEVELS: Final[Mapping[PathClass, Level]] = MappingProxyType(
    {
        PathClass.ordinary: Level.low,
        PathClass.runs_by_itself: Level.medium,
        PathClass.sensitive: Level.high,
        PathClass.outside: Level.high,
        PathClass.never: Level.high,
    }
)


def risk_factors(request: Request, effects: tuple[Effect, ...], context: Context, granted: bool) -> tuple[Factor, ...]:
    """The eight factors. `granted`: a grant in force answers for this call."""
    return (
        _effect(request, effects),
        _scope(request, effects),
        _reversibility(request, effects),
        _sensitivity(request, effects),
        _destination(request, effects),
        _intent(request, effects),
        _sandbox(request, effects, context),
        _history(request, effects, granted),
    )


def risk_level(factors: Iterable[Factor]) -> Level:
    """The highest factor; four medium ones together are high."""
    levels = [factor.level for factor in factors]
    many = sum(level >= Level.medium for level in levels) >= MEDIUMS_THAT_MAKE_HIGH
    return Level.high if many else max(levels, default=Level.low)


def _history(request: Request, effects: tuple[Effect, ...], granted: bool) -> Factor:
    if granted:
        return Factor("history", Level.low, "a grant of yours covers it")
    matters = any(_effect_level(request, effect) > Level.low for effect in effects)
    return Factor("history", Level.medium if matters else Level.low, "no grant of yours covers it")


def _effect_level(request: Request, effect: Effect) -> Level:
    """A command that is known to do no more than its other effects say is no risk beside them."""
    if effect.kind is EffectKind.execute and request.only_looks:
        return Level.low
    return EFFECT_LEVELS[effect.kind]


def _worst(name: str, found: Iterable[tuple[Level, str]], otherwise: str) -> Factor:
    level, words = max(found, key=lambda one: one[0], default=(Level.low, otherwise))
    return Factor(name, level, words)


def _effect(request: Request, effects: tuple[Effect, ...]) -> Factor:
    found = [(Level.high, "it declares an effect nobody knows")] if request.unknown else []
    found += [(_effect_level(request, effect), f"it would {VERBS[effect.kind].rstrip(':')}") for effect in effects]
    return _worst("effect", found, "no effect")


def _scope(request: Request, effects: tuple[Effect, ...]) -> Factor:
    totals = {kind: sum(one.kind is kind for one in effects) for kind in {one.kind for one in effects}}
    found = []
    for effect in effects:
        if subject_of(request.tool, effect, None, totals[effect.kind]).mass and _changes(effect):
            found.append((Level.medium, "many files at once"))
        if effect.kind in PATH_KINDS and effect.fact("from") is None:
            found += [(_class_level(effect, mark), escape_display(mark.words)) for mark in marks(effect.target)]
    return _worst("scope", found, "only what it names")


def _class_level(effect: Effect, mark: Mark) -> Level:
    """Reading what runs by itself, or a repository's store, is reading; changing it is more."""
    plain = mark.cls in {PathClass.runs_by_itself, PathClass.never} and not _changes(effect)
    return Level.low if plain else CLASS_LEVELS[mark.cls]


def _lies_outside(effect: Effect) -> bool:
    return any(mark.cls is PathClass.outside for mark in marks(effect.target))


def _changes(effect: Effect) -> bool:
    return effect.kind in {EffectKind.write, EffectKind.delete}


def _reversibility(request: Request, effects: tuple[Effect, ...]) -> Factor:
    gone = next((effect for effect in effects if effect.kind in OUTGOING_KINDS), None)
    if not request.reversible:
        return Factor("reversibility", Level.high, "it can't be undone")
    if gone is not None:
        return Factor("reversibility", Level.high, "what has left can't be called back")
    if any(_changes(effect) and _lies_outside(effect) for effect in effects):
        return Factor("reversibility", Level.high, "what lies outside the workspace is no proposal")
    return Factor("reversibility", Level.low, "it stays a proposal until you accept it")


def _sensitivity(request: Request, effects: tuple[Effect, ...]) -> Factor:
    leaves = any(effect.kind in OUTGOING_KINDS for effect in effects)
    if any(_names_secret(effect) for effect in effects):
        return Factor("sensitivity", Level.high, "what it names usually holds secrets")
    if request.leaving.readers is None:
        return Factor("sensitivity", Level.low, "nothing confidential has been read")
    return Factor("sensitivity", Level.high if leaves else Level.medium, "confidential data has been read")


def _names_secret(effect: Effect) -> bool:
    if effect.kind is EffectKind.secret_read:
        return True
    is_path = effect.kind in PATH_KINDS and effect.fact("from") is None
    return is_path and any(mark.cls is PathClass.sensitive for mark in marks(effect.target))


def _destination(request: Request, effects: tuple[Effect, ...]) -> Factor:
    found = [
        (Level.high, f"it goes to {escape_display(destination_host(effect))}")
        for effect in effects
        if effect.kind in OUTGOING_KINDS
    ]
    if request.sandbox is not None and request.sandbox.network and runs_program(effects):
        found.append((Level.medium, "the sandbox leaves the network open"))
    return _worst("destination", found, "nothing leaves this machine")


def _intent(request: Request, effects: tuple[Effect, ...]) -> Factor:
    sink = any(effect.kind in SINK_KINDS for effect in effects)
    chosen = {
        Integrity.USER: (Level.low, "only your words led here"),
        Integrity.WORKSPACE: (Level.low, "the project's own text may have led here, too"),
        Integrity.UNTRUSTED: (Level.high if sink else Level.medium, "untrusted text may have chosen the arguments"),
    }[request.label.integrity]
    absent = [(Level.medium, "nothing you wrote for this goal asks for it")] if request.intent == "absent" else []
    return _worst("intent", [*absent, chosen], "")


def _sandbox(request: Request, effects: tuple[Effect, ...], context: Context) -> Factor:
    if not runs_program(effects):
        return Factor("sandbox", Level.low, "no program is started")
    strength = 0 if request.sandbox is None else request.sandbox.strength
    level = trust_in_force(context.trust_level, request.label.integrity, context.worktree)
    words = f"it would run in {strength_words(strength)}"
    if strength < minimum_strength(level):
        return Factor("sandbox", Level.high, f"{words}, less than {level} code needs")
    return Factor("sandbox", Level.medium if strength <= STRENGTH_PROCESS else Level.low, words)
