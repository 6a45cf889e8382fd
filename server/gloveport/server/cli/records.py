"""gloveport replay, export, audit: the records.

Purpose: fold a session's log again and check it, print it, and check the audit chain.
Invariant: reads only; works without a daemon where no daemon runs.
Must never: print a secret that redaction knows, unless asked for the raw log.
"""

from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Protocol

import typer

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.base import Empty
from gloveport.protocol.wire.place import AuditExportParams
from gloveport.protocol.wire.session import SessionExportParams
from gloveport.server.cli.help import Command, Group
from gloveport.server.cli.hints import hint_of
from gloveport.server.cli.link import Exit, fail, print_json, say, with_client
from gloveport.server.cli.pick import HERE, Folder, Named, Session, once_named, pick_session
from gloveport.server.client.connect import Client
from gloveport.server.client.paths import find_places

EVENTS_MAX: Final = 10**12
"""No log has more events."""
AnySession = Annotated[
    str, typer.Argument(help="A part of the session's id, a database or an export; empty: the newest session.")
]


class ReplayReport(Protocol):
    """What a replay found."""

    @property
    def session_id(self) -> str: ...
    @property
    def events(self) -> int: ...
    @property
    def unknown(self) -> int: ...
    @property
    def chain(self) -> str: ...
    @property
    def chain_holds(self) -> bool: ...
    @property
    def state(self) -> str: ...
    @property
    def items(self) -> int: ...
    @property
    def view_digest(self) -> str: ...
    @property
    def shown(self) -> tuple[dict[str, Any], ...]: ...


Replay = Callable[[Path, str, int | None, str], ReplayReport]
Export = Callable[[Path, Path, str, bool], Iterator[dict[str, Any]]]


def replay_with(read: Replay) -> Callable[..., None]:
    """The command `replay`; `read` folds a log without a daemon."""

    def replay(
        session: AnySession = "",
        at: Annotated[int | None, typer.Option("--at", min=1, max=EVENTS_MAX, help="Only up to this event.")] = None,
        view: Annotated[
            str, typer.Option("--view", help="Print this view there: items, state, events, context, trace, usage, …")
        ] = "",
    ) -> None:
        """Fold the log of a session or a file anew with today's code; prints what came of it, or a view."""
        try:
            report = read(find_places().data_dir, session, at, view)
        except GloveportError as error:
            unknown_view = view and error.code is ErrorCode.INVALID_PARAMS
            fail(error.message, hint_of(error), Exit.USAGE if unknown_view else Exit.FAILED)
        for line in report.shown:
            print_json(line)
        if view:
            raise typer.Exit(int(Exit.OK if report.chain_holds else Exit.FAILED))
        say(f"{report.session_id}: {report.events} events, {report.unknown} of a newer version")
        say(f"chain: {report.chain}", "green" if report.chain_holds else "red")
        say(f"state: {report.state}")
        say(f"view: {report.items} items, digest {report.view_digest}")
        raise typer.Exit(int(Exit.OK if report.chain_holds else Exit.FAILED))

    return replay


def export_with(read: Export) -> Callable[..., None]:
    """The command `export`; `read` gives the events of a log without a daemon."""

    def export(
        session: Named = "",
        named: Session = "",
        raw: Annotated[bool, typer.Option("--raw", help="Without redaction.")] = False,
        offline: Annotated[bool, typer.Option("--offline", help="Read the log itself, without a daemon.")] = False,
        root: Folder = HERE,
    ) -> None:
        """Print a session's events as NDJSON, redacted."""
        session = once_named(session, named)
        if not offline:
            _export(session, raw, root)
            return
        places = find_places()
        try:
            for line in read(places.data_dir, places.config_dir, session, raw):
                print_json(line)
        except GloveportError as error:
            fail(error.message, hint_of(error))

    return export


def _export(session: str, raw: bool, root: Path) -> None:
    async def work(client: Client) -> None:
        info = await pick_session(client, session, root)
        after: int | None = 0
        while after is not None:
            params = SessionExportParams(session_id=info.session_id, after_seq=after, redacted=not raw)
            page = await client.call("session/export", params)
            for event in page.events:
                print_json(event)
            after = page.next_seq

    with_client(work)


audit = typer.Typer(cls=Group, help="The audit log: one line for every action.", no_args_is_help=True)


@audit.command(cls=Command)
def verify() -> None:
    """Follow the audit chain to its last checkpoint. Exit code 1 when it is broken."""

    async def work(client: Client) -> int:
        result = await client.call("audit/verify", Empty())
        mark = "✓" if result.ok else "✗"
        where = "" if result.first_bad_line is None else f" (line {result.first_bad_line})"
        say(f"{mark} {result.path}: {result.words}{where}", "green" if result.ok else "red")
        return int(Exit.OK if result.ok else Exit.FAILED)

    raise typer.Exit(with_client(work))


class Form(StrEnum):
    """Shapes in which audit lines are printed."""

    LINES = "lines"
    OCSF = "ocsf"


@audit.command("export", cls=Command)
def export_lines(
    form: Annotated[Form, typer.Option("--format", help="lines: as they are recorded; ocsf: as OCSF events.")] = (
        Form.LINES
    ),
) -> None:
    """Print the audit lines as NDJSON."""

    async def work(client: Client) -> None:
        after: int | None = 0
        while after is not None:
            page = await client.call("audit/export", AuditExportParams(after_line=after, format=form.value))
            for line in page.lines:
                print_json(line)
            after = page.next_line

    with_client(work)
