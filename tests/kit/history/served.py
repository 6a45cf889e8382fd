"""Commits played through a real daemon, over the wire.

Purpose: one daemon, several clients, one session a commit: the scripted model sends the commit as tool calls (git's
own diff where it can be said, whole files else), cards are allowed, hunks are decided by their digests, and the folder
is compared.
Invariant: what the files should hold is worked out from git's objects and by `git apply`.
Must never: look into the daemon's data.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.kit.daemon import Daemon, request_id, run_turn, send, start_session, trust
from tests.kit.history.oracle import Folder, Place
from tests.kit.history.repository import Changed, Commit, Repository, Side
from tests.kit.workspaces import read_tree

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.change import ChangeDecideParams, ChangeInfo, Selection
from gloveport.server.client.connect import Client
from gloveport.server.edit.lines import split_lines

PATHS_MAX: Final = 12
BYTES_MAX: Final = 400_000
SCRIPTED: Final = 20
"""So many commits in one script."""
AT_ONCE: Final = 8
"""Most of a play is waiting for the disk."""


@dataclass(slots=True)
class Served:
    """What a sample showed."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def fit(commit: Commit) -> bool:
    """True for a commit whose files tools can write: plain UTF-8 text, not too many."""
    return (
        0 < len(commit.changed) <= PATHS_MAX and commit.bytes_total < BYTES_MAX and all(map(_is_plain, commit.changed))
    )


def _is_plain(each: Changed) -> bool:
    sides = [side for side in (each.old, each.new) if side is not None]
    return each.old_path.isascii() and each.new_path.isascii() and all(_is_text(side) for side in sides)


def _is_text(side: Side) -> bool:
    if side.is_link or side.is_submodule or b"\0" in side.data or b"\r" in side.data or side.mode != "100644":
        return False
    try:
        side.data.decode()
    except UnicodeDecodeError:
        return False
    return not side.data.startswith(b"\xef\xbb\xbf")


async def serve(daemon: Daemon, folder: Path, picked: Sequence[tuple[Commit, bytes]], seed: int) -> Served:
    """Play commits (each with git's own patch), `AT_ONCE` sessions beside each other; the daemon is not started yet."""
    served = Served()
    models = []
    for first in range(0, len(picked), SCRIPTED):
        script = folder / f"{first}.json"
        steps: list[dict[str, Any]] = [
            {"when": {"turn": 0, "user_contains": _task(number)}, "calls": _calls(*picked[number], number)}
            for number in range(first, min(first + SCRIPTED, len(picked)))
        ]
        script.write_text(json.dumps({"name": f"commits {first}", "steps": [*steps, {"text": "Done.\n"}]}))
        models.append(f'[[models]]\nprovider = "scripted"\nmodel = "from-{first}"\nscript = "{script}"\n')
    daemon.write_settings("\n".join(models))
    daemon.start()
    waiting = iter(enumerate(picked))

    async def play() -> None:
        async with daemon.client() as client:
            for number, (commit, _) in waiting:
                chance = random.Random(f"{seed}-{commit.name}")
                try:
                    await _serve_one(client, folder / str(number), commit, number, chance, served)
                except (GloveportError, RuntimeError) as error:
                    served.faults.append(f"{commit.name[:12]}: raised {type(error).__name__}: {error}")

    async with asyncio.TaskGroup() as players:
        for _ in range(AT_ONCE):
            players.create_task(play())
    return served


def _task(number: int) -> str:
    return f"Make change {number:06}."


def _calls(commit: Commit, patch: bytes, number: int) -> list[dict[str, Any]]:
    """Every other commit is one diff, the rest whole files."""
    if number % 2 == 0:
        return [{"name": "apply_diff", "arguments": {"diff": patch.decode()}}]
    calls = []
    for each in commit.changed:
        if each.renamed:
            calls.append(("move_file", {"path": each.old_path, "to": each.new_path}))
        if each.new is None:
            calls.append(("delete_file", {"path": each.old_path}))
        elif not each.renamed or each.old is None or each.old.data != each.new.data:
            calls.append(("write_file", {"path": each.new_path, "content": each.new.data.decode()}))
    return [{"name": name, "arguments": arguments} for name, arguments in calls]


async def _serve_one(
    client: Client, folder: Path, commit: Commit, number: int, chance: random.Random, served: Served
) -> None:
    root, wanted = folder / "root", Folder(folder / "wanted")
    for tree in (Folder(root), wanted):
        tree.root.mkdir(parents=True)
        for each in commit.changed:
            if each.old is not None:
                tree.put(each.old_path, each.old)
    await trust(client, root, "trusted")
    session = await start_session(client, root, provider="scripted", model=f"from-{number - number % SCRIPTED}")
    await send(client, session.session_id, _task(number))
    state = await run_turn(client, session.session_id)
    listed = SessionParams(session_id=session.session_id)
    changes = {each.path: each for each in (await client.call("change/list", listed)).changes}
    paths = {each.new_path if each.new is not None else each.old_path for each in commit.changed}
    served.counts["commits"] += 1
    if state != "completed" or changes.keys() - paths or not changes.keys() >= _differing(commit):
        served.faults.append(f"{commit.name[:12]}: {state}; proposed {sorted(changes)}, the commit has {sorted(paths)}")
        return
    by_path = {each.new_path if each.new is not None else each.old_path: each for each in commit.changed}
    for change in chance.sample(list(changes.values()), len(changes)):
        await _decide(client, session.session_id, change, by_path[change.path], wanted, chance, served)
    if read_tree(root) != read_tree(wanted.root):
        served.faults.append(f"{commit.name[:12]}: the folder is not what git makes of it")


def _differing(commit: Commit) -> set[str]:
    return {each.new_path if each.new is not None else each.old_path for each in commit.changed if each.old != each.new}


async def _decide(
    client: Client,
    session_id: str,
    change: ChangeInfo,
    each: Changed,
    wanted: Folder,
    chance: random.Random,
    served: Served,
) -> None:
    """Some hunks in, the rest out; or the whole change one way."""
    whole = change.kind != "modify" or len(change.hunks) < 2
    chosen = change.hunks if whole else tuple(chance.sample(change.hunks, chance.randint(1, len(change.hunks) - 1)))
    action = chance.choice(("accept", "reject")) if whole else "accept"
    digests = None if whole else tuple(hunk.digest for hunk in chosen)
    selection = Selection(change_id=change.change_id, digest=change.digest, hunk_digests=digests)
    params = ChangeDecideParams(client_request_id=request_id(), session_id=session_id, selections=(selection,))
    await client.call("change/accept" if action == "accept" else "change/reject", params)
    served.counts[f"{action}: {change.kind}, {'whole' if whole else 'some hunks'}"] += 1
    if action == "reject":
        return
    if whole:
        if change.renamed_from is not None:
            wanted.put(change.renamed_from, None)
        wanted.put(change.path, each.new)
        return
    assert each.old is not None
    assert each.new is not None
    old, new = split_lines(each.old.data), split_lines(each.new.data)
    places: list[Place] = [
        (
            hunk.old_start,
            old[hunk.old_start : hunk.old_start + hunk.old_count],
            new[hunk.new_start : hunk.new_start + hunk.new_count],
        )
        for hunk in chosen
    ]
    wanted.apply([(change.path, places)])
    served.counts["hunks accepted"] += len(chosen)


def pick(folders: Sequence[Path], count: int, seed: int) -> list[tuple[Commit, bytes]]:
    """So many fit commits, in equal parts from the repositories, with git's own patch of each."""
    picked: list[tuple[Commit, bytes]] = []
    for number, folder in enumerate(folders):
        repository = Repository(folder)
        share = (count - len(picked)) // (len(folders) - number)
        try:
            for name, rows in repository.commits(repository.sample(20 * share, seed)):
                if share <= 0:
                    break
                try:
                    commit = repository.read(name, rows) if rows else Commit(name, ())
                except LookupError:
                    continue
                if fit(commit):
                    picked.append((commit, repository.patch(name)))
                    share -= 1
        finally:
            repository.close()
    return picked
