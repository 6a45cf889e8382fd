"""Change sets of any two trees: every kind, decided in any order, exactly."""

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.byte_texts import CONTENTS, PAIRS

from gloveport.server.edit.changes import (
    RENAMES,
    Change,
    ChangeKind,
    Entry,
    Tree,
    change_set,
    describe,
    left,
    taken,
    with_ends,
)
from gloveport.server.edit.lines import split_lines
from gloveport.server.edit.names import fold_path
from gloveport.server.edit.renames import (
    LIKENESS_BYTES_MAX,
    LIKENESS_MIN,
    LIKENESS_PAIRS_MAX,
    Mark,
    find_renames,
    likeness,
)
from gloveport.server.edit.replace import hash_of

PATHS = st.sampled_from(["a", "b.txt", "B.txt", "d/a", "d/c.py", "e", "e/f", "long/way/down"])
FILE = st.builds(Entry, st.just("file"), CONTENTS, st.sampled_from([0o644, 0o755]))
LINK = st.builds(Entry, st.just("link"), st.sampled_from([b"a", b"d/a", b"../x"]), st.just(0))
TREES = st.dictionaries(PATHS, st.one_of(FILE, FILE, LINK), max_size=5)


@st.composite
def two_trees(draw: st.DrawFn) -> tuple[dict[str, Entry], dict[str, Entry]]:
    """A tree, and the same with files moved, edited, removed and made."""
    base = draw(TREES)
    result: dict[str, Entry] = {}
    for path, entry in base.items():
        match draw(st.sampled_from(["keep", "move", "edit", "move and edit", "drop"])):
            case "keep":
                result[path] = entry
            case "drop":
                continue
            case what:
                data = b"one more line\n" + entry.data if "edit" in what and entry.kind == "file" else entry.data
                result[draw(PATHS) if "move" in what else path] = Entry(entry.kind, data, entry.mode)
    return base, result | draw(st.dictionaries(PATHS, FILE, max_size=2))


def names(change: Change) -> set[str]:
    """Every path of a change."""
    return {change.path, change.base_path}


@given(two_trees())
def test_all_taken_is_the_result_and_all_left_the_base(trees: tuple[Tree, Tree]) -> None:
    """Accept all, reject all; no path is in two changes, equal trees have none, and what is not named is equal."""
    base, result = trees
    changes = change_set(base, result)
    forth, back = dict(base), dict(result)
    for change in changes:
        forth, back = with_ends(forth, taken(change)), with_ends(back, left(change))
        assert set(taken(change)) == set(left(change)) == names(change)
    assert (forth, back) == (result, base)
    assert sum(len(names(change)) for change in changes) == len(set().union(*map(names, changes)) if changes else ())
    assert bool(changes) == (base != result)
    assert [change.path for change in changes] == sorted(change.path for change in changes)


@given(st.one_of(FILE, LINK), st.data())
def test_of_what_is_made_or_removed_a_part_is_the_whole(entry: Entry, data: st.DataObject) -> None:
    """There is no file that could hold some of its lines."""
    for change in (describe("p", None, entry), describe("p", entry, None)):
        chosen = data.draw(st.lists(st.sampled_from(change.hunks), unique=True)) if change.hunks else []
        assert taken(change, chosen) == taken(change) == {"p": change.result}
        assert left(change, chosen) == left(change) == {"p": change.base}


@given(two_trees(), st.data())
def test_any_order_of_decisions_ends_with_equal_trees(trees: tuple[Tree, Tree], data: st.DataObject) -> None:
    """Hunks and whole changes, accepted and rejected: each step moves the chosen lines alone, by an oracle of lines."""
    user, ours = trees
    for _ in range(400):
        changes = change_set(user, ours)
        if not changes:
            break
        change = data.draw(st.sampled_from(changes))
        accept = data.draw(st.booleans())
        chosen = data.draw(st.lists(st.sampled_from(change.hunks), unique=True)) if change.hunks else []
        part = chosen if chosen and change.base is not None and change.result is not None else None
        ends = (taken if accept else left)(change, part)
        if part is not None and change.base is not None and change.result is not None:
            kept = part if accept else [hunk for hunk in change.hunks if hunk not in part]
            lines = split_lines(change.base.data)
            for hunk in sorted(kept, key=lambda each: -each.old_start):
                lines[hunk.old_start : hunk.old_start + len(hunk.old_lines)] = hunk.new_lines
            side = change.base if accept else change.result
            assert ends == {change.base_path if accept else change.path: Entry(side.kind, b"".join(lines), side.mode)}
        user, ours = (with_ends(user, ends), ours) if accept else (user, with_ends(ours, ends))
    assert user == ours


@given(two_trees())
def test_a_rename_pairs_what_is_gone_with_what_is_new(trees: tuple[Tree, Tree]) -> None:
    """Never over a file that was there, never with a path below itself, never between kinds."""
    base, result = trees
    for change in change_set(base, result):
        assert (change.renamed_from is not None) == (change.kind in RENAMES)
        if change.renamed_from is None:
            continue
        assert change.renamed_from not in result
        assert change.path not in base
        assert change.base is not None
        assert change.result is not None
        assert change.base.kind == change.result.kind
        assert not change.path.startswith(f"{change.renamed_from}/")
        assert not change.renamed_from.startswith(f"{change.path}/")
        folded = fold_path(change.renamed_from) == fold_path(change.path)
        assert (change.kind is ChangeKind.case_rename) == folded


def file(data: bytes, mode: int = 0o644) -> Entry:
    """A file."""
    return Entry("file", data, mode)


TEXT = b"".join(b"line %d\n" % number for number in range(20))


@pytest.mark.parametrize(("base", "result", "kind", "origin"), [
    (None, file(b""), "create", None), (file(b""), None, "delete", None),
    (file(b"\0a"), file(b"\0b"), "binary", None), (file(b"a"), file(b"\0b"), "binary", None),
    (file(b"\0a"), file(b"b"), "binary", None), (None, file(b"\0a"), "create", None),
    (file(b"\0a"), None, "delete", None), (file(b"\0a"), file(b"b"), "rename", "old"),
    (file(b"a"), None, "delete", None), (file(b"a"), file(b"a", 0o755), "mode", None),
    (file(b"\0a"), file(b"\0a", 0o755), "mode", None), (file(b"a"), Entry("link", b"a", 0), "symlink", None),
    (None, Entry("link", b"a", 0), "symlink", None), (Entry("link", b"a", 0), None, "symlink", None),
    (file(b"a"), file(b"b"), "modify", None), (file(b"a"), file(b"b"), "rename", "old"),
    (file(b"a"), file(b"a"), "case_rename", "P"), (Entry("link", b"a", 0), Entry("link", b"a", 0), "rename", "q"),
])  # fmt: skip
def test_every_kind_has_its_name(base: Entry | None, result: Entry | None, kind: str, origin: str | None) -> None:
    """Hunks where lines can be taken one by one, and there only."""
    change = describe("p", base, result, origin)
    assert change.kind == kind
    sides = [side for side in (base, result) if side is not None]
    cut = all(side.kind == "file" and b"\0" not in side.data for side in sides)
    assert bool(change.hunks) == (cut and len({side.data for side in sides} | ({b""} if len(sides) < 2 else set())) > 1)


def renames(base: dict[str, bytes], result: dict[str, bytes], explicit: dict[str, str] | None = None) -> dict[str, str]:
    """What is found to be a rename."""
    trees = [{path: file(data) for path, data in side.items()} for side in (base, result)]
    return {each.path: each.renamed_from for each in change_set(*trees, explicit) if each.renamed_from is not None}


def test_renames_by_content() -> None:
    """Equal bytes first, by the nearest name; then lines that are like enough; empty files by name alone."""
    assert renames({"a": TEXT}, {"b": TEXT}) == {"b": "a"}
    assert renames({"x/a": TEXT, "y/b": TEXT}, {"z/b": TEXT, "z/a": TEXT}) == {"z/a": "x/a", "z/b": "y/b"}
    assert renames({"a": TEXT}, {"b": TEXT, "c/a": TEXT}) == {"c/a": "a"}
    assert renames({"p/lib/a": TEXT, "q/src/a": TEXT}, {"n/src/a": TEXT}) == {"n/src/a": "q/src/a"}
    assert renames({"p/a": TEXT, "src/b": TEXT}, {"src/a": TEXT}) == {"src/a": "p/a"}
    assert renames({"a": TEXT}, {"b": TEXT + b"more\n", "c": TEXT}) == {"c": "a"}
    assert renames({"a": TEXT}, {"b": TEXT[: len(TEXT) // 2 + 20]}) == {"b": "a"}
    assert renames({"a": TEXT}, {"b": TEXT[:40] + b"other\n" * 30}) == {}
    assert renames({"a": b""}, {"b": b""}) == {}
    assert renames({"Foo.py": b""}, {"foo.py": b"x"}) == {"foo.py": "Foo.py"}
    assert renames({"a": TEXT}, {"a/b": TEXT}) == renames({"a/b": TEXT}, {"a": TEXT}) == {}
    assert renames({"a": TEXT, "b": b"x"}, {"b": TEXT}) == {}
    assert renames({"a": b"\0" * 99}, {"b": b"\0" * 98}) == {}


def test_renames_that_are_known() -> None:
    """What a tool moved is a rename whatever it became; one that is no longer so is not believed."""
    assert renames({"a": TEXT}, {"b": b"new\n"}, {"b": "a"}) == {"b": "a"}
    assert renames({"a": TEXT, "c": TEXT}, {"b": TEXT}, {"b": "c"}) == {"b": "c"}
    assert renames({"a": TEXT}, {"a": TEXT, "b": TEXT}, {"b": "a"}) == {}
    assert renames({"a": TEXT}, {"b": TEXT}, {"b": "gone"}) == {"b": "a"}


OLD = st.sampled_from(["old/a", "old/x/b", "A", "é/A.py", "q/x/c", "new"])
NEW = st.sampled_from(["new/a", "new/x/b", "a", "É/a.PY", "x/c", "new/d"])
MARK = st.builds(
    Mark, st.sampled_from(["file", "file", "link"]), st.sampled_from([hash_of(b""), hash_of(b"1"), hash_of(b"2")])
)
LIKE = st.sampled_from([0.0, LIKENESS_MIN - 0.01, LIKENESS_MIN, 0.7, 1.0])


def far(new: str, old: str) -> int:
    """How many parts from the end two paths share, the fewer the farther."""
    shared = itertools.takewhile(
        lambda two: two[0] == two[1], zip(new.split("/")[::-1], old.split("/")[::-1], strict=False)
    )
    return -len(list(shared))


@given(
    st.dictionaries(OLD, MARK, max_size=5), st.dictionaries(NEW, MARK, max_size=5),
    st.dictionaries(NEW, OLD, max_size=2), st.lists(LIKE, min_size=9, max_size=9),
)  # fmt: skip
def test_every_pair_has_a_reason_and_no_better_one_was_left(
    base: dict[str, Mark], result: dict[str, Mark], told: dict[str, str], likes: list[float]
) -> None:
    """Told, else one name, else equal content, else like lines: each kind goes before the next, the nearest first."""
    digests = sorted({mark.digest for mark in (*base.values(), *result.values())})

    def like(old: str, new: str) -> float:
        return likes[digests.index(old) * 3 + digests.index(new)]

    def ranked(new: str, old: str) -> tuple[Any, ...] | None:
        """Why these may be one, the best reason first; None when they may not."""
        if base[old].kind != result[new].kind or new.startswith(f"{old}/") or old.startswith(f"{new}/"):
            return None
        if told.get(new) == old:
            return (0, new)
        if fold_path(new) == fold_path(old):
            return (1, new)
        if base[old] == result[new] and base[old].digest != hash_of(b""):
            return (2, far(new, old), new, old)
        share = like(base[old].digest, result[new].digest) if base[old].kind == "file" else 0.0
        return (3, -share, far(new, old), new, old) if share >= LIKENESS_MIN else None

    gone, made = set(base) - set(result), set(result) - set(base)
    wanted: dict[str, str] = {}
    every = [(rank, new, old) for new in made for old in gone if (rank := ranked(new, old)) is not None]
    for _, new, old in sorted(every):
        if new in made and old in gone:
            wanted[new] = old
            made.remove(new)
            gone.remove(old)
    assert find_renames(base, result, told, like) == wanted


@given(PAIRS)
def test_likeness_is_a_share(pair: tuple[bytes, bytes]) -> None:
    """Between nothing and all, the same from either side; a text is all like itself."""
    one, two = pair
    assert 0.0 <= likeness(one, two) == likeness(two, one) <= 1.0
    if b"\0" not in one and one:
        assert likeness(one, one) == 1.0
    assert likeness(b"\0" + one, two) in (0.0, likeness(two, b"\0" + one))


def test_so_like_and_no_less() -> None:
    """The least share that makes a rename is enough."""
    base, result = {"a": Mark("file", hash_of(b"1"))}, {"b": Mark("file", hash_of(b"2"))}
    assert find_renames(base, result, {}, lambda _old, _new: LIKENESS_MIN) == {"b": "a"}
    assert find_renames(base, result, {}, lambda _old, _new: LIKENESS_MIN - 0.001) == {}
    assert likeness(b"a\nb\n", b"a\nc\n") == likeness(b"a\n", b"a\nc\n") == LIKENESS_MIN


def test_looking_for_renames_is_bounded() -> None:
    """Above the named limits equal content alone decides."""
    big = TEXT * (LIKENESS_BYTES_MAX // len(TEXT) + 1)
    assert renames({"a": big}, {"b": big}) == {"b": "a"}
    assert renames({"a": big}, {"b": big + b"x\n"}) == {}
    limit = {f"f{number}": b"q%d\n" % number for number in range(LIKENESS_PAIRS_MAX - 1)}
    assert renames({**limit, "z": TEXT + b"1\n"}, {"y": TEXT}) == {"y": "z"}
    assert renames({**limit, "z": TEXT + b"1\n", "q": b"q\n"}, {"y": TEXT}) == {}
    many = {f"f{number}": TEXT + b"%d\n" % number for number in range(LIKENESS_PAIRS_MAX)}
    assert renames({**many, "z": b"q\n"}, {"a": TEXT, "b": TEXT, "y": b"q\n"}) == {"y": "z"}


@settings(max_examples=30)
@given(st.lists(st.sampled_from(["a", "b", "c/a", "c/b"]), unique=True, min_size=1))
def test_the_same_trees_give_the_same_pairs(order: list[str]) -> None:
    """The order in which paths are handed in says nothing."""
    base = {f"old/{path}": TEXT for path in order}
    again = {f"old/{path}": TEXT for path in reversed(order)}
    result = {f"new/{path}": TEXT for path in order}
    assert (
        renames(base, result)
        == renames(again, dict(reversed(result.items())))
        == {f"new/{path}": f"old/{path}" for path in order}
    )
