"""Patches of changes, against another program: what git makes of the base is the result."""

import difflib
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kit.require import require

from gloveport.server.edit.hunks import diff_hunks
from gloveport.server.edit.patch import exact_patch

LINES = st.lists(st.sampled_from([b"a", b"b", b"c\r", b"", b"\xfe+", b"@@ -1 +1 @@", b"--- a/x"]), max_size=40)
END = st.sampled_from([b"", b"\n", b"\r\n"])
NAMES = st.sampled_from(["x", 'é "y\t.md'])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder, outside any repository."""
    require(shutil.which("git") is not None, "git is not installed")
    return tmp_path_factory.mktemp("patched")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(old=LINES, new=LINES, drop=st.integers(0, 20), ends=st.tuples(END, END), name=NAMES)
def test_git_makes_the_result_of_the_base(
    folder: Path, old: list[bytes], new: list[bytes], drop: int, ends: tuple[bytes, bytes], name: str
) -> None:
    """Any lines, any endings, hunks near and far: byte for byte."""
    base = b"\n".join(old) + ends[0]
    result = b"\n".join(old[:drop] + new + old[drop + 3 :]) + ends[1]
    hunks = diff_hunks(base, result, name)
    if not hunks:
        return
    path = folder / name
    path.write_bytes(base)
    patch = exact_patch((name, name), hunks, "100644", "100644")
    assert patch
    subprocess.run(["git", "apply", "-"], cwd=folder, input=patch, check=True, env={"PATH": "/usr/bin:/bin"})
    assert path.read_bytes() == result


@given(st.lists(st.sampled_from(["keep"] * 5 + ["drop", "change", "more"]), max_size=40), st.booleans())
def test_a_patch_is_what_another_differ_writes(steps: list[str], ends: bool) -> None:
    """Of lines that stand once: the same groups, places and rows, to the letter."""
    old = [f"{number}\n" for number in range(len(steps))]
    made = {"keep": "{}\n", "drop": "", "change": "new {}\n", "more": "{}\nmore {}\n"}
    new = "".join(made[what].format(number, number) for number, what in enumerate(steps)).splitlines(keepends=True)
    if not ends:
        old[-1:], new[-1:] = [line.rstrip("\n") for line in old[-1:]], [line.rstrip("\n") for line in new[-1:]]
    hunks = diff_hunks("".join(old).encode(), "".join(new).encode(), "f")
    found = exact_patch(("f", "f"), hunks, "100644", "100644").decode().split("\n", 1)[1]
    written = difflib.unified_diff(old, new, "a/f", "b/f")
    expected = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in written)
    assert found == re.sub(r"(?m)^@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@$", counted, expected)


def counted(header: re.Match[str]) -> str:
    """The places of a hunk with each count written down."""
    return f"@@ -{header[1]}{header[2] or ',1'} +{header[3]}{header[4] or ',1'} @@"


def test_what_lines_cannot_say_gives_no_patch() -> None:
    """UTF-16, whose lines hold the byte of a line feed within them."""
    old, new = ("\ufeffa\nb\n".encode("utf-16-le"), "\ufeffa\nc\n".encode("utf-16-le"))
    assert exact_patch(("x", "x"), diff_hunks(old, new, "x"), "100644", "100644") == b""
