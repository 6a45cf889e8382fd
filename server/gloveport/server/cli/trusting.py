"""How far a folder is trusted, as commands ask and say it.

Purpose: the folder a command means, the level it was given, and the one question about it.
Invariant: nothing is asked about a folder in which no session can begin, nor where something was said of it.
Must never: choose a level that nobody said.
"""

import os
from collections.abc import Container, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import typer

from gloveport.protocol.wire.base import Empty
from gloveport.protocol.wire.place import TrustLevelName, WorkspaceShowParams, WorkspaceTrustParams
from gloveport.protocol.wire.session import SessionInfo
from gloveport.server.cli.feed import Feed
from gloveport.server.cli.link import Exit, fail, out, placed, request_id, warn
from gloveport.server.cli.pick import HERE, every_session
from gloveport.server.cli.prompt import read_line
from gloveport.server.client.connect import Client
from gloveport.server.settings import UNSET

LEVELS: tuple[TrustLevelName, ...] = ("trusted", "restricted", "untrusted")
TRUST_NOT_CHOSEN: Final = "use --trust restricted"


def checked_level(given: str, named: str = "--trust") -> TrustLevelName | None:
    """The level named; None for an empty text. `named`: what the user gave it as."""
    if not given:
        return None
    found: TrustLevelName | None = next((one for one in LEVELS if one == given), None)
    if found is None:
        raise typer.BadParameter(f"{given!r} is not one of {', '.join(LEVELS)}", param_hint=named)
    return found


async def workspace_here(client: Client) -> Path:
    """The folder the user is in, or the known workspace it lies in, which is told."""
    here = placed(HERE)
    known = [one.root for one in (await client.call("workspace/list", Empty())).workspaces]
    known += [one.root for one in await every_session(client)]
    root = workspace_around(here, frozenset(known))
    if root != here:
        words = f"in the workspace {root}, which this folder lies in; -C . means this folder alone"
        warn(words, "dim")
    return root


def workspace_around(folder: Path, known: Container[str]) -> Path:
    """The nearest of the folder and those above it that is a workspace; none beyond the top of a repository.

    What lies beyond that is another project: it lends this one neither its trust nor its rights. The whole system and
    the home folder are no workspace, whatever was once said of them.
    """
    for place in (folder, *folder.parents):
        if place in (Path("/"), Path(os.path.expanduser("~"))):
            break
        if str(place) in known:
            return place
        if os.path.lexists(place / ".git"):
            break
    return folder


async def known_level(client: Client, root: Path) -> str | None:
    """The level the user gave this folder; None where nothing was said."""
    known = (await client.call("workspace/list", Empty())).workspaces
    return next((one.trust_level for one in known if one.root == str(root)), None)


async def settle_trust(client: Client, root: Path, level: TrustLevelName | None, *, may_ask: bool) -> None:
    """Give the level told on the command line, or ask once for a folder that has none.

    Raises GloveportError, before anything is asked, for a folder in which no session can begin.
    """
    if level is None:
        if not may_ask:
            return
        shown = await client.call("workspace/show", WorkspaceShowParams(root=str(root)))
        if shown.trust_level != UNSET:
            return
        level = await _ask_level(root)
    params = WorkspaceTrustParams(client_request_id=request_id(), root=str(root), trust_level=level)
    await client.call("workspace/trust", params)


_ANSWERS: Final[Mapping[str, TrustLevelName]] = MappingProxyType(
    {
        "": "restricted", "1": "restricted", "r": "restricted", "restricted": "restricted",
        "2": "trusted", "t": "trusted", "trusted": "trusted",
        "3": "untrusted", "u": "untrusted", "untrusted": "untrusted",
    }
)  # fmt: skip


async def _ask_level(root: Path) -> TrustLevelName:
    feed = Feed(out())
    feed.line(f"How far do you trust the code in {root}?", "bold yellow")
    feed.line("  [1] restricted: its programs and tests run in a container without network (usual)", indent="      ")
    feed.line("  [2] trusted: its programs may also run as plain processes of yours", indent="      ")
    feed.line("  [3] untrusted: nothing of it runs unless gVisor or another machine is set up", indent="      ")
    while True:
        feed.ask("  answer [1]: ")
        typed = await read_line()
        feed.asked(typed=typed is not None)
        if typed is None:
            fail("no answer: trust not chosen", TRUST_NOT_CHOSEN, Exit.APPROVAL_NEEDED)
        if typed.lower() in _ANSWERS:
            return _ANSWERS[typed.lower()]
        feed.line("  type 1, 2 or 3, or the word")


async def place_words(client: Client, session: SessionInfo) -> str:
    """Where programs run; that none does, where the folder's trust asks for more than its sandbox holds."""
    if session.trust_level == "untrusted":
        rungs = (await client.call("sandbox/list", Empty())).sandboxes
        if not any(rung.name == session.sandbox and "untrusted" in rung.trust_levels for rung in rungs):
            return f"no program runs ({session.sandbox} is too weak)"
    return f"sandbox {session.sandbox}"
