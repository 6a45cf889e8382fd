"""What is asked of every call whatever the rules say.

Purpose: the kernel's own findings: shape, goal, trust, rung, labels, intent, reversibility.
Invariant: a check only ever makes an answer stricter; better trust, a stronger sandbox or a cleaner label never does.
Must never: depend on a rule's text or on a grant.
"""

from collections.abc import Callable, Iterator
from typing import Final

from gloveport.server.policy.capability import Scope
from gloveport.server.policy.commands import asks_each_time, is_empty, is_oversized, loader_variable
from gloveport.server.policy.display import escape_display
from gloveport.server.policy.effects import RUNNING_KINDS, SINK_KINDS, Effect, EffectKind
from gloveport.server.policy.findings import Finding, ask, deny
from gloveport.server.policy.labels import Integrity
from gloveport.server.policy.names import path_facts
from gloveport.server.policy.request import Context, Request
from gloveport.server.policy.rung import (
    STRENGTH_PROCESS,
    TrustLevel,
    minimum_strength,
    strength_words,
    trust_in_force,
)
from gloveport.server.policy.sinks import EFFECT_SINKS, SINKS, accepts_data, accepts_word

EFFECTS_MAX = 4096
CHANGING_KINDS: Final = frozenset({EffectKind.write, EffectKind.delete})
INTENDED_KINDS: Final = SINK_KINDS | {
    EffectKind.delete,
    EffectKind.install,
    EffectKind.git_history,
    EffectKind.secret_read,
}
"""Kinds that are asked about when the user's words of this goal name nothing of the sort."""

Effects = tuple[Effect, ...]
Check = Callable[[Request, Effects, Context], Iterator[Finding]]


def check_findings(request: Request, effects: Effects, context: Context) -> Iterator[Finding]:
    """All findings of all checks."""
    for check in CHECKS:
        yield from check(request, effects, context)


def runs_program(effects: Effects) -> bool:
    """True if the call starts a program, whether or not it says which."""
    return any(effect.kind in RUNNING_KINDS for effect in effects)


def ceiling_caps(request: Request, effects: Effects) -> tuple[tuple[Scope, str], ...]:
    """Scopes beyond which no grant may answer this call, each with the reason."""
    caps = []
    if request.label.integrity is Integrity.UNTRUSTED:
        caps.append((Scope.session, "not for arguments that untrusted text may have chosen"))
    if request.unbound:
        caps.append((Scope.once, "not where a named file can't be bound to what it holds"))
    if runs_program(effects) and request.sandbox is not None and request.sandbox.strength <= STRENGTH_PROCESS:
        caps.append((Scope.session, f"not in {strength_words(request.sandbox.strength)}"))
    return tuple(caps)


def _shape(request: Request, effects: Effects, _context: Context) -> Iterator[Finding]:
    if request.argv is not None and is_empty(request.argv):
        yield deny("empty-command", "There is no command to run.")
    if request.argv is not None and is_oversized(request.argv):
        yield deny("oversized-command", "The command is too long to be shown whole, so nobody can judge it.")
    if len(effects) + len(request.unknown) > EFFECTS_MAX:
        yield deny("too-many-effects", f"The call has more than {EFFECTS_MAX} effects, too many to be judged.")
    if request.argv is not None and path_facts(request.cwd).outside:
        yield deny("folder-outside", f"It would run in {escape_display(request.cwd)}, outside the workspace.")


def _goal(request: Request, _effects: Effects, context: Context) -> Iterator[Finding]:
    if request.goal_revision != context.goal_revision:
        words = f"It belongs to goal {request.goal_revision}; the goal is now {context.goal_revision}."
        yield deny("old-goal", words)


def _known(request: Request, _effects: Effects, context: Context) -> Iterator[Finding]:
    for one in request.unknown:
        yield ask("unknown-effect", f"It declares an effect nobody knows: {escape_display(one)}.")
    if request.tool not in context.builtin_tools:
        words = f"{escape_display(request.tool)} is no tool of ours; what it really does can't be checked."
        yield ask("unknown-tool", words)  # what it does may change under its name, so no answer lasts


def _trust(_request: Request, effects: Effects, context: Context) -> Iterator[Finding]:
    changes = next((effect for effect in effects if effect.kind in CHANGING_KINDS), None)
    if changes is not None and context.trust_level is None:
        words = "You have not yet said how far you trust this workspace."
        yield ask("trust-unset", words, changes, Scope.session)


def _rung(request: Request, effects: Effects, context: Context) -> Iterator[Finding]:
    if not runs_program(effects):
        return
    sandbox = request.sandbox
    if sandbox is None:
        yield deny("no-sandbox", "There is no sandbox to run it in, and nothing runs without one.")
        return
    if sandbox.missing:
        words = f"{sandbox.name} does not work here: {escape_display(sandbox.missing)}"
        yield deny("no-sandbox", f"{words.rstrip('.')}. Nothing ran; see gloveport doctor.")
        return
    chosen = minimum_strength(context.trust_level or TrustLevel.untrusted)
    level = trust_in_force(context.trust_level, request.label.integrity, context.worktree)
    needed = minimum_strength(level)
    if sandbox.strength >= needed:
        return
    place = f"{sandbox.name} is weaker"
    if sandbox.strength >= chosen and sandbox.strength > STRENGTH_PROCESS:
        words = f"Untrusted text has been read; that asks for {strength_words(needed)}, and {place}."
        yield ask("rung", words)
        return
    why = "This workspace" if needed == chosen else "What has been read or written here"
    yield deny("rung", f"{why} counts as {level}, which needs {strength_words(needed)}; {place}. Nothing ran.")


def _command(request: Request, _effects: Effects, _context: Context) -> Iterator[Finding]:
    if request.argv is None:
        return
    each_time = asks_each_time(request.argv)
    if each_time is not None and not request.only_looks:
        yield ask("each-time", f"{escape_display(each_time)}.")
    variable = loader_variable([name for name, _ in request.environment])
    if variable is not None:
        words = f"It sets {escape_display(variable)}, which chooses what is loaded, run or believed."
        yield ask("loader-variable", words)


def _label(request: Request, effects: Effects, _context: Context) -> Iterator[Finding]:
    lent = {destination_host(effect) for effect in effects if effect.kind is EffectKind.publish}
    for effect in effects:
        name = EFFECT_SINKS.get(effect.kind)
        if name is None:
            continue
        sink, target = SINKS[name], destination_host(effect)
        if not accepts_word(request.label, sink):
            yield ask("not-your-word", "Text that you did not type may have chosen what goes there.", effect)
        if not accepts_data(request.label, sink, target, own_account=target in lent):
            yield _leak(request, effect)
        elif not accepts_data(request.carried, sink, target, own_account=target in lent):
            words = "What it could read here is confidential in part, and {} is not among those who may see it."
            yield ask("could-carry", words.format(escape_display(target)), effect)
    open_network = request.sandbox is not None and request.sandbox.network
    if request.leaving.readers is not None and open_network and runs_program(effects):
        yield ask("open-network", "Confidential data has been read, and the program could reach the network.")


def _elsewhere(request: Request, effects: Effects, _context: Context) -> Iterator[Finding]:
    """A sandbox on another machine is a reader of everything that a program there is given."""
    host = "" if request.sandbox is None else request.sandbox.host
    if not host or not runs_program(effects):
        return
    place = escape_display(host)
    may_not = f"{place}, where it would run, may not see it."
    if not request.label.readable_by(host.casefold()):
        yield deny("confidential", f"Confidential data has been read, and {may_not}")
    elif not request.leaving.readable_by(host.casefold()):
        yield deny("confidential", f"The session's copy of the project is confidential in part, and {may_not}")
    words = f"It runs on {place}: the session's copy of the project is sent there, and who runs it can read that."
    yield ask("another-machine", words, ceiling=Scope.session)


def _unseen(request: Request, effects: Effects, _context: Context) -> Iterator[Finding]:
    """What nobody looked through may hold anything, and what was read since may come from it."""
    if not request.unseen:
        return
    words = f"What programs left here was not looked through ({escape_display(', '.join(request.unseen))})"
    sink = next((effect for effect in effects if effect.kind in EFFECT_SINKS), None)
    if sink is not None:
        yield ask("not-looked-through", f"{words}, and something of it could go there.", sink)
    sandbox = request.sandbox
    goes = sandbox is not None and (sandbox.network or sandbox.host) and not request.only_looks
    if sink is None and goes and runs_program(effects):
        yield ask("not-looked-through", f"{words}, and the program could take it out.", ceiling=Scope.session)


def _leak(request: Request, effect: Effect) -> Finding:
    place = escape_display(destination_host(effect))
    if request.argv is not None:
        words = f"Confidential data has been read, and what the program would send to {place} can't be shown."
        return deny("confidential", words, effect)
    return ask("confidential", f"Confidential data has been read, and {place} is not among its readers.", effect)


def _intent(request: Request, effects: Effects, _context: Context) -> Iterator[Finding]:
    matters = next((effect for effect in effects if effect.kind in INTENDED_KINDS), None)
    if request.intent == "absent" and matters is not None:
        yield ask("intent", "Nothing you wrote for this goal asks for it.", matters)
    if not request.reversible:
        yield ask("irreversible", "It can't be undone.")


def destination_host(effect: Effect) -> str:
    """The host of `host:port`, folded; other targets as they are."""
    host, colon, port = effect.target.rpartition(":")
    return (host if colon and port.isdecimal() else effect.target).casefold()


CHECKS: Final[tuple[Check, ...]] = (
    _shape,
    _goal,
    _known,
    _trust,
    _rung,
    _command,
    _label,
    _elsewhere,
    _unseen,
    _intent,
)
