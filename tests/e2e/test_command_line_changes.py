"""Proposals on the command line: patches that other programs take, names of hunks, paths and folders."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.kit.command_line import TEXT, Cli, run_json
from tests.kit.require import require

CRLF = "one\r\ntwo\r\nthree\r\nfour"
FILES = {"a.txt": TEXT, "docs/with space.txt": "kept\nold\n", "docs/crlf.txt": CRLF, "src/old.txt": "old\nfile\n"}
"""Of several kinds, for which many changes are proposed."""


def write(path: str, content: str) -> dict[str, Any]:
    """A call that writes a file."""
    return {"name": "write_file", "arguments": {"path": path, "content": content}}


NEAR = TEXT.replace("line 3\n", "third\n").replace("line 8\n", "eighth\n").replace("line 20\n", "").replace(
    "line 30\n", "the end, without a newline"
)  # fmt: skip
CALLS = [
    write("a.txt", NEAR),
    write("docs/with space.txt", "kept\nsecond\nnew\n"),
    write("docs/crlf.txt", "one\r\nTWO\r\nthree\r\nfive"),
    write("docs/ünï.md", "first\n"),
    write("src/new/empty.txt", ""),
    write("src/new/code.py", "x = 1\r\ny = 2\r\n"),
    {"name": "delete_file", "arguments": {"path": "src/old.txt"}},
]
MOVES = [
    {"name": "move_file", "arguments": {"path": "a.txt", "to": "docs/moved here.txt"}},
    {"name": "edit_file", "arguments": {"path": "docs/moved here.txt", "old": "line 2\n", "new": "second\n"}},
]
PLAYED: list[dict[str, Any]] = [
    {"when": {"user_contains": "many", "turn": 0}, "calls": CALLS},
    {"when": {"user_contains": "move", "turn": 0}, "calls": MOVES},
    {"text": "Done."},
]


@pytest.fixture
def proposed(cli: Cli, root: Path) -> Path:
    """The folder, with the changes proposed."""
    run_json(cli, root, "many", "--approve", "turn")
    return root


def patch_of(cli: Cli, root: Path, *words: str) -> bytes:
    """What `gloveport diff` writes into a pipe."""
    done = subprocess.run(
        cli.command("diff", *words), cwd=root, env=cli.environment, stdin=subprocess.DEVNULL,
        capture_output=True, check=True,
    )  # fmt: skip
    return done.stdout


def tree(folder: Path) -> dict[str, bytes]:
    """All files by their paths."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "program", [["git", "apply"], ["patch", "-p1", "--binary", "--quiet"]], ids=lambda words: str(words[0])
)
def test_a_piped_diff_is_a_patch(cli: Cli, proposed: Path, tmp_path: Path, program: list[str]) -> None:
    """Hunks close to one another, CRLF, a missing last newline, new, empty and deleted files, names with spaces:
    applied by another program to a copy, the patch gives what accepting gives."""
    require(shutil.which(program[0]) is not None, f"{program[0]} is not installed")
    copy = tmp_path / "copy"
    shutil.copytree(proposed, copy)
    patch = patch_of(cli, proposed)
    if program[0] == "git":
        subprocess.run(["git", "apply", "--check"], cwd=copy, input=patch, check=True)
    subprocess.run(program, cwd=copy, input=patch, check=True)
    done = cli("accept", cwd=proposed)
    assert done.stdout.strip().endswith(f"in {proposed}")
    assert tree(copy) == tree(proposed)
    assert (proposed / "docs" / "crlf.txt").read_bytes() == b"one\r\nTWO\r\nthree\r\nfive"
    assert (proposed / "a.txt").read_text() == NEAR


@pytest.mark.parametrize("name", ["a.txt", "docs/moved here.txt", "docs"])
def test_a_moved_file_is_one_proposal(cli: Cli, root: Path, tmp_path: Path, name: str) -> None:
    """Told with both names, found by either, accepted as one, and the same as a patch for other programs."""
    require(shutil.which("git") is not None, "git is not installed")
    assert "± rename a.txt → docs/moved here.txt" in cli("run", "move", "--approve", "turn", cwd=root).stdout
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    subprocess.run(["git", "apply"], cwd=copy, input=patch_of(cli, root, name), check=True)
    assert "accepted: docs/moved here.txt" in cli("accept", name, cwd=root).stdout
    assert tree(copy) == tree(root)
    assert not (root / "a.txt").exists()
    assert "line 2" not in (root / "docs" / "moved here.txt").read_text().split("\n")[:3]
    cli("undo", cwd=root)
    assert (root / "a.txt").read_text() == TEXT


def test_hunks_keep_their_names(cli: Cli, proposed: Path) -> None:
    """A name shown at first is still that hunk's after another was accepted; numbers are those of the diff now."""
    with cli.at_terminal("diff", "a.txt", cwd=proposed) as shell:
        assert shell.end() == 0
    names = re.findall(r"@@ hunk (\w{4,})", shell.text)
    assert len(names) == 4
    cli("accept", "a.txt", "--hunk", names[0], cwd=proposed)
    assert (proposed / "a.txt").read_text() == TEXT.replace("line 3\n", "third\n")
    cli("accept", "a.txt", "--hunk", names[2], cwd=proposed)
    assert (proposed / "a.txt").read_text() == TEXT.replace("line 3\n", "third\n").replace("line 20\n", "")
    again = cli("accept", "a.txt", "--hunk", names[0], cwd=proposed, code=1).stderr
    assert f"hunk {names[0]} of a.txt was accepted already" in again
    assert "has no open hunk 'zzzz'" in cli("accept", "a.txt", "--hunk", "zzzz", cwd=proposed, code=1).stderr
    cli("reject", "a.txt", "--hunk", "1", cwd=proposed)
    assert set(re.findall(rb"hunk (\w{4,})", patch_of(cli, proposed, "a.txt"))) == {names[3].encode()}


def test_paths_are_seen_from_here(cli: Cli, proposed: Path) -> None:
    """Folders, paths relative to the current folder, to the session's root and to -C; what is beside them stays."""
    docs = proposed / "docs"
    cli("diff", cwd=proposed)
    assert "accepted: docs/crlf.txt" in cli("accept", "crlf.txt", cwd=docs).stdout
    assert b"with space" in patch_of(cli, docs, ".")
    assert b"a.txt" not in patch_of(cli, docs, ".")
    assert "rejected: docs/with space.txt" in cli("reject", "docs/with space.txt", cwd=docs).stdout
    assert "src/new/code.py" in cli("accept", "src/", cwd=proposed).stdout
    assert not (proposed / "src" / "old.txt").exists()
    assert (proposed / "src" / "new" / "code.py").read_bytes() == b"x = 1\r\ny = 2\r\n"
    assert not (docs / "ünï.md").exists()
    assert "nothing is proposed" in cli("accept", "src", cwd=proposed, code=1).stderr
    session = cli("show", cwd=proposed).stdout.splitlines()[1].split()[0][-6:]
    assert f"That is a session: -s {session}" in cli("accept", session, cwd=proposed, code=1).stderr
    assert "docs/ünï.md" in cli("accept", "docs", "-C", str(proposed)).stdout
    assert f"undone: docs/ünï.md in {proposed}" in cli("undo", "-C", str(docs)).stdout
    assert "gloveport accept" not in cli("run", "hello", cwd=proposed).stdout


def test_nothing_to_show_is_no_patch(cli: Cli, root: Path) -> None:
    """Words go to standard error, so that a pipe stays clean."""
    run_json(cli, root, "hello")
    done = cli("diff", cwd=root)
    assert done.stdout == ""
    assert "Nothing is proposed" in done.stderr


def test_lines_of_yours_give_way_to_a_hunk_by_name(cli: Cli, proposed: Path) -> None:
    """`--take` with a hunk's name: the lines that gave way are shown, and undo brings them back."""
    mine = proposed / "a.txt"
    edited = TEXT.replace("line 3\n", "my own words\n")
    with cli.at_terminal("diff", "a.txt", cwd=proposed) as shell:
        assert shell.end() == 0
    first = re.findall(r"@@ hunk (\w{4,})", shell.text)[0]
    assert "--take needs --hunk" in cli("accept", "a.txt", "--take", cwd=proposed, code=1).stderr
    mine.write_text(edited)
    cli("accept", "a.txt", "--hunk", first, cwd=proposed, code=1)
    assert mine.read_text() == edited
    assert "my own words" in cli("accept", "a.txt", "--hunk", first, "--take", cwd=proposed).stdout
    assert mine.read_text() == TEXT.replace("line 3\n", "third\n")
    cli("undo", cwd=proposed)
    assert mine.read_text() == edited


@pytest.mark.parametrize("order", [("accept", "reject"), ("reject", "accept")])
def test_show_tells_what_became_of_each_hunk(cli: Cli, proposed: Path, order: tuple[str, str]) -> None:
    """Whichever was decided last; what was taken back waits again."""
    for verb in order:
        cli(verb, "a.txt", "--hunk", "1", *(("--unseen",) if verb == "accept" else ()), cwd=proposed)
    assert "modify a.txt: pending, 1 accepted, 1 rejected" in cli("show", cwd=proposed).stdout
    cli("reject", "a.txt", cwd=proposed)
    shown = cli("show", cwd=proposed).stdout
    assert re.search(r"modify a.txt: 1 accepted, \d rejected\n", shown)
    assert "docs/crlf.txt: pending\n" in shown
    cli("reject", "docs/crlf.txt", cwd=proposed)
    assert "docs/crlf.txt: rejected\n" in cli("show", cwd=proposed).stdout
    for back, verb in (("undo", "undone"), ("redo", "redone")):
        told = cli(back, cwd=proposed).stdout
        assert told == f"{verb}: the reject of docs/crlf.txt; your file is as it was\n"
    told = cli("undo", "--all", cwd=proposed).stdout.splitlines()
    assert told == [f"undone: a.txt in {proposed}", "undone: the reject of docs/crlf.txt; your file is as it was"]


@pytest.mark.parametrize(("name", "words"), [("docs/ünï.md", "my own\n"), ("src/old.txt", "old\nmine\n")])
def test_the_advised_way_settles_a_made_and_a_removed_file(cli: Cli, proposed: Path, name: str, words: str) -> None:
    """The command that accept names is run as it stands: the user's file gives way, is shown, and comes back."""
    mine = proposed / name
    mine.write_text(words)
    told = cli("accept", name, "--unseen", cwd=proposed, code=1).stderr
    way = re.search(r"gloveport (accept --hunk \w+ --take \S+) \(your file gives way, whole\)", told)
    assert way is not None
    taken = cli(*shlex.split(way[1]), "--unseen", cwd=proposed).stdout
    assert words.splitlines()[-1] in taken
    assert (mine.read_text() if mine.exists() else None) == {"docs/ünï.md": "first\n"}.get(name)
    cli("undo", cwd=proposed)
    assert mine.read_text() == words


def test_a_conflict_names_the_ways_out(cli: Cli, proposed: Path) -> None:
    """At an accept: both sides, reject, or one's own line back; at undo and restore other words, as nothing waits."""
    mine = proposed / "a.txt"
    mine.write_text(TEXT.replace("line 3\n", "my own third\n"))
    told = " ".join(cli("accept", "a.txt", "--unseen", cwd=proposed, code=1).stderr.split())
    assert all(words in told for words in ("gloveport diff", "gloveport reject", "Put your lines back as they were"))
    way = re.search(r"gloveport (accept --hunk \w+ --take a\.txt) ", told)
    assert way is not None
    piped = cli("diff", "a.txt", cwd=proposed)
    assert f"conflicted: a.txt (hunk {way[1].split()[2]})" in piped.stderr
    assert way[1] in piped.stderr
    assert "you have: my own third" in piped.stderr
    (proposed / "docs" / "with space.txt").write_text("kept\nmy own\n")
    both = cli("accept", "a.txt", "docs", "--unseen", cwd=proposed, code=1).stderr.splitlines()[0]
    assert all(name in both for name in ("a.txt", "docs/with space.txt"))
    (proposed / "docs" / "with space.txt").write_text("kept\nold\n")
    assert "conflicted" not in piped.stdout + cli("diff", "docs", cwd=proposed).stderr
    cli(*way[1].split(), cwd=proposed)
    assert mine.read_text() == TEXT.replace("line 3\n", "third\n")
    cli("undo", cwd=proposed)
    with cli.at_terminal("diff", "a.txt", cwd=proposed) as shell:
        shell.wait_for("conflicted")
        shell.wait_for("you have: my own third")
    mine.write_text(TEXT)
    cli("accept", "a.txt", "--unseen", cwd=proposed)
    mine.write_text(NEAR.replace("third\n", "my own third\n"))
    for words in (("undo",), ("restore", "start", "-y")):
        told = " ".join(cli(*words, cwd=proposed, code=1).stderr.split())
        assert "left alone" in told
        assert "gloveport diff" not in told
        assert "proposal" not in told
