"""Patches in both forms: exactly what they say where it is said, or a refusal with the places that look like it."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.byte_texts import PAIRS, UTF8_BOM

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.edit.errors import EditError
from gloveport.server.edit.hunks import diff_hunks
from gloveport.server.edit.lines import Encoding, line_ending, sniff_form, split_lines
from gloveport.server.edit.patch import exact_patch
from gloveport.server.edit.patching import (
    BLOCKS_MAX,
    LOOK_ALIKE_REACH,
    SEARCH_STEPS_MAX,
    Block,
    PatchFile,
    Row,
    apply_blocks,
)
from gloveport.server.edit.replace import to_utf8
from gloveport.server.edit.v4a import parse_v4a
from gloveport.server.tools.unified import parse_unified


def refusal(data: bytes, *blocks: Block) -> EditError:
    """Why the blocks are not applied."""
    with pytest.raises(EditError) as caught:
        apply_blocks(data, blocks, path="f")
    return caught.value


def rows(text: str) -> tuple[Row, ...]:
    """Rows from lines that begin with their mark."""
    return tuple(Row(line[0], line[1:]) for line in text.split("\n"))  # type: ignore[arg-type]  # - marks by hand


def code_of(data: bytes, *blocks: Block) -> ErrorCode:
    """The code of the refusal."""
    return refusal(data, *blocks).code


@given(PAIRS)
def test_a_diff_of_any_two_texts_gives_the_result(pair: tuple[bytes, bytes]) -> None:
    """Our own patch, read by the library, applied by its quotes: byte for byte (CRLF, BOM, last newline)."""
    base, result = pair
    hunks = diff_hunks(base, result, "f")
    patch = exact_patch(("f", "f"), hunks, "100644", "100644")
    forms = sniff_form(base), sniff_form(result)
    if UTF8_BOM in pair:
        return  # a mark alone is no line
    if not patch or base == result or not base or any(form.encoding is not Encoding.UTF8 for form in forms):
        return
    (file,) = parse_unified(patch.decode())
    assert (file.kind, file.path, file.moved_to) == ("update", "f", None)
    quotes = all(each.old_lines or each.context_before or each.context_after for each in hunks)
    if (forms[0] == forms[1] or not result) and quotes:
        assert apply_blocks(base, file.blocks, path="f") == result
    else:
        with pytest.raises(EditError):
            apply_blocks(base, file.blocks, path="f")


TEXT = st.lists(st.sampled_from(["a", "b", "", "  c", "d = 1", "é", "}", "\tx"]), min_size=1, max_size=14)


@given(
    TEXT, st.data(), st.sampled_from(["\n", "\r\n"]), st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]), st.booleans()
)
def test_a_block_changes_its_lines_alone(
    lines: list[str], data: st.DataObject, newline: str, encoding: str, ends: bool
) -> None:
    """Whatever the file's endings and encoding: every line outside the removed and added ones keeps its bytes."""
    start = data.draw(st.integers(0, len(lines) - 1))
    end = data.draw(st.integers(start + 1, len(lines)))
    before, after = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))
    fresh = data.draw(st.lists(st.sampled_from(["new", "é", ""]), max_size=3))
    low, high = max(0, start - before), min(len(lines), end + after)
    block = Block((
        *(Row(" ", line) for line in lines[low:start]), *(Row("-", line) for line in lines[start:end]),
        *(Row("+", line) for line in fresh), *(Row(" ", line) for line in lines[end:high]),
    ))  # fmt: skip
    content = (newline.join(lines) + (newline if ends else "")).encode(encoding)
    wanted = lines[:start] + fresh + lines[end:]
    if len(lines) == 1 and not ends:
        newline = "\n"  # nothing in the file says otherwise
    text = newline.join(wanted) + (
        newline if wanted and (ends or (high == len(lines) and end == high and not fresh and start)) else ""
    )
    quoted = lines[low:high]
    places = [at for at in range(len(lines) - len(quoted) + 1) if lines[at : at + len(quoted)] == quoted]
    if lines[-1] == "" and not ends:
        return  # there is no such last line
    if len(places) > 1:
        assert code_of(content, block) is ErrorCode.EDIT_AMBIGUOUS
    else:
        try:
            assert apply_blocks(content, [block], path="f") == text.encode(encoding)
        except EditError as error:
            assert error.code is ErrorCode.EDIT_ENCODING  # noqa: PT017 - a text that lost its last letters


@given(st.binary(max_size=60), st.lists(st.sampled_from(["a", "b", "x y"]), min_size=1, max_size=3))
def test_what_is_not_there_is_refused(data: bytes, quoted: list[str]) -> None:
    """Nothing is written over bytes that do not hold the lines."""
    block = Block(tuple(Row("-", line) for line in quoted))
    try:
        result = apply_blocks(data, [block], path="f")
    except GloveportError:
        return
    form = sniff_form(data)
    bare = [line.removesuffix(line_ending(line)) for line in split_lines(to_utf8(data, form))]
    wanted = [line.encode() for line in quoted]
    assert any(bare[at : at + len(wanted)] == wanted for at in range(len(bare)))
    assert len(result) < len(data)


FOUR = b"def a():\n    x = 1\n    return x\n\ndef b():\n    x = 1\n    return x\n"


def test_a04_context_comes_from_the_file_and_a_look_alike_is_not_taken() -> None:
    """Context with other blanks, a drifted line, two handlers alike: refused with candidates; the file's lines stay."""
    drifted = Block(rows("   x = 1\n-  return x\n+  return 2"))
    error = refusal(FOUR, drifted)
    assert error.code is ErrorCode.EDIT_NO_MATCH
    assert [line for line in error.advice.split("\n") if line.startswith("  line")] == [
        "  line 2:     x = 1", "  line 6:     x = 1",
    ]  # fmt: skip
    twice = Block(rows("     x = 1\n-    return x\n+    return 2"))
    assert code_of(FOUR, twice) is ErrorCode.EDIT_AMBIGUOUS
    meant_second = Block(rows(" def a():\n     x = 1\n-    return x\n+    return 2"), old_start=5)
    assert code_of(FOUR, meant_second) is ErrorCode.EDIT_NO_MATCH
    assert apply_blocks(FOUR, [Block(meant_second.rows, old_start=1)], path="f") == FOUR.replace(
        b"return x", b"return 2", 1
    )
    assert apply_blocks(FOUR, [Block(meant_second.rows, old_start=40)], path="f") == FOUR.replace(
        b"return x", b"return 2", 1
    )
    tabs = FOUR.replace(b"    ", b"\t")
    assert code_of(tabs, twice) is ErrorCode.EDIT_NO_MATCH


@pytest.mark.parametrize("off", range(-LOOK_ALIKE_REACH - 2, LOOK_ALIKE_REACH + 3))
def test_a04_how_far_a_look_alike_is_looked_for(off: int) -> None:
    """So many lines above and below the line that the patch names, and not above what an earlier block passed."""
    lines = [f"{number}\n" for number in range(20)] + ["  this\n", "that\n"]
    lines[10 + off] = "this\n"
    block = Block(rows("-  this\n that"), old_start=11)
    data = "".join(lines).encode()
    if abs(off) > LOOK_ALIKE_REACH:
        assert apply_blocks(data, [block], path="f") == data.replace(b"  this\n", b"")
    else:
        assert code_of(data, block) is ErrorCode.EDIT_NO_MATCH
    if off < 0:
        earlier = Block(rows(f"-{lines[10 + off].strip()}"))
        both = apply_blocks(data, [earlier, block], path="f")
        assert both == "".join([*lines[: 10 + off], *lines[11 + off : 20], "that\n"]).encode()


@pytest.mark.parametrize(("quoted", "there", "is_like"), [
    (["p", "q", "r", "s"], [], False), (["p", "q", "r", "s"], ["p"], False), (["p", "q", "r", "s"], ["p", "q"], True),
    (["p", "q", "r", "s"], ["x", "y", "r", " s"], True), (["p", "q", "r", "s"], ["x", "p", "q", "r"], True),
    (["p", "", "q", " "], ["x", "", "y", ""], False), (["p", "", "q", " "], ["x", "", " q", "y"], True),
    (["p", "q", "r"], ["p", "x", "y"], False), (["p"], [" p"], True),
])  # fmt: skip
def test_a04_half_of_the_lines_make_a_look_alike(quoted: list[str], there: list[str], is_like: bool) -> None:
    """Blanks at the ends aside, and lines of blanks say nothing; near it another place is not taken."""
    lines = [str(number) for number in range(20)] + quoted
    lines[10 : 10 + len(there)] = there
    block = Block((*(Row("-", line) for line in quoted), Row("+", "new")), old_start=11)
    data = "".join(f"{line}\n" for line in lines).encode()
    if is_like:
        assert code_of(data, block) is ErrorCode.EDIT_NO_MATCH
    else:
        assert apply_blocks(data, [block], path="f") == "".join(f"{line}\n" for line in [*lines[:20], "new"]).encode()


@pytest.mark.parametrize(("data", "rows_told", "result"), [
    (b"a\nx", [Row("-", "x", ends=False)], b"a\n"), (b"a\nx", [Row(" ", "a"), Row("-", "x", ends=False)], b"a\n"),
    (b"a\nx", [Row(" ", "a"), Row(" ", "x", ends=False), Row("+", "y")], b"a\nx\ny\n"),
    (b"a\nx", [Row("-", "a"), Row(" ", "x", ends=False)], b"x"), (b"a\r\nx", [Row("-", "a"), Row("+", "b")], b"b\r\nx"),
    (b"a\nx", [Row("+", "y"), Row("-", "x", ends=False)], b"a\ny\n"),
    (b"a\nx\n", [Row("+", "y", ends=False), Row("-", "x")], b"a\ny"),
    (b"a\nx\n", [Row(" ", "x"), Row("+", "y", ends=False)], b"a\nx\ny"),
    (b"a\nx\n", [Row("-", "x"), Row("+", "y", ends=False)], b"a\ny"),
])  # fmt: skip
def test_a03_where_no_newline_follows_is_told_of_one_line(data: bytes, rows_told: list[Row], result: bytes) -> None:
    """Of the last of the old text or of the last of the new one, each by itself."""
    assert apply_blocks(data, [Block(tuple(rows_told))], path="f") == result


def test_anchors_say_what_a_block_lies_in() -> None:
    """The block is looked for in what the anchor opens; an anchor that stands twice is refused."""
    block = Block(rows("-    return x\n+    return 2"), ("def b():",))
    assert apply_blocks(FOUR, [block], path="f") == FOUR[:-9] + b"return 2\n"
    assert code_of(FOUR, Block(block.rows, ("def c():",))) is ErrorCode.EDIT_NO_MATCH
    assert code_of(FOUR, Block(block.rows, ("x = 1",))) is ErrorCode.EDIT_AMBIGUOUS
    nested = b"class A:\n    def m():\n        return x\nclass B:\n    def m():\n        return x\n"
    inner = Block(rows("-        return x\n+        return 2"), ("class B:", "def m():"))
    assert apply_blocks(nested, [inner], path="f") == nested[:-9] + b"return 2\n"
    assert code_of(nested, Block(inner.rows, ("def m():",))) is ErrorCode.EDIT_AMBIGUOUS
    assert apply_blocks(nested, [Block(rows("+    y = 1"), ("class B:",))], path="f").endswith(
        b"class B:\n    y = 1\n    def m():\n        return x\n"
    )


OUTLINE = st.lists(st.tuples(st.sampled_from(["head", "leaf", "blank"]), st.integers(0, 3)), min_size=1, max_size=12)


@given(
    OUTLINE, st.lists(st.integers(0, 11), max_size=2), st.integers(0, 3), st.sampled_from(["\t", " "]), st.booleans()
)
def test_a_block_is_looked_for_below_its_anchors_only(
    outline: list[tuple[str, int]], anchors: list[int], deep: int, unit: str, adds: bool
) -> None:
    """As far as lines are indented deeper than the anchor, each within the one before; blank lines end nothing."""
    words = {"head": "{}:", "leaf": "leaf", "blank": ""}
    lines = [unit * depth + words[kind].format(at) for at, (kind, depth) in enumerate(outline)]
    low, high, there = 0, len(lines), True
    for anchor in anchors:
        there = there and low <= anchor < high and outline[anchor][0] == "head"
        if there:
            ends = (at for at in range(anchor + 1, high) if lines[at].strip() and outline[at][1] <= outline[anchor][1])
            low, high = anchor + 1, next(ends, high)
    quoted = unit * deep + "leaf"
    found = [at for at in range(low, high) if lines[at] == quoted] if there else []
    block = Block(rows(f"+{quoted}" if adds else f"-{quoted}\n+new"), tuple(f"{at}:" for at in anchors))
    data = "".join(f"{line}\n" for line in lines).encode()
    if adds and anchors and there:
        lines.insert(low, quoted)
    elif not adds and len(found) == 1:
        lines[found[0]] = "new"
    else:
        code = ErrorCode.EDIT_AMBIGUOUS if (found if not adds else not anchors) else ErrorCode.EDIT_NO_MATCH
        assert code_of(data, block) is code
        return
    assert apply_blocks(data, [block], path="f") == "".join(f"{line}\n" for line in lines).encode()


@given(st.lists(st.sampled_from(["\n", "\r\n"]), min_size=1, max_size=12), st.booleans(), st.data())
def test_many_blocks_change_their_lines_each_with_its_ending(
    endings: list[str], ends: bool, data: st.DataObject
) -> None:
    """In any mixture: context and all around keep their ends, a new line ends as the quoted one above it."""
    if not ends:
        endings[-1] = endings[-2] if len(endings) > 1 else "\n"
    texts = [f"{number} x" for number in range(len(endings))]
    blocks, result, at, last = [], [], 0, ""
    while at < len(texts):
        first = data.draw(st.integers(at, len(texts) - 1))
        marks = data.draw(
            st.lists(st.sampled_from(" -+"), min_size=1, max_size=5).filter(lambda each: {*each} != {"+"})
        )
        near, quoted, made = endings[first], first, []
        result += zip(texts[at:first], endings[at:first], strict=True)
        for mark in marks:
            if mark == "+":
                made.append(Row("+", f"new {at}"))
                result.append((f"new {at}", near))
            elif quoted < len(texts):
                near = endings[quoted]
                made.append(Row(mark, texts[quoted]))
                result += [(texts[quoted], near)] if mark == " " else []
                quoted += 1
        said = data.draw(st.sampled_from([None, first + 1, first + 2, max(first, 1)]))
        blocks.append(Block(tuple(made), old_start=said, at_end=quoted == len(texts) and said is None))
        at = quoted
        last = next((row.mark for row in reversed(made) if row.mark != "-"), " ")
    old = "".join(map("".join, zip(texts, endings, strict=True)))
    new = "".join(map("".join, result))
    if not ends:
        old = old.removesuffix(endings[-1])
        if last == "+" or (texts[-1], endings[-1]) in result:  # the last line is as it was, or another takes its place
            new = new.removesuffix(result[-1][1])
    assert apply_blocks(old.encode(), blocks, path="f") == new.encode()


def test_blocks_stand_in_the_order_of_the_file() -> None:
    """What an earlier block has passed is not looked at again."""
    first = Block(rows("-    return x\n+    return 1"), ("def a():",))
    second = Block(rows("-    return x\n+    return 2"))
    assert apply_blocks(FOUR, [first, second], path="f").count(b"return x") == 0
    assert code_of(FOUR, second, first) is ErrorCode.EDIT_AMBIGUOUS


def test_an_addition_needs_a_place() -> None:
    """Nothing quoted: only into an empty file, at the end, or below an anchor."""
    block = Block(rows("+new"))
    assert code_of(FOUR, block) is ErrorCode.EDIT_AMBIGUOUS
    assert apply_blocks(b"", [block], path="f") == b"new\n"
    assert apply_blocks(b"a", [Block(block.rows, at_end=True)], path="f") == b"a\nnew"
    assert apply_blocks(b"x", [Block(rows("+y\n-x"))], path="f") == b"y"
    assert apply_blocks(b"a\r\n", [Block(block.rows, at_end=True)], path="f") == b"a\r\nnew\r\n"
    ending = Block(rows("-x\n+y"), at_end=True)
    assert apply_blocks(b"x\nx\n", [ending], path="f") == b"x\ny\n"
    assert code_of(b"x\nz\n", ending) is ErrorCode.EDIT_NO_MATCH


@pytest.mark.parametrize(("base", "old_ends", "new_ends", "result"), [
    (b"x", False, False, b"y"), (b"x", False, True, b"y\n"), (b"x\n", True, False, b"y"), (b"x\n", True, True, b"y\n"),
    (b"a\r\nx", False, True, b"a\r\ny\r\n"), (b"x", True, True, b"y"),
])  # fmt: skip
def test_a03_the_last_newline_is_as_the_diff_says(base: bytes, old_ends: bool, new_ends: bool, result: bytes) -> None:
    """Kept unless the diff names it; with a marker that the file contradicts it is refused."""
    block = Block((Row("-", "x", old_ends), Row("+", "y", new_ends)))
    assert apply_blocks(base, [block], path="f") == result
    if not old_ends:
        assert code_of(base + b"\n", block) is ErrorCode.EDIT_NO_MATCH


def test_a01_a_diff_that_quotes_carriage_returns_is_taken_literally() -> None:
    """As git writes one of a CRLF file; without them new lines take the neighbours' ending."""
    base = b"alpha\r\nbeta\r\n"
    literal = Block(rows(" alpha\r\n+mid\r\n beta\r"))
    plain = Block(rows(" alpha\n+mid\n beta"))
    to_lf = Block(rows("-alpha\r\n+alpha\n beta\r"))
    assert apply_blocks(base, [literal], path="f") == b"alpha\r\nmid\r\nbeta\r\n"
    assert apply_blocks(base, [plain], path="f") == b"alpha\r\nmid\r\nbeta\r\n"
    ended = Block(rows(" alpha\n+mid\r\n beta"))
    assert apply_blocks(base, [ended], path="f") == b"alpha\r\nmid\r\nbeta\r\n"
    assert apply_blocks(base, [to_lf], path="f") == b"alpha\nbeta\r\n"
    mixed = b"a\r\nb\nprog 1%\rprog 2%\n"
    assert apply_blocks(mixed, [Block(rows("-b\n+B"))], path="f") == b"a\r\nB\nprog 1%\rprog 2%\n"
    assert apply_blocks(mixed, [Block(rows(" a\n+z"))], path="f") == b"a\r\nz\r\nb\nprog 1%\rprog 2%\n"


def test_a02_other_encodings_are_kept_or_refused() -> None:
    """UTF-16 stays; a legacy byte far away stays; what cannot be put in is refused."""
    wide = "\ufeffone\r\ntwo\r\n".encode("utf-16-le")
    block = Block(rows("-two\n+zwei ü"))
    assert apply_blocks(wide, [block], path="f") == "\ufeffone\r\nzwei ü\r\n".encode("utf-16-le")
    legacy = b"two\n" + b"x\n" * 997 + b"caf\x99\n"
    assert code_of(legacy, block) is ErrorCode.EDIT_ENCODING
    assert apply_blocks(legacy, [Block(rows("-two\n+2"))], path="f") == b"2" + legacy[3:]
    assert code_of(b"two\0\n", block) is ErrorCode.EDIT_ENCODING
    half = refusal(b"two\n", Block((Row("-", "two"), Row("+", "\ud800"))))
    assert (half.code, half.message) == (ErrorCode.EDIT_ENCODING, "f: the text holds half a surrogate pair")
    assert code_of(b"two\n", Block(rows("-two\n+\ufefftwo"))) is ErrorCode.EDIT_ENCODING


def test_a_patch_costs_no_more_than_its_bound() -> None:
    """A file of equal lines and a patch of them: refused by name, not a stall."""
    same = b"x\n" * 100_000
    block = Block((*(Row(" ", "x") for _ in range(5_000)), Row("-", "y")))
    error = refusal(same, block)
    assert error.code is ErrorCode.LIMIT
    assert str(SEARCH_STEPS_MAX) in error.message


@pytest.mark.parametrize(("data", "blocks", "steps"), [
    (b"a\nb\nc\n", [Block(rows("-b\n+x"))], 3 + 1),
    (b"a\nb\na\nc\n", [Block(rows(" a\n-c"))], 4 + 1 + 2),
    (b"a\n b\n c\n", [Block(rows("- b"), ("a",)), Block(rows("- c"))], 3 + 2 + 1 + (1 + 1)),
    (b"x\na\n b\n  c\n", [Block(rows("+  d"), ("a", "b"))], 4 + 2),
    (b"x\n", [Block(rows("+y"), at_end=True)], 0),
])  # fmt: skip
def test_each_line_that_is_looked_at_is_counted(
    data: bytes, blocks: list[Block], steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for its place, and once for each line that was equal there; the bound itself may be reached."""
    monkeypatch.setattr("gloveport.server.edit.patching.SEARCH_STEPS_MAX", steps)
    assert apply_blocks(data, blocks, path="f") != data
    monkeypatch.setattr("gloveport.server.edit.patching.SEARCH_STEPS_MAX", steps - 1)
    if steps:
        error = refusal(data, *blocks)
        assert (error.code, error.data) == (ErrorCode.LIMIT, {"path": "f"})
        assert error.message == f"f: the patch needs more than {steps - 1} comparisons; send it in parts"


PATCH = """*** Begin Patch
*** Update File: src/a.py
*** Move to: src/b.py
@@ class Stack:
@@     def pop(self):
     here

-        return self.items[0]
+        return self.items.pop()
@@
-x
+y
*** End of File
*** Add File: notes.txt
+one
+
+two
*** Delete File: old name.txt
*** End Patch
"""


def test_v4a_is_read_whole() -> None:
    """Every line has its meaning."""
    assert parse_v4a(PATCH) == (
        PatchFile("update", "src/a.py", "src/b.py", (
            Block((Row(" ", "    here"), Row(" ", ""), Row("-", "        return self.items[0]"),
                   Row("+", "        return self.items.pop()")), ("class Stack:", "def pop(self):")),
            Block((Row("-", "x"), Row("+", "y")), at_end=True),
        )),
        PatchFile("add", "notes.txt", text="one\n\ntwo\n"),
        PatchFile("delete", "old name.txt"),
    )  # fmt: skip
    assert parse_v4a(PATCH.rstrip("\n")) == parse_v4a(PATCH)


NAME = st.sampled_from(["a", "src/a b.py", "+x", "é/*** y"])
LINE = st.sampled_from(["", "x", "  y", "+", "-", "@@", "*** End Patch", "é\t"])
ROWS = st.lists(st.builds(Row, st.sampled_from([" ", "-", "+"]), LINE), min_size=1, max_size=5).filter(
    lambda rows: any(row.mark != " " for row in rows)
)
BLOCK = st.builds(
    Block, ROWS.map(tuple), st.lists(st.sampled_from(["class A:", "x", "+y"])).map(tuple), st.none(), st.booleans()
)
FILE = st.one_of(
    st.builds(
        PatchFile,
        st.just("update"),
        NAME,
        st.one_of(st.none(), NAME),
        st.lists(BLOCK, min_size=1, max_size=3).map(tuple),
    ),
    st.builds(
        PatchFile, st.just("add"), NAME, text=st.lists(LINE).map(lambda lines: "".join(f"{one}\n" for one in lines))
    ),
    st.builds(PatchFile, st.just("delete"), NAME),
)


def v4a(files: list[PatchFile], blank: str) -> str:
    """A patch as a model writes it; `blank` ends the lines at which blanks do not count."""
    lines = [f"*** Begin Patch{blank}"]
    for file in files:
        lines.append(f"*** {file.kind.capitalize()} File: {file.path}{blank}")
        lines += [f"+{line}" for line in file.text.split("\n")[:-1]]
        lines += [] if file.moved_to is None else [f"*** Move to: {file.moved_to}{blank}"]
        for block in file.blocks:
            lines += [f"@@ {anchor}{blank}" for anchor in block.anchors] or ["@@"]
            lines += [row.mark + row.text for row in block.rows]
            lines += [f"*** End of File{blank}"] if block.at_end else []
    return "\n".join([*lines, f"*** End Patch{blank}"])


@given(st.lists(FILE, min_size=1, max_size=4), st.sampled_from(["", " ", "\t "]), st.sampled_from(["", "\n"]))
def test_any_v4a_patch_is_read_as_it_was_meant(files: list[PatchFile], blank: str, last: str) -> None:
    """Written by another rule than it is read: files, blocks, rows and anchors are those that were written."""
    assert parse_v4a(v4a(files, blank) + last) == tuple(files)


@given(
    st.integers(0, len(PATCH.split("\n")) - 2), st.sampled_from(["drop", "junk", "*** What: x", "*** Update File: "])
)
def test_a_v4a_line_that_is_not_understood_refuses_the_patch(at: int, what: str) -> None:
    """Never passed over: the number of the line is in the words."""
    lines = PATCH.split("\n")
    lines[at : at + 1] = [] if what == "drop" else [what]
    refused = None
    try:
        assert len(parse_v4a("\n".join(lines))) >= 2
    except EditError as error:
        refused = (error.code, "of the patch" in error.message)
    assert refused == (ErrorCode.TOOL_ARGUMENTS, True) or (refused is None and what == "drop")


HALF = ["", "x", "*** Begin Patch\n*** End Patch"] + [f"*** Begin Patch\n{body}\n*** End Patch" for body in (
    "*** Update File: a", "*** Update File: a\n@@\n same", "*** Add File: \n+x",
)]  # fmt: skip


@pytest.mark.parametrize("text", HALF)
def test_a_v4a_patch_that_changes_nothing_is_refused(text: str) -> None:
    """Empty, half, or without a change."""
    with pytest.raises(EditError) as caught:
        parse_v4a(text)
    assert caught.value.code is ErrorCode.TOOL_ARGUMENTS


GIT = """diff --git a/a.py b/b.py
similarity index 90%
rename from a.py
rename to b.py
index 1111111..2222222 100644
--- a/a.py
+++ b/b.py
@@ -1,2 +1,2 @@ class X:
 one
-two
+2
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
diff --git "a/f\\303\\251 \\"x\\".txt" "b/f\\303\\251 \\"x\\".txt"
new file mode 100755
index 0000000..1111111
--- /dev/null
+++ "b/f\\303\\251 \\"x\\".txt"
@@ -0,0 +1,2 @@
+first
+last
\\ No newline at end of file
diff --git a/gone b/gone
deleted file mode 100644
index 1111111..0000000
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-bye
"""


def test_git_diffs_are_read_whole() -> None:
    """Renames, modes, quoted names, new and deleted files, missing newlines."""
    renamed, mode, added, gone = parse_unified(GIT)
    assert renamed == PatchFile(
        "update", "a.py", "b.py", (Block((Row(" ", "one"), Row("-", "two"), Row("+", "2")), old_start=1),)
    )
    assert mode == PatchFile("update", "run.sh", runnable=True)
    assert added == PatchFile("add", 'fé "x".txt', text="first\nlast", runnable=True, blocks=())
    assert (gone.kind, gone.path, gone.blocks[0].rows) == ("delete", "gone", (Row("-", "bye"),))
    plain = "--- old/x\n+++ old/x\n@@ -1 +1 @@\n-a\n+b"
    assert parse_unified(plain)[0].path == "old/x"


WRONG = [
    "", "nothing here", "--- a/x\n+++ b/x\n@@ -1,3 +1,1 @@\n-a\n+b\n",
    "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n+more\n",
    "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\nGIT binary patch\n",
    "diff --git a/x b/x\nBinary files a/x and b/x differ\n",
    "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+target\n",
    "diff --git a/x b/x\n", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n\\ No newline at end of file\n-a\n+b\n",
    "diff --git a/x b/y\ncopy from x\ncopy to y\n", "words before\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
    "@@ -1 +1 @@\n-a\n+b\n",
]  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_a_diff_that_is_not_whole_is_refused(text: str) -> None:
    """Wrong counts, lines that belong nowhere, bytes, links: never a part of it."""
    with pytest.raises(GloveportError) as caught:
        parse_unified(text)
    assert caught.value.code is ErrorCode.TOOL_ARGUMENTS


@settings(max_examples=200)
@given(st.lists(st.sampled_from(GIT.split("\n")), max_size=12).map("\n".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No other failure comes out of the library."""
    for parse in (parse_unified, parse_v4a):
        try:
            files = parse(text)
        except GloveportError:
            continue
        assert files


def test_kinds_of_lines_are_disjoint() -> None:
    """A row of a patch has one mark, and old lines are those that must be there."""
    block = Block(rows(" a\n-b\n+c"))
    assert [row.mark for row in block.old] == [" ", "-"]
    assert len({row.mark for row in itertools.chain(block.rows)}) == 3


def words_of(text: str) -> str:
    """Why a V4A patch is not read."""
    with pytest.raises(EditError) as caught:
        parse_v4a(text)
    assert caught.value.hint.startswith("A patch begins")
    return caught.value.message


def test_a_wrong_line_of_a_v4a_patch_is_named() -> None:
    """By its number, counted from the first line of the patch."""
    head = "*** Begin Patch\n"
    assert words_of("x\n*** End Patch\n").startswith("line 1 of the patch: a patch begins with")
    assert words_of(f"{head}*** End Patch") == words_of("x\ny\nz")
    assert words_of(f"{head}what\n*** End Patch").startswith("line 2 of the patch: expected '*** Update File: '")
    assert words_of(f"{head}*** Update File:  \n-a\n*** End Patch") == "line 2 of the patch: a path is missing"
    assert words_of(f"{head}*** Update File: a\n*** End Patch") == "line 2 of the patch: nothing is said of a"
    assert words_of(f"{head}*** Update File: a\n*** Move to: \n*** End Patch").endswith("a path is missing")
    assert words_of(f"{head}*** Update File: a\n@@ x\n same\n@@\n-b\n*** End Patch") == (
        "line 3 of the patch: this block changes nothing, or is none"
    )
    assert words_of(f"{head}*** Update File: a\n@@ x\n-a\nb\n*** End Patch") == (
        "line 5 of the patch: a line of a block begins with a blank, - or +"
    )
    assert words_of(f"{head}*** Add File: a\n+b\nc\n*** End Patch").startswith("line 4 of the patch: expected")
    moved = parse_v4a(f"{head}*** Update File: a\n*** Move to: b\n*** End Patch")
    assert moved == (PatchFile("update", "a", "b"),)
    assert parse_v4a(f"{head}*** Add File: a\n*** End Patch") == (PatchFile("add", "a"),)


def test_a_refusal_names_the_block_and_at_most_eight_places() -> None:
    """Which block, why, and the likeliest places first."""
    twelve = b"x = 1\ny\n" * 12
    many = refusal(twelve, Block(rows("-x = 1")))
    assert many.message == "f: the patch occurs 12 times"
    assert many.advice.count("\n  line ") == 8
    assert "line 1: x = 1" in many.advice
    second = refusal(b"a\nb\n", Block(rows("-a")), Block(rows("-zz")))
    assert second.message == "f: block 2 of 2 does not occur as it is quoted"
    assert second.data["candidates"] == []
    elsewhere = refusal(b"a\nb\nc\na\nb\nd\n", Block(rows(" a\n b\n-d"), old_start=1))
    assert elsewhere.message == "f: the patch, at line 1, occurs at another line than it names"
    assert elsewhere.advice.endswith("\n  line 4: a")
    likely = refusal(b"go()\n\ngo()\nstop()\nnow\n", Block(rows("   go()\n   stop()\n-  then")))
    assert [line.strip() for line in likely.advice.split("\n")[1:]] == ["line 3: go()", "line 1: go()"]
    blank = refusal(b"a\n", Block(rows("-  ")))
    assert blank.data["candidates"] == []
    anchored = refusal(b"a\na\n", Block(rows("-b"), ("a",)))
    assert anchored.message == "f: the patch: the line after @@ occurs 2 times"


def test_more_blocks_than_may_be_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name of the limit."""
    block = Block(rows("-a"))
    error = refusal(b"a\n", *[block] * (BLOCKS_MAX + 1))
    assert (error.code, error.data) == (ErrorCode.TOOL_ARGUMENTS, {"path": "f"})
    assert error.message == f"f: more than {BLOCKS_MAX} blocks in one patch"
    monkeypatch.setattr("gloveport.server.edit.patching.BLOCKS_MAX", 2)
    assert apply_blocks(b"a\nb\n", [block, Block(rows("-b"))], path="f") == b""


def test_a03_the_mark_goes_with_the_whole_text_only() -> None:
    """A diff that quotes it keeps it; one that would take it from the rest is refused."""
    base = b"\xef\xbb\xbfa\nb\n"
    assert apply_blocks(base, [Block(rows("-\ufeffa\n+\ufeffA\n b"))], path="f") == b"\xef\xbb\xbfA\nb\n"
    assert apply_blocks(base, [Block(rows(" \ufeffa\n-b\n+B"))], path="f") == b"\xef\xbb\xbfa\nB\n"
    assert apply_blocks(base, [Block(rows("+\ufeffnew\n-\ufeffa\n b"))], path="f") == b"\xef\xbb\xbfnew\nb\n"
    assert apply_blocks(base, [Block(rows("-a\n+A"))], path="f") == b"\xef\xbb\xbfA\nb\n"
    assert apply_blocks(base, [Block(rows("-\ufeffa\n-b"))], path="f") == b""
    assert apply_blocks(base + base, [Block(rows(" \ufeffa\n b\n-\ufeffa"))], path="f") == base + b"b\n"
    assert (
        apply_blocks(base + base, [Block(rows("-b\n-\ufeffa\n+\ufeffc"))], path="f") == base[:5] + base[:3] + b"c\nb\n"
    )
    for taken in ("-\ufeffa", "-\ufeffa\n+A", "-\ufeffa\n b"):
        assert code_of(base, Block(rows(taken))) is ErrorCode.EDIT_ENCODING
