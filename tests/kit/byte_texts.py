"""Texts as bytes, with every form of line and encoding that files in the wild have.

Purpose: hypothesis strategies for file contents and for pairs that differ in a few places.
"""

from hypothesis import strategies as st

UTF8_BOM = b"\xef\xbb\xbf"
BODIES = st.sampled_from(
    [b"", b"a", b"b", b"x = 1", b"    return", b"\tif", b"prog 1%\rprog 2%", b"\r", b"\x00", b"\x99",
     b"\xc4\xe3\xba\xc3", "é漢🙂".encode(), b"}", b"a\x0bb", "\u2028".encode()]
)  # fmt: skip
ENDINGS = st.sampled_from([b"\n", b"\n", b"\r\n"])
LINES = st.lists(st.tuples(BODIES, ENDINGS).map(b"".join), max_size=24)
PLAIN = st.builds(
    lambda bom, lines, last: bom + b"".join(lines) + last, st.sampled_from([b"", UTF8_BOM]), LINES, BODIES
)
WIDE = st.builds(
    lambda lines, last, big, mark: ("\ufeff" * mark + "".join(lines) + last).encode(
        "utf-16-be" if big else "utf-16-le"
    ),
    st.lists(st.sampled_from(["a\n", "b\r\n", "\n", "ਊ漢🙂\n", "Āā\r\n"]), max_size=12),
    st.sampled_from(["", "end", "Ċ"]),
    st.booleans(),
    st.booleans(),
)
CONTENTS = st.one_of(PLAIN, WIDE, st.binary(max_size=60))


@st.composite
def edited_pairs(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A base and a result that share most of their lines."""
    lines = draw(LINES)
    result = list(lines)
    for _ in range(draw(st.integers(0, 5))):
        at = draw(st.integers(0, len(result)))
        gone = draw(st.integers(0, 2))
        result[at : at + gone] = draw(st.lists(st.tuples(BODIES, ENDINGS).map(b"".join), max_size=2))
    head = draw(st.sampled_from([b"", UTF8_BOM]))
    return head + b"".join(lines) + draw(BODIES), head + b"".join(result) + draw(BODIES)


PAIRS = st.one_of(edited_pairs(), st.tuples(CONTENTS, CONTENTS))
