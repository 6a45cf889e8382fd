"""Where the daemon of this user lives.

Purpose: the one rule for data directory, socket, token and log, for daemon and clients alike.
Invariant: the same environment gives the same places; the socket's path fits every system's limit.
Must never: create anything, or fall back to a folder that others may write to.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gloveport.protocol.errors import ErrorCode, GloveportError

SOCKET_BYTES_MAX: Final = 103
"""Of a socket's path; macOS takes 104 with the closing zero, Linux 108."""
SOCKET_NAME: Final = "daemon.sock"
TOKEN_NAME: Final = "decision.token"  # noqa: S105 - a file's name, not a secret
LOG_NAME: Final = "daemon.log"


@dataclass(frozen=True, slots=True)
class Places:
    """Files of one daemon. `socket` lies in `data_dir`, or in a folder of its own when that path is too long.

    `config_dir` holds the user's settings.
    """

    data_dir: Path
    config_dir: Path
    socket: Path
    token: Path
    log: Path
    mark: Path | None = None
    """Counts along how far the journal has come, away from `data_dir`; None where all lies in one folder."""

    @property
    def own_folders(self) -> tuple[Path, ...]:
        """The folders that hold nothing but what is Gloveport's: no content of a workspace that they lie in."""
        return self.data_dir, self.config_dir, *(() if self.mark is None else (self.mark.parent,))


def find_places(environ: Mapping[str, str] | None = None) -> Places:
    """The places that the environment names: `GLOVEPORT_HOME`, else the XDG folders.

    Raises:
        GloveportError: UNSAFE_DIRECTORY when no place for the socket has a path short enough.
    """
    names = os.environ if environ is None else environ
    data_dir = _data_dir(names)
    socket = _socket(data_dir, names)
    return Places(
        data_dir, _config_dir(names), socket, data_dir / TOKEN_NAME, data_dir / LOG_NAME, _mark(data_dir, names)
    )


def other_data_dirs(environ: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """Where data of this user would lie under the other rules: what an earlier start may have used."""
    names = dict(os.environ if environ is None else environ)
    here, found = _data_dir(names), []
    for name in ("GLOVEPORT_HOME", "XDG_STATE_HOME"):
        names.pop(name, None)
        found.append(_data_dir(names))
    return tuple(dict.fromkeys(place for place in found if place != here))


def _data_dir(names: Mapping[str, str]) -> Path:
    if home := names.get("GLOVEPORT_HOME"):
        return Path(home).expanduser().absolute()
    state = names.get("XDG_STATE_HOME")
    if state and os.path.isabs(state):
        return Path(state) / "gloveport"
    return Path(names.get("HOME") or "~").expanduser() / ".local" / "state" / "gloveport"


def _config_dir(names: Mapping[str, str]) -> Path:
    if home := names.get("GLOVEPORT_HOME"):
        return Path(home).expanduser().absolute()
    config = names.get("XDG_CONFIG_HOME")
    if config and os.path.isabs(config):
        return Path(config) / "gloveport"
    return Path(names.get("HOME") or "~").expanduser() / ".config" / "gloveport"


def _mark(data_dir: Path, names: Mapping[str, str]) -> Path | None:
    if names.get("GLOVEPORT_HOME"):
        return None
    share = names.get("XDG_DATA_HOME")
    usual = Path(names.get("HOME") or "~").expanduser() / ".local" / "share"
    folder = Path(share) if share and os.path.isabs(share) else usual
    return folder / "gloveport" / f"journal-{_digest_of(data_dir)}.generation"


def _digest_of(folder: Path) -> str:
    return hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]


def _socket(data_dir: Path, names: Mapping[str, str]) -> Path:
    tries = [data_dir / SOCKET_NAME]
    runtime = names.get("XDG_RUNTIME_DIR")
    if runtime and os.path.isabs(runtime):
        tries.append(Path(runtime) / f"gloveport-{_digest_of(data_dir)}" / SOCKET_NAME)
    for path in tries:
        if len(os.fsencode(path)) <= SOCKET_BYTES_MAX:
            return path
    raise GloveportError(
        ErrorCode.UNSAFE_DIRECTORY,
        f"the socket's path would be longer than {SOCKET_BYTES_MAX} bytes",
        hint="Set GLOVEPORT_HOME to a directory with a shorter path.",
    )
