"""`gloveport undo`, `redo` and `restore` at a terminal: by file, by turn, and with a preview."""

import re
from pathlib import Path

from tests.kit.command_line import running_command_line


def step(words: str, *calls: tuple[str, dict[str, str]]) -> dict[str, object]:
    """What the model does when it is told these words."""
    made = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return {"when": {"turn": 0, "user_contains": words}, "calls": made}


def test_back_and_forth(tmp_path: Path) -> None:
    """A file is taken back and again; a preview changes nothing; a restore is done, and undone."""
    steps = [
        step("first", ("write_file", {"path": "a.txt", "content": "one\n"})),
        step(
            "second",
            ("edit_file", {"path": "a.txt", "old": "one\n", "new": "two\n"}),
            ("write_file", {"path": "b.txt", "content": "new\n"}),
        ),
        {"text": "Done."},
    ]
    a, b = tmp_path / "a.txt", tmp_path / "b.txt"
    with running_command_line(steps) as cli:
        cli("run", "first", "--trust", "restricted", cwd=tmp_path)
        cli("accept", "--unseen", cwd=tmp_path)
        cli("resume", "-m", "second", cwd=tmp_path)
        cli("accept", "--unseen", cwd=tmp_path)
        cli("undo", "b.txt", cwd=tmp_path)
        assert (a.read_text(), b.exists()) == ("two\n", False)
        cli("redo", cwd=tmp_path)
        assert b.read_text() == "new\n"
        points = [line.split() for line in cli("restore", cwd=tmp_path).stdout.splitlines()]
        assert points[0][0] == "start"
        turn = points[-1][0]
        shown = cli("restore", turn, "--preview", cwd=tmp_path).stdout
        assert "remove b.txt" in shown
        assert "-two" in shown
        assert a.read_text() == "two\n"
        refused = cli("restore", turn, cwd=tmp_path, code=5)
        assert "--yes" in refused.stderr
        told = cli("restore", turn, "--yes", cwd=tmp_path).stdout
        for row in re.findall(r"^(?:put back|remove|bring back) (.*)$", shown, re.MULTILINE):
            path, _, copy = row.partition(" in the agent's copy")
            assert re.search(
                rf"\b{path}[^;]* {'in the agent.s copy alone' if copy or row != path else 'in /'}", told
            ), told
        again = cli("restore", turn, "--yes", cwd=tmp_path).stdout
        assert "nothing would change" in again
        assert "restored" not in again
        assert (a.read_text(), b.exists()) == ("one\n", False)
        cli("undo", cwd=tmp_path)
        assert (a.read_text(), b.read_text()) == ("two\n", "new\n")
        cli("undo", "--all", cwd=tmp_path)
        assert not a.exists()
        cli("redo", cwd=tmp_path)
        cli("undo", "--turn", turn, cwd=tmp_path)
        assert a.read_text() == "one\n"
        cli("redo", cwd=tmp_path)
        printed = re.findall(r"turn (\w+) ·", cli("trace", "--turns", "2", cwd=tmp_path).stdout)
        assert len(printed) == 2
        assert turn in printed, "each command names a turn alike"
        cli("undo", "--turn", turn, cwd=tmp_path)
        assert a.read_text() == "one\n"
        cli("redo", cwd=tmp_path)
        cli("restore", turn, "-y", cwd=tmp_path)
        assert a.read_text() == "one\n"
        for words in (("undo", "--turn", "zzz"), ("restore", "zzz", "-y")):
            assert "there is no turn zzz" in cli(*words, cwd=tmp_path, code=1).stderr
        refused = cli("undo", "nope.py", cwd=tmp_path, code=1).stderr
        assert "no change of nope.py" in refused
        assert "nothing to undo" not in refused
        assert "2 turns" in cli("undo", "--turn", "turn", cwd=tmp_path, code=1).stderr
