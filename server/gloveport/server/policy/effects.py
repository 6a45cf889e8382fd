"""What a call does to the world, declared before it runs.

Purpose: the closed vocabulary of effects, and how the outcome of a broken-off call can be found out.
Invariant: a tool declares its effects from its arguments; one policy judges them whatever tool they come from.
Must never: hold a value read from the world; an effect is a claim about what will be done.
"""

from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final


@unique
class EffectKind(StrEnum):
    """Kinds of effect; a kind that is not listed here can't be declared."""

    read = "read"
    search = "search"
    write = "write"
    delete = "delete"
    execute = "execute"
    install = "install"
    network = "network"
    git_history = "git_history"
    publish = "publish"
    secret_read = "secret_read"  # noqa: S105 - an effect's name, not a secret
    memory_write = "memory_write"
    configure = "configure"
    message = "message"


PATH_KINDS: Final = frozenset(
    {EffectKind.read, EffectKind.search, EffectKind.write, EffectKind.delete, EffectKind.secret_read}
)
"""Kinds whose target is a path."""

OUTGOING_KINDS: Final = frozenset({EffectKind.network, EffectKind.publish, EffectKind.message})
"""Kinds by which something leaves this machine and can't be called back."""

SINK_KINDS: Final = OUTGOING_KINDS | {EffectKind.memory_write, EffectKind.configure}
"""Kinds that accept only what the user said: what leaves, what is remembered, what changes the daemon."""

RUNNING_KINDS: Final = frozenset({EffectKind.execute, EffectKind.install})
"""Kinds that start programs and therefore need a sandbox of sufficient strength."""


@unique
class Recovery(StrEnum):
    """How the outcome of a call is found out after a crash."""

    read_only = "read_only"
    idempotent = "idempotent"
    fingerprinted = "fingerprinted"
    probeable = "probeable"
    opaque = "opaque"


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect of one call.

    `target` is a workspace-relative path with `/` (as resolved by the workspace), a displayed argv, or `host:port`.
    `detail` are named facts the tool knows: `count` (files touched), `recursive` ("true"), `test_class` (framework),
    `data` (what leaves, in words).
    """

    kind: EffectKind
    target: str
    detail: tuple[tuple[str, str], ...] = ()

    def fact(self, name: str) -> str | None:
        """The first detail of that name, or None."""
        return next((value for key, value in self.detail if key == name), None)

    @property
    def key(self) -> str:
        """Kind and target in one string; two effects with one key do the same thing."""
        return f"{self.kind}:{self.target}"
