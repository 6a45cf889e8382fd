"""Replay of a session's log without a daemon.

Purpose: fold a log anew with today's code, and check its chain.
Invariant: reads only, also beside a running daemon.
Must never: perform anything that the log speaks of.
"""

from dataclasses import dataclass
from pathlib import Path

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import SessionId, session_stream
from gloveport.server.engine.folding import Loaded, fold_stored
from gloveport.server.journal.offline import OfflineJournal


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


def replay_session(data_dir: Path, wanted: str) -> ReplayReport:
    """Replay the session whose id holds `wanted` (empty: the newest). Raises GloveportError."""
    with OfflineJournal.open(data_dir) as journal:
        rows = [row for row in journal.sessions() if wanted in row.session_id]
        if not rows or (wanted and len(rows) > 1):
            words = f"{wanted!r} fits {len(rows)} sessions" if wanted else "there is no session yet"
            raise GloveportError(ErrorCode.SESSION_UNKNOWN, words, hint="See gloveport sessions.")
        session_id = rows[0].session_id
        stream = session_stream(SessionId(session_id))
        loaded = Loaded()
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
