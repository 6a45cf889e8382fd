"""The approval card.

Purpose: everything a person must see before answering, and exactly what each answer would grant, as plain JSON.
Invariant: the command is whole; every text meant for a person is escaped; the same call in the same circumstances gives
the same card and the same digest.
Must never: hold a time, cut a command or a list, or offer what `offers` does not.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from gloveport.protocol.ids import Sha256
from gloveport.server.policy.capability import Scope
from gloveport.server.policy.decide import Decision
from gloveport.server.policy.display import argv_text, command_display, escape_display, hidden_characters
from gloveport.server.policy.effects import OUTGOING_KINDS, PATH_KINDS, Effect, EffectKind
from gloveport.server.policy.findings import KERNEL
from gloveport.server.policy.labels import Integrity
from gloveport.server.policy.offers import LIFETIME_S, Offer, suggest
from gloveport.server.policy.origins import Run, origins_of, runs_of
from gloveport.server.policy.protected import marks
from gloveport.server.policy.protected_table import PathClass
from gloveport.server.policy.request import TEST_TOOL, Context, Leaving, Request, Sending
from gloveport.server.policy.rung import STRENGTH_PROCESS, SandboxFacts, TrustLevel, strength_words
from gloveport.server.policy.words import effect_words

CARD_VERSION: Final = 1
SHOWN_HASH_CHARACTERS: Final = 16
EGRESS_LIST: Final = "egress_list"
"""The claim of a rung that lets single hosts through and keeps the others out."""

QUESTIONS: Final[Mapping[EffectKind, str]] = MappingProxyType(
    {
        EffectKind.configure: "Change this setting?",
        EffectKind.publish: "Publish this?",
        EffectKind.message: "Send this message?",
        EffectKind.network: "Let this reach the network?",
        EffectKind.git_history: "Rewrite history?",
        EffectKind.secret_read: "Read this secret?",
        EffectKind.install: "Install this?",
        EffectKind.delete: "Delete this?",
        EffectKind.memory_write: "Remember this for later sessions?",
        EffectKind.execute: "Run this command?",
        EffectKind.write: "Write this file?",
        EffectKind.read: "Read this file?",
        EffectKind.search: "Search here?",
    }
)
"""The question of a card by the gravest effect that is asked about, gravest first."""

_INDENTED: Final = re.compile(r"([ +-]?[ \t]{0,64})(.*)", re.DOTALL)

_HELD_BACK: Final = frozenset({f"{KERNEL}:confidential", f"{KERNEL}:could-carry"})
"""What says that a payload may hold what its place may not read."""
_BEGINS: Final = re.compile(r"( {0,64})(.*)", re.DOTALL)

_INTEGRITY_WORDS: Final[Mapping[Integrity, str]] = MappingProxyType(
    {
        Integrity.USER: "Only your own words led to these arguments.",
        Integrity.WORKSPACE: "Text of this project was read before these arguments were chosen.",
        Integrity.UNTRUSTED: "Untrusted text was read before these arguments were chosen, and may have chosen them.",
    }
)


def build_card(
    request: Request, decision: Decision, context: Context, *, summary: str = "", diff: str = ""
) -> dict[str, Any]:
    """The card of a call that is asked about. `summary` is the tool's own line on the call, `diff` what it changes."""
    offers, refused = suggest(request, decision, context)
    return {
        "version": CARD_VERSION,
        "title": _question(request, decision),
        "summary": escape_display(summary),
        "tool": escape_display(request.tool),
        "agent": escape_display(context.agent),
        "command": _command(request),
        "diff": [_diff_line(line) for line in diff.splitlines()],
        "effects": [_effect(effect) for effect in decision.effects],
        "unknown_effects": [escape_display(one) for one in request.unknown],
        "destinations": sorted(
            {escape_display(effect.target) for effect in decision.effects if effect.kind in OUTGOING_KINDS}
        ),
        "files": [{"path": escape_display(path), "sha256": digest} for path, digest in request.file_digests],
        "sandbox": _sandbox(request.sandbox, 0 if decision.need is None else decision.need.strength_min),
        "notes": [*_notes(request, decision), *_lasting_notes(offers)],
        "provenance": _provenance(request, context),
        "sends": _sends(request.sending),
        "release": _release(request),
        "intent": request.intent,
        "reversible": request.reversible,
        "risk": decision.risk,
        "factors": [{"name": one.name, "level": one.level.name, "words": one.words} for one in decision.factors],
        "reason": decision.reason,
        "rule_ids": list(decision.rule_ids),
        "rules_hash": decision.rules_hash,
        "options": [_option(offer) for offer in offers],
        "refused_scopes": [{"scope": str(one.scope), "reason": one.reason} for one in refused],
        "binding": _binding(request, context),
    }


def card_digest(card: Mapping[str, Any]) -> Sha256:
    """SHA-256 of the card as canonical JSON (sorted keys, no spaces, ASCII)."""
    text = json.dumps(card, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return Sha256(hashlib.sha256(text.encode()).hexdigest())


def _question(request: Request, decision: Decision) -> str:
    asked = () if decision.need is None else decision.need.effects
    kinds = {effect.kind for effect in asked or decision.effects}
    gravest = next((kind for kind in QUESTIONS if kind in kinds), None)
    if gravest is None:
        return f"Let {escape_display(request.tool)} do this?"
    if gravest is EffectKind.execute and request.tool == TEST_TOOL:
        return "Run the tests?"
    if gravest is EffectKind.delete and request.argv is not None:
        return "Run this command? It deletes files."
    if gravest is EffectKind.network and request.payload is not None and request.argv is None:
        return "Release this payload once?" if _HELD_BACK & set(decision.rule_ids) else "Send this request?"
    return QUESTIONS[gravest]


def _command(request: Request) -> dict[str, Any] | None:
    if request.argv is None:
        return None
    return {
        "text": command_display(request.argv),
        "words": [escape_display(word) for word in request.argv],
        "hidden_characters": hidden_characters(argv_text(request.argv)),
        "cwd": escape_display(request.cwd),
        "environment": [[escape_display(name), escape_display(value)] for name, value in request.environment],
        "shell": False,
    }


def _diff_line(line: str) -> str:
    """A line of a diff: its mark and indentation as they are, the rest with nothing hidden."""
    head, rest = _INDENTED.fullmatch(line).groups()  # type: ignore[union-attr]  # - it fits every line
    return f"{head}{escape_display(rest)}"


def _effect(effect: Effect) -> dict[str, Any]:
    is_path = effect.kind in PATH_KINDS and effect.fact("from") is None
    notes = [mark.words for mark in marks(effect.target) if mark.cls is not PathClass.ordinary] if is_path else []
    return {
        "kind": str(effect.kind),
        "target": escape_display(effect.target),
        "words": effect_words(effect),
        "notes": [escape_display(note) for note in notes],
    }


def _sandbox(facts: SandboxFacts | None, needed: int) -> dict[str, Any] | None:
    if facts is None:
        return None
    return {
        "name": facts.name,
        "strength": facts.strength,
        "strength_words": strength_words(facts.strength),
        "strength_needed": needed,
        "needed_words": strength_words(needed),
        "network": facts.network,
        "holds": list(facts.holds),
        "does_not_hold": list(facts.does_not_hold),
        "statement": facts.statement,
    }


def _notes(request: Request, decision: Decision) -> Iterator[str]:
    """What a person should know beside the effects: what will not work, and what the sandbox does not hold."""
    sandbox, asked = request.sandbox, {effect.kind for effect in decision.effects}
    if request.unbound:
        names = ", ".join(escape_display(path) for path in request.unbound)
        yield f"What these hold can't be told, so the answer isn't bound to it, and none lasts: {names}."
    if sandbox is None:
        return
    places = [one for one in decision.effects if one.kind is EffectKind.network and one.fact("from") is None]
    if not sandbox.network and places and EGRESS_LIST in sandbox.holds:
        yield "Of all places only those named here are reached; the rest is refused and named."
    elif not sandbox.network and asked & (OUTGOING_KINDS | {EffectKind.install}):
        yield "The sandbox has no network: what reaches out from it will fail, allowed or not."
    if sandbox.network:
        yield "The sandbox leaves the network open: the program can reach any host."
    if sandbox.host:
        yield f"It runs on another machine, {escape_display(sandbox.host)}: the copy of the project is sent there."
    if sandbox.strength <= STRENGTH_PROCESS:
        yield "Code that runs here can act as you; the sandbox guards against accidents only."


def _lasting_notes(offers: tuple[Offer, ...]) -> Iterator[str]:
    """What a right to run that lasts means beside its sentence."""
    if any(offer.scope is not Scope.once and EffectKind.execute in offer.capability.kinds for offer in offers):
        yield "A right that lasts also holds when files that the program runs or reads have changed."


def _release(request: Request) -> dict[str, Any] | None:
    """What an answer for this call alone releases; null where what leaves is not known to the byte."""
    leaving = request.payload
    if leaving is None:
        return None
    return {
        "effect": leaving.effect,
        "scheme": leaving.scheme,
        "host": leaving.host,
        "port": leaving.port,
        "sha256": leaving.sha256,
        "bytes": leaving.size,
        "words": _release_words(leaving),
        "label": request.leaving.to_plain(),
    }


def _release_words(leaving: Leaving) -> str:
    place = escape_display(f"{leaving.scheme}://{leaving.host}:{leaving.port}")
    return (
        f"Allowed once, exactly what is shown goes to {place}: {leaving.size} bytes, SHA-256 "
        f"{leaving.sha256[:SHOWN_HASH_CHARACTERS]}…; no redirect is followed."
    )


def _sends(sending: Sending | None) -> dict[str, Any] | None:
    """What leaves, whole: its body line by line, in runs that say in which text shown before they also stand.

    `sources` are these texts, `bytes` those of the body in UTF-8; `scan` is null where nobody looked for secrets.
    """
    if sending is None:
        return None
    lines, told = runs_of(sending.body, sending.told)
    return {
        "head": [escape_display(line) for line in sending.head],
        "lines": [[{"text": _run_text(run, at), "source": run.told} for at, run in enumerate(line)] for line in lines],
        "bytes": len(sending.body.encode()),
        "hidden_characters": hidden_characters("".join(sending.body.split("\n"))),
        "scan": "none_found" if sending.is_scanned else None,
        "sources": [{"kind": one.kind, "name": escape_display(one.name)} for one in told],
    }


def _run_text(run: Run, at: int) -> str:
    """A run with nothing hidden; what a line is indented by stays as it is."""
    head, rest = _BEGINS.fullmatch(run.text).groups()  # type: ignore[union-attr]  # - it fits every run
    return f"{head}{escape_display(rest)}" if at == 0 else escape_display(run.text)


def _provenance(request: Request, context: Context) -> dict[str, Any]:
    """Of all that could leave with the call; `origins` are what its arguments may come from."""
    label, sources = request.leaving, request.sources
    is_known = context.trust_level in (TrustLevel.trusted, TrustLevel.restricted)
    origins = origins_of(sources, workspace=Integrity.WORKSPACE if is_known else Integrity.UNTRUSTED)
    return {
        "origins": origins,
        "origins_left_out": len(sources.provenance) - len(origins),
        "integrity": label.integrity.name.lower(),
        "words": _INTEGRITY_WORDS[label.integrity],
        "confidential": label.readers is not None,
        "readers": None if label.readers is None else [escape_display(one) for one in sorted(label.readers)],
        "sources": [escape_display(one) for one in label.provenance],
    }


def _option(offer: Offer) -> dict[str, Any]:
    return {
        "scope": str(offer.scope),
        "sentence": offer.sentence,
        "uses": offer.uses,
        "lifetime_s": LIFETIME_S[offer.scope],
        "capability": offer.capability.to_plain(),
        "bound": offer.bound.to_plain(),
    }


def _binding(request: Request, context: Context) -> dict[str, Any]:
    """Whose card it is: what every grant from it is bound to."""
    return {
        "call_id": request.call_id,
        "workspace_id": context.workspace_id,
        "session_id": context.session_id,
        "turn_id": context.turn_id,
        "agent": context.agent,
        "goal_revision": request.goal_revision,
        "trust_generation": context.trust_generation,
    }
