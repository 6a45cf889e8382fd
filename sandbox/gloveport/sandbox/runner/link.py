"""The way to an engine on another machine, as its users hold it.

Purpose: start the process that holds the way, know whether it stands, open it anew when it is cut.
Invariant: its socket lies in a folder of its owner alone; the process ends with its owner, however that ends.
Must never: go on with another host or key than the plan pins.

Errors: `LinkError` with a kind (missing, host_key, denied, certificate, unreachable, settings) and words.
"""

import contextlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from types import MappingProxyType
from typing import Final

from gloveport.protocol.jail.requests import LinkPlan
from gloveport.sandbox.runner.engine_api import can_connect
from gloveport.sandbox.runner.link_process import SOCKET_NAME

WORDS_BYTES_MAX: Final = 8192
CLOSE_S: Final = 5.0
FOLDER_PREFIX: Final = "gloveport-link-"
_ENVIRONMENT: Final = MappingProxyType({"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"})


class LinkError(OSError):
    """There is no way to the engine; `kind` says which part is to be mended."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(words)
        self.kind, self.words = kind, words


class Link:
    """One way, opened when it is first needed. Its folder (0700) is made and removed with it. Blocking."""

    def __init__(self, plan: LinkPlan) -> None:
        self._plan = plan
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """The path of the socket that leads to the engine; empty while the way does not stand."""
        return "" if self._folder is None else str(self._folder / SOCKET_NAME)

    @property
    def is_open(self) -> bool:
        """Whether the process that holds the way lives."""
        return self._process is not None and self._process.poll() is None

    def open(self) -> str:
        """Stand the way up, if it does not stand; its address. Raises `LinkError`."""
        if not self.is_open:
            self.close()
            self._start()
        return self.address

    def close(self) -> None:
        """End the process and remove the folder."""
        process, self._process = self._process, None
        if process is not None:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            try:
                process.wait(CLOSE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _start(self) -> None:
        # Not among the data: a socket there would be in the way of whoever copies them.
        own = os.environ.get("XDG_RUNTIME_DIR", "")
        self._folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=own if os.path.isdir(own) else None))
        program = Path(__file__).with_name("link_process.py")
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_ENVIRONMENT,
            cwd=self._folder,
            start_new_session=True,
            restore_signals=True,
        )
        self._process = process
        if process.stdin is None or process.stdout is None:
            raise LinkError("settings", "the process of the way has no pipes")
        try:
            values = {name: getattr(self._plan, name) for name in LinkPlan.__slots__}
            process.stdin.write(json.dumps(values).encode() + b"\n")
            process.stdin.flush()
            said = json.loads(process.stdout.readline(WORDS_BYTES_MAX) or b"{}")
        except (OSError, ValueError) as error:
            said = {"kind": "settings", "words": str(error)}
        if not said.get("ready"):
            self.close()
            raise LinkError(str(said.get("kind", "settings")), str(said.get("words", "the way ended without a word")))

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


def stands(address: str) -> bool:
    """Whether somebody listens at a way's socket, and in a folder that is this user's alone.

    A way that is gone left its name free in a folder where others may write.
    """
    try:
        found = os.lstat(os.path.dirname(address))
    except OSError:
        return False
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return is_own and can_connect(address)
