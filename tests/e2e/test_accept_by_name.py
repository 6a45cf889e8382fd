"""gloveport accept, with files among the proposals that run by themselves."""

from pathlib import Path
from typing import Any

from tests.kit.command_line import run_json, running_command_line


def write(path: str) -> dict[str, Any]:
    """A call that writes a file."""
    return {"name": "write_file", "arguments": {"path": path, "content": "x\n"}}


def test_all_leaves_what_runs_by_itself_until_it_is_named(tmp_path: Path) -> None:
    """All: the ordinary files, and by name what is left; its folder is no name; several names are several decisions."""
    paths = ["a.txt", "sub/conftest.py", "Makefile", "tox.ini"]
    steps = [
        {"when": {"user_contains": "many", "turn": 0}, "calls": [write(path) for path in paths]},
        {"text": "Done."},
    ]
    root = tmp_path / "project"
    root.mkdir()
    with running_command_line(steps) as cli:
        run_json(cli, root, "many", "--approve", "turn")
        cli("diff", cwd=root)
        taken = cli("accept", cwd=root)
        assert "accepted: a.txt" in taken.stdout
        assert all(path in taken.stderr for path in paths[1:])
        assert [path.name for path in root.iterdir()] == ["a.txt"]
        left = cli("accept", "sub", cwd=root, code=1)
        assert "sub/conftest.py" in left.stderr
        assert not (root / "sub").exists()
        assert "Makefile" in cli("accept", cwd=root, code=1).stderr  # nothing but such files: nothing was done
        cli("accept", "Makefile", "sub/conftest.py", cwd=root)
        assert (root / "Makefile").exists()
        assert (root / "sub/conftest.py").exists()
        assert "undone: " in cli("undo", cwd=root).stdout
        assert sum(path.is_file() for path in root.rglob("*")) == 2
        cli("reject", cwd=root)
        assert "Nothing" in cli("accept", cwd=root).stdout
        for verb in ("accept", "reject"):
            assert "has hunk '1234'" in cli(verb, "--hunk", "1234", cwd=root, code=1).stderr
