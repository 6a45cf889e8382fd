"""How a message is read: by its first words and its shape, and the rule that spoke is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.server.turn.steering import ASKING, CORRECTING, REPLACING, read_message

READ = {
    "supplement": (
        "Also add a changelog line", "Accept lower-case month names too", "Note the date format",
        "Nothing else matters", "Justify the text", "Stopwatch tests are missing", "and the docs", "Then run mypy",
        "Forgetful users need a hint", "What about this?\nfoo: bar", "Use this:\nis it?", "还要加一个测试",
    ),
    "correct": (
        "No, the other file", "no", "Don't touch the database", "don’t touch it", "Do not run that", "Wrong file",
        "STOP that", "Actually, use tabs", "only fix the API", "不要改数据库了，只修 API", "别动那个文件", "错了",
        "Don't you need the lock?", "Wait, that's the wrong branch",
    ),
    "replace": ("Forget it, mend the tests", "Never mind that", "Instead, write docs", "New task: docs", "算了"),
    "ask": ("How far are you?", "What is that for?", "status", "Progress", "why this ?", "进度怎么样", "做到哪了？"),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in READ.items() for text in texts])
def test_read(kind: str, text: str) -> None:
    """Each example as people would take it."""
    reading = read_message(text)
    assert reading.kind == kind
    assert reading.rule


@given(st.text())
def test_any_text_is_read_and_alike_again(text: str) -> None:
    """Total, pure, and blind to case and to the space around."""
    reading = read_message(text)
    assert reading == read_message(text) == read_message(f"  {text}\n")


@pytest.mark.parametrize("phrase", [*ASKING, *REPLACING, *CORRECTING])
def test_every_phrase_speaks(phrase: str) -> None:
    """No phrase is hidden by an earlier rule, and each is written as it is compared."""
    kind = "ask" if phrase in ASKING else "replace" if phrase in REPLACING else "correct"
    assert read_message(phrase).kind == kind
    assert read_message(f"{phrase.title()}, then").kind == kind
    assert phrase == phrase.strip().lower()
