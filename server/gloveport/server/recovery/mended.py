"""A session whose machine went down.

Purpose: let its worktree be put back to what the journal says before anything looks at it, and tell its people.
Invariant: the worktree is mended before findings are made from it; what was put back is told once.
Must never: write into the user's folder, or hide that a worktree could not be mended.
"""

from typing import Final

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.ids import Sha256
from gloveport.protocol.journal.events import ChangeProposed, RecoverySummarised
from gloveport.server.engine.actor import Actor, is_fatal
from gloveport.server.workspace.mending import Expected
from gloveport.server.workspace.state import FileState

PATHS_TOLD_MAX: Final = 10
_COUNTS: Final = ("interrupted_requests", "reconciled_calls", "pending_approvals", "unfinished_applies")


async def mend_worktree(actor: Actor) -> str:
    """Put the worktree back after another boot; words for the user, empty when there is nothing to tell."""
    if actor.opened_workspace is None:
        return ""
    try:
        paths = await actor.workspace.mend({one.path: _expected(one) for one in actor.state.changes.values()})
    except GloveportError as error:
        if is_fatal(error):
            raise
        return f"The session's own copy of your files could not be checked: {error.advice}"
    if not paths:
        return ""
    more = f" and {len(paths) - PATHS_TOLD_MAX} more" if len(paths) > PATHS_TOLD_MAX else ""
    named = ", ".join(paths[:PATHS_TOLD_MAX])
    return f"The machine went down; in the session's own copy these were put back to what is recorded: {named}{more}."


def _expected(change: ChangeProposed) -> Expected:
    base = None if change.base_hash is None else Sha256(change.base_hash)
    if change.result_hash is None:
        return Expected(base, None)
    is_link = change.kind == "symlink" and not change.result_mode
    mode = change.result_mode or 0
    return Expected(base, FileState("link" if is_link else "file", Sha256(change.result_hash), mode))


async def tell_mended(actor: Actor, words: str) -> None:
    """Add the words to what the session says of its recovery. Raises GloveportError (NOT_SAVED)."""
    if not words or actor.state.read_only:
        return
    items = [item["fields"] for item in actor.view.items() if item["kind"] == "recovery"]
    before = items[-1] if items else {}
    counts = {name: before.get(name, 0) for name in _COUNTS}
    text = f"{before.get('text', 'The daemon was started again.')} {words}"
    await actor.record((RecoverySummarised(**counts, text=text),))
