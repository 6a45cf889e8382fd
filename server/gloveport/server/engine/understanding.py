"""Taking a planned command line apart, with what this machine says of it.

Purpose: have shell text parsed, programs looked for and paths followed, so that policy judges facts.
Invariant: what could not be looked at is not said, and policy takes it for a doubt.
Must never: decide whether a doubt matters.
"""

from collections.abc import Iterable
from typing import Final

import anyio.to_thread

from gloveport.protocol.errors import GloveportError
from gloveport.sandbox.contract import Claim
from gloveport.sandbox.programs import OWN_PROGRAMS_RUNGS, find_trusted
from gloveport.server.engine.hands import SANDBOX, Hands
from gloveport.server.parsing.bash import parse_bash
from gloveport.server.policy.shell.understood import PATHS_MAX, Inside, Understood, understand, with_places
from gloveport.server.tools.contract import ToolPlan
from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.repository import runs_nothing

SCRATCH: Final = "/tmp"  # noqa: S108 - a place inside the jail, the run's own
OBEY_REPOSITORY: Final = frozenset({"git"})
"""Programs that run what a repository's settings name; with settings that were not made for the session, nobody's."""


async def understand_plan(plan: ToolPlan, hands: Hands, workspace: SessionWorkspace) -> Understood | None:
    """The command line of a plan, taken apart; None where nothing is started in the sandbox."""
    if plan.argv is None or not plan.executor.startswith(SANDBOX):
        return None
    scratch = SCRATCH if Claim.PRIVATE_TMP in hands.available.holds else ""
    known = await anyio.to_thread.run_sync(understand, plan.argv, parse_bash, Inside(hands.root, scratch))
    if not known.only_looks:
        return known
    trusted = await anyio.to_thread.run_sync(_trusted, known.programs, hands, workspace)
    paths = [effect.target for effect in known.effects][:PATHS_MAX]
    return with_places(known, trusted, await _leads(paths, workspace))


def _trusted(names: Iterable[str], hands: Hands, workspace: SessionWorkspace) -> dict[str, str]:
    if hands.name not in OWN_PROGRAMS_RUNGS:
        return {}
    is_plain = runs_nothing(workspace.session_dir, workspace.worktree)
    wanted = [name for name in names if is_plain or name not in OBEY_REPOSITORY]
    return find_trusted(wanted, (hands.place.root, hands.place.worktree, *hands.place.dependency_folders))


async def _leads(paths: Iterable[str], workspace: SessionWorkspace) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for path in paths:
        try:
            found[path] = path if path == "." else await workspace.resolve(path)
        except GloveportError:
            found[path] = None
    return found
