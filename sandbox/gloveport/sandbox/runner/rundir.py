"""The files of one run folder.

Purpose: one place that knows their names and how they become durable.
Invariant: folder, status and exit appear whole (written aside, renamed); a file that can be read is complete.
Must never: be mounted into a jail.
"""

import os
import re
import shutil
from pathlib import Path
from typing import Final

from gloveport.protocol.jail.codec import JailFormatError
from gloveport.protocol.jail.replies import RunExit, RunStatus, decode_exit, decode_status, encode_exit, encode_status
from gloveport.protocol.jail.requests import RunRequest, decode_request, encode_request

REQUEST_FILE: Final = "request.json"
STATUS_FILE: Final = "status.json"
EXIT_FILE: Final = "exit.json"
PLACE_FILE: Final = "place"
"""Which folder this is for the file system: a copy of it holds the words of the one that it is a copy of."""
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def is_run_id(text: str) -> bool:
    """Whether the text may be a folder name of a run."""
    return _RUN_ID.fullmatch(text) is not None


def write_request(folder: Path, request: RunRequest) -> None:
    """Make the folder (0700, new) with the request in it; it appears whole. Raises FileExistsError for a used id."""
    if folder.exists():
        raise FileExistsError(folder)
    aside = folder.with_name(f".{folder.name}.new")  # no id of a run: nobody takes it for one
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(mode=0o700)
    fd = os.open(aside / REQUEST_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(encode_request(request))
    (aside / PLACE_FILE).write_text(_place_of(aside), encoding="ascii")
    aside.rename(folder)


def is_original(folder: Path) -> bool:
    """False for a copy: the run that it tells of belongs to another data directory, and so do its processes."""
    try:
        return (folder / PLACE_FILE).read_text(encoding="ascii") == _place_of(folder)
    except (OSError, UnicodeDecodeError):
        return True


def _place_of(folder: Path) -> str:
    found = folder.stat()
    return f"{found.st_dev} {found.st_ino}"


def read_request(folder: Path) -> RunRequest:
    """Read the request; raises OSError or `JailFormatError`."""
    return decode_request((folder / REQUEST_FILE).read_bytes())


def write_status(folder: Path, status: RunStatus) -> None:
    """Replace the status. It matters across a crash of the daemon, not of the machine: no sync."""
    _replace(folder, STATUS_FILE, encode_status(status))


def write_exit(folder: Path, end: RunExit) -> None:
    """Write the end; `sync_exit` makes it outlast the machine, when nobody waits any more."""
    _replace(folder, EXIT_FILE, encode_exit(end))


def sync_exit(folder: Path) -> None:
    """Make a written end durable (a synced new file brings its name along). The folder may be forgotten by now."""
    try:
        fd = os.open(folder / EXIT_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def read_status(folder: Path) -> RunStatus | None:
    """The status, or None when absent or unreadable."""
    try:
        return decode_status((folder / STATUS_FILE).read_bytes())
    except (OSError, JailFormatError):
        return None


def read_exit(folder: Path) -> RunExit | None:
    """The end, or None when absent or unreadable."""
    try:
        return decode_exit((folder / EXIT_FILE).read_bytes())
    except (OSError, JailFormatError):
        return None


def _replace(folder: Path, name: str, body: bytes) -> None:
    aside = folder / f".{name}"
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(body)
    aside.rename(folder / name)
