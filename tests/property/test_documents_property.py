"""Open documents: text kept equal to the editor's, addresses in one normal form."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gloveport.server.transports.lsp.textsync import Change, Position, Range, apply_changes
from gloveport.server.transports.lsp.uris import file_uri, normal_uri, uri_path

characters = st.sampled_from(list("ab\n\r\t \x0c\x0b\x1c\u2028\u0085é漢😀𝕏"))
texts = st.text(characters, max_size=30)


def position_at(text: str, index: int) -> Position:
    """The LSP position of an index, found the slow way."""
    line = start = at = 0
    while at < index:
        if text.startswith("\r\n", at) and at + 1 < index:
            at, line, start = at + 2, line + 1, at + 2
        elif text[at] == "\n" or (text[at] == "\r" and not text.startswith("\r\n", at)):
            at, line, start = at + 1, line + 1, at + 1
        else:
            at += 1
    return Position(line=line, character=len(text[start:index].encode("utf-16-le")) // 2)


def splits_pair(text: str, index: int) -> bool:
    """Whether an index lies between CR and LF, which LSP can't name."""
    return text[index - 1 : index + 1] == "\r\n" if index else False


@settings(deadline=None)
@given(texts, st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), texts), max_size=5))
def test_changes_are_what_slicing_does(text: str, edits: list[tuple[int, int, str]]) -> None:
    """Form feeds and line separators are no line ends; offsets count UTF-16 units."""
    expected, changes = text, []
    for left, right, new in edits:
        start, end = sorted((min(left, len(expected)), min(right, len(expected))))
        if splits_pair(expected, start) or splits_pair(expected, end):
            continue
        span = Range(start=position_at(expected, start), end=position_at(expected, end))
        changes.append(Change(text=new, range=span))
        expected = expected[:start] + new + expected[end:]
    assert apply_changes(text, changes) == expected


@settings(deadline=None)
@given(texts, st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_any_range_leaves_whole_characters(text: str, line: int, char: int, end_line: int, end_char: int) -> None:
    """Past the end means the end; between the halves of a pair means before it; nothing raises."""
    span = Range(start=Position(line=line, character=char), end=Position(line=end_line, character=end_char))
    result = apply_changes(text, [Change(text="", range=span)])
    result.encode("utf-8")
    assert len(result) <= len(text)


def test_whole_document_and_half_characters() -> None:
    """A change without a range replaces all; a lone surrogate cannot get in."""
    assert apply_changes("old", [Change(text="new\ud800")]) == "new\ufffd"


@pytest.mark.parametrize(
    "spellings",
    [
        ("file:///c:/a.py", "file:///C:/a.py", "file:///c%3A/a.py", "file:///C%3a/a.py", "FILE:///c:/a.py"),
        ("file:///a b%231%25é.py", "file:///a%20b%231%25%C3%A9.py", "file://localhost/a%20b%231%25%c3%a9.py"),
        ("file://Server/Share/x", "file://server/Share/x"),
        ("vscode-remote://ssh-remote%2Bhost/a%20b", "vscode-remote://SSH-REMOTE+host/a b"),
    ],
)
def test_spellings_of_one_document(spellings: tuple[str, ...]) -> None:
    """H07: drive letters, percent-encoding, unicode, UNC, remote schemes."""
    assert len({normal_uri(uri) for uri in spellings}) == 1


@pytest.mark.parametrize(
    "pair",
    [
        ("file:///cafe\u0301.py", "file:///caf\u00e9.py"),
        ("file:///A.py", "file:///a.py"),
        ("file:///a%2523", "file:///a%23"),
        ("untitled:1", "untitled:2"),
        ("vscode-remote://a/x", "file:///x"),
    ],
)
def test_other_documents_stay_others(pair: tuple[str, str]) -> None:
    """H07: composed and decomposed names, case of a path, an escaped percent sign."""
    assert normal_uri(pair[0]) != normal_uri(pair[1])


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///c%3A/x", "c:/x"),
        ("file:///a%20b%231%25%C3%A9.py", "/a b#1%é.py"),
        ("file://host/share/x", "//host/share/x"),
        ("untitled:1", None),
        ("no uri", None),
        ("file:///bad%FFbyte", "/bad\udcffbyte"),
    ],
)
def test_paths_of_uris(uri: str, path: str | None) -> None:
    """H07: the path on disk, byte for byte."""
    assert uri_path(uri) == path


names = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=20)


@settings(deadline=None)
@given(names)
def test_paths_come_back(name: str) -> None:
    """H07: any path there is survives the way to a URI and back."""
    path = "/" + name.lstrip("/")
    assume(path[2:3] != ":")  # a drive is another kind of path
    assert uri_path(file_uri(path)) == path


@settings(deadline=None)
@given(st.text(max_size=40))
def test_normal_form_is_stable(text: str) -> None:
    """Twice is once, whatever a client sends."""
    scrubbed = text.encode("utf-8", "replace").decode()
    once = normal_uri("file:///" + scrubbed)
    assert normal_uri(once) == once
