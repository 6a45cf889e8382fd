"""Names are compared the same whatever way leads there, and in bounded time."""

import re
import time

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.policy_cases import command, effect, judge, request

from gloveport.server.policy.names import fold_name
from gloveport.server.policy.protected import marks, path_classes
from gloveport.server.policy.protected_table import GROUPS, OPEN_FILES, PathClass
from gloveport.server.policy.wildcard import name_matches

LETTERS = "ab.~*?"
SECONDS_MAX = 5.0


@settings(max_examples=250, deadline=None)
@given(st.text(LETTERS, max_size=8), st.text("ab.~", max_size=8))
def test_a_wildcard_matches_like_its_regular_expression(pattern: str, name: str) -> None:
    expression = "".join({"*": ".*", "?": "."}.get(character, re.escape(character)) for character in pattern)
    assert name_matches(pattern, name) == (re.fullmatch(expression, name) is not None)


def test_every_name_of_the_table_is_found_at_every_depth_and_in_other_spellings() -> None:
    for group in GROUPS:
        for pattern in (*group.folders, *group.files, *group.paths):
            name = pattern.replace("*", "x")
            open_file = fold_name(name) in OPEN_FILES
            for path in (name, f"a/b/{name}", name.upper(), f"{name}.", f"{name}::$DATA"):
                # a private file that is published on purpose under that name is the only exception
                assert group.cls in path_classes(path) or open_file, (group.words, path)


def test_folders_cover_what_lies_beneath_them() -> None:
    for group in GROUPS:
        for folder in group.folders:
            assert group.cls in path_classes(f"x/{folder}/y/z.txt")


@given(st.lists(st.sampled_from(["src", "app", "main.py", "notes.txt", "lib"]), min_size=1, max_size=5))
def test_ordinary_names_are_ordinary(parts: list[str]) -> None:
    assert path_classes("/".join(parts)) == {PathClass.ordinary}
    assert len(marks("/".join(parts))) == 1


def test_the_largest_calls_are_judged_in_bounded_time() -> None:
    """A hostile model can't stop the daemon with a long command or a long list of files."""
    words = " ".join(f"w{number}" for number in range(5000))
    calls = [
        command("bash", "-c", words),
        command("bash", "-c", ";" * 32_000),
        command("xargs", *(f"w{number}" for number in range(5000))),
        command("pytest", *(f"t{number}.py" for number in range(3500))),
        command("cat", "a/" * 16_000),
        command("env", *(["git"] * 8000)),
        command("bash", "-c", "x" * 10_000_000),
        request(*(effect("write", f"d{number}/f.py") for number in range(4000))),
        request(*(effect("write", "*" * 4000 + str(number)) for number in range(500))),
    ]
    for call in calls:
        started = time.process_time()
        judge(call)
        assert time.process_time() - started < SECONDS_MAX
