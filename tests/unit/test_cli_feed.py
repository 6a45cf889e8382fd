"""What the terminal shows of a stream."""

from io import StringIO

from rich.console import Console

from gloveport.protocol.wire.session import ViewItem, WireEvent
from gloveport.server.cli.feed import Feed
from gloveport.server.cli.sessions import _lines, as_delivered


def piece(seq: int, text: str) -> WireEvent:
    """A piece of an answer."""
    op = {"op": "append", "item": "answer/a", "text": text}
    return WireEvent(stream="session/s", epoch=1, seq=seq, type="ModelTextDelta", at=0, ops=(op,))


def test_an_answer_goes_on_in_its_line_while_a_question_is_open() -> None:
    """The question is shown again once the line has ended, not a line for each piece."""
    seen = StringIO()
    feed = Feed(Console(file=seen, width=80))
    feed.take(piece(1, "one "))
    feed.ask("what? ")
    for seq, text in enumerate(("two ", "three ", "four\n"), start=2):
        feed.take(piece(seq, text))
    assert seen.getvalue() == "one \nwhat? \ntwo three four\nwhat? "


def test_a_terminal_shows_an_open_question_once() -> None:
    """What is printed meanwhile takes the place of all its rows, and it stands below again."""
    seen = StringIO()
    feed = Feed(Console(file=seen, width=20, force_terminal=True, soft_wrap=True, _environ={}))
    feed.ask("what shall it be then? ")
    feed.line("one")
    feed.take(piece(1, "two\n"))
    gone = "\r\x1b[2K\x1b[1A\x1b[2K"
    asked = "what shall it be then? "
    assert seen.getvalue() == f"{asked}{gone}one\ntwo\n{asked}"


def test_a_line_typed_amid_an_answer_ends_it() -> None:
    """What is printed after a person ended the line begins a line of its own."""
    seen = StringIO()
    feed = Feed(Console(file=seen, width=80))
    feed.ask("what? ")
    feed.asked(typed=True)
    feed.line("sent")
    assert seen.getvalue() == "what? sent\n"


def test_an_answer_that_never_began_is_not_shown() -> None:
    """An interrupted answer without a text has no line; one with a text is marked."""
    fields = {"text": "", "state": "interrupted"}
    assert _lines(ViewItem(id="answer/a", kind="message.assistant", fields=fields), ()) == []
    told = ViewItem(id="answer/a", kind="message.assistant", fields=fields | {"text": "Be"})
    assert _lines(told, ()) == [("Be [interrupted]", "")]


def item(name: str, kind: str, **fields: object) -> ViewItem:
    """An item of the view."""
    return ViewItem(id=name, kind=kind, fields=fields)


def said(name: str, state: str, **fields: object) -> ViewItem:
    """A message of the user."""
    return item(f"message/{name}", "message.user", text=name, state=state, **fields)


def test_messages_stand_where_they_were_delivered() -> None:
    """A steered message before the request that took it along, a queued one before its turn; others stay."""
    items = [
        said("first", "delivered", turnId="t1"),
        item("turn/t1", "turn", state="completed"),
        item("answer/1", "message.assistant", turnId="t1"),
        said("queued", "delivered", turnId="t2"),
        said("steered", "delivered", turnId="t1"),
        item("steering/steered", "steering", turnId="t1"),
        said("waits", "queued"),
        item("tool/1", "tool", turnId="t1"),
        item("answer/2", "message.assistant", turnId="t1"),
        item("turn/t2", "turn", state="running"),
        said("only just sent", "delivered", turnId="t3"),
    ]
    assert [one.id for one in as_delivered(items)] == [
        "message/first", "turn/t1", "answer/1", "steering/steered", "message/waits", "tool/1", "message/steered",
        "answer/2", "message/queued", "turn/t2", "message/only just sent",
    ]  # fmt: skip
