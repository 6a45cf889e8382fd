"""Turns a forked process into the requested program.

Purpose: session, groups, limits, descriptors, environment, then exec.
Invariant: the program has its three pipes and the request's blobs open, nothing else; or the reason came back.
Must never: return in the child.
"""

import fcntl
import os
import resource
import signal
from dataclasses import dataclass
from typing import Final

from gloveport.protocol.jail.requests import BLOB_FD_FIRST, STATUS_FD, WATCH_FD, RunLimits, RunRequest
from gloveport.sandbox.runner import prctl
from gloveport.sandbox.runner.apart import keep_apart
from gloveport.sandbox.runner.groups import join_groups
from gloveport.sandbox.runner.users import NOT_HAD, OwnUser, become, stage_mounts

_HIGH_FD: Final = 200
_REASON_BYTES_MAX: Final = 4096
CPU_SLACK_S: Final = 1
"""The kernel's per-process CPU limit is this much above the tree's, so that the tree's is met first."""


@dataclass(frozen=True, slots=True)
class ChildPipes:
    """Descriptors for the program: what it reads, what it writes, where a wrapper reports, where its filter does."""

    stdin: int
    output: int
    status: int | None
    watch: int | None = None


class StartFailed(Exception):  # noqa: N818 - an outcome of a run, not a fault of this program
    """The program was never started; the text says why."""


def start_child(request: RunRequest, pipes: ChildPipes, user: OwnUser | None = None) -> int:
    """Fork and exec, as `user` where the request has a plan for one; returns the pid.

    Raises `StartFailed` when the exec did not happen.
    """
    blobs = [_blob(blob) for blob in request.blobs]
    reason_read, reason_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(request, pipes, blobs, reason_write, user)
    os.close(reason_write)
    for fd in blobs:
        os.close(fd)
    with os.fdopen(reason_read, "rb") as file:
        reason = file.read(_REASON_BYTES_MAX)
    if reason:
        os.waitpid(pid, 0)
        raise StartFailed(reason.decode("utf-8", "replace"))
    return pid


def _blob(data: bytes) -> int:
    fd = os.memfd_create("gloveport", os.MFD_CLOEXEC)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _become(request: RunRequest, pipes: ChildPipes, blobs: list[int], reason_fd: int, user: OwnUser | None) -> None:
    """In the child: never returns."""
    step = "prepare"
    try:
        os.setsid()
        _restore_signals()
        prctl.die_with_parent(signal.SIGKILL)
        prctl.forbid_new_privileges()
        step = "join control groups"
        if request.cgroup is not None:
            join_groups(request.cgroup)
        if request.user is not None and user is not None:
            step = NOT_HAD
            stage_mounts(request.user, user)
        step = "set descriptors"
        reason_fd = _place_descriptors(pipes, blobs, reason_fd)
        step = "set limits"
        set_limits(request.limits)
        if request.domain is not None:
            step = "keep it apart"
            keep_apart(request.domain)
        os.umask(0o022)
        step = f"enter {request.working_dir}"
        os.chdir(request.working_dir)
        step = f"start {request.argv[0]}"
        if request.user is not None and user is not None:
            program = os.open(request.argv[0], os.O_RDONLY | os.O_CLOEXEC)  # may lie where that user cannot go
            become(user)
            prctl.die_with_parent(signal.SIGKILL)  # the change of user took it back
            os.execve(program, request.argv, dict(request.environment))  # noqa: S606 - the runner's trade
        os.execvpe(request.argv[0], request.argv, dict(request.environment))  # noqa: S606 - the runner's trade
    except OSError as error:
        os.write(reason_fd, f"{step}: {error.strerror}".encode()[:_REASON_BYTES_MAX])
    except ValueError as error:
        os.write(reason_fd, f"{step}: {error}".encode()[:_REASON_BYTES_MAX])
    finally:
        os._exit(127)


def _restore_signals() -> None:
    """Python ignores SIGPIPE and the fork server SIGCHLD; a program expects the defaults."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGPIPE, signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _place_descriptors(pipes: ChildPipes, blobs: list[int], reason_fd: int) -> int:
    """Copy everything out of the low numbers first, so that no copy overwrites a source."""

    def move(fd: int) -> int:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH_FD)

    wanted = [(0, move(pipes.stdin)), (1, move(pipes.output)), (2, move(pipes.output))]
    if pipes.status is not None:
        wanted.append((STATUS_FD, move(pipes.status)))
    if pipes.watch is not None:
        wanted.append((WATCH_FD, move(pipes.watch)))
    wanted += [(BLOB_FD_FIRST + index, move(fd)) for index, fd in enumerate(blobs)]
    kept = move(reason_fd)
    for number, fd in wanted:
        os.dup2(fd, number, inheritable=True)
    return kept


def set_limits(limits: RunLimits) -> None:
    """Per-process limits of the kernel, never above what this process may set."""
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, limits.open_files_max)
    if limits.file_bytes_max is not None:
        _lower(resource.RLIMIT_FSIZE, limits.file_bytes_max)
    if limits.cpu_s is not None:
        _lower(resource.RLIMIT_CPU, limits.cpu_s + CPU_SLACK_S)
    if limits.user_processes_max is not None:
        _lower(resource.RLIMIT_NPROC, limits.user_processes_max)


def _lower(kind: int, wanted: int) -> None:
    _soft, hard = resource.getrlimit(kind)
    value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(kind, (value, value))
