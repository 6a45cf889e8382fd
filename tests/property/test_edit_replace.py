"""Exact-string replacement and whole-file writing: exact, or refused before any write."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.kit.byte_texts import CONTENTS

from gloveport.protocol.errors import ErrorCode
from gloveport.server.edit.errors import EditError
from gloveport.server.edit.lines import Encoding, TextForm, sniff_form, split_lines, utf16_order
from gloveport.server.edit.replace import Quote, hash_of, replace_exact, replace_many
from gloveport.server.edit.rewrite import rewrite_text

BOM = b"\xef\xbb\xbf"
WORDS = st.text(alphabet="abcxyz \té漢🙂", min_size=1, max_size=8)


@given(st.lists(st.tuples(WORDS, st.sampled_from(["\n", "\r\n"])), min_size=1, max_size=12), st.booleans(), WORDS)
def test_only_the_quoted_bytes_change(lines: list[tuple[str, str]], bom: bool, new: str) -> None:
    """A unique mark is replaced; all bytes before and behind it stay (A01, A02, A03)."""
    head = (BOM if bom else b"") + "".join(map("".join, lines[: len(lines) // 2])).encode()
    tail = "".join(map("".join, lines[len(lines) // 2 :])).encode()
    done = replace_exact(head + b"@mark@" + tail, "@mark@", new, path="f")
    assert done.result == head + new.encode() + tail
    assert (done.base_hash, done.result_hash) == (hash_of(head + b"@mark@" + tail), hash_of(done.result))


@given(CONTENTS, WORDS, WORDS)
def test_either_exact_or_refused(data: bytes, old: str, new: str) -> None:
    """Whatever the bytes: the result has the quote swapped at one place, or nothing is handed out (A02, A04)."""
    assume(old != new)
    try:
        done = replace_exact(data, old, new, path="f")
    except EditError as error:
        code = error.code
        result = None
    else:
        code = None
        result = done.result
    if result is None:
        assert code in (ErrorCode.EDIT_NO_MATCH, ErrorCode.EDIT_AMBIGUOUS, ErrorCode.EDIT_ENCODING)
        return
    order = utf16_order(data)
    wide = "utf-8" if order is None else order.value
    quoted, wanted = old.encode(wide), new.encode(wide)
    assert utf16_order(result) is order
    places = [at for at in range(len(data)) if data.startswith(quoted, at)]
    assert result in [data[:at] + wanted + data[at + len(quoted) :] for at in places]


def test_a01_inserted_line_takes_the_neighbours_ending() -> None:
    """A01: a line put into a CRLF file ends in CRLF; every other byte stays."""
    done = replace_exact(b"alpha\r\nbeta\r\n", "alpha\nbeta\n", "alpha\nmiddle\nbeta\n", path="f")
    assert done.result == b"alpha\r\nmiddle\r\nbeta\r\n"


@pytest.mark.parametrize(("before", "old", "new", "after"), [
    (b"a\r\nxy\nb\r\n", "x", "1\n2", b"a\r\n1\n2y\nb\r\n"), (b"a\r\nxy", "x", "1\n2", b"a\r\n1\r\n2y"),
    (b"a\r\nb\r\n", "\nb", "\nc\nd", b"a\r\nc\r\nd\r\n"),
    (b"a\r\nb\nc", "a\nb\nc", "a\nb\nx", b"a\r\nb\nx"), (b"a\nb\r\nc", "a\nb\nc", "x\nb\nc", b"x\nb\r\nc"),
    (b"x\ny\r\nx\ny", "x\ny\nx\ny", "x\ny\nx\ny\nx\ny", b"x\ny\r\nx\ny\nx\ny"),
    (b"a\nb\r\nc\nd\r\n", "b\nc\n", "b\nnew\nc\n", b"a\nb\r\nnew\r\nc\nd\r\n"), (b"xy", "x", "1\n2", b"1\n2y"),
    (b"a\nb\r\nc\nd", "a\nb\nc\nd", "a\nd", b"a\nd"), (b"a\nb\r\nc\nd", "b\nc\nd", "c\nd", b"a\nc\nd"),
])  # fmt: skip
def test_a01_endings_of_lines_that_stay_and_that_come(before: bytes, old: str, new: str, after: bytes) -> None:
    """What stays keeps its own; what comes takes that of the line that holds the place, else of the one before."""
    assert replace_exact(before, old, new, path="f").result == after


@given(st.lists(st.sampled_from([b"\n", b"\r\n"]), min_size=1, max_size=8), st.booleans(), st.data())
def test_a01_every_line_of_a_quote_keeps_its_ending_and_new_ones_take_one(
    endings: list[bytes], ends: bool, data: st.DataObject
) -> None:
    """Any quote in any mixture: the ends of lines that stay are theirs; a new line ends as the quoted one above it."""
    if not ends:
        endings[-1] = b""
    texts = [f"ab-{number}-yz" for number in range(len(endings))]
    body = b"".join(text.encode() + ending for text, ending in zip(texts, endings, strict=True))
    first = data.draw(st.integers(0, len(texts) - 1))
    last = data.draw(st.integers(first, len(texts) - 1))
    quoted = texts[first : last + 1]
    cuts = [0, 1, 2, len(quoted[0])] if len(quoted) > 2 else [0, 1, 2]
    head, tail = data.draw(st.sampled_from(cuts)), data.draw(st.sampled_from(cuts))
    quoted[-1] = quoted[-1][: len(quoted[-1]) - tail]
    quoted[0] = quoted[0][head:]
    until = data.draw(st.integers(0, len(quoted)))
    again = data.draw(st.integers(until, len(quoted)))
    fresh = data.draw(st.lists(st.sampled_from(["new", "x"]), max_size=3))
    wanted = quoted[:until] + fresh + quoted[again:]
    assume(wanted not in (quoted, []))
    breaks = endings[first:last]
    stay = min(until, len(breaks), len(wanted) - 1)
    room = len(wanted) - 1 - stay
    back = min(len(quoted) - max(again, 1), len(breaks) - stay, room)
    near = [*breaks[max(stay - 1, 0) :][:1], endings[last], *reversed(endings[:first]), b"\n"]
    middle = [next(one for one in near if one)] * (room - back)
    chosen = [*breaks[:stay], *middle, *breaks[len(breaks) - back :], b""]
    new = b"".join(text.encode() + ending for text, ending in zip(wanted, chosen[: len(wanted)], strict=True))
    start = sum(map(len, endings[:first])) + sum(map(len, texts[:first])) + head
    end = sum(map(len, endings[:last])) + sum(map(len, texts[: last + 1])) - tail
    done = replace_exact(body, "\n".join(quoted), "\n".join(wanted), path="f")
    assert (done.result, done.lines) == (body[:start] + new + body[end:], (first + 1,))


def test_what_is_told_of_a_refusal() -> None:
    """The file by its path, and the candidates as they stand, without the ends of their lines."""
    with pytest.raises(EditError) as refusal:
        replace_exact(b"\0\1\2", "a", "b", path="f")
    assert (refusal.value.message, refusal.value.data) == ("f: the file is not text", {"path": "f"})
    with pytest.raises(EditError) as refusal:
        replace_exact(b"goX\r\ngoX\r\n", "goX", "b", path="f")
    assert [each["text"] for each in refusal.value.data["candidates"]] == ["goX", "goX"]  # type: ignore[attr-defined] - error data is `object`


def test_a02_a_line_feed_within_two_letters_is_no_end_of_a_line() -> None:
    """The bytes of a line end at an odd place, in both orders."""
    text = "\ufeffa\u0a61\u6200b\nc\u610a\u0062\nd"
    for order in ("utf-16-le", "utf-16-be"):
        assert [line.decode(order) for line in split_lines(text.encode(order))] == [
            "\ufeffa\u0a61\u6200b\n", "c\u610a\u0062\n", "d",
        ]  # fmt: skip


def test_a01_lone_carriage_return_is_data() -> None:
    """A01: mixed endings and a lone CR survive a change of one line between them."""
    done = replace_exact(b"a\r\nb\nprog 1%\rprog 2%\n", "b\n", "B\n", path="f")
    assert done.result == b"a\r\nB\nprog 1%\rprog 2%\n"


def test_a02_legacy_byte_far_away_survives() -> None:
    """A02: one byte 0x99 on line 999 of an ASCII file stays, and the hashes are over raw bytes."""
    lines = [b"word %d\n" % n for n in range(1, 1001)]
    lines[998] = b"odd \x99 byte\n"
    done = replace_exact(b"".join(lines), "word 1\n", "name 1\n", path="f")
    assert done.result == b"name 1\n" + b"".join(lines[1:])


def test_a02_two_byte_letters_are_never_cut() -> None:
    """A02: in GB2312 a quote whose first letter may be the second half of another letter is refused."""
    data = "说明 = 1\n".encode("gb2312")
    assert replace_exact(data, "= 1", "= 2", path="f").result == data.replace(b"= 1", b"= 2")
    with pytest.raises(EditError) as refusal:
        replace_exact(b"\x81\x40a\n", "@a", "b", path="f")
    assert refusal.value.code is ErrorCode.EDIT_ENCODING


def test_a02_utf16_keeps_mark_order_and_endings() -> None:
    """A02: UTF-16LE with CRLF is edited in its own units."""
    data = b"\xff\xfe" + "one\r\ntwo\r\n".encode("utf-16-le")
    done = replace_exact(data, "one\n", "eins\nzwei\n", path="f")
    assert done.result == b"\xff\xfe" + "eins\r\nzwei\r\ntwo\r\n".encode("utf-16-le")


ENCODED = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=20)


@given(ENCODED, st.sampled_from(["utf-16-le", "utf-16-be"]))
def test_a02_utf16_is_known_without_a_mark_by_what_else_it_could_not_be(text: str, order: str) -> None:
    """Enough ASCII and no control characters; edits keep it so, and the order is never mistaken."""
    data = f"key = value\n{text}\n".encode(order)
    latin = sum(ord(char) < 256 for char in text)
    if (latin + 13) * 2 >= len(data) // 2 and not {"\ufffe", "\uffff"} & set(text) and text[:1] != "\ufeff":
        assert sniff_form(data) == TextForm(Encoding(order))
        assert b"".join(split_lines(data)) == data
        assert len(split_lines(data)) == f"key = value\n{text}\n".count("\n")
    else:
        assert utf16_order(data) in (None, Encoding(order))


@pytest.mark.parametrize(("data", "encoding", "bom"), [
    (b"", "utf-8", b""), (b"a", "utf-8", b""), (BOM, "utf-8", BOM), (BOM + "é".encode(), "utf-8", BOM),
    (b"\x99", "legacy", b""), (BOM + b"\x99", "legacy", b""), (b"a\0", "binary", b""), (BOM + b"a\0", "binary", b""),
    (b"\xff\xfe", "utf-16-le", b"\xff\xfe"), (b"\xfe\xff", "utf-16-be", b"\xfe\xff"),
    (b"\xff\xfea\0", "utf-16-le", b"\xff\xfe"), (b"\xfe\xff\0a", "utf-16-be", b"\xfe\xff"),
    (b"\xff\xfea", "binary", b""), (b"\xff\xfe\0\xd8", "binary", b""), (b"\xff\xfe\0\0a\0\0\0", "binary", b""),
    (b"a\0b\0c\0d\0", "utf-16-le", b""), (b"\0a\0b\0c\0d", "utf-16-be", b""), (b"a\0b\0c\0", "binary", b""),
    (b"\0\0\0\0\0\0\0\0", "binary", b""), (b"a\0b\0c\0\n\0", "utf-16-le", b""), (b"abcdefgh", "utf-8", b""),
])  # fmt: skip
def test_a02_what_bytes_are(data: bytes, encoding: str, bom: bytes) -> None:
    """By their mark, else by what else they could not be; torn or without a letter they are bytes."""
    form = sniff_form(data)
    assert form == TextForm(Encoding(encoding), bom)
    assert form.editable is encoding.startswith("utf")
    assert form.words == f"{encoding} {'with' if bom else 'without'} byte order mark"


def test_a02_half_of_the_units_may_be_other_letters() -> None:
    """One more, and the bytes are not taken for two-byte text."""
    for order in ("utf-16-le", "utf-16-be"):
        assert utf16_order("abcd漢字漢字".encode(order)) is Encoding(order)
        assert utf16_order("abc漢字漢字".encode(order)) is None


@pytest.mark.parametrize("data", [
    b"\0a", b"a\0b\0\n\0", bytes(16), b"\1\0\2\0\3\0\4\0", b"PK\3\4\0\0\0\0\0\0\0\0", b"a\0b\0c\0d\0e",
    "ab漢字漢字漢字".encode("utf-16-le"), b"\0\xd8a\0b\0c\0d\0e\0", "ab\0cdefgh".encode("utf-16-le"),
])  # fmt: skip
def test_a02_bytes_are_not_taken_for_utf16(data: bytes) -> None:
    """Too short, too few letters, control characters, halves."""
    assert utf16_order(data) is None


@pytest.mark.parametrize(("data", "old", "new"), [
    ("key = value\n".encode("utf-16-le"), "key = value", "漢字漢字漢字漢字"), (b"one\n", "one", "\ufeffone"),
    (b"\xef\xbb\xbfone\n", "one", "\ufeffone"), (b"abcdefgh", "abcdefgh", "a\0b"),
])  # fmt: skip
def test_a02_an_edit_never_changes_what_a_file_is(data: bytes, old: str, new: str) -> None:
    """A byte order mark that comes twice or newly, letters that would make the encoding a guess: refused."""
    with pytest.raises(EditError) as refusal:
        replace_exact(data, old, new, path="f")
    assert refusal.value.code is ErrorCode.EDIT_ENCODING


@given(st.lists(st.tuples(WORDS, WORDS, st.booleans()), min_size=1, max_size=4), CONTENTS)
def test_many_edits_are_one_after_the_other_or_none(edits: list[tuple[str, str, bool]], data: bytes) -> None:
    """Each on what the ones before left; the refusal of any is the refusal of all, and says which."""
    left, expected = data, None
    for number, (old, new, every) in enumerate(edits, 1):
        try:
            left = replace_exact(left, old, new, path="f", replace_all=every).result
        except EditError as error:
            place = f"edit {number} of {len(edits)}: " if len(edits) > 1 else ""
            expected = (error.code, error.data, error.message.replace("f: ", f"f: {place}", 1))
            break
    quotes = [Quote(*edit) for edit in edits]
    if expected is None:
        assert replace_many(data, quotes, path="f") == left
        return
    with pytest.raises(EditError) as refusal:
        replace_many(data, quotes, path="f")
    assert (refusal.value.code, refusal.value.data) == expected[:2]
    assert expected[2] == refusal.value.message


def test_a04_ambiguous_quote_is_refused_with_every_place() -> None:
    """A04: two look-alike handlers: nothing is bound to the nearer one."""
    data = b"def one():\n    return 1\n\ndef two():\n    return 1\n"
    with pytest.raises(EditError) as refusal:
        replace_exact(data, "    return 1\n", "    return 2\n", path="f")
    assert refusal.value.code is ErrorCode.EDIT_AMBIGUOUS
    assert [place["line"] for place in refusal.value.data["candidates"]] == [2, 5]  # type: ignore[attr-defined] - error data is `object`
    assert replace_exact(data, "return 1", "return 2", path="f", replace_all=True).result.count(b"return 2") == 2


def test_a04_other_indentation_is_refused_with_the_look_alike() -> None:
    """A04: a quote with two spaces does not match four, and the true line is shown."""
    with pytest.raises(EditError) as refusal:
        replace_exact(b"if a:\n    go()\n", "  go(\n", "  stop(\n", path="f")
    assert refusal.value.code is ErrorCode.EDIT_NO_MATCH
    assert refusal.value.data["candidates"] == [{"line": 2, "text": "    go()"}]


@pytest.mark.parametrize(("before", "old", "new", "after"), [
    (b"x", "x", "x\n", b"x\n"), (b"x\n", "x\n", "x", b"x"), (b"x", "x", "y", b"y"), (b"x\n", "x", "y", b"y\n"),
])  # fmt: skip
def test_a03_last_newline_changes_only_when_asked(before: bytes, old: str, new: str, after: bytes) -> None:
    """A03: the state of the last newline is kept, and can be changed by itself."""
    assert replace_exact(before, old, new, path="f").result == after


@given(st.lists(WORDS, min_size=1, max_size=10), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_a03_rewriting_the_shown_text_changes_nothing(lines: list[str], ending: str, bom: bool, ends: bool) -> None:
    """A03: what a model was shown (no mark, `\\n`) written back gives the same bytes."""
    data = (BOM if bom else b"") + (ending.join(lines) + (ending if ends else "")).encode()
    shown = "\n".join(lines) + ("\n" if ends else "")
    assert rewrite_text(data, shown, path="f") == data
    assert rewrite_text(data, "\ufeff" + shown, path="f") == data


STEPS = st.lists(
    st.tuples(st.sampled_from(["keep", "keep", "drop", "new"]), st.sampled_from([b"\n", b"\r\n"])), max_size=12
)


@given(STEPS, st.booleans(), st.booleans())
def test_rewriting_keeps_the_endings_of_lines_that_stay(
    steps: list[tuple[str, bytes]], had_end: bool, has_end: bool
) -> None:
    """In any mixture: a line that stays ends as it did, a new one as the line above it, the first as most lines do."""
    before = [(number, ending) for number, (what, ending) in enumerate(steps) if what != "new"]
    body = b"".join(b"%d. MIX" % number + ending for number, ending in before)
    if before and not had_end:
        body = body.removesuffix(before[-1][1])
    counted = [ending for _, ending in before][: None if had_end else -1]
    most = max(counted, key=counted.count, default=b"\n")
    after: list[tuple[bytes, bytes]] = []
    for number, (what, ending) in enumerate(steps):
        above = after[-1][1] if after else most
        if what == "new":
            after.append((b"a new line", above))
        elif what == "keep":
            ended = had_end or number != before[-1][0]
            after.append((b"%d. MIX" % number, ending if ended else above))
    wanted = "".join(f"{text.decode()}\n" for text, _ in after)
    result = b"".join(text + ending for text, ending in after)
    if after and not has_end:
        wanted, result = wanted.removesuffix("\n"), result.removesuffix(after[-1][1])
    assert rewrite_text(body, wanted, path="f") == (result if body else wanted.encode())


def test_a02_a_new_file_begins_as_it_was_written() -> None:
    """A mark that was sent is kept where there is no file, or an empty one, that could say otherwise."""
    for existing in (None, b""):
        assert rewrite_text(existing, "\ufeffa\r\nb\n", path="f") == BOM + b"a\r\nb\n"


@pytest.mark.parametrize("data", [b"a\x00b", b"caf\xe9\n", b"\xff\xfe\x00"])
def test_a02_writing_over_what_is_not_text_is_refused(data: bytes) -> None:
    """A02: no lossy decode; the file stays until it is deleted on purpose."""
    with pytest.raises(EditError) as refusal:
        rewrite_text(data, "new", path="f")
    assert refusal.value.code is ErrorCode.EDIT_ENCODING
    assert refusal.value.data == {"path": "f"}
    assert refusal.value.message.startswith("f: the file is not ")
    assert refusal.value.message.endswith(("write another in its place", "writing all of it would lose letters"))
