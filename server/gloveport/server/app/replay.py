"""Replay of a session's log without a daemon.

Purpose: fold a log anew with today's code, and check its chain.
Invariant: reads only, also beside a running daemon.
Must never: perform anything that the log speaks of.
"""

from dataclasses import dataclass
from pathlib import Path

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import SessionId, session_stream
from gloveport.protocol.wire.reducer import View
from gloveport.server.engine.folding import Loaded, fold_stored
from gloveport.server.journal.offline import OfflineJournal
from gloveport.server.session.state import SessionState


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What a replay found."""

    session_id: str
    events: int
    unknown: int
    chain: str
    chain_holds: bool
    state: str
    items: int
    view_digest: str


def find_session(journal: OfflineJournal, wanted: str) -> str:
    """The session whose id holds `wanted`; the newest for an empty text. Raises SESSION_UNKNOWN."""
    found: list[str] = []
    before: int | None = None
    while rows := journal.sessions(before=before):
        before = rows[-1].order
        found += [row.session_id for row in rows if wanted in row.session_id]
        if found and not wanted:
            return found[0]
    if len(found) == 1:
        return found[0]
    words = f"{wanted!r} fits {len(found)} sessions" if wanted else "there is no session yet"
    raise GloveportError(ErrorCode.SESSION_UNKNOWN, words, hint="See gloveport sessions.")


def replay_session(data_dir: Path, wanted: str) -> ReplayReport:
    """Replay the session whose id holds `wanted` (empty: the newest). Raises GloveportError."""
    with OfflineJournal.open(data_dir) as journal:
        session_id = find_session(journal, wanted)
        stream = session_stream(SessionId(session_id))
        loaded = Loaded(SessionState(), View())
        while events := journal.read(stream, loaded.seq):
            fold_stored(loaded, events)
        chain = journal.verify(stream)
    state = loaded.state
    return ReplayReport(
        session_id=session_id,
        events=loaded.seq,
        unknown=state.unknown_events,
        chain="holds" if chain.ok else f"broken at {chain.broken_seq}: {chain.reason}",
        chain_holds=chain.ok,
        state=f"{state.phase}, goal {state.goal_revision}, {len(state.changes)} proposals",
        items=len(loaded.view),
        view_digest=loaded.view.digest(),
    )
