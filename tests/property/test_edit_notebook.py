"""Notebooks in every style of JSON: one cell changes, every other byte stays; any hunks leave a notebook."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.protocol.errors import ErrorCode
from gloveport.server.edit.apply import apply_hunks, revert_hunks
from gloveport.server.edit.errors import EditError
from gloveport.server.edit.hunks import diff_hunks
from gloveport.server.edit.json_spans import elements, members, whole
from gloveport.server.edit.notebook import Action, Notebook, _check, cell_layout, edit_cell, read_notebook
from gloveport.server.edit.patch import exact_patch
from gloveport.server.edit.patching import apply_blocks
from gloveport.server.edit.render import diff_rows
from gloveport.server.edit.replace import CANDIDATES_MAX, SNIPPET_CHARS_MAX
from gloveport.server.tools.unified import parse_unified

PNG = "iVBORw0KGgoAAAANSUhEUgAA" * 40
TEXTS = st.sampled_from(["", "x = 1", "a\nb\n", "é漢🙂\n\n\tq", 'say("\\"")\n', "\u2028", "print(1)\r\n"])
STYLES = st.fixed_dictionaries({
    "indent": st.sampled_from([1, 2, "\t", None]), "ensure_ascii": st.booleans(), "sort_keys": st.booleans(),
})  # fmt: skip


def cell(number: int, source: Any, kind: str = "code") -> dict[str, Any]:
    """A cell with outputs that must not change."""
    made: dict[str, Any] = {"cell_type": kind, "id": f"c{number}", "metadata": {"w": {"n": number}}, "source": source}
    if kind == "code":
        outputs = [{"data": {"image/png": PNG, "text/plain": ["é\n"]}, "output_type": "display_data"}]
        made |= {"outputs": outputs, "execution_count": number}
    return made


@st.composite
def notebooks(draw: st.DrawFn, least: int = 0) -> bytes:
    """A notebook as bytes, in some style."""
    count = draw(st.integers(least, 5))
    cells = []
    for number in range(count):
        text = draw(TEXTS)
        source = draw(st.sampled_from([text, text.splitlines(keepends=True)]))
        cells.append(cell(number, source, draw(st.sampled_from(["code", "markdown"]))))
    body = {"metadata": {"k": [1, 2.5e300]}, "cells": cells, "nbformat": 4, "nbformat_minor": 5}
    text = json.dumps(body, **draw(STYLES)) + draw(st.sampled_from(["", "\n"]))
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text.encode()


def cells_of(data: bytes) -> list[dict[str, Any]]:
    """The cells, by an independent reading."""
    found: list[dict[str, Any]] = json.loads(data.decode("utf-8-sig"))["cells"]
    return found


def raw_cells(data: bytes) -> list[str]:
    """The text of each cell as it is written."""
    notebook = read_notebook(data, path="n")
    return [notebook.text[each.span.start : each.span.end] for each in notebook.cells]


def text_of(found: dict[str, Any]) -> str:
    """A cell's source."""
    return "".join(found["source"])


@given(notebooks(least=1), st.data(), TEXTS)
def test_a16_replacing_a_source_keeps_everything_else(data: bytes, draw: st.DataObject, source: str) -> None:
    """Other cells, the cell's own outputs and metadata, and all around: the same bytes."""
    before = cells_of(data)
    at = draw.draw(st.integers(0, len(before) - 1))
    result = edit_cell(data, "replace", at + 1, path="n", source=source, cell_id=f"c{at}")
    after = cells_of(result)
    assert text_of(after[at]) == source
    assert isinstance(after[at]["source"], type(before[at]["source"]))
    assert {**after[at], "source": 0} == {**before[at], "source": 0}
    old, new = raw_cells(data), raw_cells(result)
    assert old[:at] + old[at + 1 :] == new[:at] + new[at + 1 :]
    assert data.replace(old[at].encode(), new[at].encode(), 1) == result


@given(notebooks(), st.data(), TEXTS, st.sampled_from(["code", "markdown", "raw"]))
def test_a16_inserting_and_deleting_are_inverse(data: bytes, draw: st.DataObject, source: str, kind: Any) -> None:
    """The new cell has a new id and the file's style; taken out again, the file is byte for byte what it was."""
    before = cells_of(data)
    at = draw.draw(st.integers(0, len(before)))
    result = edit_cell(data, "insert", at + 1, path="n", source=source, cell_type=kind)
    after = cells_of(result)
    assert (after[at]["cell_type"], text_of(after[at])) == (kind, source)
    assert len({each["id"] for each in after}) == len(after)
    assert raw_cells(result)[:at] + raw_cells(result)[at + 1 :] == raw_cells(data)
    assert result.startswith(b"\xef\xbb\xbf") == data.startswith(b"\xef\xbb\xbf")
    assert (b"\r\n" in result) == (b"\r\n" in data) or b"\n" not in data
    back = edit_cell(result, "delete", at + 1, path="n")
    assert cells_of(back) == before
    if before:
        assert back == data


@given(notebooks(), st.data())
def test_any_subset_of_hunks_is_a_notebook(data: bytes, draw: st.DataObject) -> None:
    """Cells replaced, put in and taken out; each hunk is whole cells, accepted or rejected in any subset."""
    result = data
    for _ in range(draw.draw(st.integers(1, 4))):
        count = len(cells_of(result))
        action = draw.draw(st.sampled_from(["replace", "insert", "delete"] if count else ["insert"]))
        number = draw.draw(st.integers(1, count + (action == "insert")))
        source = draw.draw(TEXTS)
        result = edit_cell(result, action, number, path="n", source=source)
    hunks = diff_hunks(data, result, "a.ipynb")
    assert apply_hunks(data, hunks) == result
    assert revert_hunks(result, hunks) == data
    chosen = draw.draw(st.lists(st.sampled_from(hunks), unique=True)) if hunks else []
    for mixed in (apply_hunks(data, chosen), revert_hunks(result, chosen)):
        known = raw_cells(data) + raw_cells(result)
        assert all(each in known for each in raw_cells(mixed))
        assert isinstance(cells_of(mixed), list)


@given(notebooks())
def test_cells_stand_on_the_lines_that_are_told(data: bytes) -> None:
    """Each on the line of its first letter; behind the last one that after its last letter."""
    notebook, layout = read_notebook(data, path="n"), cell_layout(data, path="n")
    assert layout.starts == tuple(notebook.text.count("\n", 0, cell.span.start) for cell in notebook.cells)
    last = [notebook.text.count("\n", 0, cell.span.end) + 1 for cell in notebook.cells[-1:]]
    assert layout.end == (last[0] if last else 0)
    assert layout.keys == tuple(json.loads(data.decode("utf-8-sig")))


def patched(base: bytes, result: bytes) -> bytes:
    """The base with the patch of both put on it, as another program would."""
    patch = exact_patch(("a.ipynb", "a.ipynb"), diff_hunks(base, result, "a.ipynb"), "100644", "100644")
    (file,) = parse_unified(patch.decode())
    return apply_blocks(base, file.blocks, path="a.ipynb")


def test_the_lines_of_a_cell_that_stay_are_shown_as_such() -> None:
    """A hunk of a whole cell has equal lines before and behind what changed."""
    body = {"cells": [cell(number, ["x\n", "y\n"], "markdown") for number in range(2)], "metadata": {}, "nbformat": 4}
    data = json.dumps(body, indent=1).encode()
    result = edit_cell(data, "replace", 1, path="n", source="x\nz\n")
    (hunk,) = diff_hunks(data, result, "a.ipynb")
    shown = [row.kind for row in diff_rows(hunk)]
    assert (shown.count("-"), shown.count("+"), len(hunk.old_lines)) == (1, 1, 13)
    assert shown[:3] == shown[-3:] == [" "] * 3
    assert [row.text for row in diff_rows(hunk) if row.kind == "+"] == ['    "z\\n"']
    rows = exact_patch(("n", "n"), [hunk], "100644", "100644").decode().split("\n")[4:-1]
    assert rows == [row.kind + row.text for row in diff_rows(hunk)]
    assert patched(data, result) == result


def test_hunks_are_one_a_cell() -> None:
    """An insertion at the top touches no other cell; cells apart are decided apart; broken JSON falls back to lines."""
    body = {"cells": [cell(number, ["x\n", "y\n"]) for number in range(6)], "metadata": {}, "nbformat": 4}
    data = json.dumps(body, indent=1).encode()
    result = edit_cell(data, "insert", 1, path="n", source="top", cell_type="markdown")
    result = edit_cell(result, "replace", 4, path="n", source="changed")
    result = edit_cell(result, "delete", 7, path="n")
    hunks = diff_hunks(data, result, "a.ipynb")
    assert [len(hunk.old_lines) > 0 for hunk in hunks] == [False, True, True]
    assert all(json.loads(apply_hunks(data, [hunk])) for hunk in hunks)
    assert patched(data, result) == result
    broken = result[:-1]
    assert apply_hunks(data, diff_hunks(data, broken, "a.ipynb")) == broken
    moved = json.dumps({"nbformat": 4, "cells": body["cells"][1:], "metadata": {}}, indent=1).encode()
    (whole_file,) = diff_hunks(data, moved, "a.ipynb")
    assert (whole_file.old_start, whole_file.new_start) == (0, 0)
    assert b"".join(whole_file.old_lines) == data


def code_of(data: bytes, **more: Any) -> ErrorCode:
    """Why a cell is not changed."""
    with pytest.raises(EditError) as caught:
        edit_cell(data, **{"action": "replace", "number": 1, "path": "n", "source": "x", **more})
    assert caught.value.advice
    return caught.value.code


NOTEBOOK = json.dumps({"cells": [cell(0, "x"), cell(1, ["y"])], "nbformat": 4, "nbformat_minor": 5}).encode()


def test_a_cell_that_is_not_there_is_refused_with_those_that_are() -> None:
    """By number or by id."""
    assert code_of(NOTEBOOK, number=3) is ErrorCode.EDIT_NO_MATCH
    assert code_of(NOTEBOOK, number=0) is ErrorCode.EDIT_NO_MATCH
    assert code_of(NOTEBOOK, number=4, action="insert") is ErrorCode.EDIT_NO_MATCH
    with pytest.raises(EditError) as caught:
        edit_cell(NOTEBOOK, "replace", 3, path="n", source="x")
    assert caught.value.message == "n: there is no cell 3; cells are numbered from 1 to 2"
    with pytest.raises(EditError) as caught:
        edit_cell(NOTEBOOK, "replace", 1, path="n", source="x", cell_id="c1")
    assert caught.value.message == "n: cell 1 does not have the id 'c1'"
    assert "cell 2 (c1): 'y'" in caught.value.advice


@pytest.mark.parametrize("data", [
    b"", b"{", b"[]", b"{}", b'{"cells": {}}', b'{"cells": [1]}', b'{"cells": [{}]} x', b'{"cells": [], "cells": []}',
    b'{"cells": [{"source": NaN}]}', b'{"cells": [{"source": 1}]}', b'{"cells": [{}]}', b'{"cells" []}', b'{"cells"',
    b"\xff\xfe{\0}\0", b'{"a": "\x99"}',
    b'{"cells": [' + b"[" * 100_000 + b"]" * 100_000 + b"]}", b'{"cells": [{"source": "a", "source": "b"}]}',
])  # fmt: skip
def test_what_is_no_notebook_is_refused(data: bytes) -> None:
    """Before any byte is made."""
    assert code_of(data) is ErrorCode.EDIT_ENCODING


def test_numbers_of_any_length_are_left_alone() -> None:
    """They are not read, so they are not written."""
    long = NOTEBOOK.replace(b'"nbformat": 4', b'"nbformat": 4' + b"0" * 5_000, 1)
    assert edit_cell(long, "replace", 1, path="n", source="z") == long.replace(b'"source": "x"', b'"source": "z"')


def test_ids_are_made_where_the_format_has_them() -> None:
    """By what the other cells do, else by the version."""
    for version, has in (
        ([4, 5], True),
        ([4, 4], False),
        ([5, 0], True),
        ([3, 9], False),
        ([4, 10], True),
        ([4, 5.5], False),
        ([4], False),
        ([], False),
    ):
        keys = dict(zip(("nbformat", "nbformat_minor"), version, strict=False))
        data = json.dumps({"cells": [], **keys}).encode()
        assert ("id" in cells_of(edit_cell(data, "insert", 1, path="n", source="x"))[0]) is has
    old = json.dumps({"cells": [{"cell_type": "raw", "source": ""}], "nbformat": 4, "nbformat_minor": 5}).encode()
    assert "id" not in cells_of(edit_cell(old, "insert", 1, path="n", source="x"))[0]


@given(st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda each: st.one_of(st.lists(each, max_size=4), st.dictionaries(st.text(max_size=3), each, max_size=4)),
), st.sampled_from([None, 1, "\t"]), st.sampled_from([None, (",", ":"), (" ,\r\n", "\t:")]))  # fmt: skip
def test_spans_are_the_parts(value: Any, indent: Any, marks: tuple[str, str] | None) -> None:
    """Each member and element lies where it is said to lie, however it is written."""
    text = f"  {json.dumps(value, indent=indent, separators=marks)}\n "
    span = whole(text)
    assert json.loads(text[span.start : span.end]) == value
    assert not {text[span.start], text[span.end - 1]} & set(" \t\r\n")
    if isinstance(value, dict):
        found = {key: json.loads(text[part.start : part.end]) for key, part in members(text, span.start).items()}
        assert found == value
    if isinstance(value, list):
        assert [json.loads(text[part.start : part.end]) for part in elements(text, span.start)] == value


def test_an_object_that_was_not_read_whole_before_is_still_read_strictly() -> None:
    """Its places are looked for by themselves; what is missing is named."""
    with pytest.raises(ValueError, match=re.escape("':' is missing at 5")):
        members('{"a" 1}', 0)


@given(st.integers(1, 4), st.sampled_from([1, 2, 4, "\t"]), st.booleans(), st.data(), TEXTS)
def test_what_is_written_is_in_the_style_of_the_file(
    count: int, indent: Any, ascii_only: bool, draw: st.DataObject, source: str
) -> None:
    """A file that a notebook program wrote is, after each edit, what that program would write."""
    cells = [cell(number, [f"é = {number}\n", "y"]) for number in range(count)]
    body = {"cells": cells, "metadata": {"k": 1}, "nbformat": 4, "nbformat_minor": 5}

    def written() -> bytes:
        return (json.dumps(body, indent=indent, ensure_ascii=ascii_only, sort_keys=True) + "\n").encode()

    data = written()
    at = draw.draw(st.integers(0, count - 1))
    cells[at]["source"] = [line for line in source.replace("\n", "\n\0").split("\0") if line]
    if cells[at]["source"]:
        data = edit_cell(data, "replace", at + 1, path="n", source=source)
        assert data == written()
    else:
        cells[at]["source"] = [f"é = {at}\n", "y"]
    where = draw.draw(st.integers(0, count))
    data = edit_cell(data, "insert", where + 1, path="n", source="a\né", cell_type="markdown")
    cells.insert(where, {
        "cell_type": "markdown", "id": cells_of(data)[where]["id"], "metadata": {}, "source": ["a\n", "é"],
    })  # fmt: skip
    assert data == written()
    gone = draw.draw(st.integers(0, count))
    del cells[gone]
    assert edit_cell(data, "delete", gone + 1, path="n") == written()
    lines = edit_cell(data.replace(b"\n", b"\r\n"), "insert", 1, path="n", source="a\nb")
    assert lines.count(b"\n") == lines.count(b"\r\n")


@pytest.mark.parametrize("indent", [1, 2, None])
def test_a_first_cell_is_put_into_an_empty_notebook(indent: int | None) -> None:
    """As a notebook program would write it, and out again."""
    body: dict[str, Any] = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    empty = json.dumps(body, indent=indent).encode()
    made = edit_cell(empty, "insert", 1, path="n", source="x\ny", cell_type="code")
    (only,) = cells_of(made)
    body["cells"] = [dict(sorted(only.items()))]
    assert made == json.dumps(body, indent=indent).encode()
    assert only == {
        "cell_type": "code", "execution_count": None, "id": only["id"], "metadata": {}, "outputs": [],
        "source": ["x\n", "y"],
    }  # fmt: skip
    assert edit_cell(made, "delete", 1, path="n") == empty


def written(*cells: dict[str, Any], **top: Any) -> Notebook:
    """A notebook of these cells."""
    return read_notebook(json.dumps({**top, "cells": cells, "end": 0}).encode(), path="n")


ONE, TWO, NEW = cell(1, "one"), cell(2, ["two"]), cell(3, "new")


@pytest.mark.parametrize(("action", "at", "right", "wrong"), [
    ("replace", 0, written(ONE | {"source": "new"}, TWO), [
        written(ONE, TWO), written(ONE | {"source": "new", "id": "x"}, TWO), written(ONE | {"source": "new"}, NEW),
        written(ONE | {"source": "new"}, TWO, k=1), written(ONE | {"source": "new"}, TWO, ONE),
    ]),
    ("insert", 1, written(ONE, NEW, TWO), [
        written(ONE, NEW), written(ONE, cell(3, "other"), TWO), written(TWO, NEW, ONE), written(ONE, NEW, TWO, k=1),
        written(ONE, NEW, TWO, TWO),
    ]),
    ("delete", 1, written(ONE), [written(TWO), written(ONE, TWO), written(ONE, k=1), written()]),
])  # fmt: skip
def test_what_is_not_as_it_was_asked_for_is_never_handed_out(
    action: Action, at: int, right: Notebook, wrong: list[Notebook]
) -> None:
    """Another cell, another source, another key beside the source or around the cells: refused when it is read back."""
    _check(written(ONE, TWO), right, action, at, "new")
    for other in wrong:
        with pytest.raises(EditError) as caught:
            _check(written(ONE, TWO), other, action, at, "new")
        assert caught.value.code is ErrorCode.INTERNAL
        assert caught.value.message == "the notebook would not be what was asked for; nothing was changed"


def test_so_many_cells_are_named_and_so_much_of_each() -> None:
    """A long cell is cut, and the first of many are told."""
    data = json.dumps({"cells": [cell(number, "x" * 999) for number in range(CANDIDATES_MAX + 2)]}).encode()
    with pytest.raises(EditError) as caught:
        edit_cell(data, "delete", 99, path="n")
    assert caught.value.data["candidates"] == [
        {"line": number, "text": f"cell {number} (c{number - 1}): {'x' * SNIPPET_CHARS_MAX!r}"}
        for number in range(1, CANDIDATES_MAX + 1)
    ]


def test_a_cell_of_which_nothing_is_said_is_an_empty_one_of_code() -> None:
    """Put in, or in the place of another."""
    made = cells_of(edit_cell(NOTEBOOK, "insert", 1, path="n"))[0]
    assert (made["cell_type"], made["source"]) == ("code", [])
    assert text_of(cells_of(edit_cell(NOTEBOOK, "replace", 2, path="n"))[1]) == ""


def test_sources_keep_their_form() -> None:
    """A string stays a string, a list on one line stays on one line, an empty one becomes lines."""
    one_line = b'{\n "cells": [\n  {"source": ["a"]},\n  {"source": "b"},\n  {\n   "source": []\n  }\n ]\n}'
    first = edit_cell(one_line, "replace", 1, path="n", source="c\nd")
    assert first == one_line.replace(b'["a"]', b'["c\\n", "d"]')
    second = edit_cell(one_line, "replace", 2, path="n", source="c\nd")
    assert second == one_line.replace(b'"b"', b'"c\\nd"')
    third = edit_cell(one_line, "replace", 3, path="n", source="c\nd")
    assert third == one_line.replace(b"[]", b'[\n    "c\\n",\n    "d"\n   ]')
    assert edit_cell(third, "replace", 3, path="n", source="") == one_line
    wide = one_line.replace(b'["a"]', b'[\n      "a",\n      "b"]')
    assert edit_cell(wide, "replace", 1, path="n", source="c\nd") == one_line.replace(
        b'["a"]', b'[\n      "c\\n",\n      "d"\n  ]'
    )


def test_the_first_line_of_a_notebook_may_be_empty() -> None:
    """The second has its indentation all the same."""
    data = b'\n  {"cells": [{"source": []}],\n  "a": 1}'
    assert edit_cell(data, "replace", 1, path="n", source="x") == data.replace(b"[]", b'[\n    "x"\n  ]')


def test_a_new_id_is_none_of_those_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made of the place and the text, so that the same edit gives the same bytes; taken ones are passed over."""
    ids = [cells_of(edit_cell(NOTEBOOK, "insert", at, path="n", source="x"))[at - 1]["id"] for at in (1, 2, 3)]
    assert ids == ["c0764a87", "6d259e2a", "5d281f31"]
    monkeypatch.setattr("gloveport.server.edit.notebook._ID_CHARS", 1)
    data = json.dumps({"cells": [], "nbformat": 4, "nbformat_minor": 5}).encode()
    for at in range(1, 17):
        data = edit_cell(data, "insert", at, path="n", source="x")
    assert sorted(each["id"] for each in cells_of(data)) == sorted("0123456789abcdef")
