"""What the user may answer to a card, from the narrowest.

Purpose: name the grants that would answer this call: this call once, then lasting ones that say no more than was shown.
Invariant: every offer answers the call it was made for and the next identical one; none is overbroad or longer than the
rules let it be; the first offer holds for one call.
Must never: offer a lasting grant for what is irreversible, sensitive or sent out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gloveport.protocol.ids import ApprovalId, GrantId
from gloveport.server.policy.capability import Capability, Pattern, PatternKind, Scope, overbroad, pattern_words
from gloveport.server.policy.commands import offered_prefix
from gloveport.server.policy.coverage import covering_grant
from gloveport.server.policy.decide import Decision, Need
from gloveport.server.policy.effects import PATH_KINDS
from gloveport.server.policy.grant import Bound, Grant
from gloveport.server.policy.names import path_facts
from gloveport.server.policy.request import Context, Request, request_digest
from gloveport.server.policy.rules.rule import Verdict

OPTIONS_MAX: Final = 32
MINUTE_S: Final = 60
LIFETIME_S: Final[Mapping[Scope, int]] = MappingProxyType(
    {
        Scope.once: 10 * MINUTE_S,
        Scope.turn: 8 * 60 * MINUTE_S,
        Scope.session: 8 * 60 * MINUTE_S,
        Scope.workspace: 30 * 24 * 60 * MINUTE_S,
    }
)
"""How long a grant lives at most, by its scope."""

SCOPE_WORDS: Final[Mapping[Scope, str]] = MappingProxyType(
    {
        Scope.once: "once, within 10 minutes",
        Scope.turn: "until this turn ends",
        Scope.session: "in this session, for at most 8 hours",
        Scope.workspace: "in this workspace, for at most 30 days",
    }
)


@dataclass(frozen=True, slots=True)
class Offer:
    """A grant that would be issued, and its sentence."""

    scope: Scope
    capability: Capability
    bound: Bound
    uses: int | None
    sentence: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A scope that is not offered, and why."""

    scope: Scope
    reason: str


def suggest(request: Request, decision: Decision, context: Context) -> tuple[tuple[Offer, ...], tuple[Refusal, ...]]:
    """The answers for a call that is asked about, narrowest first, and the scopes that are refused."""
    need = decision.need
    if need is None:
        return (), ()
    offers = [_offer(Scope.once, _this_call(request, decision, need), request)]
    for capability in _lasting(request, need):
        for scope in (Scope.turn, Scope.session, Scope.workspace):
            offer = _offer(scope, capability, request)
            if scope.width <= need.ceiling.width and _would_answer(offer, request, decision, context):
                offers.append(offer)
    offered = {offer.scope for offer in offers}
    narrow = "nothing wider than this call can be named safely"
    refused = tuple(
        Refusal(scope, need.ceiling_reason if scope.width > need.ceiling.width else narrow)
        for scope in Scope
        if scope not in offered
    )
    return tuple(offers[:OPTIONS_MAX]), refused


def sentence_of(capability: Capability, scope: Scope, bound: Bound, uses: int | None = None) -> str:
    """The whole of a grant in one sentence."""
    times = f", at most {uses} times" if uses is not None and scope is not Scope.once else ""
    return f"{pattern_words(capability)}, {SCOPE_WORDS[scope]}{times}{_bound_words(bound)}"


def _bound_words(bound: Bound) -> str:
    words = "" if bound.strength_min == 0 else ", in a sandbox as strong as this one or stronger"
    return words + (", which leaves the network open" if bound.network else "")


def _offer(scope: Scope, capability: Capability, request: Request) -> Offer:
    bound = _bound(scope, capability.pattern.kind, request)
    uses = 1 if scope is Scope.once else None
    return Offer(scope, capability, bound, uses, sentence_of(capability, scope, bound))


def _bound(scope: Scope, kind: PatternKind, request: Request) -> Bound:
    sandbox = request.sandbox
    names_path = kind in {PatternKind.path_exact, PatternKind.path_prefix}
    exact = scope is Scope.once or kind is PatternKind.argv_exact
    return Bound(
        request=request_digest(request) if scope is Scope.once else None,
        files=request.file_digests if exact else None,
        cwd=None if names_path and scope is not Scope.once else request.cwd,
        environment=request.environment,
        strength_min=0 if sandbox is None else sandbox.strength,
        network=sandbox is not None and sandbox.network,
        integrity_max=request.label.integrity,
    )


def _this_call(request: Request, decision: Decision, need: Need) -> Capability:
    effects = need.effects or decision.effects
    value = (*(effect.key for effect in effects), *request.unknown)
    kinds = frozenset(effect.kind for effect in effects)
    return Capability(request.tool, kinds, Pattern(PatternKind.call_exact, value or (f"call:{request.tool}",)))


def _lasting(request: Request, need: Need) -> Iterator[Capability]:
    """Capabilities that name everything asked about, the one that is shown first first; wrong ones are sorted out."""
    kinds = frozenset(effect.kind for effect in need.effects)
    if not kinds:
        return
    classes = {effect.fact("test_class") for effect in need.effects} - {None}
    patterns = [Pattern(PatternKind.test_class, (name,)) for name in sorted(filter(None, classes))]
    if request.argv is not None:
        prefix = offered_prefix(request.argv)
        patterns.append(Pattern(PatternKind.argv_exact, request.argv))
        patterns += [] if prefix is None else [Pattern(PatternKind.argv_prefix, prefix)]
    elif kinds <= PATH_KINDS:
        patterns += _path_patterns(need)
    yield from (Capability(request.tool, kinds, pattern) for pattern in patterns)


def _path_patterns(need: Need) -> Iterator[Pattern]:
    paths = [path_facts(effect.target) for effect in need.effects]
    yield Pattern(PatternKind.path_exact, tuple(dict.fromkeys(path.text for path in paths)))
    folders = [path.exact[:-1] for path in paths]
    common = folders[0]
    while any(folder[: len(common)] != common for folder in folders):
        common = common[:-1]
    if common:
        yield Pattern(PatternKind.path_prefix, ("/".join(common),))


def _would_answer(offer: Offer, request: Request, decision: Decision, context: Context) -> bool:
    """True if a grant of this offer makes the call allowed: what is offered is tried."""
    if overbroad(offer.capability) is not None or decision.need is None:
        return False
    asks = [finding for finding in decision.findings if finding.verdict is Verdict.ask]
    grant = Grant(
        grant_id=GrantId("offer"),
        capability=offer.capability,
        scope=offer.scope,
        workspace_id=context.workspace_id,
        session_id=context.session_id,
        agent=context.agent,
        issued_at=context.now,
        issued_from=ApprovalId("offer"),
        bound=offer.bound,
        turn_id=context.turn_id,
        goal_revision=context.goal_revision if offer.scope is Scope.turn else None,
        trust_generation=context.trust_generation,
    )
    return covering_grant((grant,), request, context, asks, decision.need.ceiling) is not None
