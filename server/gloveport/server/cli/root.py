"""The commands of `gloveport`.

Purpose: name every command.
Invariant: a command's module is loaded only when it is called for, except for what describes it.
Must never: hold behaviour.
"""

import sys

import typer

from gloveport.server.cli import approvals, changes, demo, doctor, records, run, sessions

app = typer.Typer(
    name="gloveport",
    help="An agent backend that an editor can trust with its hands.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(run.run)
app.command()(demo.demo)
app.command()(sessions.sessions)
app.command()(sessions.show)
app.command()(run.resume)
app.command()(changes.diff)
app.command()(changes.accept)
app.command()(changes.reject)
app.command()(changes.undo)
app.command()(approvals.approve)
app.command()(approvals.why)
app.command()(doctor.doctor)
app.command()(records.replay)
app.command()(records.export)
app.add_typer(records.audit, name="audit")


@app.command()
def lsp() -> None:
    """Serve an editor over standard input and output; the daemon is started if absent."""
    from gloveport.server.client.paths import find_places
    from gloveport.server.client.stdio import attach

    sys.exit(attach(find_places()))


daemon = typer.Typer(help="The daemon: run it in the foreground, look at it, stop it.", invoke_without_command=True)
app.add_typer(daemon, name="daemon")


@daemon.callback()
def serve(context: typer.Context) -> None:
    """Run the daemon in the foreground."""
    if context.invoked_subcommand is None:
        from gloveport.server.foreground import run_daemon

        sys.exit(run_daemon())


@daemon.command()
def status() -> None:
    """Show who serves here."""
    from gloveport.protocol.wire.base import Empty
    from gloveport.server.cli.link import out, plain, with_client
    from gloveport.server.client.connect import Client

    async def work(client: Client) -> None:
        found = await client.call("daemon/status", Empty())
        for name, value in found.model_dump(mode="json").items():
            out().print(plain(f"{name}: {value}"))

    with_client(work)


@daemon.command()
def stop() -> None:
    """End the daemon; programs that run go on and are found again by the next one."""
    from gloveport.protocol.wire.base import Empty
    from gloveport.server.cli.link import out, plain, with_client
    from gloveport.server.client.connect import Client

    async def work(client: Client) -> None:
        await client.call("daemon/stop", Empty())
        out().print(plain("The daemon ends."))

    with_client(work)


__all__ = ["app"]
