"""Names, paths and texts: what they fold to, what marks them, how they are shown; the tables' own readers."""

import re
import shlex
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.server.policy import command_table, protected, protected_table
from gloveport.server.policy.command_table import COMMANDS, PREFIXES
from gloveport.server.policy.display import argv_text, command_display, escape_display, hidden_characters
from gloveport.server.policy.effects import Effect, EffectKind
from gloveport.server.policy.names import PATH_CHARS_MAX, PathFacts, fold_name, is_within, path_facts
from gloveport.server.policy.protected import Mark, is_never_written, is_sensitive, marks, path_classes, runs_by_itself
from gloveport.server.policy.protected_table import GROUPS, PathClass
from gloveport.server.policy.wildcard import name_matches, path_matches
from gloveport.server.policy.words import VERBS, effect_words, key_words, listed

# ---- wildcards ----


@given(st.text("ab*?", max_size=9), st.text("ab", max_size=9))
def test_a_name_matches_like_its_regular_expression(pattern: str, name: str) -> None:
    expression = "".join({"*": ".*", "?": "."}.get(one, one) for one in pattern)
    assert name_matches(pattern, name) is (re.fullmatch(expression, name) is not None)


@pytest.mark.parametrize("end", ["", "?"])
@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("a*b", ("ab", "axb", "aab", "abb"), ("a", "b", "xab", "abx")),
        ("ab*ba", ("abba", "abxba"), ("aba", "ab", "ba")),
        ("*a*b*", ("ab", "xaxbx", "aab"), ("ba", "a", "b", "")),
        ("*ab*ab*", ("abab", "xabxabx"), ("aba", "ab", "abxa")),
        ("a*b*a*b", ("abab", "aXbXaXb"), ("abb", "aab", "ab")),
        ("a*aa*a", ("aaaa", "axaaxa"), ("aaa", "aa", "axaxa")),
        ("*", ("", "a", "ab"), ()),
        ("**", ("", "a"), ()),
        ("a**b", ("ab", "axb"), ("a", "ba")),
        ("a", ("a",), ("", "b", "aa")),
    ],
)
def test_stars_take_any_run_and_no_piece_is_used_twice(
    pattern: str, yes: tuple[str, ...], no: tuple[str, ...], end: str
) -> None:
    """Both ways of matching: the one for patterns without `?` and the other."""
    last = "z" if end else ""
    assert all(name_matches(pattern + end, name + last) for name in yes)
    assert not any(name_matches(pattern + end, name + last) for name in no)


@given(
    st.lists(st.sampled_from(["a", "b", "*", "**", "a*", "?"]), max_size=5),
    st.lists(st.sampled_from(["a", "b", "ab"]), max_size=5),
)
def test_a_path_matches_component_by_component(pattern: list[str], parts: list[str]) -> None:
    def matches(left: list[str], rest: list[str]) -> bool:
        if not left:
            return not rest
        if left[0] == "**":
            return any(matches(left[1:], rest[at:]) for at in range(len(rest) + 1))
        return bool(rest) and name_matches(left[0], rest[0]) and matches(left[1:], rest[1:])

    assert path_matches(pattern, parts) is matches(pattern, parts)


# ---- paths ----


@pytest.mark.parametrize(
    ("name", "folded"),
    [
        (".git", ".git"),
        (".GIT", ".git"),
        ("git~1", ".git"),
        ("GIT~23", ".git"),
        ("git~", "git~"),
        ("git~1x", "git~1x"),
        ("xgit~1", "xgit~1"),
        (".git. . ", ".git"),
        (".git::$DATA", ".git"),
        ("a:b:c", "a"),
        (".g\u200cit", ".git"),
        (".g\u202eit", ".git"),
        (".g\u2069it", ".git"),
        (".g\u00adit", ".git"),
        (".g\ufeffit", ".git"),
        ("\uff0e\uff27\uff29\uff34", ".git"),
        ("ﬁle", "file"),
        ("straße", "strasse"),
        (" a", " a"),
        ("...", ""),
    ],
)
def test_a_name_is_folded_as_the_most_forgiving_file_system_would(name: str, folded: str) -> None:
    assert fold_name(name) == folded


@pytest.mark.parametrize(
    ("path", "exact", "outside"),
    [
        ("a/b", ("a", "b"), False),
        ("./a//b/.", ("a", "b"), False),
        ("a\\B", ("a", "B"), False),
        ("a/../b", ("b",), False),
        ("a/b/../../c", ("c",), False),
        (".", (), False),
        ("a/..", (), False),
        ("..", (), True),
        ("../a", ("a",), True),
        ("a/../../b", ("b",), True),
        ("../a/b/c", ("a", "b", "c"), True),
        ("", (), True),
        ("/", (), True),
        ("/a", ("a",), True),
        ("~/a", ("~", "a"), True),
        ("a/~", ("a", "~"), False),
        ("C:/a", ("C:", "a"), True),
        ("c:a", ("c:a",), True),
        ("ab:c", ("ab:c",), False),
        ("a\x00", ("a\x00",), True),
        ("a\x1fb", ("a\x1fb",), True),
        ("a\x7f", ("a\x7f",), True),
        ("a b", ("a b",), False),
        ("a/...", ("a", "..."), True),
        ("a/ ", ("a", " "), True),
        ("x" * PATH_CHARS_MAX, ("x" * PATH_CHARS_MAX,), False),
        ("x" * (PATH_CHARS_MAX + 1), ("x" * PATH_CHARS_MAX,), True),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) else "",
)
def test_a_path_taken_apart(path: str, exact: tuple[str, ...], outside: bool) -> None:
    found = path_facts(path)
    assert (found.exact, found.outside) == (exact, outside)
    assert found.folded == tuple(map(fold_name, exact))
    assert found.text == ("/".join(exact) or ".")


def test_within_is_by_whole_components_and_never_outside() -> None:
    def within(path: str, folder: str) -> bool:
        return is_within(path_facts(path), path_facts(folder))

    assert within("a/b", "a")
    assert within("a", "a")
    assert within("a", ".")
    assert not within("ab", "a")
    assert not within("a", "a/b")
    assert not within("A/b", "a")
    assert not within("../a/b", "a")
    assert not within("a/b", "../a")
    assert PathFacts(("a",), ("a",), outside=False).text == "a"


# ---- what is special ----


@given(
    st.lists(st.text("ab.*", min_size=1, max_size=4).filter(lambda one: one.count("*") < 3), max_size=5),
    st.text("ab.", min_size=1, max_size=5),
)
def test_names_in_a_table_are_found_however_they_are_sorted(patterns: list[str], name: str) -> None:
    """By their first character, by their last or one by one: the same as asking every pattern."""
    assert protected._named(tuple(patterns)).has(name) is any(name_matches(pattern, name) for pattern in patterns)


@pytest.mark.parametrize(
    ("name", "is_ssh"),
    [
        ("ssh~1", True),
        ("ss~1", True),
        ("ssh~12", True),
        ("ssh~1.cfg", True),
        ("ssh~1.a.b", True),
        ("s~1", False),
        ("ssh~", False),
        ("ssh~x", False),
        ("sshx~1", False),
        ("ssh", False),
        ("sh~1", False),
        ("ssh1", False),
    ],
)
def test_a_short_name_of_a_hidden_folder(name: str, is_ssh: bool) -> None:
    """`SSH~1` is `.ssh` on some file systems; only names that begin with a dot have one there."""
    assert protected._named((".ssh",)).has(name) is is_ssh
    assert not protected._named(("ssh",)).has("ssh~1")


def test_a_dot_within_a_name_is_not_in_its_short_one() -> None:
    assert protected._named((".a.b.c",)).has("abc~1")
    assert not protected._named((".a.b.c",)).has("a.b~1")


def test_every_name_of_the_tables_is_found_by_itself() -> None:
    """Read anew: each name, with a star taken as nothing and as something, has its group's class and words."""
    for group in GROUPS:
        for names, path in (
            (group.folders, "x/{}/y"), (group.folders, "{}"), (group.files, "x/{}"), (group.paths, "x/{}/y"),
            (group.paths, "{}"),
        ):  # fmt: skip
            for pattern in names:
                for star in ("", "q"):
                    name = pattern.replace("*", star)
                    found = [one.words for one in marks(path.format(name)) if one.cls is group.cls]
                    # a dot at the end is no part of a name where it is folded
                    is_other = name in protected_table.OPEN_FILES or name.endswith(".")
                    assert is_other or any(words.endswith(f": {group.words}") for words in found), (name, path)


OUTSIDE, INSIDE = "it lies outside the workspace", "the machine shows its inside there"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("src/a.py", [("ordinary", "an ordinary file of the project")]),
        ("a/x/", [("ordinary", "an ordinary file of the project")]),
        (".config/fish/x", [("runs_by_itself", ".config/fish")]),
        ("x/.CONFIG/Fish", [("runs_by_itself", ".config/fish")]),
        (".config/x/fish", [("ordinary", "an ordinary file of the project")]),
        (".config", [("ordinary", "an ordinary file of the project")]),
        ("makefile/x", [("ordinary", "an ordinary file of the project")]),
        ("../a", [("outside", "a: it lies outside the workspace")]),
        ("", [("outside", "the path: it lies outside the workspace")]),
        ("/proc/1", [("outside", f"1: {OUTSIDE}"), ("sensitive", f"1: {INSIDE}")]),
        ("\\PROC\\1", [("outside", f"1: {OUTSIDE}"), ("sensitive", f"1: {INSIDE}")]),
        ("/usr/x", [("outside", "x: it lies outside the workspace")]),
        ("../proc/x", [("outside", "x: it lies outside the workspace")]),
        ("/", [("outside", "the path: it lies outside the workspace")]),
        ("proc/x", [("ordinary", "an ordinary file of the project")]),
    ],
)  # fmt: skip
def test_the_marks_of_a_path(path: str, found: list[tuple[str, str]]) -> None:
    said = [(str(mark.cls), mark.words) for mark in marks(path)]
    assert len(said) == len(found)
    for (cls, words), (wanted, begin) in zip(said, found, strict=True):
        assert cls == wanted
        assert words == begin or words.startswith(f"{begin}: ")


def test_single_questions_about_a_path() -> None:
    assert is_never_written("a/.git/x")
    assert not is_never_written("conftest.py")
    assert is_sensitive("a/.env")
    assert not is_sensitive("a/.env.example")
    assert path_classes("a/.env.example") == {PathClass.ordinary}
    assert runs_by_itself("a.py") is None
    assert runs_by_itself(".env") is None
    words = runs_by_itself("a/conftest.py")
    assert words is not None
    assert words.startswith("conftest.py: Python runs")
    assert marks("a.py") == (Mark(PathClass.ordinary, "an ordinary file of the project"),)


def test_the_digest_of_the_table_is_that_of_its_content(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part of it counts."""
    before = {protected.table_digest()}
    for name, value in (
        ("TABLE_VERSION", 0), ("GROUPS", GROUPS[1:]), ("OPEN_FILES", frozenset()), ("SYSTEM_FOLDERS", frozenset()),
    ):  # fmt: skip
        with monkeypatch.context() as changed:
            changed.setattr(protected, name, value)
            assert protected.table_digest() not in before
            before.add(protected.table_digest())
    assert len(before) == 5
    assert all(re.fullmatch("[0-9a-f]{64}", one) for one in before)


# ---- the tables' own readers ----


def test_the_readers_of_tables() -> None:
    assert command_table._words(" a  b\n c ") == ("a", "b", "c")
    assert command_table._listed(" a  b\n c , d,, \n e,") == ("a b c", "d", "e")
    assert protected_table._names(" a,\n b c ,, d,\n") == ("a", "b c", "d")
    assert all(text == " ".join(text.split()) and text for _, text in COMMANDS)
    assert ("python", "-m", "pytest") in PREFIXES


# ---- shown ----

SHOWN_AS = {
    "plain ⟩text⟨": "plain ⟨U+27E9⟩text⟨U+27E8⟩",
    "a\u202eb\u200bc": "a⟨U+202E⟩b⟨U+200B⟩c",
    "\n\r\t\x00\x1b": "⟨LF⟩⟨CR⟩⟨TAB⟩⟨NUL⟩⟨ESC⟩",
    "\x07\x7f": "⟨U+0007⟩⟨U+007F⟩",
    "é": "é",
    "e\u0301": "e⟨U+0301⟩",
    "a\u20ddb": "a⟨U+20DD⟩b",
    "a\u00a0b\u3000c": "a⟨U+00A0⟩b⟨U+3000⟩c",
    "\u2028\u2029": "⟨U+2028⟩⟨U+2029⟩",
    "\ue000": "⟨U+E000⟩",
    "\ud800": "⟨U+D800⟩",
    "\U000e0041": "⟨U+E0041⟩",
    "\u3164x\u2800\U0001d159": "⟨U+3164⟩x⟨U+2800⟩⟨U+1D159⟩",
    " " * 8: " " * 8,
    " " * 9: "⟨9 spaces⟩",
    "a" + " " * 10 + "b" + " " * 8 + "c": "a⟨10 spaces⟩b        c",
    "é" + " " * 200: "é⟨200 spaces⟩",
    "": "",
}


@pytest.mark.parametrize("text", SHOWN_AS, ids=ascii)
def test_a_text_is_shown_with_nothing_hidden(text: str) -> None:
    assert escape_display(text) == SHOWN_AS[text]


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_two_texts_look_the_same(one: str, two: str) -> None:
    assert (escape_display(one) == escape_display(two)) is (one == two)
    assert not {unicodedata.category(mark) for mark in escape_display(one)} & {"Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Mn"}


@given(st.text(max_size=30))
def test_hidden_characters_are_those_that_are_not_shown_as_they_are(text: str) -> None:
    assert hidden_characters(text) == sum(
        escape_display(mark) != mark for mark in text if mark not in "⟨⟩"
    )  # the brackets can be seen, though they are escaped


@given(st.lists(st.text(max_size=8).filter(lambda word: "\x00" not in word), max_size=5))
def test_a_command_in_one_line_is_split_into_the_same_words(argv: list[str]) -> None:
    assert shlex.split(argv_text(argv)) == argv
    assert command_display(argv) == escape_display(argv_text(argv))


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("ls", "-la", "a_b@c%d+e:f,g./h=i"), "ls -la a_b@c%d+e:f,g./h=i"),
        (("a b", "", "it's"), "'a b' '' 'it'\"'\"'s'"),
        (("$x", "é", "*"), "'$x' 'é' '*'"),
        ((), ""),
    ],
)
def test_words_are_quoted_where_a_shell_would_not_take_them(argv: tuple[str, ...], text: str) -> None:
    assert argv_text(argv) == text


# ---- in words ----


@pytest.mark.parametrize("kind", list(EffectKind))
def test_every_kind_has_a_verb_of_its_own(kind: EffectKind) -> None:
    assert [one for one, verb in VERBS.items() if verb == VERBS[kind]] == [kind]
    assert effect_words(Effect(kind, "a\u202e")) == f"{VERBS[kind]} `a⟨U+202E⟩`"
    assert key_words(f"{kind}:a:b") == f"{VERBS[kind]} `a:b`"


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        ({"count": "12"}, " (12 files)"),
        ({"count": "\u202e"}, " (⟨U+202E⟩ files)"),
        ({"recursive": "true"}, " (with everything in it)"),
        ({"recursive": "false"}, ""),
        ({"data": "x\ty"}, " (sending x⟨TAB⟩y)"),
        ({"data": ""}, " (sending )"),
        ({"count": "3", "recursive": "true", "data": "z"}, " (3 files, with everything in it, sending z)"),
        ({"test_class": "pytest"}, ""),
    ],
)
def test_facts_stand_behind_the_target(detail: dict[str, str], words: str) -> None:
    assert effect_words(Effect(EffectKind.delete, "d", tuple(detail.items()))) == f"delete `d`{words}"


def test_what_a_command_deletes_is_not_named_as_the_command() -> None:
    assert effect_words(Effect(EffectKind.delete, "make clean", (("from", "rm"),))) == "delete files by `make clean`"


def test_a_key_of_no_known_kind_is_shown_as_it_is() -> None:
    assert key_words("beam:\u202e") == "`beam:⟨U+202E⟩`"
    assert key_words("read") == "read ``"
    assert key_words("") == "``"
    assert listed(["a", "b", "c"]) == "a; b; c"
    assert listed([]) == ""
