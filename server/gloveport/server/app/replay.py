"""Replay and export of a session's log without a daemon.

Purpose: fold a log anew with today's code up to any event, show any view of it there, and check its chain.
Invariant: reads only, also beside a running daemon; the same events give what a daemon shows.
Must never: perform anything that the log speaks of.
"""

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pydantic_core import to_jsonable_python

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.envelope import StoredEvent
from gloveport.server.app.live_settings import secret_values
from gloveport.server.app.log_files import LOGS, SessionLog, open_log, read_export
from gloveport.server.commands.session import exported
from gloveport.server.engine.folding import Loaded, fold_stored
from gloveport.server.engine.projecting import feed, never
from gloveport.server.journal.offline import OfflineJournal
from gloveport.server.journal.schema import DATABASE_FILE
from gloveport.server.secrets.detect import Redactor
from gloveport.server.secrets.parts import redacted_parts
from gloveport.server.session.views.context import ContextProjection
from gloveport.server.session.views.metrics import MetricsProjection
from gloveport.server.session.views.placed import Projection
from gloveport.server.session.views.plan import PlanProjection
from gloveport.server.session.views.samples import SampleProjection
from gloveport.server.session.views.task import TaskProjection
from gloveport.server.session.views.trace import TraceProjection
from gloveport.server.session.views.transcript import TranscriptProjection
from gloveport.server.session.views.usage import UsageProjection
from gloveport.server.settings import load_settings

Line = dict[str, Any]
Pages = Iterator[tuple[StoredEvent, ...]]


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What a replay found; `shown` is the view that was asked for, one object a line."""

    session_id: str
    events: int
    unknown: int
    chain: str
    chain_holds: bool
    state: str
    items: int
    view_digest: str
    shown: tuple[Line, ...] = ()


def replay_session(
    data_dir: Path, wanted: str, at: int | None = None, view: str = "", redact: Callable[[str], str] = str
) -> ReplayReport:
    """Replay a session up to event `at` (all of it without), and show a view of it there. Raises GloveportError.

    `wanted` is a part of a session's id (empty: the newest), a data directory, a database file or an export; `redact`
    takes known secrets out of what is shown.
    """
    if view and view not in VIEWS:
        raise GloveportError(ErrorCode.INVALID_PARAMS, f"there is no view {view!r}; there are: {', '.join(VIEWS)}")
    with opened_log(data_dir, wanted) as log:
        loaded = Loaded()
        for page in _up_to(log, at):
            fold_stored(loaded, page)
        if at is not None and loaded.seq < at:
            raise GloveportError(ErrorCode.INVALID_PARAMS, f"there is no event {at}; the last one is {loaded.seq}")
        chain = log.chain()
        lines = VIEWS[view](loaded, _up_to(log, at)) if view else ()
        shown = tuple(redacted_parts(line, redact) for line in lines)
    state = loaded.state
    return ReplayReport(
        session_id=log.session_id,
        events=loaded.seq,
        unknown=state.unknown_events,
        chain=chain or "holds",
        chain_holds=not chain,
        state=f"{state.phase}, goal {state.goal_revision}, {len(state.changes)} proposals",
        items=len(loaded.view),
        view_digest=loaded.view.digest(),
        shown=shown,
    )


def _up_to(log: SessionLog, at: int | None) -> Pages:
    """The log's pages up to event `at`."""
    for page in log.events():
        if at is not None and page[-1].seq >= at:
            yield tuple(event for event in page if event.seq <= at)
            return
        yield page


def known_secrets(settings_home: Path) -> Callable[[str], str]:
    """What takes the secrets out of a text that this user's settings and environment name."""
    return Redactor(secret_values(load_settings(settings_home))).redact


def export_session(data_dir: Path, settings_home: Path, wanted: str, raw: bool) -> Iterator[Line]:
    """The events of a session as they are stored, known secrets taken out unless `raw`. Raises GloveportError."""
    redact = None if raw else known_secrets(settings_home)
    with opened_log(data_dir, wanted) as log:
        for page in log.events():
            for event in page:
                yield exported(event, redact)


@contextmanager
def opened_log(data_dir: Path, wanted: str) -> Iterator[SessionLog]:
    """The log of a session by a part of its id (empty: the newest), or of a directory, a database or an export."""
    named = Path(wanted)
    if not wanted or not named.exists():
        with OfflineJournal.open(data_dir) as journal:
            yield open_log(journal, wanted)
    elif named.is_dir():
        if not (named / DATABASE_FILE).is_file():
            raise GloveportError(ErrorCode.CORRUPT, f"{named} is no data folder: it holds no journal", hint=LOGS)
        with OfflineJournal.open(named) as journal:
            yield open_log(journal, "")
    elif OfflineJournal.is_database(named):
        with OfflineJournal.open_file(named) as journal:
            yield open_log(journal, "")
    else:
        yield read_export(named)


def _items(loaded: Loaded, pages: Pages) -> Iterator[Line]:
    yield from loaded.view.items()


def _state(loaded: Loaded, pages: Pages) -> Iterator[Line]:
    plain = {field.name: getattr(loaded.state, field.name) for field in dataclasses.fields(loaded.state)}
    yield json.loads(json.dumps(to_jsonable_python(plain, fallback=str)))


def _events(loaded: Loaded, pages: Pages) -> Iterator[Line]:
    yield from (exported(event, None) for page in pages for event in page)


def _projected(make: Callable[[], Projection[Any]]) -> Callable[[Loaded, Pages], Iterator[Line]]:
    """A projection of the events as it stands there, nothing taken out and nothing priced."""

    def show(_loaded: Loaded, pages: Pages) -> Iterator[Line]:
        projection = make()
        for page in pages:
            feed(projection, page, never)
        result = to_jsonable_python(projection.finish())
        yield from result if isinstance(result, list) else ({"text": result} if isinstance(result, str) else result,)

    return show


VIEWS: Final[Mapping[str, Callable[[Loaded, Pages], Iterator[Line]]]] = MappingProxyType(
    {
        "items": _items,
        "state": _state,
        "events": _events,
        "context": _projected(ContextProjection),
        "transcript": _projected(TranscriptProjection),
        "plan": _projected(PlanProjection),
        "task": _projected(TaskProjection),
        "usage": _projected(UsageProjection),
        "trace": _projected(TraceProjection),
        "samples": _projected(SampleProjection),
        "metrics": _projected(MetricsProjection),
    }
)
"""What can be shown at any event: the items as a client has them, the folded state, the events themselves, and each
projection of them."""
