"""Taking a planned command line apart, with what this machine says of it.

Purpose: have shell text parsed, programs looked for and paths followed, so that policy judges facts.
Invariant: what could not be looked at is not said, and policy takes it for a doubt.
Must never: decide whether a doubt matters.
"""

import os
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

SCRATCH: Final = "/tmp"  # noqa: S108 - a place inside the jail, the run's own
OBEY_REPOSITORY: Final = frozenset({"git"})
"""Programs that run what a repository's settings name; where the agent's copy has grown one, they are nobody's."""


async def understand_plan(plan: ToolPlan, hands: Hands, workspace: SessionWorkspace) -> Understood | None:
    """The command line of a plan, taken apart; None where nothing is started in the sandbox."""
    if plan.argv is None or not plan.executor.startswith(SANDBOX):
        return None
    scratch = SCRATCH if Claim.PRIVATE_TMP in hands.available.holds else ""
    known = understand(plan.argv, parse_bash, Inside(hands.root, scratch))
    if not known.only_looks:
        return known
    trusted = await anyio.to_thread.run_sync(_trusted, known.programs, hands)
    paths = [effect.target for effect in known.effects][:PATHS_MAX]
    return with_places(known, trusted, await _leads(paths, workspace))


def _trusted(names: Iterable[str], hands: Hands) -> dict[str, str]:
    if hands.name not in OWN_PROGRAMS_RUNGS:
        return {}
    has_grown = os.path.lexists(os.path.join(hands.place.worktree, ".git"))
    wanted = [name for name in names if not (has_grown and name in OBEY_REPOSITORY)]
    return find_trusted(wanted, (hands.place.root, hands.place.worktree, *hands.place.dependency_folders))


async def _leads(paths: Iterable[str], workspace: SessionWorkspace) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for path in paths:
        try:
            found[path] = path if path == "." else await workspace.resolve(path)
        except GloveportError:
            found[path] = None
    return found
