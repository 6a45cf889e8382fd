"""The worktree after the machine went down.

Purpose: bring the worktree back to what is recorded: the base, and over it every change that was proposed.
Invariant: nothing of a worktree is synced while it is worked in, so after another boot each of its files may be an old
one, empty or half; the base and the contents of all proposals are on disk.
Must never: touch the user's folder, or take a file that the power loss left behind for a change of the agent's.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.ids import Sha256
from gloveport.server.edit.merge import merge_texts
from gloveport.server.workspace.look import Look
from gloveport.server.workspace.plan import Plan, Step
from gloveport.server.workspace.proposal import settled_mode
from gloveport.server.workspace.state import FileState, WorkspaceState
from gloveport.server.workspace.store import ContentStore


@dataclass(frozen=True, slots=True)
class Expected:
    """A proposal as it was recorded: the base it was made against (None: no file), and the result."""

    base_digest: Sha256 | None
    result: FileState | None


def make_places(state: WorkspaceState, look: Look) -> None:
    """The folders where installed dependencies are shown are there."""
    for path in state.snapshot.dependency_folders:
        with suppress(OSError):
            os.mkdir(path, 0o700, dir_fd=look.tree.fd)


def plan_mending(state: WorkspaceState, look: Look, store: ContentStore, expected: Mapping[str, Expected]) -> Plan:
    """The steps from what lies in the worktree to what is recorded. Raises WorkspaceError."""
    current = look.current(state)
    steps: list[Step] = []
    for path in sorted(state.base.keys() | current.keys() | expected.keys()):
        if path in look.unknown:
            continue
        found, base = current.get(path), state.base.get(path)
        wanted = _wanted(base, found, expected.get(path), store)
        settled = settled_mode(base, found) if base is not None and found is not None else found
        if not _same(settled, wanted):
            steps.append(Step("worktree", path, found, wanted))
    return Plan("refresh", tuple(steps), (), ())


def _wanted(
    base: FileState | None, found: FileState | None, record: Expected | None, store: ContentStore
) -> FileState | None:
    if record is None:
        return base
    if record.base_digest == (None if base is None else base.digest):
        if record.result is None or store.has(record.result.digest):
            return record.result
        return base
    # The base has moved on since: content that is known whole may stay what it is, but for the former base itself,
    # which nobody wrote: it is what the power loss brought back.
    if found is not None and found.digest == record.base_digest:
        return _brought_on(base, record, store)
    return found if found is not None and store.has(found.digest) else base


def _brought_on(base: FileState | None, record: Expected, store: ContentStore) -> FileState | None:
    """The recorded proposal on the base of today; the base alone where they meet."""
    former, result = record.base_digest, record.result
    if base is None or result is None or former is None or {base.kind, result.kind} != {"file"}:
        return base
    try:
        sides = [store.get(each) for each in (former, result.digest, base.digest)]
        merged = merge_texts(sides[0], sides[1], sides[2], path="")
    except GloveportError:
        return base
    return replace(result, digest=store.put(merged))


def _same(one: FileState | None, two: FileState | None) -> bool:
    if one is None or two is None:
        return one is two
    return (one.kind, one.digest, one.runnable) == (two.kind, two.digest, two.runnable)
