"""Which session a command means.

Purpose: the session that was named, or the newest one of the folder the user is in.
Invariant: without a name only sessions whose folder holds the current one are taken, those of the nearest folder first.
Must never: act on a session of another folder because it is newer.
"""

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.session import ItemListParams, SessionInfo, SessionListParams
from gloveport.server.cli.link import Exit, fail, placed, warn
from gloveport.server.cli.phrases import phase_words, short_id, short_ids
from gloveport.server.client.connect import Client

Named = Annotated[str, typer.Argument(help="A part of the session's id; empty: the newest of this folder.")]
Session = Annotated[
    str, typer.Option("--session", "-s", help="A part of the session's id; empty: the newest of this folder.")
]
Folder = Annotated[Path, typer.Option("--root", "-C", help="Act as if called in this folder.")]
Root = Annotated[
    Path | None,
    typer.Option("--root", "-C", help="The workspace folder; without it this folder, or the workspace it lies in."),
]
HERE: Final = Path(".")
RESTING: Final = ("idle", "applying")
"""Phases without a turn."""
ITEMS_LOOKED_AT: Final = 100
FIRST_ITEMS: Final = 10
"""Among so many items at its beginning a session's first message is looked for."""
WORDS_SHOWN: Final = 60
_ELSEWHERE_SHOWN: Final = 3


def once_named(argument: str, option: str) -> str:
    """The session as it was named, as the argument or with -s. Ends the command where it was named twice."""
    if argument and option:
        fail("the session is named twice", "Name it once, with or without -s.", Exit.USAGE)
    return argument or option


async def pick_session(client: Client, given: str, folder: Path = HERE) -> SessionInfo:
    """The session named, by a unique part of its id, or the newest of the folder. Raises GloveportError.

    One of a folder above is told on standard error.
    """
    every = await every_session(client)
    if given:
        return _named(every, given)
    info = _newest(every, folder)
    if os.path.realpath(info.root) != str(placed(folder, resolved=True)):
        warn(f"session {short_id(info.session_id)} of {info.root}, which holds this folder", "dim")
    return info


async def pick_point(client: Client, info: SessionInfo, given: str) -> str:
    """The point named: `start`, or a turn by its id or a part of it that no other has. Raises GloveportError."""
    points = (await client.call("snapshot/list", SessionParams(session_id=info.session_id))).points
    names = [one.point for one in points]
    if given in names:
        return given
    ends = [name for name in names if name.endswith(given)]
    found = ends if len(ends) == 1 else [name for name in names if given in name]
    if len(found) == 1:
        return found[0]
    if not found:
        raise GloveportError(ErrorCode.INVALID_PARAMS, f"there is no turn {given}", hint="See gloveport restore.")
    words = f"{given} fits {len(found)} turns: {', '.join(found[:5])}"
    raise GloveportError(ErrorCode.INVALID_PARAMS, words, hint="Give more of the id.")


async def sessions_here(client: Client, folder: Path) -> list[SessionInfo]:
    """The sessions whose folder is or holds this one, newest first."""
    return _here(await every_session(client), folder)


async def every_session(client: Client) -> list[SessionInfo]:
    """All sessions, newest first."""
    offset: int | None = 0
    found: list[SessionInfo] = []
    while offset is not None:
        page = await client.call("session/list", SessionListParams(offset=offset))
        found += page.sessions
        offset = page.next_offset
    return found


async def pick_running(client: Client, folder: Path) -> SessionInfo | None:
    """The session of the folder with a running turn, or None. Raises GloveportError where several have one."""
    running = [one for one in await sessions_here(client, folder) if one.phase not in RESTING]
    if len(running) > 1:
        short = short_ids(one.session_id for one in running)
        said = [await _last_message(client, one) for one in running]
        names = "".join(
            f"\n  {short[one.session_id]}  {phase_words(one.phase)}  {words}"
            for one, words in zip(running, said, strict=True)
        )
        raise GloveportError(
            ErrorCode.SESSION_UNKNOWN,
            f"{len(running)} sessions of this folder have a running turn:{names}",
            hint="Name the one you mean by its id.",
        )
    return running[0] if running else None


async def shown_title(client: Client, info: SessionInfo) -> str:
    """A title that was given, or the first words of the first message where it is only the folder's name."""
    if info.title != Path(info.root).name:
        return info.title
    params = ItemListParams(session_id=info.session_id, before=FIRST_ITEMS, limit=FIRST_ITEMS)
    items = (await client.call("session/item/list", params)).items
    said = next((str(item.fields["text"]) for item in items if item.kind == "message.user"), info.title)
    return " ".join(said.split())[:WORDS_SHOWN]


async def _last_message(client: Client, info: SessionInfo) -> str:
    """The beginning of what the user said last; the session's title where that is further back."""
    params = ItemListParams(session_id=info.session_id, before=1 << 31, limit=ITEMS_LOOKED_AT)
    items = (await client.call("session/item/list", params)).items
    said = [str(item.fields["text"]) for item in items if item.kind == "message.user"]
    return " ".join(said[-1].split())[:WORDS_SHOWN] if said else info.title


def _here(every: list[SessionInfo], folder: Path) -> list[SessionInfo]:
    place = placed(folder, resolved=True)
    return [one for one in every if place.is_relative_to(os.path.realpath(one.root))]


def _newest(every: list[SessionInfo], folder: Path) -> SessionInfo:
    here = _here(every, folder)
    if here:
        return max(here, key=lambda one: len(os.path.realpath(one.root)))  # all lie on one way up: the nearest folder
    if not every:
        raise GloveportError(
            ErrorCode.SESSION_UNKNOWN, "there is no session yet", hint="Begin one: gloveport run 'what to do'"
        )
    short = short_ids(one.session_id for one in every)
    newest = "".join(f"\n  {short[one.session_id]}  {one.root}" for one in every[:_ELSEWHERE_SHOWN])
    raise GloveportError(
        ErrorCode.SESSION_UNKNOWN,
        f"there is no session of {placed(folder)}; the newest elsewhere:{newest}",
        hint="Name one by its id, or its folder with -C.",
    )


def _named(every: list[SessionInfo], given: str) -> SessionInfo:
    ends = [one for one in every if one.session_id.endswith(given)]
    found = ends if len(ends) == 1 else [one for one in every if given in one.session_id]
    if len(found) == 1:
        return found[0]
    if not found:
        raise GloveportError(
            ErrorCode.SESSION_UNKNOWN, f"there is no session {given!r}", hint="See gloveport sessions."
        )
    names = ", ".join(one.session_id for one in found[:5])
    words = f"{given!r} fits {len(found)} sessions: {names}"
    raise GloveportError(ErrorCode.SESSION_UNKNOWN, words, hint="Give more of the id.")
