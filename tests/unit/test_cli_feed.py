"""What the terminal shows of a stream."""

from io import StringIO

from rich.console import Console

from gloveport.protocol.wire.session import ViewItem, WireEvent
from gloveport.server.cli.feed import Feed
from gloveport.server.cli.phrases import call_title, short_call
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


def test_words_break_where_the_terminal_ends_and_nothing_within_a_word() -> None:
    """In a pipe nothing is broken; a path stays whole; what is copied is left to the terminal."""
    words = "▸ Run all tests with pytest (in bubblewrap) below /a/long/path/that/has/no/room"
    for force, rows in ((False, 1), (True, 4)):
        seen = StringIO()
        feed = Feed(Console(file=seen, width=22, force_terminal=force, soft_wrap=True, _environ={}))
        feed.line(words)
        assert len(seen.getvalue().splitlines()) == rows
        assert all(len(row) < 22 or "/" in row for row in seen.getvalue().splitlines() if force)
        assert " ".join(seen.getvalue().split()) == words
        feed.verbatim(words)
        assert seen.getvalue().endswith(f"\n{words}\n")


def test_a_call_is_titled_with_the_words_as_they_are_quoted() -> None:
    """As on its card: what a shell would take for the same words."""
    assert call_title("run_command", '{"argv": ["python3", "-c", "print(1+1)"]}') == "Run python3 -c 'print(1+1)'"
    assert short_call("tool/turn-0661809eb1b185.c12") == "b1b185.c12"


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
