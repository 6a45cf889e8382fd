"""gloveport diff, accept, reject, undo: what the agent proposes.

Purpose: show proposals as diffs, and send decisions with the digests that were shown.
Invariant: a decision names what was listed in the same command, and says which folder was written to.
Must never: write a file.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.change import (
    ChangeDecideParams,
    ChangeDecideResult,
    ChangeHunksParams,
    ChangeInfo,
    ChangeRedoParams,
    ChangeUndoParams,
    PendingHunk,
    Replaced,
    Selection,
)
from gloveport.protocol.wire.session import SessionInfo
from gloveport.server.cli.diffs import (
    below_root,
    conflict_words,
    decided_digests,
    hunk_digest,
    pending,
    show_diffs,
    tell_decided,
    write_patch,
)
from gloveport.server.cli.hints import HINTS, taking_back
from gloveport.server.cli.link import Exit, err, out, plain, request_id, say, warn, with_client
from gloveport.server.cli.one_by_one import left_words, parted
from gloveport.server.cli.pick import HERE, Folder, Session, pick_point, pick_session
from gloveport.server.cli.seen import check_seen
from gloveport.server.client.connect import Client

Paths = Annotated[list[str] | None, typer.Argument(help="Files and folders, as seen from here; none: all.")]
Hunks = Annotated[list[str] | None, typer.Option("--hunk", help="A hunk's id as diff shows it, for one path.")]
Unseen = Annotated[bool, typer.Option("--unseen", help="Also what was never shown as it is now.")]
Take = Annotated[bool, typer.Option("--take", help="With --hunk and PATH: your own lines there give way.")]
NOTHING = "Nothing is proposed."


def _selection(change: ChangeInfo, hunks: list[str] | None, met: Sequence[PendingHunk] = ()) -> Selection:
    digests = tuple(hunk_digest(change, name) for name in hunks) if hunks else None
    replaces = tuple(
        Replaced(hunk_digest=one.hunk_digest, user_digest=one.user_digest)
        for one in met
        if one.hunk_digest is not None and one.hunk_digest in (digests or ()) and one.user_digest is not None
    )
    return Selection(change_id=change.change_id, digest=change.digest, hunk_digests=digests, replaces=replaces)


async def _met(client: Client, session_id: str, take: bool, hunks: list[str] | None) -> tuple[PendingHunk, ...]:
    """What waits and meets the user's lines, where those shall give way."""
    if not take:
        return ()
    if not hunks:
        raise GloveportError(
            ErrorCode.INVALID_PARAMS, "--take needs --hunk", hint="Name the hunks; see gloveport diff."
        )
    found = await client.call("change/hunks", ChangeHunksParams(session_id=session_id))
    return tuple(hunk for hunk in found.hunks if hunk.meets)


async def decide(
    client: Client,
    session_id: str,
    accept: bool,
    changes: Sequence[ChangeInfo],
    hunks: list[str] | None = None,
    named: Sequence[str] = (),
    *,
    take: bool = False,
) -> ChangeDecideResult | None:
    """Accept or reject; None when nothing is pending. What runs by itself is accepted where it is among `named`.

    With `take` the user's lines give way to the named hunks.
    """
    if not changes:
        return None
    if hunks and len(changes) != 1:
        raise GloveportError(ErrorCode.INVALID_PARAMS, "--hunk needs exactly one path", hint="Name the path first.")
    met = await _met(client, session_id, take, hunks)
    batches, left = parted(changes, named) if accept else ((tuple(changes),), ())
    result = ChangeDecideResult(apply_id="", paths=())
    for batch in batches:
        params = ChangeDecideParams(
            client_request_id=request_id(),
            session_id=session_id,
            selections=tuple(_selection(change, hunks, met) for change in batch),
        )
        try:
            done = await client.call("change/accept" if accept else "change/reject", params)
        except GloveportError as error:
            if error.code is ErrorCode.CHANGE_CONFLICT:
                await _tell_ways(error, client, session_id, batch)
            raise
        result = done.model_copy(update={"paths": (*result.paths, *done.paths)})
    chosen = {digest for change in changes for digest in _selection(change, hunks).hunk_digests or ()} if met else set()
    for one in met:
        if one.hunk_digest in chosen:
            say(f"your lines of {one.path} that gave way (gloveport undo brings them back):", "yellow")
            out().print(plain((one.user_text or "").rstrip("\n")))
    if left:
        warn(left_words(left), "bold yellow")
    return result


async def _tell_ways(error: GloveportError, client: Client, session_id: str, batch: Sequence[ChangeInfo]) -> None:
    """Name in a refusal all files where the user's lines are met, and what settles each."""
    paths, ways = await conflict_words(client, session_id, batch)
    if len(paths) > 1:
        error.message = f"you changed the same lines in {', '.join(paths)}; nothing was written"
    if ways:
        error.hint = f"{HINTS[error.code]}\nOr settle what meets your lines:{ways}"


def decided_words(verb: str, paths: Sequence[str], session: SessionInfo) -> str:
    """What was done, and in which folder."""
    return f"{verb}: {', '.join(paths)} in {session.root}"


def _back_words(verb: str, result: ChangeDecideResult, session: SessionInfo) -> str:
    """What was taken back or made again: of rejects, that no file of the user's changed."""
    others = [path for path in result.paths if path not in result.rejects]
    told = [decided_words(verb, others, session)] if others else []
    if result.rejects:
        kept = "your file is as it was" if len(result.rejects) == 1 else "your files are as they were"
        told.append(f"{verb}: the reject of {', '.join(result.rejects)}; {kept}")
    return "\n".join(told)


def diff(paths: Paths = None, session: Session = "", root: Folder = HERE) -> None:
    """Show what the agent proposes; into a pipe or file: as a patch for git apply or patch -p1."""

    async def work(client: Client) -> None:
        info = await pick_session(client, session, root)
        changes = await pending(client, info, paths, root)
        if sys.stdout.isatty():
            await show_diffs(client, info, changes, {below_root(path, info, root) for path in paths or ()})
        else:
            await write_patch(client, info, changes)
        if not changes:
            (out() if sys.stdout.isatty() else err()).print(plain(NOTHING))

    with_client(work)


def _decision(
    accept: bool,
    paths: list[str] | None,
    hunks: list[str] | None,
    session: str,
    root: Path,
    *,
    unread: bool = True,
    take: bool = False,
) -> None:
    async def work(client: Client) -> None:
        info = await pick_session(client, session, root)
        try:
            changes = await pending(client, info, paths, root)
            if not unread:
                check_seen(info.session_id, changes)
            result = await decide(client, info.session_id, accept, changes, hunks, paths or (), take=take)
            if result is None and hunks:
                raise GloveportError(ErrorCode.CHANGE_UNKNOWN, f"nothing is proposed that has hunk {hunks[0]!r}")
        except GloveportError as error:
            if error.code is ErrorCode.CHANGE_UNKNOWN:
                await tell_decided(error, client, info, hunks or ())
            raise
        if result is None:
            say(NOTHING)
            return
        verb = "accepted" if accept else "rejected"
        words = decided_words(verb, result.paths, info) if accept else f"{verb}: {', '.join(result.paths)}"
        if result.paths:
            say(words, "green")
        else:
            raise typer.Exit(int(Exit.FAILED))  # what is left to be named was told; nothing was done

    with_client(work)


def accept(
    paths: Paths = None,
    hunk: Hunks = None,
    session: Session = "",
    root: Folder = HERE,
    unseen: Unseen = False,
    take: Take = False,
) -> None:
    """Write proposals into your files, as they were shown: all, paths, hunks; what runs by itself only by name."""
    _decision(True, paths, hunk, session, root, unread=unseen, take=take)


def reject(paths: Paths = None, hunk: Hunks = None, session: Session = "", root: Folder = HERE) -> None:
    """Drop proposals: all, some paths, or some hunks."""
    _decision(False, paths, hunk, session, root)


def undo(
    paths: Annotated[list[str] | None, typer.Argument(help="Files as seen from here; none: the last decision.")] = None,
    hunk: Annotated[list[str] | None, typer.Option("--hunk", help="Only this hunk, by what its id began with.")] = None,
    turn: Annotated[str, typer.Option("--turn", help="All decisions on what this turn proposed.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="All decisions in force.")] = False,
    session: Session = "",
    root: Folder = HERE,
) -> None:
    """Take back the last accept or reject, those on some files, of a turn, or all."""

    async def work(client: Client) -> None:
        info = await pick_session(client, session, root)
        params = ChangeUndoParams(
            client_request_id=request_id(),
            session_id=info.session_id,
            turn_id=await pick_point(client, info, turn) if turn else None,
            all=everything,
            paths=tuple(below_root(path, info, root) for path in paths) if paths else None,
            hunk_digests=await decided_digests(client, info, hunk) if hunk else None,
        )
        with taking_back():
            result = await client.call("change/undo", params)
        say(_back_words("undone", result, info), "green")

    with_client(work)


def redo(session: Session = "", root: Folder = HERE) -> None:
    """Take the last undo back."""

    async def work(client: Client) -> None:
        info = await pick_session(client, session, root)
        params = ChangeRedoParams(client_request_id=request_id(), session_id=info.session_id)
        with taking_back():
            result = await client.call("change/redo", params)
        say(_back_words("redone", result, info), "green")

    with_client(work)
