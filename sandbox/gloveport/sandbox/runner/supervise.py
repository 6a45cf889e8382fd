"""The process of one run, from its request to its last word.

Purpose: read the request, let the kind of run that it asks for do it, write down how it ended, tidy up.
Invariant: `exit.json` is written after the last process of the tree is dead and reaped; the daemon may vanish at any
time and nothing changes.
Must never: hold a limit itself; that is the run's.
"""

import os
from pathlib import Path

from gloveport.protocol.jail.codec import JailFormatError
from gloveport.protocol.jail.requests import RunRequest
from gloveport.sandbox.runner import prctl, rundir
from gloveport.sandbox.runner.run import Run
from gloveport.sandbox.runner.users import OwnUser


def supervise(run_dir: str, wake_fd: int, user: OwnUser | None = None) -> None:
    """Do one whole run in this (freshly forked) process; `user` is one that it has taken already."""
    folder = Path(run_dir)
    os.set_blocking(wake_fd, False)
    os.umask(0o077)
    os.chdir("/")
    try:
        request = rundir.read_request(folder)
    except (OSError, JailFormatError):
        return
    prctl.become_subreaper()
    prctl.hide_from_peers()
    run = _open_run(folder, request, wake_fd, user)
    end = run.perform()
    if end is None:
        return
    rundir.write_exit(folder, end)
    os.close(wake_fd)  # the daemon knows now; what follows costs it no time
    run.tidy()
    run.spool.sync()
    rundir.sync_exit(folder)


def _open_run(folder: Path, request: RunRequest, wake_fd: int, user: OwnUser | None) -> Run:
    """A run of a program of this machine, or one in an engine's container, here or on another machine; those halves
    are loaded for them alone."""
    if request.engine is None:
        return Run(folder, request, wake_fd, user)
    if request.remote is not None:
        from gloveport.sandbox.runner.remote_run import RemoteRun

        return RemoteRun(folder, request, request.engine, request.remote, wake_fd)
    from gloveport.sandbox.runner.engine_run import EngineRun

    return EngineRun(folder, request, request.engine, wake_fd)
