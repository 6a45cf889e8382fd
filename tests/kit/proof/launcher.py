"""The real daemon, counted: what the proof starts in the place of `gloveport daemon`.

Purpose: put the counting proxies (and, for a negative control, one fault) around the shipped code, then run its main.
Invariant: without an aim and without a fault it is the shipped daemon.
Must never: be reachable from the product.
"""

import contextlib
import os
import signal
import sys
from pathlib import Path

os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"  # as the product's own entry does


def kill_runs() -> None:
    """SIGKILL for every supervisor that a run folder names: nothing of the daemon's tree outlives it."""
    from gloveport.sandbox.runner import rundir

    for folder in Path(os.environ["GLOVEPORT_HOME"]).glob("runs/*/*"):
        status = rundir.read_status(folder)
        if status is not None and rundir.read_exit(folder) is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(status.supervisor_pid, signal.SIGKILL)


def main() -> int:
    """Run the counted daemon; its exit code."""
    from tests.kit.proof.counting import count_everything
    from tests.kit.proof.faults import FAULT, FAULTS
    from tests.kit.proof.progress import meter_of

    from gloveport.server.app.foreground import run_daemon

    count_everything(meter_of(dict(os.environ), kill_runs))
    fault = os.environ.get(FAULT)
    if fault:
        FAULTS[fault]()
    return run_daemon()


if __name__ == "__main__":
    sys.exit(main())
