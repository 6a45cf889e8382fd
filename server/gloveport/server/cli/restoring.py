"""gloveport restore: back to how the files were before a turn.

Purpose: list the points, show what going back changes and what stays done, and do it when the user says so.
Invariant: what is done is what was shown in the same command; at a terminal the user is asked, elsewhere `--yes` is
needed.
Must never: write a file.
"""

import sys
from collections.abc import Sequence
from types import MappingProxyType
from typing import Annotated, Final

import typer

from gloveport.protocol.text import counted
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.session import SessionInfo
from gloveport.protocol.wire.snapshot import SnapshotPreviewParams, SnapshotPreviewResult, SnapshotRestoreParams
from gloveport.server.cli.hints import taking_back
from gloveport.server.cli.link import Exit, fail, out, plain, request_id, say, with_client
from gloveport.server.cli.phrases import local_time, short_ids
from gloveport.server.cli.pick import HERE, Folder, Session, pick_point, pick_session
from gloveport.server.cli.prompt import read_line
from gloveport.server.client.connect import Client

_VERBS: Final = MappingProxyType({"restore": "put back", "remove": "remove", "recreate": "bring back"})


def restore(
    point: Annotated[str, typer.Argument(help="A point of the list; none: show the list.")] = "",
    preview: Annotated[bool, typer.Option("--preview", help="Only show what it would do.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    session: Session = "",
    root: Folder = HERE,
) -> None:
    """Go back to how your files were before a turn; only files that were decided on change, and undo takes it back."""

    async def work(client: Client) -> None:
        info = await pick_session(client, session, root)
        if not point:
            await _list(client, info)
            return
        chosen = await pick_point(client, info, point)
        params = SnapshotPreviewParams(session_id=info.session_id, point=chosen)
        with taking_back():
            shown = await client.call("snapshot/preview", params)
        _show(shown)
        if preview or shown.digest is None or not await _wanted(yes=yes):
            return
        wanted = SnapshotRestoreParams(
            client_request_id=request_id(), session_id=info.session_id, point=chosen, digest=shown.digest
        )
        with taking_back():
            done = await client.call("snapshot/restore", wanted)
        say(_done_words(done.paths, shown, info), "green")

    with_client(work)


def _done_words(paths: Sequence[str], shown: SnapshotPreviewResult, info: SessionInfo) -> str:
    """What was restored, and where: the user's files in the folder, the others in the agent's copy alone."""
    mine = {row.path for row in shown.files if row.side == "yours"}
    sides = (("in " + info.root, [one for one in paths if one in mine]),
             ("in the agent's copy alone", [one for one in paths if one not in mine]))  # fmt: skip
    return "restored: " + "; ".join(f"{', '.join(names)} {where}" for where, names in sides if names)


async def _list(client: Client, info: SessionInfo) -> None:
    points = (await client.call("snapshot/list", SessionParams(session_id=info.session_id))).points
    short = short_ids(one.point for one in points)
    for one in points:
        say(f"{short[one.point]}  {local_time(one.at)}  {counted(one.decisions, 'decision')} since  {one.title}")


def _show(shown: SnapshotPreviewResult) -> None:
    for row in shown.files:
        where = "" if row.side == "yours" else " in the agent's copy"
        where += ", in its editor" if row.in_editor else ""
        say(f"{_VERBS[row.action]} {row.path}{where}", "bold")
        out().print(plain(row.diff))
    if not shown.files:
        say("Your files are as they were at that point; nothing would change.")
    for stays in shown.cannot_undo:
        say(f"stays done: {stays.title}: {stays.words}", "yellow")


async def _wanted(*, yes: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        hint = "Say --yes to do it, or --preview to look only."
        fail("this would change the files above", hint, Exit.APPROVAL_NEEDED)
    out().print(plain("Restore this? [y/N] "), end="")
    return (await read_line() or "").lower() in ("y", "yes")
