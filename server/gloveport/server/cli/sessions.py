"""gloveport sessions, gloveport search, gloveport show: what there is.

Purpose: list sessions, find some and print one.
Invariant: reads only.
Must never: open more of a session than is shown.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.padding import Padding
from rich.table import Table

from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.change import EndedHunkInfo
from gloveport.protocol.wire.session import (
    SEARCH_FOUND_MAX,
    SEARCH_TEXT_LENGTH_MAX,
    ItemListParams,
    SessionInfo,
    SessionListParams,
    SessionSearchParams,
    ViewItem,
)
from gloveport.server.cli.hints import advice
from gloveport.server.cli.link import out, placed, plain, print_json, say, with_client
from gloveport.server.cli.phrases import (
    answered_words,
    call_title,
    card_words,
    change_words,
    counts_of_tests,
    egress_words,
    local_time,
    phase_words,
    retry_words,
    short_call,
    short_ids,
    standing_words,
)
from gloveport.server.cli.pick import HERE, Folder, Named, Session, once_named, pick_session, shown_title
from gloveport.server.client.connect import Client

ITEMS_SHOWN_MAX: Final = 500
TITLES_LOOKED_UP: Final = 50
"""Of so many of the newest sessions the first message is asked for."""
TABLE_WIDTH_MIN: Final = 80
"""On a narrower terminal each session has lines of its own."""


def sessions(
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many at most.")] = 50,
    root: Annotated[str, typer.Option("--root", "-C", metavar="FOLDER", help="Only those of this folder.")] = "",
) -> None:
    """List the sessions, newest first."""
    folder = str(placed(Path(root))) if root else None

    async def work(client: Client) -> None:
        found = await client.call("session/list", SessionListParams(limit=limit, root=folder))
        if found.sessions:
            titles = [await shown_title(client, one) for one in found.sessions[:TITLES_LOOKED_UP]]
            _print_sessions(found.sessions, [*titles, *(one.title for one in found.sessions[TITLES_LOOKED_UP:])])
        else:
            where = f" of {folder}" if folder else ""
            say(f"There is no session{where} yet. Begin one: gloveport run 'what to do'")
            for words in (await client.call("daemon/status")).data.told:
                say(words, "yellow")

    with_client(work)


def _print_sessions(found: Sequence[SessionInfo], titles: Sequence[str]) -> None:
    console, short = out(), short_ids(one.session_id for one in found)
    rows = [
        (short[one.session_id], phase_words(one.phase), local_time(one.updated_at), title, one.root)
        for one, title in zip(found, titles, strict=True)
    ]
    if console.width < TABLE_WIDTH_MIN:
        for name, phase, changed, title, root in rows:
            say(f"{name}  {phase}  {changed}", "bold")
            for text in (title, root):
                console.print(Padding(plain(text), (0, 0, 0, 2)), soft_wrap=False, overflow="fold")
        return
    table = Table(box=None, pad_edge=False)
    for name in ("session", "state", "changed"):
        table.add_column(name, no_wrap=True)
    for name in ("title", "folder"):
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(plain(cell) for cell in row))
    console.print(table, soft_wrap=False)


def search(
    words: Annotated[list[str], typer.Argument(help="Each of them occurs in the title or in one message.")],
    limit: Annotated[int, typer.Option(min=1, max=SEARCH_FOUND_MAX, help="How many sessions at most.")] = 20,
    root: Annotated[str, typer.Option("--root", "-C", metavar="FOLDER", help="Only those of this folder.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Find sessions by words of their titles, messages and answers, newest first."""
    folder = str(placed(Path(root))) if root else None

    async def work(client: Client) -> None:
        params = SessionSearchParams(text=" ".join(words)[:SEARCH_TEXT_LENGTH_MAX], root=folder, limit=limit)
        answer = await client.call("session/search", params)
        if as_json:
            print_json(answer.model_dump(mode="json"))
            return
        short = short_ids(one.session.session_id for one in answer.found)
        for one in answer.found:
            info = one.session
            title = await shown_title(client, info)
            say(f"{short[info.session_id]}  {local_time(info.updated_at)}  {title}", "bold")
            for hit in one.hits:
                say(f"  {'›' if hit.who == 'you' else ' '} {hit.words}")
            if one.messages > len(one.hits):
                say(f"    and {one.messages - len(one.hits)} older messages", "dim")
        if not answer.found:
            say(f"None of {answer.looked} sessions holds these words.")
        elif not answer.complete:
            say(f"Looked at the newest {answer.looked} sessions; there are more.", "dim")

    with_client(work)


def _mark(state: str, usual: str) -> str:
    """Where a message stands, if that is worth a word."""
    return "" if state == usual else f" [{state}]"


def _said(text: str) -> list[tuple[str, str]]:
    """An answer, if there is anything of it."""
    return [(text.rstrip("\n"), "")] if text else []


def _turn_lines(fields: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A turn that is in trouble; others show themselves by what they do."""
    if fields["state"] == "failed":
        return [(f"✗ {fields['message']}", "red"), (f"  {advice(fields['code'], fields['hint'])}", "")]
    if fields["state"] == "retrying":
        return [(f"↻ {retry_words(fields['retry'])} (at {local_time(fields['retry']['dueAt'])})", "yellow")]
    return []


def as_delivered(items: Sequence[ViewItem]) -> list[ViewItem]:
    """The items with each message where the model got it: before its turn, or before the request that took it along.

    In the view a message keeps the place where it was sent.
    """
    ordered: list[ViewItem] = []
    waiting: list[ViewItem] = []
    for item in items:
        taken = [one for one in waiting if _takes(item, one)]
        ordered += taken
        waiting = [one for one in waiting if one not in taken]
        if item.kind == "message.user" and item.fields["state"] == "delivered":
            waiting.append(item)
        else:
            ordered.append(item)
    return ordered + waiting


def _takes(item: ViewItem, message: ViewItem) -> bool:
    """Whether a message was delivered with this turn or request."""
    turn_id = message.fields["turnId"]
    begins = item.id == f"turn/{turn_id}"
    return begins or (item.kind == "message.assistant" and item.fields.get("turnId") == turn_id)


def _lines(item: ViewItem, ended: Sequence[EndedHunkInfo]) -> list[tuple[str, str]]:
    fields = item.fields
    match item.kind:
        case "message.user":
            return [(f"› {fields['text']}{_mark(fields['state'], 'delivered')}", "bold")]
        case "message.assistant":
            return _said(f"{fields['text']}{_mark(fields['state'], 'done')}" if fields["text"] else "")
        case "tool":
            title = fields.get("title") or call_title(fields["tool"], fields["arguments"])
            places = [(f"  ⇄ {egress_words(place)}", "dim") for place in fields.get("egress") or ()]
            return [(f"▸ {title}: {fields['state']} ({short_call(item.id)})", "cyan"), *places]
        case "tests":
            return [(f"  {counts_of_tests(fields)}", "bold")]
        case "change":
            words = change_words(fields["changeKind"], fields["path"], fields.get("renamedFrom"))
            ends = (hunk.state for hunk in ended if f"change/{hunk.change_id}" == item.id)
            return [(f"± {words}: {standing_words(fields['state'], ends)}", "blue")]
        case "approval":
            how = [card_words(fields["state"]), *filter(None, [answered_words(fields)])]
            return [(f"? {fields['card']['title']} {' · '.join(how)}", "yellow")]
        case "turn":
            return _turn_lines(fields)
        case _:
            return _notes(item)


def _notes(item: ViewItem) -> list[tuple[str, str]]:
    """What happened beside the conversation."""
    fields = item.fields
    if item.kind == "recovery":
        return [(f"↺ {fields['text']}", "magenta")]
    if item.kind == "freeze":
        return [(f"⛔ {fields['state']}: {fields['words']}", "bold red")]
    if item.kind == "steering":
        return [(f"» {fields['verb']}: {fields['steeringKind']}. [Gloveport: {fields['words']}]", "dim")]
    return []


def show(session: Named = "", named: Session = "", root: Folder = HERE) -> None:
    """Print a session: its messages, calls, tests and changes."""
    wanted = once_named(session, named)

    async def work(client: Client) -> None:
        info = await pick_session(client, wanted, root)
        detail = await client.call("session/show", SessionParams(session_id=info.session_id))
        params = ItemListParams(session_id=info.session_id, before=1 << 31, limit=ITEMS_SHOWN_MAX)
        page = await client.call("session/item/list", params)
        ended = (await client.call("change/list", SessionParams(session_id=info.session_id))).ended
        console = out()
        say(f"{await shown_title(client, info)} · {detail.info.root}", "bold")
        where = f"{detail.info.model_label} · sandbox {detail.info.sandbox} · {detail.info.trust_level}"
        say(f"{info.session_id} · {phase_words(detail.info.phase)} · {where}", "dim")
        if page.items_before:
            say(f"[{page.items_before} earlier items are not shown]", "dim")
        for item in as_delivered(page.items):
            for text, style in _lines(item, ended):
                if item.kind == "message.assistant":
                    console.print(plain(text, style))
                else:
                    say(text, style)
        about = f", about {detail.uncounted_tokens} of them uncounted" if detail.uncounted_tokens else ""
        say(f"tokens: {detail.input_tokens} in, {detail.output_tokens} out{about}", "dim")

    with_client(work)
