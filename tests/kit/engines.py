"""Real container engines, started by hand for tests.

Purpose: one Debian `dockerd` a test process, in a folder of its own, away from the machine's network rules.
Invariant: it is ended by its own id when the process ends; no container, mount or helper of it stays; a test that
starts one is marked `engine`, so that `make test-engines` runs it and `make test` does not.
"""

import atexit
import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import pytest
from tests.kit.require import require

from gloveport.sandbox.backends.docker_choice import EngineChoice

ELSEWHERE_NAME: Final = "GLOVEPORT_ENGINES_ELSEWHERE"
"""Set by `make test`: whoever starts an engine there lacks the mark."""
START_S: Final = 60.0
STOP_S: Final = 30.0
GVISOR_RUNTIME: Final = "runsc"
IMAGE: Final = "gloveport/python"
PACKER: Final = Path(__file__).resolve().parents[2] / "scripts" / "image.py"
_PATH: Final = "/usr/sbin:/sbin:/usr/bin:/bin"


class TestEngine:
    """One engine and its folder."""

    __test__ = False

    def __init__(self, *options: str) -> None:
        if os.environ.get(ELSEWHERE_NAME) == "1":
            pytest.fail("A test that starts an engine is marked `engine`, or its rungs come from `on_rungs`.")
        self.folder = Path(tempfile.mkdtemp(prefix="gpe-", dir="/tmp"))
        self.socket = self.folder / "front" / "docker.sock"
        self.socket.parent.mkdir(mode=0o700)
        self._write_config()
        self._options = options
        self._begin()

    def _begin(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", _dockerd(), *self._arguments(), *self._options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": _PATH, "HOME": str(self.folder)},
                start_new_session=True,
            )
        self._await_answer()

    def kill(self) -> None:
        """End the engine as a crash does; containers go on where it was started so that they outlive it."""
        self.process.kill()
        self.process.wait()
        self.socket.unlink()

    def begin_again(self) -> None:
        """The same engine anew, on its own data."""
        # Its helper died with it; where nobody reaps, the dead one still has its number and would be waited for.
        for name in ("pid", "exec/containerd/containerd.pid"):
            (self.folder / name).unlink(missing_ok=True)
        self._begin()

    @property
    def choice(self) -> EngineChoice:
        """How a backend names this engine."""
        return EngineChoice(host=f"unix://{self.socket}")

    def stop(self) -> None:
        """End the engine, then whatever names its folder, then the folder's mounts and the folder."""
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_S)
        for pid in self._helpers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        for mount in self.mounts():
            subprocess.run(["umount", "-l", mount], check=False, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def mounts(self) -> list[str]:
        """What is mounted below the engine's folder, innermost first."""
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
        return [path for line in reversed(lines) if (path := line.split()[1]).startswith(f"{self.folder}/")]

    def _helpers(self) -> list[int]:
        """Processes whose command line names the engine's folder."""
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                with contextlib.suppress(OSError):
                    if str(self.folder).encode() in Path(f"/proc/{entry}/cmdline").read_bytes():
                        found.append(int(entry))
        return found

    def _arguments(self) -> list[str]:
        folder = self.folder
        return [
            "--config-file", f"{folder}/daemon.json", "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec",
            "-H", f"unix://{self.socket}", "--pidfile", f"{folder}/pid", "--bridge=none", "--iptables=false",
            "--ip6tables=false", "--exec-opt", "native.cgroupdriver=cgroupfs",
        ]  # fmt: skip

    def _write_config(self) -> None:
        runsc = shutil.which("runsc", path=_PATH)
        arguments = ["--platform=ptrace", "--network=none", "--oci-seccomp"]
        runtimes = {} if runsc is None else {GVISOR_RUNTIME: {"path": runsc, "runtimeArgs": arguments}}
        (self.folder / "daemon.json").write_text(json.dumps({"runtimes": runtimes}), encoding="utf-8")

    def _await_answer(self) -> None:
        limit = time.monotonic() + START_S
        while not self.socket.exists():
            if self.process.poll() is not None or time.monotonic() > limit:
                said = (self.folder / "log").read_text(encoding="utf-8", errors="replace")[-2000:]
                self.stop()
                require(False, f"dockerd does not start here: {said}")
            time.sleep(0.05)


@functools.cache
def shared_engine() -> TestEngine:
    """The engine of this test process; it ends with the process. Skips or fails where there is none."""
    require(os.getuid() == 0, "an engine of one's own is started by root")
    engine = TestEngine()
    atexit.register(engine.stop)
    return engine


@functools.cache
def hands_image() -> str:
    """The reference of the hands' image in the shared engine, packed from this machine's Debian packages."""
    require(shutil.which("dpkg-query") is not None, "the image is packed from Debian packages")
    packed = subprocess.run([sys.executable, str(PACKER)], check=True, capture_output=True).stdout
    engine = shared_engine()
    argv = ["docker", "-H", engine.choice.host, "import", "-", IMAGE]
    subprocess.run(argv, input=packed, check=True, capture_output=True, env={"PATH": _PATH, "HOME": str(engine.folder)})
    return IMAGE


def require_gvisor() -> None:
    """The runtime runsc; skips or fails without it."""
    require(shutil.which("runsc", path=_PATH) is not None, "runsc is not installed")


def _dockerd() -> str:
    found = shutil.which("dockerd", path=_PATH)
    require(found is not None, "dockerd is not installed (docker.io)")
    return str(found)
