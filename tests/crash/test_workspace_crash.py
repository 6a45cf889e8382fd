"""kill -9 at every file operation of an apply: what is left can be told, finished and rolled back."""

import json
import os
import subprocess
import sys

import pytest
from tests.kit import crash_apply
from tests.kit.require import require
from tests.kit.workspaces import quick_folder


@pytest.mark.parametrize("action", ["accept", "reject", "undo"])
def test_every_point_of_death_is_recovered_exactly(action: str) -> None:
    """R6.2: at each point the finding is legal, and both ways out end byte for byte where they should; twice over."""
    require(hasattr(os, "fork"), "processes cannot be forked here")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with quick_folder() as folder:
        command = [sys.executable, crash_apply.__file__, str(folder), action]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row for row in rows if row["problems"]] == []
    assert rows[-1]["survived"]
    assert {row["finding"] for row in rows} == {"not_done", "partial", "done"}
