"""Reaching the daemon from a command.

Purpose: start or find the daemon, connect with the right to decide, and turn failures into words and exit codes.
Invariant: a failure prints one message with what to do next, never a traceback.
Must never: leave a connection open.
"""

import asyncio
import json
import os
import re
import sys
import textwrap
import uuid
from collections.abc import Awaitable, Callable, Mapping
from enum import IntEnum, unique
from pathlib import Path
from typing import Any, Final, Literal, NoReturn, TypeVar

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.text import printable
from gloveport.server.cli.hints import hint_of
from gloveport.server.client.connect import Client, connect
from gloveport.server.client.launch import ensure_running
from gloveport.server.client.paths import find_places
from gloveport.server.client.private import open_socket, read_token
from gloveport.server.version import build_version

T = TypeVar("T")
OTHER_BUILD: Final = (
    "The daemon that runs is another build of gloveport than this command. "
    "To use this one: gloveport daemon stop (what runs goes on), then the command again."
)
WIDTH_MIN: Final = 20
"""Words are not broken to fewer columns."""
NOBODY: Final = "No daemon runs."
_ACTED_ON: Final = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@unique
class Exit(IntEnum):
    """Exit codes of every command."""

    OK = 0
    FAILED = 1
    USAGE = 2
    TURN_FAILED = 3
    TURN_CANCELLED = 4
    APPROVAL_NEEDED = 5
    UNREACHABLE = 6
    INTERRUPTED = 130


def out() -> Console:
    """Standard output."""
    return _console(stderr=False)


def err() -> Console:
    """Standard error."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    """With NO_COLOR there is no style at all: bold and dim are left out, too."""
    system: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return Console(stderr=stderr, highlight=False, soft_wrap=True, color_system=system)


def plain(text: str, style: str = "") -> Text:
    """Text that is printed as it is: no markup, no terminal command."""
    return Text(printable(text), style=style)


def print_words(console: Console, text: str, style: str = "", indent: str = "") -> None:
    """Lines of words, broken between words where a terminal ends, and never within a path or an id.

    What a line has no room for follows below it, two columns further in, or behind `indent`.
    """
    room = max(console.width - 1, WIDTH_MIN)
    for line in text.split("\n"):
        pieces = [line]
        if console.is_terminal and cell_len(line) > room:
            lead = line[: len(line) - len(line.lstrip())]
            pieces = textwrap.wrap(
                line.strip(), room, initial_indent=lead, subsequent_indent=indent or f"{lead}  ",
                break_on_hyphens=False, break_long_words=False,
            )  # fmt: skip
        for piece in pieces:
            console.print(plain(piece, style))


def say(text: str, style: str = "") -> None:
    """Words on standard output."""
    print_words(out(), text, style)


def warn(text: str, style: str = "") -> None:
    """Words on standard error."""
    print_words(err(), text, style)


def print_json(value: Mapping[str, Any]) -> None:
    """One line of JSON; what a terminal would act on stands escaped in it."""
    text = json.dumps(value, ensure_ascii=False)
    sys.stdout.write(_ACTED_ON.sub(lambda found: f"\\u{ord(found.group()):04x}", text) + "\n")
    sys.stdout.flush()


def fail(message: str, hint: str = "", code: Exit = Exit.FAILED) -> NoReturn:
    """Say what went wrong and end."""
    warn(message, "bold red")
    if hint:
        warn(hint)
    raise typer.Exit(int(code))


def placed(folder: Path, *, resolved: bool = False) -> Path:
    """The folder's whole path, links kept or `resolved`. Ends the command where the folder it is in was deleted."""
    try:
        return Path(os.path.realpath(folder) if resolved else os.path.abspath(folder))
    except FileNotFoundError:
        fail("the folder you are in no longer exists", "Go to another one, or name one: -C FOLDER.")


def code_of(error: GloveportError) -> Exit:
    """With which exit code a failure ends a command."""
    return Exit.UNREACHABLE if error.code is ErrorCode.UNREACHABLE else Exit.FAILED


def request_id() -> str:
    """A fresh id for a changing request."""
    return uuid.uuid4().hex


def is_served() -> bool:
    """Whether somebody listens where the daemon would; none is started, and what is unsafe is left to `with_client`."""
    try:
        open_socket(find_places().socket).close()
    except OSError:
        return False
    except GloveportError:
        return True
    return True


def with_client(work: Callable[[Client], Awaitable[T]], name: str = "gloveport-cli", *, any_build: bool = False) -> T:
    """Run `work` with a connected client, the daemon started if absent; failures end the command.

    That the daemon is of another build is told, unless the command means one of `any_build`.
    """

    async def main() -> T:
        places = find_places()
        found = ensure_running(places)
        if found.server_version != build_version() and not any_build:
            warn(OTHER_BUILD, "yellow")
        async with connect(places.socket, token=read_token(places.token), client_name=name) as client:
            return await work(client)

    try:
        return asyncio.run(main())
    except GloveportError as error:
        fail(error.message, hint_of(error), code_of(error))
    except KeyboardInterrupt:
        err().print(plain("\nstopped", "yellow"))
        raise typer.Exit(int(Exit.INTERRUPTED)) from None
