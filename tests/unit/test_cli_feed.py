"""What the terminal shows of a stream."""

from io import StringIO

from rich.console import Console

from gloveport.protocol.wire.session import ViewItem, WireEvent
from gloveport.server.cli.feed import Feed
from gloveport.server.cli.sessions import _lines


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
    assert _lines(ViewItem(id="answer/a", kind="message.assistant", fields=fields)) == []
    told = ViewItem(id="answer/a", kind="message.assistant", fields=fields | {"text": "Be"})
    assert _lines(told) == [("Be [interrupted]", "")]
