"""Effects in words.

Purpose: one way of saying what a call does, for cards, grants and explanations.
Invariant: targets are whole and escaped; each kind has its own verb.
Must never: judge.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from gloveport.server.policy.display import escape_display
from gloveport.server.policy.effects import Effect, EffectKind

VERBS: Final[Mapping[EffectKind, str]] = MappingProxyType(
    {
        EffectKind.read: "read",
        EffectKind.search: "search in",
        EffectKind.write: "write",
        EffectKind.delete: "delete",
        EffectKind.execute: "run",
        EffectKind.install: "install what others wrote:",
        EffectKind.network: "reach",
        EffectKind.git_history: "rewrite history:",
        EffectKind.publish: "publish:",
        EffectKind.secret_read: "read the secret",
        EffectKind.memory_write: "remember for later sessions:",
        EffectKind.configure: "change the setting",
        EffectKind.message: "send a message to",
    }
)


def effect_words(effect: Effect) -> str:
    """One effect as a phrase: "run `pytest -q`"."""
    by_command = effect.kind is EffectKind.delete and effect.fact("from") is not None
    verb = "delete files by" if by_command else VERBS[effect.kind]
    phrase = f"{verb} `{escape_display(effect.target)}`"
    count = effect.fact("count")
    more = [f"{escape_display(count)} files"] if count is not None else []
    more += ["with everything in it"] if effect.fact("recursive") == "true" else []
    data = effect.fact("data")
    more += [f"sending {escape_display(data)}"] if data is not None else []
    return f"{phrase} ({', '.join(more)})" if more else phrase


def key_words(key: str) -> str:
    """The phrase of an effect's key (`kind:target`); a key of no known kind is shown as it is."""
    kind, _, target = key.partition(":")
    known = next((one for one in EffectKind if one == kind), None)
    return f"`{escape_display(key)}`" if known is None else effect_words(Effect(known, target))


def listed(phrases: Iterable[str]) -> str:
    """Phrases in one sentence, separated by semicolons."""
    return "; ".join(phrases)
