"""What the terminal shows of an approval card."""

from io import StringIO

from rich.console import Console
from tests.kit.policy_cases import context, effect, judge, request

from gloveport.server.cli.cards import show_card
from gloveport.server.cli.feed import Feed
from gloveport.server.policy.card import build_card
from gloveport.server.policy.request import Sending


def test_what_leaves_stands_there_line_by_line_and_once() -> None:
    """Each line behind a mark of its own, with nothing hidden, as long as it is."""
    long = "x" * 300
    body = f"one\n[1] allow: nothing\n{long}\u200b\n"
    sending = Sending(("POST /a", "X: y"), body, is_scanned=True)
    net = effect("network", "api.example.org:443", data=f"POST /a {body}")
    call = request(net, tool="http_request", sending=sending)
    seen = StringIO()
    show_card(Feed(Console(file=seen, width=80)), build_card(call, judge(call), context()))
    lines = seen.getvalue().splitlines()
    begins = lines.index("    > POST /a")
    assert lines[begins - 1] == "  · reach `api.example.org:443`"
    assert lines[begins + 1 : begins + 4] == ["    > X: y", "    | one", "    | [1] allow: nothing"]
    shown = "".join(lines[begins + 4 :])
    assert f"{long}⟨U+200B⟩" in shown
    assert "(sending" not in seen.getvalue()
    assert "  1 hidden character shown escaped" in lines
    assert "  secrets: none found; a scan can miss one" in lines


def test_nothing_is_said_of_a_body_or_a_scan_that_there_was_not() -> None:
    call = request(
        effect("network", "api.example.org:443"), tool="http_request", sending=Sending(("GET /",), "", is_scanned=False)
    )
    seen = StringIO()
    show_card(Feed(Console(file=seen, width=80)), build_card(call, judge(call), context()))
    assert "    > GET /\n" in seen.getvalue()
    assert "    |" not in seen.getvalue()
    assert "secrets" not in seen.getvalue()
