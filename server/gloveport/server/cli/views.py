"""gloveport usage, trace, plan, task, transcript, samples, metrics: what a session's log tells.

Purpose: ask for a projection of a session, from the daemon or from the log itself, and print it.
Invariant: reads only; with `--offline` no daemon is started or asked, and the answer is the same.
Must never: print a cost of nothing for what has no price.
"""

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.text import printable
from gloveport.protocol.wire import views as wire
from gloveport.protocol.wire.base import WireModel
from gloveport.server.cli import sessions as online
from gloveport.server.cli.hints import hint_of
from gloveport.server.cli.link import Exit, fail, print_json, with_client
from gloveport.server.cli.pick import HERE, Folder, Named, Session, once_named, pick_session
from gloveport.server.cli.view_words import print_metrics, print_plan, print_task, print_trace, print_usage
from gloveport.server.client.connect import Client
from gloveport.server.client.paths import find_places

Door = Callable[[Path, Path, str, WireModel], WireModel]
"""Answers a method from a data and a settings folder, without a daemon."""
Ask = Callable[[Client, Any], Awaitable[WireModel]]
Show = Callable[[Any], None]
Next = Callable[[Any, Any], WireModel | None]

Offline = Annotated[bool, typer.Option("--offline", help="Read the log itself, without a daemon.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Raw = Annotated[bool, typer.Option("--raw", help="Without redaction.")]
Form = Annotated[str, typer.Option("--format", help="markdown or plain.")]
ANY: Final = "-"
"""Stands in parameters for a session that is still to be found."""


class Views:
    """The commands; `door` reads a log without a daemon."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self.usage = self._whole(
            "usage",
            "Show a session's tokens and cost, by model and turn; what has no price is unpriced.",
            partial(self._one, "usage/show", lambda client, asked: client.call("usage/show", asked)),
            wire.UsageShowParams(session_id=ANY),
            print_usage,
        )
        self.plan = self._whole(
            "plan",
            "Show the agent's plan, and the steps whose goal has changed.",
            partial(self._one, "plan/show", lambda client, asked: client.call("plan/show", asked)),
            wire.PlanShowParams(session_id=ANY),
            print_plan,
        )
        self.task = self._whole(
            "task",
            "Show what a session does now: what runs, what waits, how it last failed.",
            partial(self._one, "task/show", lambda client, asked: client.call("task/show", asked)),
            wire.TaskShowParams(session_id=ANY),
            print_task,
        )

    def trace(
        self,
        session: Named = "",
        named: Session = "",
        turns: Annotated[int, typer.Option("--turns", min=1, max=wire.TURNS_MAX, help="The newest so many.")] = 1,
        as_json: AsJson = False,
        offline: Offline = False,
        root: Folder = HERE,
    ) -> None:
        """Show where the time of a session's newest turn went, part by part and line by line."""
        ask = partial(self._one, "trace/show", lambda client, asked: client.call("trace/show", asked))
        params = wire.TraceShowParams(session_id=ANY, turns=turns)
        ask(params, once_named(session, named), root, offline, _shown(print_trace, as_json))

    def transcript(
        self,
        session: Named = "",
        named: Session = "",
        form: Form = "markdown",
        raw: Raw = False,
        offline: Offline = False,
        root: Folder = HERE,
    ) -> None:
        """Print a session in words, as Markdown or plain text, redacted."""
        if form not in ("markdown", "plain"):
            fail(f"{form!r} is no format", "Use --format markdown or --format plain.", Exit.USAGE)

        def on(asked: wire.TranscriptParams, answer: Any) -> wire.TranscriptParams | None:
            sys.stdout.write(printable(answer.text))
            return None if answer.next_seq is None else asked.model_copy(update={"after_seq": answer.next_seq})

        ask = partial(self._pages, "session/transcript", lambda client, asked: client.call("session/transcript", asked))
        params = wire.TranscriptParams.model_validate({"session_id": ANY, "format": form, "redacted": not raw})
        ask(params, once_named(session, named), root, offline, on)

    def samples(
        self, session: Named = "", named: Session = "", raw: Raw = False, offline: Offline = False, root: Folder = HERE
    ) -> None:
        """Print one evaluation record for each turn as NDJSON, redacted."""

        def on(asked: wire.SampleListParams, answer: Any) -> wire.SampleListParams | None:
            for sample in answer.samples:
                print_json(sample)
            return None if answer.next_offset is None else asked.model_copy(update={"offset": answer.next_offset})

        ask = partial(self._pages, "sample/list", lambda client, asked: client.call("sample/list", asked))
        ask(wire.SampleListParams(session_id=ANY, redacted=not raw), once_named(session, named), root, offline, on)

    def metrics(
        self,
        session: Annotated[str, typer.Argument(help="A part of the session's id; empty: the newest sessions.")] = "",
        sessions: Annotated[int, typer.Option("--sessions", min=1, max=500, help="How many of the newest.")] = 100,
        as_json: AsJson = False,
        offline: Offline = False,
    ) -> None:
        """Show rates and times of one session or of many: questions, refusals, takings back, stops, tools."""
        params = wire.MetricsShowParams(session_id=session or None, sessions=sessions)
        show = _shown(print_metrics, as_json)
        if offline:
            show(self._read("metrics/show", params))
            return

        async def work(client: Client) -> None:
            found = (await pick_session(client, session)).session_id if session else None
            show(await client.call("metrics/show", params.model_copy(update={"session_id": found})))

        with_client(work)

    def show(self, session: Named = "", named: Session = "", offline: Offline = False, root: Folder = HERE) -> None:
        """Print a session: its messages, calls, tests and changes."""
        if offline:
            self.transcript(session, named, form="plain", offline=True, root=root)
        else:
            online.show(session, named, root)

    # --- asking

    @staticmethod
    def _whole(name: str, says: str, ask: Callable[..., None], params: WireModel, prints: Show) -> Callable[..., None]:
        """A command that shows one answer about a session, in words or as JSON."""

        def command(
            session: Named = "",
            named: Session = "",
            as_json: AsJson = False,
            offline: Offline = False,
            root: Folder = HERE,
        ) -> None:
            ask(params, once_named(session, named), root, offline, _shown(prints, as_json))

        command.__name__, command.__doc__ = name, says
        return command

    def _one(
        self, method: str, ask: Ask, params: WireModel, session: str, root: Path, offline: bool, show: Show
    ) -> None:
        self._pages(method, ask, params, session, root, offline, lambda _, answer: show(answer))

    def _pages(
        self, method: str, ask: Ask, params: WireModel, session: str, root: Path, offline: bool, on: Next
    ) -> None:
        """Hand each page of an answer to `on`, which gives the parameters of the next one, or null."""
        if offline:
            following: WireModel | None = params.model_copy(update={"session_id": session})
            while following is not None:
                following = on(following, self._read(method, following))
            return

        async def work(client: Client) -> None:
            found = (await pick_session(client, session, root)).session_id
            following: WireModel | None = params.model_copy(update={"session_id": found})
            while following is not None:
                following = on(following, await ask(client, following))

        with_client(work)

    def _read(self, method: str, params: WireModel) -> WireModel:
        try:
            places = find_places()
            return self._door(places.data_dir, places.config_dir, method, params)
        except GloveportError as error:
            fail(error.message, hint_of(error))


def _shown(show: Show, as_json: bool) -> Show:
    return _json if as_json else show


def _json(answer: WireModel) -> None:
    print_json(answer.model_dump(mode="json"))
