"""gloveport diff, accept, reject, undo: what the agent proposes.

Purpose: show proposals as diffs, and send decisions with the digests that were shown.
Invariant: a decision names what was listed in the same command.
Must never: write a file.
"""

from types import MappingProxyType
from typing import Annotated, Final

import typer

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.change import (
    ChangeDecideParams,
    ChangeDecideResult,
    ChangeInfo,
    ChangePreviewParams,
    ChangeUndoParams,
    Selection,
)
from gloveport.server.cli.link import out, pick_session, plain, request_id, with_client
from gloveport.server.cli.one_by_one import left_words, parted
from gloveport.server.client.connect import Client

Session = Annotated[str, typer.Option("--session", "-s", help="A part of the session's id; empty: the newest.")]
Paths = Annotated[list[str] | None, typer.Argument(help="Paths; none: all.")]
Hunks = Annotated[list[str] | None, typer.Option("--hunk", help="A hunk's id or number in the diff, for one path.")]

_STYLES: Final = MappingProxyType({"+": "green", "-": "red", "@": "cyan"})


async def pending(client: Client, session_id: str, paths: list[str] | None = None) -> tuple[ChangeInfo, ...]:
    """The pending proposals of these paths, or all. Raises GloveportError for a path that has none."""
    changes = (await client.call("change/list", SessionParams(session_id=session_id))).changes
    if not paths:
        return changes
    by_path = {change.path: change for change in changes}
    unknown = [path for path in paths if path not in by_path]
    if unknown:
        raise GloveportError(
            ErrorCode.CHANGE_UNKNOWN, f"nothing is proposed for {unknown[0]}", hint="See gloveport diff."
        )
    return tuple(by_path[path] for path in paths)


async def show_diffs(client: Client, session_id: str, paths: list[str] | None = None) -> int:
    """Print the diffs; how many proposals there are."""
    console = out()
    changes = await pending(client, session_id, paths)
    for change in changes:
        params = ChangePreviewParams(session_id=session_id, change_id=change.change_id)
        preview = await client.call("change/preview", params)
        number = 0
        for line in preview.diff.splitlines():
            number += line.startswith("@@")
            note = f"   hunk {number}" if line.startswith("@@") else ""
            style = "bold" if line.startswith(("+++", "---", "diff ")) else _STYLES.get(line[:1], "")
            console.print(plain(line + note, style))
        if change.runs_by_itself:
            console.print(plain(f"note: {change.path} runs by itself: {change.runs_by_itself}", "bold yellow"))
    return len(changes)


def _selection(change: ChangeInfo, hunks: list[str] | None) -> Selection:
    if not hunks:
        return Selection(change_id=change.change_id, digest=change.digest)
    by_name = {hunk.hunk_id: hunk.digest for hunk in change.hunks}
    by_name |= {str(number): hunk.digest for number, hunk in enumerate(change.hunks, start=1)}
    unknown = [name for name in hunks if name not in by_name]
    if unknown:
        raise GloveportError(
            ErrorCode.CHANGE_UNKNOWN, f"{change.path} has no hunk {unknown[0]!r}", hint="See gloveport diff."
        )
    return Selection(
        change_id=change.change_id, digest=change.digest, hunk_digests=tuple(by_name[name] for name in hunks)
    )


async def decide(
    client: Client, session_id: str, accept: bool, paths: list[str] | None, hunks: list[str] | None
) -> ChangeDecideResult | None:
    """Accept or reject; None when nothing is pending."""
    changes = await pending(client, session_id, paths)
    if not changes:
        return None
    if hunks and len(changes) != 1:
        raise GloveportError(ErrorCode.INVALID_PARAMS, "--hunk needs exactly one path", hint="Name the path first.")
    batches, left = parted(changes, named=bool(paths)) if accept else ((tuple(changes),), ())
    result = ChangeDecideResult(apply_id="", paths=())
    for batch in batches:
        params = ChangeDecideParams(
            client_request_id=request_id(),
            session_id=session_id,
            selections=tuple(_selection(change, hunks) for change in batch),
        )
        done = await client.call("change/accept" if accept else "change/reject", params)
        result = done.model_copy(update={"paths": (*result.paths, *done.paths)})
    if left:
        out().print(plain(left_words(left), "bold yellow"))
    return result


async def accept_all(client: Client, session_id: str) -> tuple[str, ...]:
    """Accept everything that is pending; the paths."""
    result = await decide(client, session_id, True, None, None)
    return result.paths if result is not None else ()


def diff(paths: Paths = None, session: Session = "") -> None:
    """Show what the agent proposes."""

    async def work(client: Client) -> None:
        info = await pick_session(client, session)
        if not await show_diffs(client, info.session_id, paths):
            out().print(plain("Nothing is proposed."))

    with_client(work)


def _decision(accept: bool, paths: list[str] | None, hunks: list[str] | None, session: str) -> None:
    async def work(client: Client) -> None:
        info = await pick_session(client, session)
        result = await decide(client, info.session_id, accept, paths, hunks)
        if result is None:
            out().print(plain("Nothing is proposed."))
            return
        if result.paths:
            out().print(plain(f"{'accepted' if accept else 'rejected'}: {', '.join(result.paths)}", "green"))

    with_client(work)


def accept(paths: Paths = None, hunk: Hunks = None, session: Session = "") -> None:
    """Write proposals into your files: all, some paths, or some hunks."""
    _decision(True, paths, hunk, session)


def reject(paths: Paths = None, hunk: Hunks = None, session: Session = "") -> None:
    """Drop proposals: all, some paths, or some hunks."""
    _decision(False, paths, hunk, session)


def undo(session: Session = "") -> None:
    """Take back the last accept or reject."""

    async def work(client: Client) -> None:
        info = await pick_session(client, session)
        params = ChangeUndoParams(client_request_id=request_id(), session_id=info.session_id)
        result = await client.call("change/undo", params)
        out().print(plain(f"undone: {', '.join(result.paths)}", "green"))

    with_client(work)
