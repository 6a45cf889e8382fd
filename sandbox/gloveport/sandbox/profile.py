"""What a run may see and use, as pure data.

Purpose: the generated configuration of one lease; a backend turns it into isolation or refuses it.
Invariant: construction validates shapes; two equal profiles mean the same jail.
Must never: read the environment, the disk or the workspace.
"""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum, unique
from types import MappingProxyType
from typing import Final

from gloveport.protocol.jail.requests import BoundPlan

OUTPUT_BYTES_MIN: Final = 1024
MOUNTS_MAX: Final = 64
COVERED_MAX: Final = 2_000
ENVIRONMENT_BYTES_MAX: Final = 128 * 1024


@unique
class Access(StrEnum):
    """How a mount may be used inside.

    With `COPY_ON_WRITE` what is written goes into the mount's `layer` and never into its source; a rung that has no
    layers shows it read-only, and its description of the run says so.
    """

    READ_ONLY = "ro"
    READ_WRITE = "rw"
    COPY_ON_WRITE = "cow"


@dataclass(frozen=True, slots=True)
class Mount:
    """A host path `source` shown inside at `target`; both absolute and normal.

    `layer`, for `COPY_ON_WRITE` alone, is a host folder with the folders `upper` and `work`; it takes what is written.
    """

    source: str
    target: str
    access: Access
    layer: str = ""

    def __post_init__(self) -> None:
        if bool(self.layer) != (self.access is Access.COPY_ON_WRITE):
            raise ValueError("a mount has a layer if it is copied on write, and only then")
        for path in (self.source, self.target, *filter(None, (self.layer,))):
            if not path.startswith("/") or posixpath.normpath(path) != path or "\0" in path:
                raise ValueError(f"a mount needs absolute, normal paths: {path!r}")


@dataclass(frozen=True, slots=True)
class Limits:
    """Hard limits of one run: seconds and bytes; None asks for no limit of that kind."""

    wall_s: float
    idle_s: float | None = None
    cpu_s: int | None = None
    memory_bytes_max: int | None = None
    processes_max: int | None = None
    file_bytes_max: int | None = None
    open_files_max: int = 1024
    output_bytes_max: int = 1024 * 1024
    tmp_bytes_max: int = 256 * 1024 * 1024

    def __post_init__(self) -> None:
        values = (self.wall_s, self.idle_s, self.cpu_s, self.memory_bytes_max, self.processes_max,
                  self.file_bytes_max, self.open_files_max, self.tmp_bytes_max)  # fmt: skip
        if any(value is not None and value <= 0 for value in values):
            raise ValueError("a limit is positive or None")
        if self.output_bytes_max < OUTPUT_BYTES_MIN:
            raise ValueError(f"output_bytes_max is at least {OUTPUT_BYTES_MIN}")


@dataclass(frozen=True, slots=True)
class Forward:
    """A fixed port of the jail's loopback that leads to one place outside."""

    local_port: int
    host: str
    port: int

    @property
    def is_address(self) -> bool:
        """True if the host is an address and no name."""
        return ":" in self.host or self.host.rpartition(".")[2].isdecimal()

    @property
    def place(self) -> str:
        """`host:port`, an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class WayOut:
    """The one way out of a jail: the host's folder with the socket that leads there, and fixed ports inside.

    `has_bundle`: the folder holds roots of trust that programs inside are pointed to.
    """

    folder: str
    forwards: tuple[Forward, ...] = ()
    has_bundle: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """One jail. `egress` lists what may be reached, `host:port` and options; empty means loopback alone.

    `image` names what a container is made from in place of the rung's own; rungs without images refuse it.
    `way_out` is where the list is held; a profile has both or neither.
    `covered` are files below the mounts, by their path inside, whose content is not shown.
    `tool_kind` is "build" (compilers, test runners, debuggers) or "small" (parsers, plots, queries); `hand` names the
    row of the breaker's thresholds, empty takes the tool kind's.
    `bounds` are sources of writable mounts that may take so much; a run that passes one is ended.
    """

    label: str
    tool_kind: str
    mounts: tuple[Mount, ...]
    working_dir: str
    limits: Limits
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    egress: tuple[str, ...] = ()
    grace_s: float = 2.0
    covered: tuple[str, ...] = ()
    hand: str = ""
    way_out: WayOut | None = None
    image: str = ""
    bounds: tuple[BoundPlan, ...] = ()

    def __post_init__(self) -> None:
        if len(self.covered) > COVERED_MAX:
            raise ValueError(f"at most {COVERED_MAX} covered files")
        if any(not path.startswith("/") or posixpath.normpath(path) != path or "\0" in path for path in self.covered):
            raise ValueError("a covered file has an absolute, normal path")
        if self.tool_kind not in ("build", "small"):
            raise ValueError("tool_kind is build or small")
        if len(self.mounts) > MOUNTS_MAX:
            raise ValueError(f"at most {MOUNTS_MAX} mounts")
        if not self.working_dir.startswith("/"):
            raise ValueError("working_dir is absolute")
        if sum(len(key) + len(value) for key, value in self.environment.items()) > ENVIRONMENT_BYTES_MAX:
            raise ValueError("environment is too large")
        if any("=" in key or not key or "\0" in key + value for key, value in self.environment.items()):
            raise ValueError("environment names are non-empty and hold no '='")


def is_below(path: str, root: str) -> bool:
    """Whether `path` equals `root` or lies beneath it, component by component."""
    return path == root or path.startswith(root if root.endswith("/") else root + "/")
