"""What may hold secrets is shown to whoever names it, and a secret that came in is erased by whoever types it."""

from pathlib import Path
from typing import Any

from tests.kit.command_line import TEXT, run_json, running_command_line

SECRET = "TOKEN=an-old-secret-of-mine\n"
STEPS: list[dict[str, Any]] = [
    {"when": {"turn": 0, "turns_total": 0}, "calls": [
        {"name": "write_file", "arguments": {"path": ".env", "content": SECRET + "PORT=1\n"}},
        {"name": "write_file", "arguments": {"path": "b.txt", "content": "plain words\n"}}]},
    {"text": "Done."},
]  # fmt: skip


def test_lines_of_a_secret_file_are_not_printed_unasked(tmp_path: Path) -> None:
    """Neither at the end of a run nor by a diff of all; by its name they are, and only then it can be accepted."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text(TEXT)
    (root / ".env").write_text(SECRET)
    with running_command_line(STEPS) as cli:
        run_json(cli, root, "go", "--approve", "once")
        with cli.at_terminal("diff", cwd=root, columns=160) as shown:
            assert "gloveport diff .env" in shown.wait_for("+plain words")
            assert shown.end() == 0
            assert "an-old-secret" not in shown.text
        cli("accept", cwd=root, code=1)
        assert not (root / "b.txt").exists()
        with cli.at_terminal("diff", ".env", cwd=root) as shown:
            shown.wait_for("+PORT=1")
            assert shown.end() == 0
        cli("accept", cwd=root)
        assert (root / ".env").read_text() == SECRET + "PORT=1\n"


def test_a_text_is_erased_by_whoever_types_it_and_the_mark(tmp_path: Path) -> None:
    """It is asked for and not shown; without the mark nothing happens; what stays is told."""
    root = tmp_path / "project"
    root.mkdir()
    with running_command_line([{"text": "Done."}]) as cli:
        lines = run_json(cli, root, f"remember {SECRET.strip()}")
        name = str(lines[-1]["sessionId"])
        mark = name[-6:]
        assert f"--type {mark}" in cli("erase", mark, cwd=root, code=5).stderr
        with cli.at_terminal("erase", mark, cwd=root, columns=160) as shell:
            shell.wait_for("is not shown")
            shell.type("an-old-secret-of-mine\n")
            shell.wait_for(f"Type {mark}: ")
            shell.type(f"{mark}\n")
            shell.wait_for("Not erased:")
            assert shell.end() == 0
            assert "an-old-secret" not in shell.text
        told = cli("transcript", cwd=root).stdout
        assert "an-old-secret" not in told
        assert "a text was erased from" in told
