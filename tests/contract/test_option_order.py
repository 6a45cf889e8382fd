"""The real programs take options where the table says: a row marked so takes them wherever they stand."""

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from tests.kit.history.repository import NEUTRAL
from tests.kit.policy_cases import understood
from tests.kit.require import require

from gloveport.server.policy.shell.looks import looks

UNKNOWN = "--gloveport-unknown"
TOLD = ("option", "unrecognized argument", "usage:")
"""What a program says of an option that it does not know, in any place where it takes options."""
LISTS_IT = frozenset({("git", "rev-parse")})
"""Prints what it does not know, wherever it stands; its own options it obeys as well."""
PATH = "/usr/bin:/bin"
MARKED = sorted(words for words, grammar in looks().items() if grammar.permutes)


def run(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the system in a folder; English, nothing of the user's settings."""
    return subprocess.run(
        argv,
        cwd=folder,
        env={**NEUTRAL, "PATH": PATH, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with one commit."""
    (tmp_path / "a.txt").write_text("one\n")
    author = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for words in (("init", "--quiet"), ("add", "a.txt"), (*author, "commit", "--quiet", "--message=one")):
        assert run(tmp_path, "git", *words).returncode == 0, words
    return tmp_path


def test_marked_programs_take_an_option_behind_their_first_operand(folder: Path) -> None:
    """They say that they don't know it; to one that stops there it would be a file."""
    tried = 0
    for words in MARKED:
        if words in LISTS_IT or shutil.which(words[0], path=PATH) is None:
            continue
        said = run(folder, *words, "HEAD" if words[0] == "git" else "a.txt", UNKNOWN).stderr.lower()
        assert any(told in said for told in TOLD), (words, said)
        assert "no such file" not in said, (words, said)
        tried += 1
    assert tried >= 60


def test_b03_git_config_sets_where_its_option_comes_late(folder: Path) -> None:
    """The control: it really sets; with the option before its words it does not."""
    late, early = ("git", "config", "a.b", "new", "--get"), ("git", "config", "--get", "a.b", "new")
    run(folder, *early)
    assert run(folder, "git", "config", "a.b").stdout == ""
    assert understood(early).only_looks
    run(folder, *late)
    assert run(folder, "git", "config", "a.b").stdout == "new\n"
    assert not understood(late).only_looks


def test_b03_unzip_unpacks_where_its_option_comes_late(folder: Path) -> None:
    """The control: behind the archive it is the name of a member, which is unpacked."""
    require(shutil.which("unzip", path=PATH) is not None, "unzip is not installed")
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr("-l", "planted")
    early, late = ("unzip", "-q", "-l", "a.zip"), ("unzip", "-q", "a.zip", "-l")
    run(folder, *early)
    assert not (folder / "-l").exists()
    assert understood(early).only_looks
    run(folder, *late)
    assert (folder / "-l").read_text() == "planted"
    assert not understood(late).only_looks
