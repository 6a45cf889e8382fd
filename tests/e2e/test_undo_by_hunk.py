"""`gloveport undo --hunk` takes the beginning of a hunk's id, as it was shown before it was accepted."""

import re
from pathlib import Path

from tests.kit.command_line import STEPS, TEXT, run_json, running_command_line


def test_the_beginning_of_an_id_names_a_hunk(tmp_path: Path) -> None:
    """That hunk alone is taken back, also of a decision before the last; what names none or several is told."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text(TEXT)
    with running_command_line(STEPS) as cli:
        run_json(cli, root, "edit")
        names = re.findall(r"^@@ .* hunk ([0-9a-f]+)$", cli("diff", "a.txt", cwd=root).stdout, re.M)
        assert len(names) == 2
        cli("accept", "a.txt", cwd=root)
        both = (root / "a.txt").read_text()
        cli("accept", "--unseen", "b.txt", cwd=root)
        assert "no decided hunk begins with 'zz'" in cli("undo", "--hunk", "zz", cwd=root, code=1).stderr
        assert "undone: a.txt" in cli("undo", "--hunk", names[0], cwd=root).stdout
        one = (root / "a.txt").read_text()
        assert one not in (both, TEXT)
        assert (root / "b.txt").exists()
        assert "no decided hunk" in cli("undo", "--hunk", names[0], cwd=root, code=1).stderr
        assert "undone: a.txt" in cli("undo", "--hunk", f"hunk-{names[1]}", cwd=root).stdout
        assert (root / "a.txt").read_text() == TEXT
        assert len(re.findall(r"^@@ ", cli("diff", "a.txt", cwd=root).stdout, re.M)) == 2
