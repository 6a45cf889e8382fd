"""Diffs as text, for people and for programs: every mark, number and escape as it is written."""

import pytest

from gloveport.server.edit.apply import apply_hunks
from gloveport.server.edit.hunks import DIFF_LINES_MAX, diff_hunks
from gloveport.server.edit.patch import exact_patch
from gloveport.server.edit.render import LINE_CHARS_MAX, DiffRow, diff_rows, unified_diff, visible

TEN = b"".join(b"%d\n" % number for number in range(10))


def rows(base: bytes, result: bytes) -> list[DiffRow]:
    """All rows of all hunks."""
    return [row for hunk in diff_hunks(base, result, "f") for row in diff_rows(hunk)]


def shown(base: bytes, result: bytes) -> list[str]:
    """The rows as a person sees them."""
    return [row.kind + row.text for row in rows(base, result)]


def test_a_unified_diff_to_the_letter() -> None:
    """Names, places, context, and lines that stayed inside a hunk."""
    base = TEN
    result = TEN.replace(b"2\n", b"two\n").replace(b"4\n", b"four\nand more\n").replace(b"9\n", b"9")
    assert unified_diff(("old name", "new\u202ename"), diff_hunks(base, result, "f")) == (
        "--- a/old name\n+++ b/new\\u{202e}name\n@@ -1,8 +1,9 @@\n 0\n 1\n-2\n+two\n 3\n"
        "-4\n+four\n+and more\n 5\n 6\n 7\n"
        "@@ -7,4 +8,4 @@\n 6\n 7\n 8\n-9\n+9\n\\ No newline at end of file\n"
    )
    assert unified_diff((None, "x"), diff_hunks(b"", b"a\n", "f")) == "--- /dev/null\n+++ b/x\n@@ -0,0 +1,1 @@\n+a\n"
    assert unified_diff(("x", None), diff_hunks(b"a", b"", "f")) == (
        "--- a/x\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a\n\\ No newline at end of file\n"
    )
    assert unified_diff(("x", "x"), ()) == ""


def test_rows_carry_the_numbers_of_both_sides() -> None:
    """From 1, absent where the line is."""
    assert [(row.kind, row.old_number, row.new_number, row.ends) for row in rows(b"a\nb\nc", b"a\nB\nb\n")] == [
        (" ", 1, 1, True), ("+", None, 2, True), (" ", 2, 3, True), ("-", 3, None, False),
    ]  # fmt: skip


def test_endings_are_shown_where_they_differ() -> None:
    """A carriage return is a part of the line where the hunk has both endings, or where it is data."""
    assert shown(b"a\r\nb\r\n", b"a\r\nB\r\n") == [" a", "-b", "+B"]
    assert shown(b"a\r\nb\n", b"a\r\nB\n") == [" a␍", "-b", "+B"]
    assert shown(b"a\r\n", b"a\n") == ["-a␍", "+a"]
    assert shown(b"a\rb\r\n", b"a\rB\r\n") == ["-a␍b", "+a␍B"]
    assert shown(b"a\r", b"b\r") == ["-a␍", "+b␍"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_mark_or_an_end_of_a_line_says_enough(encoding: str) -> None:
    """Of texts that are too short to be known by their letters."""
    assert shown("\ufeffa".encode(encoding), "\ufeffb".encode(encoding)) == ["-\\u{feff}a", "+\\u{feff}b"]
    assert shown("\ufeffa\n漢\n".encode(encoding), "\ufeffa\n字\n".encode(encoding)) == [
        " \\u{feff}a", "-漢", "+字",
    ]  # fmt: skip
    assert shown(b"", "abcd\n".encode(encoding)) == ["+abcd"]
    assert shown("\ufeffa\r\nb\n".encode(encoding), "\ufeffa\r\nc\n".encode(encoding)) == [" \\u{feff}a␍", "-b", "+c"]
    lines = ["\ufeff\n", *(f"漢字漢字{number}\n" for number in range(9))]
    text = "".join(lines)
    assert shown(text.encode(encoding), text.replace("6", "x").encode(encoding)) == [
        " 漢字漢字3", " 漢字漢字4", " 漢字漢字5", "-漢字漢字6", "+漢字漢字x", " 漢字漢字7", " 漢字漢字8",
    ]  # fmt: skip


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_two_byte_texts_are_shown_as_text(encoding: str) -> None:
    """With a mark and without, also where the hunk holds no end of a line."""
    base, result = ("one line\r\ntwo of them", "one line\r\nzwei für sie")
    mark = "\\u{feff}" if encoding == "utf-16" else ""
    assert shown(base.encode(encoding), result.encode(encoding)) == [
        f" {mark}one line",
        "-two of them",
        "+zwei für sie",
    ]
    if not mark:
        assert shown("abcdefgh".encode(encoding), "abcdefgx".encode(encoding)) == ["-abcdefgh", "+abcdefgx"]


def test_nothing_is_hidden_in_a_shown_line() -> None:
    """Controls, direction marks, bytes of no letter; tabs and wide spaces stay; a long line says how long it is."""
    assert visible("plain ~ text") == "plain ~ text"
    assert visible("a\tb\u00a0c\u3000d é漢🙂") == "a\tb\u00a0c\u3000d é漢🙂"
    assert visible("\r\x00\x1b\u202e\u200b\n\x7f") == "␍\\u{0}\\u{1b}\\u{202e}\\u{200b}\\u{a}\\u{7f}"
    assert shown(b"caf\x99\n", b"cafe\n") == ["-caf\\x99", "+cafe"]
    long = b"x" * (LINE_CHARS_MAX + 1) + b"\n"
    fits = b"x" * LINE_CHARS_MAX + b"\n"
    assert shown(b"", long) == [f"+{'x' * LINE_CHARS_MAX}… ({LINE_CHARS_MAX + 2} bytes)"]
    assert shown(b"", fits) == [f"+{'x' * LINE_CHARS_MAX}"]


@pytest.mark.parametrize(("name", "header", "ended"), [
    ("plain", "plain", "plain"), ("with space", "with space", "with space\t"), ("ünï", "ünï", "ünï"),
    ('q"x', '"%s/q\\"x"', '"%s/q\\"x"'), ("back\\s", '"%s/back\\\\s"', '"%s/back\\\\s"'),
    ("t\tn\n é", '"%s/t\\tn\\n \\303\\251"', '"%s/t\\tn\\n \\303\\251"'),
    ("\x01\x7f", '"%s/\\001\\177"', '"%s/\\001\\177"'), ("\udcff", '"%s/\\377"', '"%s/\\377"'),
])  # fmt: skip
def test_names_in_patches_are_quoted_as_programs_take_them(name: str, header: str, ended: str) -> None:
    """A name with a space ends with a tab; unusual characters are escaped, letters are not."""

    def side(form: str, mark: str) -> str:
        return form.replace("%s", mark) if "%s" in form else f"{mark}/{form}"

    patch = exact_patch((name, name), diff_hunks(b"a\n", b"b\n", name), "100644", "100644").decode()
    assert patch == (
        f"diff --git {side(header, 'a')} {side(header, 'b')}\n--- {side(ended, 'a')}\n+++ {side(ended, 'b')}\n"
        "@@ -1,1 +1,1 @@\n-a\n+b\n"
    )


def test_a_patch_to_the_letter() -> None:
    """Modes, absent sides, renames, hunks whose surroundings touch, a missing newline."""
    made = diff_hunks(b"", b"a", "n")
    assert exact_patch(("n", "n"), made, None, "100755") == (
        b"diff --git a/n b/n\nnew file mode 100755\n--- /dev/null\n+++ b/n\n@@ -0,0 +1,1 @@\n+a\n"
        b"\\ No newline at end of file\n"
    )
    gone = diff_hunks(b"a\n", b"", "n")
    assert exact_patch(("n", "n"), gone, "100644", None) == (
        b"diff --git a/n b/n\ndeleted file mode 100644\n--- a/n\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a\n"
    )
    assert exact_patch(("n", "n"), (), "100644", "100755") == b"diff --git a/n b/n\nold mode 100644\nnew mode 100755\n"
    assert exact_patch(("o d", "n"), (), "100644", "100644") == (
        b"diff --git a/o d b/n\nrename from o d\nrename to n\n"
    )
    near = TEN.replace(b"1\n", b"one\n").replace(b"5\n", b"five\n")
    assert exact_patch(("n", "n"), diff_hunks(TEN, near, "n"), "100644", "100644").split(b"\n")[3:] == (
        b"@@ -1,9 +1,9 @@\n 0\n-1\n+one\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n".split(b"\n")
    )
    far = b"x\n" * 5 + TEN
    apart = far.replace(b"x\n", b"y\n", 1).replace(b"9\n", b"nine\n")
    assert exact_patch(("n", "n"), diff_hunks(far, apart, "n"), "100644", "100644").count(b"\n@@ ") == 2
    inside = diff_hunks(b"a\nb\nc\nd\n", b"A\nb\nC\nd\n", "n")
    assert len(inside) == 1
    assert exact_patch(("n", "n"), inside, "100644", "100644").endswith(b"-a\n+A\n b\n-c\n+C\n d\n")


def test_beyond_the_limit_of_lines_the_changed_middle_is_one_hunk() -> None:
    """From the first line that differs to the last; applied it is exact."""
    base = b"a\n" * (DIFF_LINES_MAX + 1)
    lines = base.split(b"\n")
    lines[5], lines[9] = b"b", b"c"
    result = b"\n".join(lines)
    (hunk,) = diff_hunks(base, result, "f")
    assert (hunk.old_start, len(hunk.old_lines), len(hunk.new_lines)) == (5, 5, 5)
    assert apply_hunks(base, [hunk]) == result
    (grown,) = diff_hunks(base, b"a\n" + base, "f")
    assert (len(grown.old_lines), len(grown.new_lines)) == (0, 1)
    (apart,) = diff_hunks(base, base.replace(b"a", b"z"), "f")
    assert len(apart.old_lines) == DIFF_LINES_MAX + 1
