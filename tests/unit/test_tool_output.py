"""Making output safe: terminal commands, control and hidden characters, floods, streams cut anywhere."""

import sys
import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gloveport.protocol.text import printable
from gloveport.server.tools.output import LINE_BYTES_HELD_MAX, LINE_CHARACTERS_MAX, OutputCleaner, clean_output

HIDING = (
    "\xad\u034f\u061c\u180e\u200b\u200d\u2060\u2064\u3164\ufe00\ufff9\ue000\U000e0100"
    "\u200e\u200f\u2028\u202e\u2066\u2069\ufeff\U000e0041"
)
bytes_of_terminals = st.lists(
    st.one_of(
        st.binary(max_size=12),
        st.sampled_from(
            [b"\x1b[2J", b"\x1b]0;t\x07", b"\x1b]52;c;eA==\x07", b"\r", b"\r\n", b"\n", b"\x1b", b"\x9b31m"]
        ),
        st.text(max_size=8).map(lambda text: text.encode("utf-8", "surrogatepass")),
        st.sampled_from([char.encode() for char in HIDING]),
    ),
    max_size=30,
).map(b"".join)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"\x1b[2J\x1b[1;31mred\x1b[0m", "red"),
        (b"\x1b]0;title\x07x", "x"),
        (b"\x1b]52;c;c2VjcmV0\x07x", "x"),
        (b"\x1b]8;;http://attacker.invalid\x1b\\text\x1b]8;;\x1b\\", "text"),
        (b"\x1bPdevice\x1b\\x\x1b_private\x1b\\y", "xy"),
        (b"10%\r50%\r100%\r\ndone\r\n", "100%\ndone\n"),
        (b"a\x00b\x08c\x7f", "a\\x00b\\x08c\\x7f"),
        ("x\u202ey\u200bz\U000e0041".encode(), "x\\u202ey\\u200bz\\U000e0041"),
        ("p\u200das\u2060s\xadw\ufe0f \u26a0\ufe0f".encode(), "p\\u200das\\u2060s\\xadw\\ufe0f \u26a0\ufe0f"),
        (b"caf\xe9 \xff", "caf\ufffd \ufffd"),
        (b"tab\tkept", "tab\tkept"),
    ],
)
def test_c12_c14_what_is_shown(raw: bytes, shown: str) -> None:
    """C14: clear screen, title, clipboard, links, device strings; C12: redrawn lines; hidden characters by name."""
    assert clean_output(raw) == shown


def test_there_is_one_table_of_what_is_not_seen() -> None:
    """Whatever Unicode calls control, format, private or a line end is shown by name, by tools and by clients alike."""
    for point in range(sys.maxunicode + 1):
        char = chr(point)
        if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"} and char not in "\n\t":
            assert printable(f"a{char}b").isascii(), hex(point)
            if not 0xD800 <= point < 0xE000 and char != "\x1b" and char != "\r":
                assert clean_output(f"a{char}b".encode()) == printable(f"a{char}b")


@given(bytes_of_terminals)
def test_c14_nothing_dangerous_is_left(raw: bytes) -> None:
    """C14: whatever comes in, no terminal command and no character that hides or turns text goes out."""
    shown = clean_output(raw)
    assert not any(ord(char) < 32 and char not in "\n\t" for char in shown)
    assert not any(0x7F <= ord(char) < 0xA0 for char in shown)
    assert not set(HIDING) & set(shown)


@given(bytes_of_terminals, st.lists(st.integers(0, 400)))
def test_a_stream_cut_anywhere_shows_the_same(raw: bytes, cuts: list[int]) -> None:
    """Pieces joined are what the whole is, for lines of usual length: nothing is judged by its half."""
    cleaner, places = OutputCleaner(), sorted(min(cut, len(raw)) for cut in cuts)
    pieces = [raw[start:end] for start, end in zip([0, *places], [*places, len(raw)], strict=True)]
    streamed = "".join(map(cleaner.feed, pieces)) + cleaner.finish()
    lines = raw.split(b"\n")
    assert streamed == "\n".join(map(clean_output, lines))


@settings(max_examples=20)
@given(st.lists(st.integers(1, 3 * LINE_BYTES_HELD_MAX), max_size=8))
def test_c12_an_endless_line_is_let_go_the_same_way(cuts: list[int]) -> None:
    """C12: a line without an end is not held; it is cut between characters, and not where the pieces are."""
    raw = "äö€😀".encode() * 20_000
    whole, cleaner = OutputCleaner(), OutputCleaner()
    places = sorted(min(cut, len(raw)) for cut in cuts)
    expected = whole.feed(raw) + whole.finish()
    pieces = [raw[start:end] for start, end in zip([0, *places], [*places, len(raw)], strict=True)]
    assert "".join(map(cleaner.feed, pieces)) + cleaner.finish() == expected
    assert "\ufffd" not in expected


def test_c12_floods_take_no_time_and_no_room() -> None:
    """C12: 5 MB on one line, a million redraws, a million unfinished sequences: each well under a second or so."""
    began = time.process_time()
    assert len(clean_output(b"x" * 5_000_000)) < LINE_CHARACTERS_MAX + 100
    assert clean_output(b"99%\r" * 1_000_000) == "99%"
    clean_output(b"\x1b]" * 500_000)
    clean_output(b"\x1b[3" * 500_000)
    cleaner = OutputCleaner()
    for _ in range(2_000):
        cleaner.feed(b"y" * 1_000)
    assert time.process_time() - began < 5.0
