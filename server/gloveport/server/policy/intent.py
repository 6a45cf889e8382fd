"""Whether the user asked for it.

Purpose: compare what a call does with the words the user typed for the present goal.
Invariant: only typed text counts; more words never make an effect less intended; what is not found is absent.
Must never: read anything but the texts it is given, or decide.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from gloveport.server.policy.checks import destination_host
from gloveport.server.policy.effects import OUTGOING_KINDS, PATH_KINDS, Effect, EffectKind
from gloveport.server.policy.names import path_facts
from gloveport.server.policy.request import Intent

TYPED_CHARACTERS_MAX: Final = 1_000_000
NAME_CHARACTERS_MIN: Final = 3

VERBS: Final[Mapping[EffectKind, frozenset[str]]] = MappingProxyType(
    {
        EffectKind.delete: frozenset({"delete", "remove", "drop", "clean", "rm", "unlink"}),
        EffectKind.install: frozenset({"install", "dependency", "dependencies", "upgrade", "pip", "npm"}),
        EffectKind.network: frozenset({"fetch", "download", "clone", "pull", "request", "url", "curl"}),
        EffectKind.git_history: frozenset({"rebase", "squash", "amend", "reset", "history"}),
        EffectKind.publish: frozenset({"publish", "push", "deploy", "release", "upload"}),
        EffectKind.secret_read: frozenset({"secret", "secrets", "credential", "credentials", "key", "token", "env"}),
        EffectKind.memory_write: frozenset({"remember", "memory", "memorise", "memorize"}),
        EffectKind.configure: frozenset({"configure", "setting", "settings", "config"}),
        EffectKind.message: frozenset({"mail", "email", "send", "message", "notify"}),
    }
)
"""Words that name an effect; kinds that are missing here belong to any task."""

_WORD: Final = re.compile(r"[^\W_]+")
_RANK: Final[tuple[Intent, ...]] = ("named", "implied", "absent")


def intent_of(typed: Iterable[str], effects: Sequence[Effect]) -> Intent:
    """The least intended of the effects: its target or kind is named, its kind belongs to any task, or neither."""
    text = "\n".join(typed)[:TYPED_CHARACTERS_MAX].casefold()
    words = frozenset(_WORD.findall(text))
    return max((_one(text, words, effect) for effect in effects), key=_RANK.index, default="implied")


def _one(text: str, words: frozenset[str], effect: Effect) -> Intent:
    if _names_target(text, effect) or words & VERBS.get(effect.kind, frozenset()):
        return "named"
    return "absent" if effect.kind in VERBS else "implied"


def _names_target(text: str, effect: Effect) -> bool:
    """True if the file's or host's name stands in the text as a word of its own."""
    if effect.kind in OUTGOING_KINDS:
        name = destination_host(effect)
    elif effect.kind in PATH_KINDS and effect.fact("from") is None:
        name = (path_facts(effect.target).exact or ("",))[-1].casefold()
    else:
        return False
    found = re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])(?!\.\w)", text)
    return len(name) >= NAME_CHARACTERS_MIN and found is not None
