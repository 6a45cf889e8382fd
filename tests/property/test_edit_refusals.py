"""What is said where an edit is refused, to the letter: a model and a user act on these words and on this data."""

from collections.abc import Callable
from typing import Any

import pytest

from gloveport.protocol.errors import ErrorCode
from gloveport.server.edit.apply import apply_hunks
from gloveport.server.edit.errors import EditError
from gloveport.server.edit.hunks import diff_hunks
from gloveport.server.edit.matching import changed_ranges
from gloveport.server.edit.merge import merge_texts, met_digest, take_hunks
from gloveport.server.edit.names import NAME_BYTES_MAX, PATH_BYTES_MAX, fold_path, split_path
from gloveport.server.edit.notebook import edit_cell, read_notebook
from gloveport.server.edit.patching import Block, Row, apply_blocks
from gloveport.server.edit.replace import QUOTE_CHARS_MAX, Quote, replace_exact, replace_many
from gloveport.server.edit.rewrite import rewrite_text

Call = Callable[[], object]
NOTEBOOK = b'{"cells": [{"cell_type": "code", "id": "one", "source": ["a\\n", "b"]}, {"source": "x"}]}'
LINES = b"one\ntwo\nthree\ntwo\n"
LEGACY = b"stra\xdfe 1\nplain 1\n"
SAME = b"".join(b"same %d\n" % number for number in range(3)) * 9
"""Three lines that stand nine times."""
MARKED = b"\xef\xbb\xbfone\ntwo\n"
PAST = "a" * (QUOTE_CHARS_MAX + 1)


def block(*rows: str, anchors: tuple[str, ...] = (), old_start: int | None = None) -> Block:
    """Rows as a patch writes them."""
    return Block(tuple(Row(row[0], row[1:]) for row in rows), anchors, old_start)


def patched(data: bytes, *blocks: Block) -> Call:
    """A patch of these blocks."""
    return lambda: apply_blocks(data, blocks, path="f")


def replaced(data: bytes, old: str, new: str, *, every: bool = False) -> Call:
    """One replacement."""
    return lambda: replace_exact(data, old, new, path="f", replace_all=every)


def merged(ours: bytes, theirs: bytes) -> Call:
    """Two changes of three lines."""
    return lambda: merge_texts(b"1\n2\n3\n", ours, theirs, path="f")


def cell(action: Any, number: int, **more: Any) -> Call:
    """A change of one cell."""
    return lambda: edit_cell(NOTEBOOK, action, number, path="f", **more)


def newer() -> object:
    """A hunk at the second line, named with what the user has not got."""
    (hunk,) = diff_hunks(b"1\n2\n3\n", b"1\nours\n3\n", "f")
    return take_hunks(b"1\n2\n3\n", [hunk], b"1\nmine\n3\n", {hunk.digest: hunk.digest}, path="f")


def met() -> object:
    """The same hunk without a name."""
    (hunk,) = diff_hunks(b"1\n2\n3\n", b"1\nours\n3\n", "f")
    return take_hunks(b"1\n2\n3\n", [hunk], b"1\nmine\n3\n", {}, path="f")


def torn() -> object:
    """A hunk taken in a text of another unit."""
    (hunk,) = diff_hunks(b"1\n2\n", b"1\n3\n", "f")
    return take_hunks(b"1\n2\n", [hunk], "\ufeff1\n2\n".encode("utf-16-le"), {}, path="f")


def elsewhere() -> object:
    """A hunk whose lines are not there."""
    return apply_hunks(b"1\n4\n", diff_hunks(b"1\n2\n", b"1\n3\n", "f"))


DIGEST = "531b980c9a92a39c5cf21b5268bdeb30c275d68ff3a345304d51ea64535cf59d"
MET = "9d8e6487da1bedc9b056e047d96fa3acf3b658fb1b0006548f5fd35dd3bb81b6"
EQUALS = (
    "603c7521641de2cc2a946f79d49f15a4f9053ee85969fd50e34bdc00bb9d7ce6",
    "29296def85baaa56c0c1238a1a8a7929f313557a9b714d2c827948793354ded9",
)
TABLE: dict[str, tuple[Call, ErrorCode, str, dict[str, Any]]] = {
    "no text is quoted": (
        replaced(LINES, "", "x"),
        ErrorCode.EDIT_NO_MATCH,
        "f: the quoted text is empty, too long, or equal to the new text",
        {"candidates": []},
    ),
    "the same text": (
        replaced(LINES, "two", "two"),
        ErrorCode.EDIT_NO_MATCH,
        "f: the quoted text is empty, too long, or equal to the new text",
        {"candidates": []},
    ),
    "a quote beyond the limit": (
        replaced(LINES, PAST, "x"),
        ErrorCode.EDIT_NO_MATCH,
        "f: the quoted text is empty, too long, or equal to the new text",
        {"candidates": []},
    ),
    "nothing is there": (
        replaced(LINES, "four", "x"),
        ErrorCode.EDIT_NO_MATCH,
        "f: the quoted text does not occur",
        {"candidates": []},
    ),
    "alike but for blanks": (
        replaced(b"  \n\ttwo\nonetwo\n", "\n two \n", "x"),
        ErrorCode.EDIT_NO_MATCH,
        "f: the quoted text does not occur",
        {"candidates": [(2, "\ttwo"), (3, "onetwo")]},
    ),
    "alike in a word": (
        replaced(b"two other\n", "two words\n", "x"),
        ErrorCode.EDIT_NO_MATCH,
        "f: the quoted text does not occur",
        {"candidates": []},
    ),
    "more look-alikes than are named": (
        replaced(b"a b\n" * 9, "b \n c", "x"),
        ErrorCode.EDIT_NO_MATCH,
        "f: the quoted text does not occur",
        {"candidates": [(at, "a b") for at in range(1, 9, 1)]},
    ),
    "blanks are like nothing": (
        replaced(LINES, " \n ", "x"),
        ErrorCode.EDIT_NO_MATCH,
        "f: the quoted text does not occur",
        {"candidates": []},
    ),
    "several places": (
        replaced(b"x\n" + LINES, "two", "2"),
        ErrorCode.EDIT_AMBIGUOUS,
        "f: the quoted text occurs 2 times",
        {"candidates": [(3, "two"), (5, "two")]},
    ),
    "more places than are named": (
        replaced(SAME, "same 1", "2"),
        ErrorCode.EDIT_AMBIGUOUS,
        "f: the quoted text occurs 9 times",
        {"candidates": [(at, "same 1") for at in range(2, 24, 3)]},
    ),
    "places that overlap": (
        replaced(b"aaa\r\n", "aa", "b", every=True),
        ErrorCode.EDIT_AMBIGUOUS,
        "f: the quoted text occurs 2 times",
        {"candidates": [(1, "aaa"), (1, "aaa")]},
    ),
    "one of several": (
        lambda: replace_many(LINES, [Quote("one", "1"), Quote("two", "2")], path="f"),
        ErrorCode.EDIT_AMBIGUOUS,
        "f: edit 2 of 2: the quoted text occurs 2 times",
        {"candidates": [(2, "two"), (4, "two")]},
    ),
    "the only one of several": (
        lambda: replace_many(LINES, [Quote("two", "2")], path="f"),
        ErrorCode.EDIT_AMBIGUOUS,
        "f: the quoted text occurs 2 times",
        {"candidates": [(2, "two"), (4, "two")]},
    ),
    "no text at all": (replaced(b"\0\1\2", "a", "b"), ErrorCode.EDIT_ENCODING, "f: the file is not text", {}),
    "legacy text, other letters": (
        replaced(LEGACY, "plain", "\u00fc"),
        ErrorCode.EDIT_ENCODING,
        "f: the file is not UTF-8; only ASCII text can be edited in it",
        {},
    ),
    "legacy text, behind a byte": (
        replaced(b"\x81\x30\n", "0", "1"),
        ErrorCode.EDIT_ENCODING,
        "f: the place follows a byte of unknown encoding; quote from further left",
        {},
    ),
    "legacy text, behind the first byte that may begin a letter": (
        replaced(b"\x80\x30\n", "0", "1"),
        ErrorCode.EDIT_ENCODING,
        "f: the place follows a byte of unknown encoding; quote from further left",
        {},
    ),
    "legacy text, behind a byte, the last": (
        replaced(b"\x81\x7e\n", "~", "1"),
        ErrorCode.EDIT_ENCODING,
        "f: the place follows a byte of unknown encoding; quote from further left",
        {},
    ),
    "legacy text, several places": (
        replaced(LEGACY * 2, "e 1", "e 2"),
        ErrorCode.EDIT_AMBIGUOUS,
        "f: the quoted text occurs 2 times",
        {"candidates": [(1, "stra\ufffde 1"), (3, "stra\ufffde 1")]},
    ),
    "a NUL": (replaced(LINES, "one", "\0"), ErrorCode.EDIT_ENCODING, "f: the text holds a NUL character", {}),
    "half a letter": (
        replaced(LINES, "one", "\ud800"),
        ErrorCode.EDIT_ENCODING,
        "f: the text holds half a surrogate pair",
        {},
    ),
    "another encoding": (
        replaced(b"ab\n", "ab", "\ufeffx"),
        ErrorCode.EDIT_ENCODING,
        "f: the edit would turn it from utf-8 without byte order mark into utf-8 with byte order mark",
        {},
    ),
    "a second mark": (
        replaced(MARKED, "one", "\ufeffone"),
        ErrorCode.EDIT_ENCODING,
        "f: its byte order mark would be there twice",
        {},
    ),
    "a patch without a place": (
        patched(LINES, block("+x")),
        ErrorCode.EDIT_AMBIGUOUS,
        "f: the patch only adds lines and quotes none, so it has no place",
        {"candidates": []},
    ),
    "a patch of other lines": (
        patched(LINES, block("-four", "+x")),
        ErrorCode.EDIT_NO_MATCH,
        "f: the patch does not occur as it is quoted",
        {"candidates": []},
    ),
    "a patch whose first line stands elsewhere": (
        patched(b"x\none\n", block(" ", "-one", "+y")),
        ErrorCode.EDIT_NO_MATCH,
        "f: the patch does not occur as it is quoted",
        {"candidates": [(1, "x")]},
    ),
    "the second block": (
        patched(LINES, block("-one", "+1"), block("-one", "+1")),
        ErrorCode.EDIT_NO_MATCH,
        "f: block 2 of 2 does not occur as it is quoted",
        {"candidates": [(1, "one")]},
    ),
    "a patch with several places": (
        patched(SAME, block("-same 1", "+x")),
        ErrorCode.EDIT_AMBIGUOUS,
        "f: the patch occurs 9 times",
        {"candidates": [(at, "same 1") for at in range(2, 24, 3)]},
    ),
    "a line number beside the only place": (
        patched(b"a\nb\nc\nb \n", block("-b", "+x", old_start=4)),
        ErrorCode.EDIT_NO_MATCH,
        "f: the patch, at line 4, occurs at another line than it names",
        {"candidates": [(2, "b")]},
    ),
    "a line number and lines that are nowhere": (
        patched(b"a\nb\nc\n", block("-c ", "+x", old_start=2)),
        ErrorCode.EDIT_NO_MATCH,
        "f: the patch, at line 2, does not occur as it is quoted",
        {"candidates": [(3, "c")]},
    ),
    "no line number": (
        patched(b"a\nb\na\n", block("-a", "+x")),
        ErrorCode.EDIT_AMBIGUOUS,
        "f: the patch occurs 2 times",
        {"candidates": [(1, "a"), (3, "a")]},
    ),
    "an anchor that is not there": (
        patched(LINES, block("+x", anchors=("four",))),
        ErrorCode.EDIT_NO_MATCH,
        "f: the patch: the line after @@ does not occur as it is quoted",
        {"candidates": []},
    ),
    "an anchor of half a letter": (
        patched(LINES, block("+x", anchors=("\ud800",))),
        ErrorCode.EDIT_ENCODING,
        "f: the text holds half a surrogate pair",
        {},
    ),
    "a quote of half a letter": (
        patched(LINES, block("-\ud800", "+x")),
        ErrorCode.EDIT_ENCODING,
        "f: the text holds half a surrogate pair",
        {},
    ),
    "an anchor with several places": (
        patched(LINES, block("+x", anchors=("two",))),
        ErrorCode.EDIT_AMBIGUOUS,
        "f: the patch: the line after @@ occurs 2 times",
        {"candidates": [(2, "two"), (4, "two")]},
    ),
    "a patch that takes the mark away": (
        patched(MARKED, block("-\ufeffone", "+1")),
        ErrorCode.EDIT_ENCODING,
        "f: the patch would take its byte order mark away",
        {},
    ),
    "a patch that takes the mark's line away": (
        patched(MARKED, block("-\ufeffone")),
        ErrorCode.EDIT_ENCODING,
        "f: the patch would take its byte order mark away",
        {},
    ),
    "a path that leaves": (
        lambda: split_path("a/../b"),
        ErrorCode.OUTSIDE_WORKSPACE,
        "not a plain relative path: 'a/../b'",
        {"path": "a/../b"},
    ),
    "a path of half letters": (
        lambda: split_path("a\udcff"),
        ErrorCode.OUTSIDE_WORKSPACE,
        "not a UTF-8 path: 'a\\udcff'",
        {"path": "a\udcff"},
    ),
    "a long name": (
        lambda: split_path("n" * (NAME_BYTES_MAX + 1)),
        ErrorCode.OUTSIDE_WORKSPACE,
        f"the path is too long: '{'n' * 80}'…",
        {"path": "n" * 80},
    ),
    "git's own": (
        lambda: split_path("a/.GIT/x"),
        ErrorCode.PROTECTED_PATH,
        "'a/.GIT/x' is never changed by the agent",
        {"path": "a/.GIT/x"},
    ),
    "ours": (
        lambda: split_path(".gloveport-x"),
        ErrorCode.PROTECTED_PATH,
        "'.gloveport-x' is never changed by the agent",
        {"path": ".gloveport-x"},
    ),
    "both changed a line": (
        merged(b"1\nours\n3\n", b"1\nmine\n3\n"),
        ErrorCode.CHANGE_CONFLICT,
        "f: both sides changed the text around line 2",
        {"line": 2},
    ),
    "texts of other units": (
        merged(b"1\n2\n", "\ufeff1\n2\n".encode("utf-16-le")),
        ErrorCode.CHANGE_CONFLICT,
        "f: both sides changed the text around line 1",
        {"line": 1},
    ),
    "newer than what was shown": (
        newer,
        ErrorCode.CHANGE_CONFLICT,
        "f: what you have around line 2 is not what was shown",
        {"line": 2},
    ),
    "met and not named": (met, ErrorCode.CHANGE_CONFLICT, "f: both sides changed the text around line 2", {"line": 2}),
    "taken in another unit": (
        torn,
        ErrorCode.CHANGE_CONFLICT,
        "f: both sides changed the text around line 1",
        {"line": 1},
    ),
    "not the hunk's lines": (
        elsewhere,
        ErrorCode.CHANGE_CONFLICT,
        "the text does not hold the hunk's lines at line 2",
        {"path": None},
    ),
    "a cell too far": (
        cell("replace", 3),
        ErrorCode.EDIT_NO_MATCH,
        "f: there is no cell 3; cells are numbered from 1 to 2",
        {
            "candidates": [(1, "cell 1 (one): 'a\\nb'"), (2, "cell 2 (no id): 'x'")],
            "hint": "Name a cell by its number.",
        },
    ),
    "a cell too far to put in": (
        cell("insert", 4),
        ErrorCode.EDIT_NO_MATCH,
        "f: there is no cell 4; cells are numbered from 1 to 3",
        {
            "candidates": [(1, "cell 1 (one): 'a\\nb'"), (2, "cell 2 (no id): 'x'")],
            "hint": "Name a cell by its number.",
        },
    ),
    "no cell nought": (
        cell("delete", 0),
        ErrorCode.EDIT_NO_MATCH,
        "f: there is no cell 0; cells are numbered from 1 to 2",
        {
            "candidates": [(1, "cell 1 (one): 'a\\nb'"), (2, "cell 2 (no id): 'x'")],
            "hint": "Name a cell by its number.",
        },
    ),
    "a cell of another name": (
        cell("replace", 1, source="x", cell_id="two"),
        ErrorCode.EDIT_NO_MATCH,
        "f: cell 1 does not have the id 'two'",
        {
            "candidates": [(1, "cell 1 (one): 'a\\nb'"), (2, "cell 2 (no id): 'x'")],
            "hint": "Name a cell by its number.",
        },
    ),
    "a cell without a source": (
        lambda: edit_cell(b'{"cells": [{"a": 1}]}', "replace", 1, path="f", source="x"),
        ErrorCode.EDIT_ENCODING,
        "f: cell 1 has no source that can be replaced",
        {},
    ),
    "half a letter for a cell": (
        cell("replace", 1, source="\ud800"),
        ErrorCode.EDIT_ENCODING,
        "f: the text holds half a surrogate pair",
        {},
    ),
    "a notebook of another encoding": (
        lambda: read_notebook("\ufeff{}".encode("utf-16-le"), path="f"),
        ErrorCode.EDIT_ENCODING,
        "f: a notebook is UTF-8",
        {},
    ),
    "a cell of what is no notebook": (
        lambda: edit_cell(b"[]", "delete", 1, path="f"),
        ErrorCode.EDIT_ENCODING,
        "f: it is no notebook that can be read: an object is expected",
        {},
    ),
    "a notebook of bytes": (
        lambda: read_notebook(b"{\0", path="f"),
        ErrorCode.EDIT_ENCODING,
        "f: the file is not text",
        {},
    ),
    "no list of cells": (
        lambda: read_notebook(b'{"cells": 1}', path="f"),
        ErrorCode.EDIT_ENCODING,
        "f: it is no notebook that can be read: its cells are no list",
        {},
    ),
    "no cells": (
        lambda: read_notebook(b'{"a": 1}', path="f"),
        ErrorCode.EDIT_ENCODING,
        "f: it is no notebook that can be read: 'cells'",
        {},
    ),
    "no object": (
        lambda: read_notebook(b"[1]", path="f"),
        ErrorCode.EDIT_ENCODING,
        "f: it is no notebook that can be read: an object is expected",
        {},
    ),
    "more than a notebook": (
        lambda: read_notebook(b'{"cells": []} x', path="f"),
        ErrorCode.EDIT_ENCODING,
        "f: it is no notebook that can be read: something follows the value",
        {},
    ),
    "a key twice": (
        lambda: read_notebook(b'{"a": 1, "a": 2}', path="f"),
        ErrorCode.EDIT_ENCODING,
        "f: it is no notebook that can be read: the key 'a' stands twice",
        {},
    ),
    "no number": (
        lambda: read_notebook(b'{"a": Infinity}', path="f"),
        ErrorCode.EDIT_ENCODING,
        "f: it is no notebook that can be read: not a JSON number",
        {},
    ),
    "nested too deeply": (
        lambda: read_notebook(b'{"a": ' + b"[" * 100_000, path="f"),
        ErrorCode.EDIT_ENCODING,
        "f: it is no notebook that can be read: it is nested too deeply",
        {},
    ),
    "writing over bytes": (
        lambda: rewrite_text(b"\0\1\2", "x", path="f"),
        ErrorCode.EDIT_ENCODING,
        "f: the file is not text; delete it first to write another in its place",
        {},
    ),
    "writing over legacy text": (
        lambda: rewrite_text(LEGACY, "x", path="f"),
        ErrorCode.EDIT_ENCODING,
        "f: the file is not UTF-8; writing all of it would lose letters",
        {},
    ),
    "writing half a letter": (
        lambda: rewrite_text(LINES, "\ud800", path="f"),
        ErrorCode.EDIT_ENCODING,
        "f: the text holds half a surrogate pair",
        {},
    ),
}
HINTS = {
    ErrorCode.EDIT_NO_MATCH: "Quote the text exactly as the file has it.",
    ErrorCode.EDIT_AMBIGUOUS: "Quote more of the surroundings so that one place matches.",
    ErrorCode.EDIT_ENCODING: "This file cannot be edited as text without loss.",
    ErrorCode.OUTSIDE_WORKSPACE: "Use a path inside the workspace.",
    ErrorCode.PROTECTED_PATH: "This path is never changed by the agent.",
    ErrorCode.CHANGE_CONFLICT: "The file changed under the proposal; nothing was written.",
}


@pytest.mark.parametrize("name", TABLE)
def test_a_refusal_says_what_and_where(name: str) -> None:
    """Code, words, advice and places."""
    call, code, words, data = TABLE[name]
    with pytest.raises(EditError) as refused:
        call()
    error = refused.value
    wanted = {key: value for key, value in ({"path": "f"} | data).items() if value is not None}
    hint = wanted.pop("hint", HINTS[code])
    found = dict(error.data)
    if "candidates" in found:
        found["candidates"] = [(each["line"], each["text"]) for each in found["candidates"]]
    assert (error.code, error.message, error.hint) == (code, words, hint)
    assert found == wanted


def test_a_path_may_be_as_long_as_it_may_be() -> None:
    """One byte more is refused, counted as a program counts: with what ends it."""
    parts = ["n" * 99] * (PATH_BYTES_MAX // 100) + ["n" * (PATH_BYTES_MAX % 100 - 1)]
    assert split_path("/".join(parts)) == tuple(parts)
    with pytest.raises(EditError, match="too long"):
        split_path("/".join([*parts[:-1], parts[-1] + "n"]))
    assert split_path("n" * NAME_BYTES_MAX) == ("n" * NAME_BYTES_MAX,)


def test_a_quote_may_be_as_long_as_it_may_be() -> None:
    """The limit itself is allowed."""
    quoted = PAST[1:]
    assert replace_exact(quoted.encode(), quoted, "x", path="f").result == b"x"


def test_places_that_adjoin_do_not_overlap() -> None:
    """All of them are replaced."""
    assert replace_exact(b"abab", "ab", "b", path="f", replace_all=True).result == b"bb"


def test_every_end_of_a_line_can_be_replaced() -> None:
    """Each with its carriage return, also where they stand side by side."""
    assert replace_exact(b"a\r\n\r\nb\n", "\n", "-", path="f", replace_all=True).result == b"a--b-"


def test_a_legacy_letter_ends_before_what_cannot_be_its_second_byte() -> None:
    """Below the digits no second byte lies, nor behind the tilde."""
    assert replace_exact(b"\x81\x7f\n", "\x7f", "1", path="f").result == b"\x811\n"
    assert replace_exact(b"\x81/\n", "/", "1", path="f").result == b"\x811\n"


def test_many_edits_may_each_mean_every_place() -> None:
    """One of them all places, the next its only one."""
    quotes = [Quote("two", "2", every=True), Quote("one", "1")]
    assert replace_many(LINES, quotes, path="f") == b"1\n2\nthree\n2\n"


def test_a_first_line_that_is_new_ends_as_most_lines_do() -> None:
    """Nothing stands before it."""
    mixed = b"a\nb\r\nc\r\nd\n" + b"e\r\n" * 3
    assert rewrite_text(mixed, "new\nb\nc\nd\n" + "e\n" * 3, path="f") == b"new\r\n" + mixed[2:]


def test_folded_paths_are_paths() -> None:
    """Each part by itself."""
    assert fold_path("Src/\u00c4.PY") == "src/\u00e4.py"


def test_names_of_hunks_last() -> None:
    """A journal holds them: the same change has the same digest in every build; path and
    place among equals count."""
    base, result = b"x\n" * 9, b"x\n" * 4 + b"y\n" + b"x\n" * 4
    (hunk,) = diff_hunks(base, result, "f")
    assert (hunk.digest, hunk.hunk_id) == (DIGEST, f"hunk-{DIGEST[:24]}")
    (other,) = diff_hunks(base, result, "g")
    (strange,) = diff_hunks(base, result, "\udcff")  # a name whose bytes are no letters
    assert len({hunk.digest, other.digest, strange.digest}) == 3
    part = b"a\nb\nc\nOLD\na\nb\nc\n"
    one, two = diff_hunks(part * 2, (part * 2).replace(b"OLD", b"NEW"), "f")
    assert (one.digest, two.digest) == EQUALS
    assert len({each.digest for each in diff_hunks(part * 4, (part * 4).replace(b"OLD", b"NEW"), "f")}) == 4
    assert (one.old_lines, one.new_lines, one.context_before) == (two.old_lines, two.new_lines, two.context_before)
    changes, user = changed_ranges([b"1\n", b"2\n"], [b"1\n", b"mine\n"]), [b"1\n", b"mine\n"]
    assert met_digest(changes, user, 1, 2) == MET
