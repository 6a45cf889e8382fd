"""A session whose machine went down.

Purpose: let its worktree be put back to what the journal says before anything looks at it, and tell its people.
Invariant: the worktree is mended before findings are made from it; what was put back is told once.
Must never: write into the user's folder, or hide that a worktree could not be mended.
"""

from typing import Final

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.ids import Sha256
from gloveport.protocol.journal.events import ChangeProposed
from gloveport.server.engine.actor import Actor, is_fatal
from gloveport.server.engine.hands import SANDBOX
from gloveport.server.session.state import SessionState
from gloveport.server.turn.inputs import CallReconciled
from gloveport.server.workspace.mending import Expected
from gloveport.server.workspace.state import FileState

PATHS_TOLD_MAX: Final = 10


async def mend_worktree(actor: Actor) -> str:
    """Put the worktree back after another boot; words for the user, empty when there is nothing to tell."""
    if actor.opened_workspace is None:
        return ""
    try:
        recorded = actor.state.changes.values()
        paths = await actor.workspace.mend({path: each for one in recorded for path, each in _expected(one).items()})
    except GloveportError as error:
        if is_fatal(error):
            raise
        return f"The session's own copy of your files could not be checked: {error.advice}"
    if not paths:
        return ""
    more = f" and {len(paths) - PATHS_TOLD_MAX} more" if len(paths) > PATHS_TOLD_MAX else ""
    named = ", ".join(paths[:PATHS_TOLD_MAX])
    return f"The machine went down; in the session's own copy these were put back to what is recorded: {named}{more}."


def _expected(change: ChangeProposed) -> dict[str, Expected]:
    """What each path of a proposal was and shall be."""
    base = None if change.base_hash is None else Sha256(change.base_hash)
    result = _result(change)
    if change.renamed_from is None:
        return {change.path: Expected(base, result)}
    return {change.renamed_from: Expected(base, None), change.path: Expected(None, result)}


def _result(change: ChangeProposed) -> FileState | None:
    if change.result_hash is None:
        return None
    was_link = change.kind == "symlink" or (change.renamed_from is not None and not change.base_mode)
    mode = change.result_mode or 0
    return FileState("link" if was_link and not mode else "file", Sha256(change.result_hash), mode)


def doubted(found: CallReconciled, state: SessionState) -> CallReconciled:
    """A run that had ended before what it changed was recorded: that was put back, so nobody can build on it."""
    call = state.call(found.call_id)
    ran = call is not None and call.started is not None and call.started.executor.startswith(SANDBOX)
    if not ran or found.finding not in ("succeeded", "failed"):
        return found
    evidence = f"{found.evidence}; the machine went down before what it changed was recorded, and that was put back"
    return CallReconciled(found.call_id, "unknown", evidence)
