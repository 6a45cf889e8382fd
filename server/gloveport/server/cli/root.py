"""The commands of `gloveport`.

Purpose: name every command.
Invariant: a command's module is loaded only when it is called for, except for what describes it.
Must never: hold behaviour.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from gloveport.protocol.wire.base import Empty
from gloveport.server.cli import (
    approvals,
    changes,
    choices,
    deleting,
    demo,
    doctor,
    erasing,
    policy,
    records,
    restoring,
    rights,
    run,
    sessions,
    settling,
    steering,
    thawing,
)
from gloveport.server.cli.daemon_words import status_lines
from gloveport.server.cli.help import Command, Group
from gloveport.server.cli.hints import name_command
from gloveport.server.cli.link import NOBODY, Exit, fail, is_served, out, plain, print_json, say, with_client
from gloveport.server.cli.views import Door, Views
from gloveport.server.client.connect import Client
from gloveport.server.version import VERSION

WORK: Final = "Work"
DECIDE: Final = "Decide"
LOOK: Final = "Look"
SET_UP: Final = "Set up"
DEVELOPERS: Final = "For developers and editors"


@dataclass(frozen=True, slots=True)
class Doors:
    """What lies beyond the wire: the piper and the daemon in this process, and a reader of a log without a daemon."""

    serve_lsp: Callable[[], int]
    run_daemon: Callable[[], int]
    replay: records.Replay
    export: records.Export
    view: Door


def command_line(doors: Doors) -> typer.Typer:
    """The whole command line."""
    if os.environ.get("NO_COLOR"):  # the same help, no word of it cut, and without any style
        from typer import rich_utils

        rich_utils.COLOR_SYSTEM = None
    app = typer.Typer(
        cls=Group,
        name="gloveport",
        help="An agent backend that an editor can trust with its hands.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )
    app.callback()(program)
    views = Views(doors.view)
    groups: tuple[tuple[str, tuple[Callable[..., None], ...]], ...] = (
        (WORK, (run.run, run.resume, steering.steer, steering.queue, steering.interrupt, choices.cancel, demo.demo)),
        (
            DECIDE,
            (
                approvals.approve,
                rights.grants,
                rights.revoke,
                changes.diff,
                changes.accept,
                changes.reject,
                changes.undo,
                changes.redo,
                restoring.restore,
                settling.settle,
            ),
        ),
        (
            LOOK,
            (
                sessions.sessions,
                sessions.search,
                views.show,
                approvals.why,
                views.transcript,
                views.plan,
                views.task,
                views.usage,
            ),
        ),
        (
            SET_UP,
            (choices.trust, choices.budget, choices.mode, doctor.doctor, deleting.delete, erasing.erase, thawing.thaw),
        ),
        (DEVELOPERS, (views.trace, views.metrics, views.samples)),
    )
    for panel, commands in groups:
        for command in commands:
            app.command(rich_help_panel=panel, cls=Command)(command)
    app.command("replay", cls=Command, rich_help_panel=DEVELOPERS)(records.replay_with(doors.replay))
    app.command("export", cls=Command, rich_help_panel=DEVELOPERS)(records.export_with(doors.export))
    app.add_typer(choices.models, name="models", rich_help_panel=SET_UP)
    app.add_typer(_daemon(doors), name="daemon", rich_help_panel=SET_UP)
    app.add_typer(records.audit, name="audit", rich_help_panel=DEVELOPERS)
    app.add_typer(policy.policy, name="policy", rich_help_panel=SET_UP)

    @app.command(rich_help_panel=DEVELOPERS, cls=Command)
    def lsp() -> None:
        """Serve an editor over standard input and output; the daemon is started if absent."""
        raise typer.Exit(doors.serve_lsp())

    return app


def _print_version(given: bool) -> None:
    if given:
        out().print(plain(f"gloveport {VERSION}"))
        raise typer.Exit


def program(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """An agent backend that an editor can trust with its hands."""
    if context.invoked_subcommand is not None:
        name_command(context.invoked_subcommand)


def _daemon(doors: Doors) -> typer.Typer:
    daemon = typer.Typer(
        cls=Group, help="The daemon: run it in the foreground, look at it, stop it.", invoke_without_command=True
    )

    @daemon.callback()
    def serve(context: typer.Context) -> None:
        """Run the daemon in the foreground."""
        if context.invoked_subcommand is None:
            raise typer.Exit(doors.run_daemon())

    daemon.command(cls=Command)(status)
    daemon.command(cls=Command)(stop)
    return daemon


def status(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Show who serves here; none is started. Exit code 6 when nobody does."""
    if not is_served():
        fail(NOBODY, "The next command that needs one starts it.", Exit.UNREACHABLE)

    async def work(client: Client) -> None:
        found = await client.call("daemon/status", Empty())
        if as_json:
            print_json(found.model_dump(mode="json", by_alias=True))
            return
        for name, value in status_lines(found, time.time()):
            say(f"{name}: {value}")
        for words in (*found.data.told, *found.sandboxes_told):
            say(words, "yellow")

    with_client(work)


def stop() -> None:
    """End the daemon; programs that run go on and are found again by the next one."""
    if not is_served():
        say(NOBODY)
        return

    async def work(client: Client) -> None:
        await client.call("daemon/stop", Empty())
        say("The daemon ends.")

    with_client(work, any_build=True)
