"""The views of a session without a daemon.

Purpose: answer the methods that read a session's stream from files alone: a data directory, a database, an export.
Invariant: the answer is the daemon's own; the data is left exactly as it was found.
Must never: start a daemon, or take the lease.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from gloveport.protocol.wire import views as wire
from gloveport.protocol.wire.base import WireModel
from gloveport.server.app.live_settings import secret_values
from gloveport.server.app.log_files import SessionLog, open_log
from gloveport.server.app.replay import opened_log
from gloveport.server.commands.price_list import prices_of
from gloveport.server.commands.view_answers import SHOWN, Aids, metrics_answer
from gloveport.server.commands.views import models_of, page_is_full
from gloveport.server.engine.projecting import feed, never
from gloveport.server.journal.offline import OfflineJournal
from gloveport.server.secrets.detect import Redactor
from gloveport.server.session.views.metrics import Metrics, MetricsProjection
from gloveport.server.session.views.placed import Projection
from gloveport.server.session.views.transcript import TranscriptProjection
from gloveport.server.settings import Settings, load_settings

P = TypeVar("P", bound=Projection[Any])


def answer_offline(data_dir: Path, settings_home: Path, method: str, params: WireModel) -> WireModel:
    """Answer `method` for the session that `params` names: a part of its id, or a file. Raises GloveportError."""
    settings = load_settings(settings_home)
    redact = Redactor(secret_values(settings)).redact
    if isinstance(params, wire.MetricsShowParams) and params.session_id is None:
        return _metrics_of_many(data_dir, params.sessions)
    with opened_log(data_dir, getattr(params, "session_id", "") or "") as log:
        named = params.model_copy(update={"session_id": log.session_id})
        if isinstance(named, wire.MetricsShowParams):
            return metrics_answer(_read(log, MetricsProjection()).finish(), 1)
        if isinstance(named, wire.TranscriptParams):
            return _transcript(log, named, redact if named.redacted else str)
        return _shown(log, settings, method, named, redact)


def _shown(log: SessionLog, settings: Settings, method: str, params: Any, redact: Callable[[str], str]) -> WireModel:
    shown = SHOWN[method]
    projection = _read(log, shown.begin())
    prices = prices_of(settings, models_of(projection))
    return shown.answer(projection, params, Aids(prices, redact))


def _transcript(log: SessionLog, params: wire.TranscriptParams, redact: Callable[[str], str]) -> wire.TranscriptResult:
    projection = TranscriptProjection(params.format)
    next_seq: int | None = None
    for page in log.events():
        rest = (event for event in page if event.seq > params.after_seq)
        if (next_seq := feed(projection, rest, page_is_full)) is not None:
            break
    return wire.TranscriptResult(session_id=params.session_id, text=redact(projection.drain()), next_seq=next_seq)


def _metrics_of_many(data_dir: Path, sessions: int) -> wire.MetricsShowResult:
    total = Metrics()
    with OfflineJournal.open(data_dir) as journal:
        names = [row.session_id for row in journal.sessions(sessions)]
        for name in names:
            total.join(_read(open_log(journal, name), MetricsProjection()).finish())
    return metrics_answer(total, len(names))


def _read(log: SessionLog, projection: P) -> P:
    for page in log.events():
        feed(projection, page, never)
    return projection
