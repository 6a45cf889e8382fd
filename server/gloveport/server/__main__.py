"""The command `gloveport`.

Purpose: start the piper and the daemon without loading the command line, and the command line for everything else.
Invariant: `gloveport lsp` loads no more than the piper needs; no package that happens to be installed is loaded as a
plug-in of a library.
Must never: hold logic.
"""

import errno
import io
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from gloveport.protocol.wire.base import WireModel
    from gloveport.server.app.replay import ReplayReport

STDOUT: Final = 1
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""How a write to standard output fails, which names no file."""


def serve_lsp() -> int:
    """The piper between an editor's pipes and the daemon; the exit code."""
    from gloveport.server.client.paths import find_places
    from gloveport.server.client.stdio import attach

    return attach(find_places())


def run_daemon() -> int:
    """The daemon in this process; the exit code."""
    from gloveport.server.app import foreground

    return foreground.run_daemon()


def replay(data_dir: Path, wanted: str, at: int | None, view: str) -> "ReplayReport":
    """Read a log without a daemon. Raises GloveportError."""
    from gloveport.server.app.replay import known_secrets, replay_session
    from gloveport.server.client.paths import find_places

    return replay_session(data_dir, wanted, at, view, known_secrets(find_places().config_dir) if view else str)


def export(data_dir: Path, settings_home: Path, wanted: str, raw: bool) -> Iterator[dict[str, Any]]:
    """The events of a log without a daemon. Raises GloveportError."""
    from gloveport.server.app.replay import export_session

    return export_session(data_dir, settings_home, wanted, raw)


def view(data_dir: Path, settings_home: Path, method: str, params: "WireModel") -> "WireModel":
    """Answer from a log without a daemon. Raises GloveportError."""
    from gloveport.server.app.offline_views import answer_offline

    return answer_offline(data_dir, settings_home, method, params)


def _use_no_plugins() -> None:
    """Keep pydantic from loading packages that happen to be installed, and what it would look for them with.

    Its search would cost a tenth of the daemon's start, the tools for it, which are loaded also where it is off, a MiB.
    """
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    finder = ModuleType("pydantic.plugin._loader")
    finder.__dict__["get_plugins"] = tuple
    sys.modules[finder.__name__] = finder


def _give_up_output(error: OSError) -> NoReturn:
    """Say that what was to be printed found no room, and end; what is still buffered falls."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), STDOUT)
    sys.exit(f"the output cannot be written ({error.strerror})\nGive it room, or another place.")


def main() -> None:
    """Entry point of the distribution."""
    if sys.argv[1:] == ["lsp"]:
        sys.exit(serve_lsp())
    _use_no_plugins()
    if sys.argv[1:] == ["daemon"]:
        sys.exit(run_daemon())
    try:
        from gloveport.server.cli.root import Doors, command_line

        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # a terminal of few characters is no reason to fail
                stream.reconfigure(errors="backslashreplace")
        command_line(Doors(serve_lsp=serve_lsp, run_daemon=run_daemon, replay=replay, export=export, view=view))()
    except OSError as error:
        if error.errno not in _NO_ROOM or error.filename is not None:
            raise
        _give_up_output(error)
    except KeyboardInterrupt:  # while it still loads; later ones are the commands' own
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
