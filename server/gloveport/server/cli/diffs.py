"""Proposals as text: for a person, or as a patch.

Purpose: choose proposals by path, name their hunks, and print them.
Invariant: what is printed as a patch is taken by `git apply` and `patch -p1`; a hunk keeps its name when others go.
Must never: decide anything.
"""

import base64
import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.change import ChangeHunksParams, ChangeInfo, ChangePreviewParams, EndedHunkInfo
from gloveport.protocol.wire.session import SessionInfo
from gloveport.server.cli.link import err, out, placed, plain, say, warn
from gloveport.server.cli.pick import every_session
from gloveport.server.cli.seen import note_shown
from gloveport.server.client.connect import Client

_STYLES: Final = MappingProxyType({"+": "green", "-": "red", "@": "cyan"})
_ID_CHARACTERS_MIN: Final = 4
_WHOLE_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_TOLD_MAX: Final = 5
_WHOLE: Final = frozenset({"create", "delete"})
"""Kinds of which a hunk is the whole file."""
_OWN_LINES_MAX: Final = 20
_CONFLICTED: Final = " (conflicted: you changed these lines too)"
_LINE: Final = re.compile(rb"[^\n]*\n|[^\n]+\Z")
_PATCH_HEADER: Final = re.compile(rb"@@ -(\d+),(\d+) \+\d+,\d+ @@")


async def pending(
    client: Client, session: SessionInfo, paths: Sequence[str] | None, folder: Path
) -> tuple[ChangeInfo, ...]:
    """The pending proposals of these files and folders, or all. Raises GloveportError for a path that has none."""
    changes = (await client.call("change/list", SessionParams(session_id=session.session_id))).changes
    if not paths:
        return changes
    chosen: dict[str, ChangeInfo] = {}
    for path in paths:
        found = _beneath(changes, _names(path, Path(session.root), folder))
        if not found:
            ids = [one.session_id for one in await every_session(client)]
            named = len(path) >= _ID_CHARACTERS_MIN and any(path in one for one in ids)
            hint = f"That is a session: -s {path}" if named else "See gloveport diff."
            raise GloveportError(ErrorCode.CHANGE_UNKNOWN, f"nothing is proposed for {path}", hint=hint)
        chosen |= {change.path: change for change in found}
    return tuple(chosen.values())


def _names(path: str, root: Path, folder: Path) -> Iterator[str]:
    """What a typed path may be in the session: seen from the current folder first, then from the session's root."""
    top = os.path.realpath(root)
    full = os.path.normpath(os.path.join(placed(folder, resolved=True), path))
    if Path(full).is_relative_to(top):
        yield Path(os.path.relpath(full, top)).as_posix()
    if not os.path.isabs(path):
        yield str(PurePosixPath(os.path.normpath(path)))


def below_root(path: str, session: SessionInfo, folder: Path) -> str:
    """A typed path as the session names it."""
    return next(_names(path, Path(session.root), folder), path)


def _beneath(changes: Sequence[ChangeInfo], names: Iterable[str]) -> list[ChangeInfo]:
    for name in names:
        found = [one for one in changes if name == "." or any(_lies(path, name) for path in _ends(one))]
        if found:
            return found
    return []


def _ends(change: ChangeInfo) -> tuple[str, ...]:
    return (change.path,) if change.renamed_from is None else (change.path, change.renamed_from)


def _lies(path: str, name: str) -> bool:
    return path == name or path.startswith(f"{name}/")


def hunk_names(change: ChangeInfo) -> dict[str, str]:
    """The shortest beginning of each hunk's id that no other hunk of the change has, four characters at least."""
    marks = {hunk.hunk_id: hunk.hunk_id.rpartition("-")[2] for hunk in change.hunks}
    names = {}
    for hunk_id, mark in marks.items():
        size = _ID_CHARACTERS_MIN
        while size < len(mark) and sum(other.startswith(mark[:size]) for other in marks.values()) > 1:
            size += 1
        names[hunk_id] = mark[:size]
    return names


def hunk_digest(change: ChangeInfo, name: str) -> str:
    """The digest of the hunk of this number, or whose id begins so. Raises GloveportError."""
    if name.isdecimal() and 1 <= int(name) <= len(change.hunks):
        return change.hunks[int(name) - 1].digest
    found = [
        hunk for hunk in change.hunks if name and name in (hunk.hunk_id, hunk.hunk_id.rpartition("-")[2][: len(name)])
    ]
    if len(found) == 1:
        return found[0].digest
    words = "has no open hunk" if not found else f"has {len(found)} hunks that begin with"
    raise GloveportError(
        ErrorCode.CHANGE_UNKNOWN,
        f"{change.path} {words} {name!r}",
        hint="It may be decided already: gloveport show. What is open: gloveport diff.",
    )


async def tell_decided(error: GloveportError, client: Client, session: SessionInfo, names: Sequence[str]) -> None:
    """Say in a refusal of a hunk that is not open how it was decided, where it was."""
    ended = (await client.call("change/list", SessionParams(session_id=session.session_id))).ended
    for name in names:
        found = [hunk for hunk in ended if hunk.digest.startswith(name.removeprefix("hunk-"))]
        if len(found) == 1 and found[0].state in ("accepted", "rejected"):
            error.message = f"hunk {name} of {found[0].path} was {found[0].state} already"
            error.hint = "What is open: gloveport diff. gloveport undo takes a decision back."


async def decided_digests(client: Client, session: SessionInfo, names: Sequence[str]) -> tuple[str, ...]:
    """The digests of decided hunks whose ids or digests begin so, each of one alone. Raises GloveportError."""
    ended = (await client.call("change/list", SessionParams(session_id=session.session_id))).ended
    decided = [hunk for hunk in ended if hunk.state in ("accepted", "rejected")]
    return tuple(_decided_digest(decided, name) for name in names)


def _decided_digest(decided: Sequence[EndedHunkInfo], name: str) -> str:
    if _WHOLE_DIGEST.fullmatch(name):
        return name  # also of one that was decided too long ago to be listed
    begun = name.removeprefix("hunk-")
    found = [hunk for hunk in decided if begun and hunk.digest.startswith(begun)]
    if len(found) == 1:
        return found[0].digest
    if not found:
        words, hint = f"no decided hunk begins with {name!r}", "gloveport undo takes the last decision back."
    else:
        words = f"{len(found)} decided hunks begin with {name!r}"
        hint = f"Name one: {', '.join(f'{hunk.digest[:12]} of {hunk.path}' for hunk in found[:_TOLD_MAX])}."
    raise GloveportError(ErrorCode.CHANGE_UNKNOWN, words, hint=hint)


async def show_diffs(
    client: Client, session: SessionInfo, changes: Sequence[ChangeInfo], named: Container[str] = ()
) -> None:
    """Print proposals for a person; of files that may hold secrets those alone that are `named`."""
    console = out()
    for change in changes:
        if change.may_hold_secrets and change.path not in named:
            words = f"{change.path}: {change.kind}; not shown unasked, as it may hold secrets: gloveport diff "
            say(words + shlex.quote(change.path), "bold yellow")
            continue
        params = ChangePreviewParams(session_id=session.session_id, change_id=change.change_id)
        preview = await client.call("change/preview", params)
        theirs = await _met_lines(client, session, preview.change)
        names = iter(hunk_names(preview.change).items())
        for line in preview.diff.splitlines():
            hunk_id, name = next(names, ("", "")) if line.startswith("@@") else ("", "")
            note = f" hunk {name}{_CONFLICTED if hunk_id in theirs else ''}" if line.startswith("@@") else ""
            style = "bold" if line.startswith(("+++", "---", "diff ")) else _STYLES.get(line[:1], "")
            console.print(plain(line + note, style))
            for own in theirs.get(hunk_id, ()):
                console.print(plain(f"! you have: {own}", "yellow"))
        if change.runs_by_itself:
            say(f"note: {change.path} runs by itself: {change.runs_by_itself}", "bold yellow")
        if (rule := preview.change.rule) is not None:
            verb = "is refused" if rule.verdict == "deny" else "is accepted by its name alone"
            say(f"note: {change.path} {verb} by the rule {rule.rule_id}: {rule.words}", "bold yellow")
        ended = Counter(hunk.state for hunk in preview.ended)
        if ended:
            words = ", ".join(f"{count} {state}" for state, count in sorted(ended.items()))
            say(f"before, of {change.path}: {words}", "dim")
        note_shown(session.session_id, (preview.change,))


async def _met_lines(client: Client, session: SessionInfo, change: ChangeInfo) -> dict[str, list[str]]:
    """What the user has now where the conflicted hunks stand, by hunk."""
    if all(hunk.state != "conflicted" for hunk in change.hunks):
        return {}
    placed = (await client.call("change/hunks", ChangeHunksParams(session_id=session.session_id))).hunks
    texts = {one.hunk_id: one.user_text for one in placed if one.change_id == change.change_id}
    met = [hunk.hunk_id for hunk in change.hunks if hunk.state == "conflicted"]
    return {name: (texts.get(name) or "").splitlines()[:_OWN_LINES_MAX] or ["nothing there"] for name in met}


async def _tell_met(client: Client, session: SessionInfo, change: ChangeInfo) -> None:
    """The user's side of the conflicted hunks beside a patch; not of a file that may hold secrets."""
    names = hunk_names(change)
    theirs = {} if change.may_hold_secrets else await _met_lines(client, session, change)
    for hunk_id, lines in theirs.items():
        for own in lines:
            err().print(plain(f"! hunk {names[hunk_id]}, you have: {own}", "yellow"))


def _met_names(change: ChangeInfo) -> tuple[str, ...]:
    names = hunk_names(change)
    return tuple(names[hunk.hunk_id] for hunk in change.hunks if hunk.state == "conflicted")


def ways_out(change: ChangeInfo, met: Sequence[str]) -> str:
    """The commands that settle these hunks of a file where the user changed the same lines."""
    hunks, name = " ".join(f"--hunk {one}" for one in met), shlex.quote(change.path)
    if change.renamed_from is not None:
        return f"put your lines back as they were and accept again, or gloveport reject {name}"
    gives = "your file gives way, whole" if change.kind in _WHOLE else "your lines give way"
    return f"gloveport accept {hunks} --take {name} ({gives}), or gloveport reject {hunks} {name}"


async def conflict_words(client: Client, session_id: str, changes: Sequence[ChangeInfo]) -> tuple[list[str], str]:
    """The files of these where the user changed the same lines, and what settles them; empty where none did."""
    told, paths = [], []
    for change in changes:
        params = ChangePreviewParams(session_id=session_id, change_id=change.change_id)
        shown = (await client.call("change/preview", params)).change
        if met := _met_names(shown):
            paths.append(shown.path)
            told.append(f"\n  {ways_out(shown, met)}")
    more = f"\n  and {len(told) - _TOLD_MAX} files more; see gloveport diff" if len(told) > _TOLD_MAX else ""
    return paths, "".join(told[:_TOLD_MAX]) + more


async def write_patch(client: Client, session: SessionInfo, changes: Sequence[ChangeInfo]) -> None:
    """Write proposals to standard output byte for byte, as a patch; what no patch can say is named beside it."""
    sys.stdout.flush()
    for change in changes:
        params = ChangePreviewParams(session_id=session.session_id, change_id=change.change_id, exact=True)
        preview = await client.call("change/preview", params)
        patch = base64.b64decode(preview.patch or "")
        if met := _met_names(preview.change):
            words = f"conflicted: {change.path} (hunk {', '.join(met)}): you changed these lines too. Settle it: "
            warn(words + ways_out(change, met), "yellow")
            await _tell_met(client, session, preview.change)
        if patch:
            sys.stdout.buffer.write(b"".join(_headed(preview.change, patch)))
        else:
            warn(f"not in this patch, as lines cannot say it: {change.path} ({change.kind})", "yellow")
    sys.stdout.buffer.flush()
    note_shown(session.session_id, changes)


def _headed(change: ChangeInfo, patch: bytes) -> Iterator[bytes]:
    """The patch with the names of its hunks where programs expect a heading; neighbours stand together as one."""
    names, left = hunk_names(change), list(change.hunks)
    for line in _LINE.findall(patch):
        header = _PATCH_HEADER.match(line)
        if header is None:
            yield line
            continue
        end = int(header[1]) + int(header[2])
        mine = [left.pop(0) for hunk in change.hunks if left and left[0] is hunk and hunk.old_start <= end]
        yield line.rstrip(b"\n") + f" hunk {', '.join(names[hunk.hunk_id] for hunk in mine)}\n".encode()
