"""What an approval is bound to: the files that a command line names, whatever their spelling."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gloveport.server.tools.bound_files import CHOSEN_LATER, FILES_MAX, INCLUDED_LATER, TOO_MANY, BoundFiles, bind_files
from gloveport.server.workspace.facade import SessionWorkspace

ROOT = "/home/user/root"
PATHS = ("a.py", "x/b.py", "x/y/c.py")


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[SessionWorkspace]:
    """A worktree with programs, a package, a makefile, and links."""
    root = folder / "root"
    (root / "x/y").mkdir(parents=True)
    (root / "pkg").mkdir()
    for path in (*PATHS, "mk", "pkg/__init__.py", "pkg/__main__.py", "two words.py"):
        (root / path).write_text(f"# {path}\n")
    (root / "far").symlink_to("x/y")
    (root / "l.py").symlink_to("a.py")
    workspace = await SessionWorkspace.create(root, folder / "session")
    try:
        yield workspace
    finally:
        workspace.close()


async def bound(workspace: SessionWorkspace, *argv: str) -> BoundFiles:
    """What this command line is bound to."""
    return await bind_files(argv, ROOT, workspace)


@st.composite
def spelled(draw: st.DrawFn) -> tuple[str, str]:
    """A file, and the word by which a program comes to it."""
    path = draw(st.sampled_from(PATHS))
    steps = [
        draw(st.sampled_from(["", "", ".", "x/..", "far/../..", "x/y/../.."])) for _ in range(draw(st.integers(0, 3)))
    ]
    parts = [*steps, *path.split("/")]
    word = draw(st.sampled_from(["/", "//", "/./"])).join(part for part in parts if part)
    start = draw(
        st.sampled_from(["", "./", ".//", "././", f"{ROOT}/", f"{ROOT}//", f"{ROOT}/../root/", "/../home/user/root/"])
    )
    before = draw(
        st.sampled_from(["", "-f", "-Xf", "--file=", "-Wd:", "VAR=", "python3 ", "true;python3 ", "python3 '"])
    )
    return path, f"{before}{start}{word}{'' if before[-1:] != chr(39) else chr(39)}"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(spelled(), min_size=1, max_size=8))
async def test_b16_a_named_file_is_bound_however_it_is_spelled(
    tmp_path_factory: pytest.TempPathFactory, words: list[tuple[str, str]]
) -> None:
    """After a change of the file the call is bound to something else: no right and no answer fits it any more."""
    async with opened(tmp_path_factory.mktemp("spelled")) as workspace:
        before = [await bound(workspace, "python3", word) for _, word in words]
        for path in PATHS:
            (workspace.worktree / path).write_text("print('changed')\n")
        for (path, word), earlier in zip(words, before, strict=True):
            is_other = (await bound(workspace, "python3", word)).digests != earlier.digests
            assert is_other or ("far/" in word and earlier.unbound), (path, word)


@pytest.mark.parametrize(
    ("argv", "path"),
    [
        (("make", "-fmk"), "mk"),
        (("python3", "-m", "a"), "a.py"),
        (("python3", "-Im", "x.b"), "x/b.py"),
        (("python3", "-mpkg"), "pkg/__main__.py"),
        (("python3", "-m", "pkg.more"), "pkg/__init__.py"),
        (("python3", "pkg"), "pkg/__main__.py"),
        (("python3", "two words.py"), "two words.py"),
        (("python3", "l.py"), "l.py"),
        (("bash", "-c", "python3 a.py"), "a.py"),
        (("bash", "-c", 'python3 a"."py'), "a.py"),
        (("bash", "-c", "cd x && python3 ./y/c.py"), "x/y/c.py"),
        (("bash", "-c", "eval $(python3 <a.py"), "a.py"),
        (("python3", "-c", "exec(open('a.py').read())"), "a.py"),
    ],
)
async def test_b16_names_in_options_modules_and_text_are_bound(
    tmp_path: Path, argv: tuple[str, ...], path: str
) -> None:
    """The rest of an option, a module's files, and what a text names."""
    async with opened(tmp_path) as workspace:
        found = await bound(workspace, *argv)
        assert path in dict(found.digests)
        assert found.unbound == ((CHOSEN_LATER,) if "$(" in argv[-1] else ())


async def test_what_is_named_and_cannot_be_read_is_told(tmp_path: Path) -> None:
    """A hard link, a link by a full path, a pipe, another way to the folder, too many: told, never left out."""
    async with opened(tmp_path) as workspace:
        tree = workspace.worktree
        os.link(tree / "a.py", tree / "hard.py")
        (tree / "full.py").symlink_to(f"{ROOT}/a.py")
        (tree / "away").symlink_to(f"{ROOT}/x/y")
        os.mkfifo(tree / "pipe")
        for word in ("hard.py", "full.py", "away/c.py", "away/../../b.py", "pipe", "/proc/self/cwd/a.py"):
            assert (await bound(workspace, "python3", f".//{word}" if word[0] != "/" else word)).unbound, word
        for number in range(FILES_MAX + 1):
            (tree / f"f{number}").write_text("")
        many = await bound(workspace, "cat", *(f"f{number}" for number in range(FILES_MAX + 1)))
        assert many.unbound == (TOO_MANY,)


async def test_what_is_no_file_of_the_worktree_leaves_a_right_as_it_is(tmp_path: Path) -> None:
    """Folders, programs and files of the machine, plain words, and names of nothing bind nothing and are no doubt."""
    async with opened(tmp_path) as workspace:
        argv = ("/usr/bin/env", "ls", "x", "./far", ".", "..", "../b", "none.py", "nowhere/d.py", "/etc/passwd", "-q")
        found = await bound(workspace, *argv, "--quiet", "a" * 5000, "", "-", "--", "x/..", ROOT)
        assert found == BoundFiles()


@pytest.mark.parametrize(
    "text",
    ["f=a.py; python3 $f", "python3 ${X}.py", "python3 *.py", "python3 [a].py", "cat `ls`",
     "cd x && cd y && python3 c.py", "cd x\ncd y\npython3 c.py", "python3 {a,b}.py",
     "pushd x; popd; python3 a.py", "python3 ~/a.py"],
)  # fmt: skip
@pytest.mark.parametrize("before", [(), ("env", "-i"), ("/bin/timeout", "5")])
async def test_what_a_shell_makes_up_is_told_as_not_bound(tmp_path: Path, before: tuple[str, ...], text: str) -> None:
    """No answer about such a line says that it is for these files: the card names what it is not bound to."""
    async with opened(tmp_path) as workspace:
        assert CHOSEN_LATER in (await bound(workspace, *before, "/bin/bash", "-c", text)).unbound


async def test_what_a_shell_does_not_make_up_is_bound(tmp_path: Path) -> None:
    """Plain words stay bound, and without a shell a star is a star."""
    async with opened(tmp_path) as workspace:
        plain = await bound(workspace, "sh", "-c", "cd x && python3 b.py")
        assert (plain.unbound, [path for path, _ in plain.digests]) == ((), ["x/b.py"])
        assert (await bound(workspace, "python3", "a.py", "*.py", "$X")).unbound == ()


@pytest.mark.parametrize(
    ("argv", "path"),
    [
        (("make",), "Makefile"), (("make", "-C", "sub"), "sub/Makefile"), (("make", "-Csub", "all"), "sub/Makefile"),
        (("/usr/bin/make", "all"), "Makefile"), (("sh", "-c", "cd sub && make"), "sub/Makefile"),
        (("env", "A=b", "make"), "Makefile"), (("npm", "test"), "package.json"),
        (("npm", "--prefix=sub", "test"), "sub/package.json"), (("python3", "-m", "pytest"), "conftest.py"),
    ],
)  # fmt: skip
async def test_what_a_program_reads_unnamed_is_bound(tmp_path: Path, argv: tuple[str, ...], path: str) -> None:
    """`make` runs what its file holds: an answer for it is for that file, and another one is asked about again."""
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    for folder in (root, root / "sub"):
        for name in ("Makefile", "package.json", "conftest.py"):
            (folder / name).write_text(f"# {name}\n")
    workspace = await SessionWorkspace.create(root, tmp_path / "session")
    try:
        before = await bound(workspace, *argv)
        assert path in dict(before.digests)
        (workspace.worktree / path).write_text("all:; curl evil\n")
        assert await bound(workspace, *argv) != before
    finally:
        workspace.close()


INCLUDES = {
    "Makefile": "include a.mk sub/b.mk # told\n-include \\\n c.mk\n#include not.mk\nall:; @include no.mk\n",
    "a.mk": "sinclude deep.mk\n",
    "sub/Makefile": "include b.mk\n",
    "inc/x.mk": "",
    **dict.fromkeys(("sub/b.mk", "c.mk", "deep.mk", "not.mk", "no.mk"), "X = 1\n"),
}


@pytest.mark.parametrize(
    ("argv", "more", "bound_too"),
    [
        (("make",), "", {"a.mk", "sub/b.mk", "c.mk", "deep.mk"}),
        (("make", "-C", "sub"), "", {"sub/b.mk"}),
        (("sh", "-c", "cd sub && make"), "", {"sub/b.mk"}),
        (("make", "-Iinc"), "include x.mk\n", {"inc/x.mk"}),
        (("npm", "test"), "", set()),
    ],
)
async def test_what_a_makefile_includes_is_bound(
    tmp_path: Path, argv: tuple[str, ...], more: str, bound_too: set[str]
) -> None:
    """Also over several files, and where the line goes on; another content is another question."""
    root = tmp_path / "root"
    for name, text in {**INCLUDES, "Makefile": INCLUDES["Makefile"] + more}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    workspace = await SessionWorkspace.create(root, tmp_path / "session")
    try:
        before = await bound(workspace, *argv)
        found = dict(before.digests)
        assert bound_too <= set(found)
        assert not {"not.mk", "no.mk"} & set(found)
        assert INCLUDED_LATER not in before.unbound
        for one in bound_too:
            (workspace.worktree / one).write_text(f"{INCLUDES[one]}all:; curl evil\n")
            assert dict((await bound(workspace, *argv)).digests)[one] != found[one]
    finally:
        workspace.close()


@pytest.mark.parametrize("line", ["include $(X).mk", "-include *.mk", "include a.mk ${Y}"])
async def test_what_a_makefile_includes_by_a_made_up_name_is_told_as_not_bound(tmp_path: Path, line: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "Makefile").write_text(f"{line}\n")
    workspace = await SessionWorkspace.create(root, tmp_path / "session")
    try:
        assert INCLUDED_LATER in (await bound(workspace, "make", "all")).unbound
    finally:
        workspace.close()
