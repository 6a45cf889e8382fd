"""Frames: however the bytes are cut, the same items come out."""

from hypothesis import given, settings
from hypothesis import strategies as st

from gloveport.protocol.wire.framing import (
    HEADER_BYTES_MAX,
    Body,
    Broken,
    FrameItem,
    FrameReader,
    Refused,
    encode_frame,
)

LIMIT = 64
SKIP = 4096


def read_all(data: bytes, cuts: list[int]) -> list[FrameItem]:
    """The items of `data` fed in pieces."""
    reader, items, at = FrameReader(LIMIT, SKIP), [], 0
    for cut in [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]:
        items += reader.feed(data[at:cut])
        at = cut
    return items


bodies = st.binary(max_size=LIMIT)
cut_lists = st.lists(st.integers(0, 10_000), max_size=12)


@st.composite
def frames(draw: st.DrawFn) -> tuple[bytes, FrameItem]:
    """One frame in some spelling, with the item it must give."""
    body = draw(st.binary(max_size=LIMIT * 2))
    name = draw(st.sampled_from([b"Content-Length", b"content-length", b"CONTENT-LENGTH"]))
    more = draw(st.sampled_from([b"", b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\n", b"X: 1\r\n"]))
    blank = draw(st.sampled_from([b"", b" ", b"\t "]))
    frame = b"%b%b:%b%d%b\r\n\r\n%b" % (more, name, blank, len(body), blank, body)
    return frame, Body(body) if len(body) <= LIMIT else Refused(len(body), LIMIT)


@settings(deadline=None)
@given(st.lists(frames(), max_size=6), cut_lists)
def test_good_frames_in_any_cut(made: list[tuple[bytes, FrameItem]], cuts: list[int]) -> None:
    """Every body, in order, exact; one over the limit is refused and the next is found."""
    assert read_all(b"".join(frame for frame, _ in made), cuts) == [item for _, item in made]


@settings(deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=40), bodies.map(encode_frame)), max_size=8), cut_lists)
def test_any_bytes_end_alike_in_any_cut(parts: list[bytes], cuts: list[int]) -> None:
    """Bodies before a break are the same, and a stream is broken for good or not at all."""
    data = b"".join(parts)
    whole, pieces = read_all(data, []), read_all(data, cuts)
    assert [item for item in whole if not isinstance(item, Broken)] == [
        item for item in pieces if not isinstance(item, Broken)
    ]
    assert any(isinstance(item, Broken) for item in whole) == any(isinstance(item, Broken) for item in pieces)
    assert all(not isinstance(item, Broken) for item in pieces[:-1])


@settings(deadline=None)
@given(st.lists(bodies, max_size=4), bodies, cut_lists, st.integers(0, 200))
def test_the_rest_can_be_handed_to_another_reader(before: list[bytes], last: bytes, cuts: list[int], keep: int) -> None:
    """What was fed and not yet used is given back in full."""
    data = b"".join(map(encode_frame, [*before, last]))
    split = len(data) - min(keep, len(data))
    first = FrameReader(LIMIT, SKIP)
    items = first.feed(data[:split])
    second = FrameReader(LIMIT, SKIP)
    items += second.feed(first.take_rest() + data[split:])
    assert items == [Body(body) for body in [*before, last]]


def test_an_endless_header_is_not_kept() -> None:
    """Memory is bounded whatever arrives."""
    reader = FrameReader()
    items: list[FrameItem] = []
    for _ in range(100):
        items += reader.feed(b"X: " + b"y" * 1000)
    assert [type(item) for item in items] == [Broken]
    assert len(reader.take_rest()) <= HEADER_BYTES_MAX


def test_a_length_beyond_reason_breaks_at_once() -> None:
    """Nobody waits for 10 GB to be skipped."""
    (item,) = FrameReader().feed(b"Content-Length: 10000000000\r\n\r\n")
    assert isinstance(item, Broken)
