"""What every session of a daemon shares.

Purpose: the services an actor needs, handed in by the composition root.
Invariant: clock and identifiers enter the daemon here and in the transports alone.
Must never: be reached through a global.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import anyio
from anyio.abc import TaskGroup

from gloveport.protocol.journal.envelope import StoredEvent
from gloveport.sandbox.contract import Availability, Sandbox
from gloveport.server.engine.daemon_facts import DaemonFacts
from gloveport.server.engine.editors import Editors, NoEditors
from gloveport.server.engine.keeping import Form, make_form
from gloveport.server.engine.label_book import LabelBook
from gloveport.server.engine.pacing import Pacing
from gloveport.server.engine.rights import Rights
from gloveport.server.engine.session_rules import SessionRules
from gloveport.server.engine.way_out import WaysOut
from gloveport.server.journal.blobs import BlobStore
from gloveport.server.journal.store import Journal
from gloveport.server.models.contract import Provider
from gloveport.server.policy.reading import Reading
from gloveport.server.policy.rules.ruleset import RuleSet
from gloveport.server.secrets.detect import Redactor
from gloveport.server.tools.toolbox import Toolbox
from gloveport.server.version import build_version
from gloveport.server.workspace.facade import SessionWorkspace


class Publisher(Protocol):
    """Who is told of appended events, and of the end of a stream; never waits."""

    def publish(self, stream: str, events: Sequence[StoredEvent], durable_seq: int) -> None: ...

    def end(self, stream: str, reason: str) -> None: ...


class Auditor(Protocol):
    """Who keeps the audit trail."""

    async def take(self, events: Sequence[StoredEvent]) -> None:
        """Write the audit lines of these events."""


class Providers(Protocol):
    """Where models come from."""

    def provider(self, name: str, model: str) -> Provider:
        """The configured provider. Raises GloveportError (MODEL_UNKNOWN, MODEL_AUTH)."""

    def lane(self, name: str, model: str) -> str | None:
        """What all requests to the same provider under the same key share; null when nothing outside is asked."""


class Sandboxes(Protocol):
    """The rungs of this machine."""

    def backend(self, name: str) -> Sandbox:
        """The rung of this name. Raises GloveportError (SANDBOX_UNAVAILABLE)."""

    async def availability(self, name: str) -> Availability:
        """What a real trial run found, remembered for the daemon's life."""


@dataclass(frozen=True, slots=True)
class Room:
    """The shared services.

    `create_workspace(root, session_id)` takes the snapshot; `keep_workspace(session_id)` is called once the session is
    in the journal; `open_workspace(session_id)` finds it again. `now_us`: UTC
    microseconds; `new_id`: a fresh identifier with a prefix; `python`: the interpreter for test runs where the
    workspace has none; `read_only_roots`: folders a jail may always read; `sleep`: lets seconds pass.
    """

    journal: Journal
    blobs: BlobStore
    publisher: Publisher
    auditor: Auditor
    providers: Providers
    sandboxes: Sandboxes
    rules: RuleSet
    toolbox: Toolbox
    redactor: Redactor
    tasks: TaskGroup
    now_us: Callable[[], int]
    new_id: Callable[[str], str]
    create_workspace: Callable[[str, str], Awaitable[SessionWorkspace]]
    keep_workspace: Callable[[str], Awaitable[None]]
    open_workspace: Callable[[str], Awaitable[SessionWorkspace]]
    python: str
    read_only_roots: tuple[str, ...]
    ways: WaysOut
    """How runs reach what the user lets them reach."""
    build: str = field(default_factory=build_version)
    """The mark of this program's files: snapshots of another build are folded anew."""
    form: Form = field(default_factory=make_form)
    """How a state is kept."""
    editors: Editors = field(default_factory=NoEditors)
    """What is open in editors, and the door to change it there."""
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    rights: Rights = field(default_factory=Rights)
    """What the user allowed in every session of a folder."""
    reading: Reading = field(init=False)
    """Which paths may be read without being asked about, by the rules."""

    session_rules: SessionRules = field(init=False)
    """The rules in force in a session that has some of its own."""
    daemon: DaemonFacts = field(init=False)
    """Facts that belong to no session."""
    labels: LabelBook = field(init=False)
    """With which label content was written, over sessions."""
    pacing: Pacing = field(init=False)
    """Breakers and lines before what all sessions share."""

    def latest_us(self, clock: int | None = None) -> int:
        """How late it is for what ends at a moment, when the clock says `clock` or now: it never goes back."""
        return self.journal.latest(self.now_us() if clock is None else clock)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reading", Reading(self.rules))
        object.__setattr__(self, "session_rules", SessionRules(self.rules, self.reading))
        object.__setattr__(self, "daemon", DaemonFacts(self.journal, self.now_us, self.auditor.take))
        object.__setattr__(self, "labels", LabelBook(self.journal, self.daemon))
        object.__setattr__(self, "pacing", Pacing(self.now_us, self.daemon.tell))
