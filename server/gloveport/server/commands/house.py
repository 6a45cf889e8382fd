"""What the handlers of commands may touch.

Purpose: the services behind the wire methods, handed in by the composition root.
Invariant: the decision token is checked by the transport before a handler is called.
Must never: hold a connection.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from gloveport.protocol.wire.place import SandboxDoctorResult, SandboxInfo
from gloveport.server.audit.log import AuditLog
from gloveport.server.commands.buffers import BufferTable
from gloveport.server.commands.trust import Trust
from gloveport.server.engine.retention import Retention
from gloveport.server.engine.sessions import Sessions
from gloveport.server.settings import Settings


@dataclass(frozen=True, slots=True)
class Facts:
    """What the daemon says of itself. Times are UTC microseconds."""

    pid: int
    program_version: str
    generation: int
    started_at: int
    data_dir: Path
    journal_path: Path
    audit_path: Path
    settings_path: Path
    older_data: tuple[Path, ...] = ()
    """Where other data of this user was found when this directory was a fresh one."""


@dataclass(frozen=True, slots=True)
class Rungs:
    """The ladder as the wire shows it."""

    names: tuple[str, ...]
    describe: Callable[[str], Awaitable[SandboxInfo]]
    doctor: Callable[[str], Awaitable[SandboxDoctorResult]]
    find_image: Callable[[str, str], Awaitable[str]]
    faults: Callable[[Collection[str]], Awaitable[Mapping[str, str]]]
    """Of these rungs those that do not work, each with why and what to do; one whose trial goes on is left out."""


@dataclass(frozen=True, slots=True)
class House:
    """All services. `stop` asks the daemon to end; `clients` counts connections; `check_fit` refuses a folder that is
    no project."""

    sessions: Sessions
    settings: Callable[[], Settings]
    trust: Trust
    check_fit: Callable[[Path], None]
    rungs: Rungs
    audit: AuditLog
    facts: Facts
    buffers: BufferTable
    model_label: Callable[[str, str], str]
    clients: Callable[[], int]
    stop: Callable[[], None]
    retention: Retention
