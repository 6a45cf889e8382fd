"""From what a tool declares to what policy judges.

Purpose: build the request from a tool's plan, in plain values, with what its command line is known to do beside.
Invariant: a kind nobody knows is kept as unknown and asked about; of several labels the join counts, and a missing one
is the worst.
Must never: drop or rename a declared effect.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, Protocol

from gloveport.protocol.ids import CallId, Sha256
from gloveport.server.policy.effects import OUTGOING_KINDS, Effect, EffectKind
from gloveport.server.policy.labels import RecordedLabel, join_all, label_from_record
from gloveport.server.policy.request import Intent, Request, effects_of
from gloveport.server.policy.rung import SandboxFacts
from gloveport.server.policy.shell.understood import Understood

_KINDS: Final = MappingProxyType({str(kind): kind for kind in EffectKind})


class DeclaredEffect(Protocol):
    """An effect as a tool declares it (the journal's `EffectRecord` is one)."""

    @property
    def kind(self) -> str:
        """A name of `EffectKind`; any other name is an unknown effect."""

    @property
    def target(self) -> str:
        """A path relative to the workspace, a displayed command, or `host:port`."""


def carries_words_alone(effects: Sequence[DeclaredEffect], argv: Sequence[str] | None) -> bool:
    """True if a call starts nothing of the model's, reads nothing and leaves nothing here: all of it are its arguments.

    What stands beside it in the same answer of the model's cannot have led to these, whatever it brought meanwhile.
    """
    return argv is None and bool(effects) and all(_KINDS.get(one.kind) in OUTGOING_KINDS for one in effects)


def request_from_plan(
    *,
    call_id: str,
    tool: str,
    effects: Sequence[DeclaredEffect],
    labels: Iterable[RecordedLabel | None],
    arguments_digest: str,
    goal_revision: int,
    argv: Sequence[str] | None = None,
    cwd: str = "",
    environment: Sequence[tuple[str, str]] = (),
    file_digests: Sequence[tuple[str, str]] = (),
    unbound: Sequence[str] = (),
    reversible: bool = True,
    sandbox: SandboxFacts | None = None,
    intent: Intent = "implied",
    sends: str = "",
    understood: Understood | None = None,
) -> Request:
    """The request of one planned call. `labels`: of the model's context and of the plan; they are joined.

    `sends`: what leaves, in words.
    """
    words = None if argv is None else tuple(argv)
    data = (("data", sends),) if sends else ()
    known = [
        Effect(kind, one.target, data if kind in OUTGOING_KINDS else ())
        for one in effects
        if (kind := _KINDS.get(one.kind)) is not None
    ]
    request = Request(
        call_id=CallId(call_id),
        tool=tool,
        effects=tuple(known),
        understood=understood,
        unknown=tuple(sorted({f"{one.kind}:{one.target}" for one in effects if one.kind not in _KINDS})),
        label=join_all(label_from_record(label) for label in labels),
        arguments_digest=Sha256(arguments_digest),
        goal_revision=goal_revision,
        intent=intent,
        reversible=reversible,
        argv=words,
        cwd=cwd or ".",
        environment=tuple(sorted(environment)),
        file_digests=tuple(sorted((path, Sha256(digest)) for path, digest in file_digests)),
        unbound=tuple(sorted(unbound)),
        sandbox=sandbox,
    )
    return replace(request, effects=effects_of(request))
