"""Other sandboxes of the field, started as their own command lines start them, for a row beside ours.

Purpose: bare bubblewrap, the engine's `run`, the codex sandbox and ASRT (sandbox-runtime) in the same run as ours.
Invariant: nothing is installed unless GLOVEPORT_OTHERS names a folder for it, which lies outside the tree; what does
not work here is left out by name.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.bench.processes import pss_mib
from tests.kit.engines import TestEngine

from gloveport.sandbox.backends.bubblewrap import find_binaries
from gloveport.sandbox.runner import tree
from gloveport.sandbox.runner.engine_api import EngineSocket

FOLDER: Final = "GLOVEPORT_OTHERS"
PACKAGES: Final = ("@openai/codex@0.171.0", "@anthropic-ai/sandbox-runtime@0.0.83")
INSTALL_S: Final = 600
RUN_S: Final = 60
SETTLED_S: Final = 3.0
_PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/sbin"


@dataclass
class Other:
    """One command line that runs its further words in a sandbox."""

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: Path
    times_ms: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def start(self) -> None:
        """One run of `true`, with its time."""
        began = time.perf_counter()
        done = subprocess.run(
            [*self.argv, "true"], env=self.environment, cwd=self.cwd, capture_output=True, timeout=RUN_S, check=False
        )
        self.times_ms.append((time.perf_counter() - began) * 1000)
        if done.returncode != 0:
            self.failures.append(done.stderr.decode("utf-8", "replace").strip()[-200:])

    def measure_idle(self, engine: TestEngine) -> float:
        """MiB (proportional) of all processes that one run of `sleep` keeps."""
        argv = [*self.argv, "sleep", "60"]
        with subprocess.Popen(argv, env=self.environment, cwd=self.cwd, stdout=-3, stderr=-3) as process:
            time.sleep(SETTLED_S)
            pids = {process.pid, *(one.pid for one in tree.find_descendants(process.pid))}
            for container in EngineSocket(str(engine.socket)).call("GET", "/containers/json"):
                pids |= of_container(str(container["Id"]))
            total = sum(pss_mib(pid) for pid in pids)
            process.terminate()
            for one in tree.find_descendants(process.pid):
                tree.send_signal(one.pid, one.start_ticks, 9)
        return total


def of_container(container: str) -> set[int]:
    """The processes that name a container, and theirs."""
    found: set[int] = set()
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            named = container.encode() in Path(f"/proc/{entry}/cmdline").read_bytes()
        except OSError:
            continue
        if named:
            found |= {int(entry), *(one.pid for one in tree.find_descendants(int(entry)))}
    return found


def find_others(engine: TestEngine, scratch: Path) -> list[Other]:
    """Those that run `true` here."""
    found = []
    for other in _candidates(engine, scratch):
        other.start()
        if other.failures:
            print(f"{other.name} is left out: {other.failures[0]}")
            continue
        other.times_ms.clear()
        found.append(other)
    return found


def _candidates(engine: TestEngine, scratch: Path) -> Iterator[Other]:
    home = scratch / "home"
    home.mkdir()
    plain = {"PATH": _PATH, "HOME": str(home)}
    binaries = find_binaries()
    if binaries:
        words = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all", "--die-with-parent")
        yield Other("bare bwrap", (binaries[0].path, *words), plain, scratch)
    images = EngineSocket(str(engine.socket)).call("GET", "/images/json")
    if images:
        image = images[0]["RepoTags"][0]
        words = ("-H", engine.choice.host, "run", "--rm", "--network", "none", "-v", "/usr:/usr:ro", image)
        yield Other("docker run", ("docker", *words), plain, scratch)
    else:
        print("docker run is left out: its image comes with our docker rung, which takes no part")
    folder = _installed()
    if folder is None:
        return
    programs = {**plain, "PATH": f"{folder}/bin:{_PATH}", "CODEX_HOME": str(home)}
    for program in folder.glob("node_modules/@openai/codex-*/vendor/*/bin/codex"):
        yield Other("codex sandbox", (str(program), "sandbox", "--"), programs, scratch)
    yield Other("ASRT (srt)", ("node", str(folder / "node_modules/.bin/srt")), programs, scratch)


def _installed() -> Path | None:
    """The folder of the others' packages, filled once; None where none is named or npm is not there."""
    named = os.environ.get(FOLDER, "")
    npm = shutil.which("npm")
    if not named or npm is None:
        print(f"the codex sandbox and ASRT are left out: {FOLDER} names no folder for them, or there is no npm")
        return None
    folder = Path(named).resolve()
    if not (folder / "node_modules").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text("{}")
        argv = [npm, "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", *PACKAGES]
        subprocess.run(argv, cwd=folder, check=True, timeout=INSTALL_S)
    _link_programs(folder)
    return folder


def _link_programs(folder: Path) -> None:
    """What ASRT looks for by name: our bubblewrap, the ripgrep that came with codex, and Debian's socat."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    wanted = {"bwrap": [one.path for one in find_binaries()]}
    wanted["rg"] = [shutil.which("rg") or "", *map(str, folder.glob("node_modules/@openai/codex-*/vendor/*/*/rg"))]
    if shutil.which("socat") is None and not (folder / "debian/usr/bin/socat").exists():
        (folder / "debian").mkdir(exist_ok=True)
        script = "apt-get download -qq socat && dpkg-deb -x socat_*.deb ."
        subprocess.run(["sh", "-c", script], cwd=folder / "debian", check=False, timeout=INSTALL_S, stderr=-3)
    wanted["socat"] = [shutil.which("socat") or "", str(folder / "debian/usr/bin/socat")]
    for name, places in wanted.items():
        place = next((one for one in places if one and os.access(one, os.X_OK)), None)
        if place is not None and not (programs / name).exists():
            (programs / name).symlink_to(os.path.realpath(place))
