"""Names no change may have, in every spelling some file system would open."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.protocol.errors import ErrorCode
from gloveport.server.edit.errors import EditError
from gloveport.server.edit.names import collision, fold_name, fold_path, is_git_name, split_path

SPELLINGS = [
    ".git", ".GIT", ".Git", ".git ", ".git.", ".git. .", ".git::$INDEX_ALLOCATION", ".git:x", "git~1", "GIT~12",
    "gi7d29~1", "GI00FF~12", ".git .", ".git\u0020\u0020", "x:y\\.GIT", ".g\u206ait", ".\ufe0fgit",
    ".g\u200cit", ".gi\u200dt", "\u200e.git", ".ｇit", ".git\u00ad", "a\\.git", ".git\ufeff", ".g\U000e0061it",
]  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_git_is_known_in_every_spelling(name: str) -> None:
    """B14: at any depth, as a folder or a file."""
    assert is_git_name(name)
    for path in (name, f"{name}/hooks/pre-commit", f"vendor/sub/{name}/config"):
        with pytest.raises(EditError) as refusal:
            split_path(path)
        assert refusal.value.code is ErrorCode.PROTECTED_PATH


@pytest.mark.parametrize(
    "name",
    [
        ".gitignore",
        ".gitattributes",
        "git",
        "legit",
        ".github",
        "x.git",
        "git~",
        ".git2",
        "gi7d2~1",
        "gift~1",
        "gi7d29~",
        "a~1",
        "..git",
    ],
)
def test_neighbours_of_git_are_ordinary(name: str) -> None:
    """Only the repository's own store is meant."""
    assert not is_git_name(name)
    assert split_path(f"a/{name}") == ("a", name)


UNSEEN = [
    0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180F, 0x3164, 0xFE00, 0xFE0F, 0xFFA0, 0xE0000, 0xE0FFF,
]  # fmt: skip
BESIDE = [
    0x034E,
    0x0350,
    0x115E,
    0x1161,
    0x17B3,
    0x17B6,
    0x180A,
    0x1810,
    0x3165,
    0xFDFF,
    0xFE10,
    0xFFA1,
    0xDFFFF,
    0xE1000,
]


def test_letters_that_some_file_system_passes_over_are_passed_over() -> None:
    """The first and the last of each range, and not those beside them."""
    assert [point for point in UNSEEN if fold_name(f"A{chr(point)}b") != "ab"] == []
    assert [point for point in BESIDE if fold_name(f"A{chr(point)}b") == "ab"] == []


@pytest.mark.parametrize(
    "path", ["", "/a", "a//b", "a/", "./a", "a/../b", "..", ".", "a\0b", "x" * 300, "a/" * 3000 + "b"]
)
def test_paths_that_are_not_plain_and_relative_are_refused(path: str) -> None:
    """B12: no path can climb, whatever it names."""
    with pytest.raises(EditError) as refusal:
        split_path(path)
    assert refusal.value.code is ErrorCode.OUTSIDE_WORKSPACE
    assert refusal.value.data["path"] == (path if len(path) < 200 else path[:80])


@given(st.text(max_size=20))
def test_any_text_is_split_or_refused(path: str) -> None:
    """What passes is what was given, part by part."""
    try:
        parts = split_path(path)
    except EditError:
        return
    assert "/".join(parts) == path
    assert not {"", ".", ".."} & set(parts)


@given(st.text(max_size=12))
def test_folding_is_stable_under_case_and_composition(name: str) -> None:
    """Spellings that a file system may take for one name fold to one name."""
    assert fold_name(fold_name(name)) == fold_name(name)
    assert fold_name(unicodedata.normalize("NFD", name)) == fold_name(unicodedata.normalize("NFC", name))


PARTS = st.sampled_from(["a", "A", "b", "é", "e\u0301", "É", "ﬁ", "fi", "x"])
NAMES = st.lists(st.lists(PARTS, min_size=1, max_size=3).map("/".join), unique=True, max_size=6)


@given(NAMES)
def test_a_collision_is_found_if_and_only_if_two_names_are_one_somewhere(paths: list[str]) -> None:
    """Files, and the folders above them, in any order."""
    spelled = {"/".join(path.split("/")[:depth]) for path in paths for depth in range(1, path.count("/") + 2)}
    folds = {fold_path(name) for name in spelled}
    found = collision(paths)
    assert (found is None) == (len(folds) == len(spelled))
    if found is not None:
        assert found[0] != found[1]
        assert fold_path(found[0]) == fold_path(found[1])
        assert set(found) <= spelled
