"""kill -9 at every file operation of a snapshot: it is whole, or it is none."""

import json
import os
import subprocess
import sys

from tests.kit import crash_snapshot
from tests.kit.require import require
from tests.kit.workspaces import quick_folder


def test_a13_killed_at_any_point_of_a_snapshot() -> None:
    """What is left cannot be opened or is whole; the user's folder and any git metadata in it are as they were."""
    require(hasattr(os, "fork"), "processes cannot be forked here")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with quick_folder() as folder:
        command = [sys.executable, crash_snapshot.__file__, str(folder)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row for row in rows if row["problems"]] == []
    assert rows[-1]["survived"]
    assert len(rows) > 20
    assert not rows[0]["opens"]
