"""Whatever is accepted, rejected and undone in whatever order: base plus accepted hunks, byte for byte."""

from pathlib import Path

import anyio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kit.byte_texts import PAIRS
from tests.kit.workspaces import make_tree, propose, quick_folder, read_tree

from gloveport.server.edit.lines import split_lines
from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.plan import Selected
from gloveport.server.workspace.proposal import Proposal

PATHS = ("one.txt", "two/three.txt", "four")
MAYBE = st.one_of(
    PAIRS, st.tuples(st.none(), st.binary(min_size=1, max_size=9)), st.tuples(st.binary(max_size=9), st.none())
)


def spliced(proposal: Proposal, base: bytes, indices: set[int]) -> bytes:
    """An independent oracle: the named hunks' lines put into the base's lines, last first."""
    lines = split_lines(base)
    for index in sorted(indices, reverse=True):
        hunk = proposal.hunks[index]
        lines[hunk.old_start : hunk.old_start + len(hunk.old_lines)] = hunk.new_lines
    return b"".join(lines)


async def decide(workspace: SessionWorkspace, data: st.DataObject) -> None:
    """Random decisions until nothing is pending; after each, both trees are what the oracle says."""
    records = []
    for _ in range(12):
        found = await propose(workspace)
        act = data.draw(st.sampled_from(["accept", "reject", "undo"] if records else ["accept", "reject"]))
        user, ours = read_tree(workspace.root), read_tree(workspace.worktree)
        if act == "undo":
            record, before = records.pop()
            await workspace.apply(await workspace.plan_undo(record))
            assert (read_tree(workspace.root), read_tree(workspace.worktree)) == before
            continue
        if not found:
            return
        proposal = found[data.draw(st.sampled_from(sorted(found)))]
        partial = proposal.kind in ("modify", "rename") and bool(proposal.hunks) and data.draw(st.booleans())
        chosen = set(data.draw(st.lists(st.integers(0, len(proposal.hunks) - 1), min_size=1))) if partial else set()
        digests = tuple(proposal.hunks[index].digest for index in chosen) if partial else None
        selection = [Selected(proposal.change_id, proposal.digest, digests)]
        planning = workspace.plan_accept if act == "accept" else workspace.plan_reject
        records.append(((await workspace.apply(await planning(selection))).record, (user, ours)))
        rest = set(range(len(proposal.hunks))) - chosen
        expect_user, expect_ours = dict(user), dict(ours)
        theirs = user.get(proposal.base_path, (0, b""))[1]
        for path in (proposal.base_path if act == "accept" else proposal.path,) if partial else proposal.paths:
            if act == "accept":
                put(expect_user, ours, path, spliced(proposal, theirs, chosen) if partial else None)
            else:
                put(expect_ours, user, path, spliced(proposal, theirs, rest) if partial else None)
        assert read_tree(workspace.root) == expect_user
        assert read_tree(workspace.worktree) == expect_ours


def put(tree: dict[str, tuple[int, bytes]], other: dict[str, tuple[int, bytes]], path: str, data: bytes | None) -> None:
    """Expect `path` to hold `data`, or when that is None to be as in the other tree."""
    if data is not None:
        tree[path] = (tree[path][0], data)
    elif path in other:
        tree[path] = other[path]
    else:
        tree.pop(path, None)


async def session(folder: Path, pairs: list[tuple[bytes | None, bytes | None]], data: st.DataObject) -> None:
    """One session from the bases to the decisions."""
    root = make_tree(
        folder / "root", {path: old for path, (old, _) in zip(PATHS, pairs, strict=True) if old is not None}
    )
    workspace = await SessionWorkspace.create(root, folder / "session")
    try:
        for path, (old, new) in zip(PATHS, pairs, strict=True):
            if new is not None:
                await workspace.write(path, new)
            elif old is not None:
                await workspace.delete(path)
        await decide(workspace, data)
    finally:
        workspace.close()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(MAYBE, min_size=len(PATHS), max_size=len(PATHS)), st.data())
def test_any_order_of_decisions(pairs: list[tuple[bytes | None, bytes | None]], data: st.DataObject) -> None:
    """Page 40's invariant on real folders; undo restores both trees exactly (A06)."""
    with quick_folder() as folder:
        anyio.run(session, folder, pairs, data)
