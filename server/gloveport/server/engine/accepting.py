"""What the rules in force in a session say of its proposals.

Purpose: from pending proposals to the rule that keeps each from being accepted with others, or at all.
Invariant: judged as the rules and the user's links are now; of two names of one file the stricter one counts.
Must never: write, or decide.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

from gloveport.protocol.journal.events import ChangeProposed
from gloveport.protocol.wire.change import FileRule
from gloveport.server.engine.actor import Actor
from gloveport.server.policy.accepting import Touch, rules_about_files, strictest
from gloveport.server.policy.effects import EffectKind
from gloveport.server.policy.rules.rule import Rule, Verdict


def is_made_link(change: ChangeProposed) -> bool:
    """True for a link that is made or changed."""
    return change.kind == "symlink" or change.result_mode == 0


def _ends(change: ChangeProposed) -> Iterable[tuple[EffectKind, str]]:
    yield (EffectKind.delete if change.kind == "delete" else EffectKind.write), change.path
    if change.renamed_from is not None:
        yield EffectKind.delete, change.renamed_from


async def rules_on(actor: Actor, changes: Iterable[ChangeProposed]) -> Mapping[str, Rule]:
    """The rule that speaks of each proposal, by its id; of an ordinary one none. It asks, or it refuses."""
    rules = rules_about_files(actor.room.session_rules.of(actor.state.rules))
    given = tuple(changes)
    if not rules or not given:
        return {}
    workspace = actor.opened_workspace
    paths = tuple({path for change in given for _, path in _ends(change)})
    aliases = {} if workspace is None else await workspace.aliases(paths)
    found = {
        change.change_id: strictest(
            rules,
            [
                Touch(kind, name, is_made_link(change))
                for kind, path in _ends(change)
                for name in (path, *aliases.get(path, ()))
            ],
        )
        for change in given
    }
    return {change_id: rule for change_id, rule in found.items() if rule is not None}


def rule_info(rule: Rule | None) -> FileRule | None:
    """The same as clients are told it."""
    if rule is None:
        return None
    verdict: Literal["ask", "deny"] = "deny" if rule.verdict is Verdict.deny else "ask"
    return FileRule(rule_id=rule.qualified_id, verdict=verdict, words=rule.justification)
