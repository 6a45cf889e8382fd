"""`gloveport accept` takes what the terminal has shown, and nothing that changed since."""

from pathlib import Path
from typing import Any

from tests.kit.command_line import running_command_line


def steps() -> list[dict[str, Any]]:
    """A model that proposes one thing, and another one when it is spoken to again."""
    texts = {"first": "harmless\n", "second": "never shown\n"}
    proposals = [
        {
            "when": {"turn": 0, "user_contains": word},
            "calls": [{"name": "write_file", "arguments": {"path": "a.txt", "content": text}}],
        }
        for word, text in texts.items()
    ]
    return [*proposals, {"text": "Done."}]


def test_what_changed_since_it_was_shown_is_not_accepted(tmp_path: Path) -> None:
    """A rewrite that nobody saw is refused by name; looked at, it is taken; `--unseen` says that it was not read."""
    with running_command_line(steps()) as cli:
        cli("run", "first", "--trust", "restricted", cwd=tmp_path)
        cli("resume", "-m", "second", "--json", cwd=tmp_path)
        refused = cli("accept", cwd=tmp_path, code=1)
        assert "a.txt" in refused.stderr
        assert "gloveport diff" in refused.stderr
        assert not (tmp_path / "a.txt").exists()
        assert "never shown" in cli("diff", cwd=tmp_path).stdout
        cli("accept", cwd=tmp_path)
        assert (tmp_path / "a.txt").read_text() == "never shown\n"
        cli("undo", cwd=tmp_path)
        cli("resume", "-m", "first", "--json", cwd=tmp_path)
        cli("accept", "--unseen", cwd=tmp_path)
    assert (tmp_path / "a.txt").read_text() == "harmless\n"
