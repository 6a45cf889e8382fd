"""The views of a session without a daemon.

Purpose: answer the methods that read a session's stream from the journal's files alone.
Invariant: the answer is the daemon's own; the data is left exactly as it was found.
Must never: start a daemon, or take the lease.
"""

from pathlib import Path
from typing import Any, TypeVar

from gloveport.protocol.ids import SessionId, session_stream
from gloveport.protocol.wire import views as wire
from gloveport.protocol.wire.base import WireModel
from gloveport.server.app.live_settings import secret_values
from gloveport.server.app.replay import find_session
from gloveport.server.commands.price_list import load_prices
from gloveport.server.commands.view_answers import SHOWN, Aids, metrics_answer
from gloveport.server.commands.views import addresses_of, models_of, page_is_full
from gloveport.server.engine.projecting import READ_BYTES, READ_EVENTS, feed, never
from gloveport.server.journal.offline import OfflineJournal
from gloveport.server.secrets.detect import Redactor
from gloveport.server.session.views.metrics import Metrics, MetricsProjection
from gloveport.server.session.views.placed import Projection
from gloveport.server.session.views.transcript import TranscriptProjection
from gloveport.server.settings import Settings, load_settings

P = TypeVar("P", bound=Projection[Any])


def answer_offline(data_dir: Path, settings_home: Path, method: str, params: WireModel) -> WireModel:
    """Answer `method` for the session that `params` names by a part of its id. Raises GloveportError."""
    settings = load_settings(settings_home)
    redact = Redactor(secret_values(settings)).redact
    with OfflineJournal.open(data_dir) as journal:
        if isinstance(params, wire.MetricsShowParams):
            return _metrics(journal, params)
        session_id = find_session(journal, getattr(params, "session_id", ""))
        named = params.model_copy(update={"session_id": session_id})
        if isinstance(named, wire.TranscriptParams):
            return _transcript(journal, named, redact if named.redacted else str)
        return _shown(journal, settings, method, named, redact)


def _shown(journal: OfflineJournal, settings: Settings, method: str, params: Any, redact: Any) -> WireModel:
    shown = SHOWN[method]
    projection = shown.begin()
    _read_into(journal, params.session_id, projection)
    prices = load_prices(addresses_of(settings, models_of(projection)))
    return shown.answer(projection, params, Aids(prices, redact))


def _transcript(journal: OfflineJournal, params: wire.TranscriptParams, redact: Any) -> wire.TranscriptResult:
    projection = TranscriptProjection(params.format)
    next_seq = _read_into(journal, params.session_id, projection, params.after_seq, page_is_full)
    return wire.TranscriptResult(session_id=params.session_id, text=redact(projection.drain()), next_seq=next_seq)


def _metrics(journal: OfflineJournal, params: wire.MetricsShowParams) -> wire.MetricsShowResult:
    if params.session_id is not None:
        names = [find_session(journal, params.session_id)]
    else:
        names = [row.session_id for row in journal.sessions(params.sessions)]
    total = Metrics()
    for name in names:
        projection = MetricsProjection()
        _read_into(journal, name, projection)
        total.join(projection.finish())
    return metrics_answer(total, len(names))


def _read_into(
    journal: OfflineJournal, session_id: str, projection: P, after_seq: int = 0, enough: Any = never
) -> int | None:
    stream = session_stream(SessionId(session_id))
    while events := journal.read(stream, after_seq, READ_EVENTS, READ_BYTES):
        if (stopped := feed(projection, events, enough)) is not None:
            return stopped
        after_seq = events[-1].seq
    return None
