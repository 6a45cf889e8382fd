"""What was seen of both trees, over a restart.

Purpose: keep beside a session what its snapshot saw of the user's folder and wrote into the worktree, so that the first
look of the next daemon reads only what changed since.
Invariant: it is believed on the same boot of the machine alone; a file that is missing, damaged or from another version
means that nothing was seen, and everything is read.
Must never: fail a snapshot or an opening.
"""

import os
from array import array
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import orjson

from gloveport.protocol.ids import Sha256
from gloveport.server.workspace.ignore import NO_RULES, IgnoreRules
from gloveport.server.workspace.sight import FolderSeen, Seen, Sight
from gloveport.server.workspace.state import FileState
from gloveport.server.workspace.walk import NotCovered

SEEN_NAME: Final = "seen.json"
SEEN_VERSION: Final = 2


def save_seen(session_dir: Path, boot_id: str, worktree: Sight, root: Sight) -> None:
    """Write down what was seen, if the disk and the names allow it; not durable: it is no record."""
    body = {
        "version": SEEN_VERSION,
        "boot_id": boot_id,
        "worktree": [[path, *_out(each.state), *each.stamp, each.at_ns] for path, each in worktree.loose.items()],
        "root": [_folder_out(folder, each) for folder, each in root.folders.items()],
    }
    with suppress(OSError, TypeError):  # a name that is no UTF-8 has no place in it
        raw = orjson.dumps(body)
        fd = os.open(session_dir / SEEN_NAME, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            file.write(raw)


def load_seen(
    session_dir: Path, boot_id: str, base: Mapping[str, FileState], content_folders: frozenset[str]
) -> tuple[Sight, Sight]:
    """What was seen of worktree and root; nothing where that cannot be told. What `base` says too is shared with it."""
    worktree, root = (Sight(content_folders=content_folders) for _ in range(2))
    known = _Known(base)
    try:
        body = orjson.loads((session_dir / SEEN_NAME).read_bytes())
        if (body["version"], body["boot_id"]) != (SEEN_VERSION, boot_id):
            return worktree, root
        for path, kind, digest, mode, *rest in body["worktree"]:
            *stamp, at_ns = map(int, rest)
            name, state = known.entry(path, kind, digest, mode)
            worktree.loose[name] = Seen(tuple(stamp), state, at_ns)
        root.folders = dict(_folders_in(body["root"], known))
    except (OSError, ValueError, KeyError, TypeError):
        return Sight(), Sight()
    return worktree, root


class _Known:
    """Names and states that are in memory already."""

    def __init__(self, base: Mapping[str, FileState]) -> None:
        self._base, self._names = base, {path: path for path in base}

    def entry(self, path: str, kind: Any, digest: str, mode: int) -> tuple[str, FileState]:
        """The name and the state, as one object each where there is one."""
        base = self._base.get(path)
        if base is not None and (base.kind, base.digest, base.mode) == (kind, digest, mode):
            return self._names[path], base
        return self._names.get(path, path), FileState(kind, Sha256(digest), mode)


def _out(state: FileState) -> tuple[str, str, int]:
    return state.kind, state.digest, state.mode


def _folder_out(folder: str, seen: FolderSeen) -> list[object]:
    text = None if seen.rules_text is None else seen.rules_text.decode("latin-1")
    content = [[path, *_out(state)] for path, state in seen.content.items()]
    left_out = [[each.path, each.reason] for each in seen.left_out]
    lists = (seen.below, seen.ruled_out, seen.by_name, left_out, seen.dependencies)
    numbers = (seen.at_ns, seen.bytes_total, seen.settled)
    return [folder, seen.names, seen.stamps.tolist(), text, content, *lists, *numbers, seen.digest.hex()]


def _folders_in(rows: list[list[Any]], known: _Known) -> Iterator[tuple[str, FolderSeen]]:
    """Folders in the order of the walk: those above come first, and each stands under their rules."""
    rules: dict[str, IgnoreRules] = {}
    for folder, names, stamps, text, content, below, ruled_out, by_name, left_out, dependencies, *rest in rows:
        at_ns, size, settled, digest = rest
        above = rules[folder.rpartition("/")[0]] if folder else NO_RULES
        told = None if text is None else text.encode("latin-1")
        rules[folder] = above.within(folder, told)
        yield (
            folder,
            FolderSeen(
                names,
                array("q", stamps),
                at_ns,
                above,
                rules[folder],
                told,
                dict(known.entry(*row) for row in content),
                tuple(below),
                tuple(ruled_out),
                tuple(by_name),
                tuple(NotCovered(*each) for each in left_out),
                tuple(dependencies),
                size,
                settled,
                bytes.fromhex(digest),
            ),
        )
