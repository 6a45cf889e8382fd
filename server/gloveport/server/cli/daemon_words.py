"""Words for who serves here.

Purpose: the answer of `daemon/status` as people read it.
Invariant: every field has words of its own; a size is told in a unit, a moment by the user's clock.
Must never: print, or ask anybody for anything.
"""

from collections.abc import Iterable

from gloveport.protocol.wire.place import DaemonStatusResult, DataInfo
from gloveport.server.cli.phrases import local_time, since, sized

UNKNOWN = "not known now"


def status_lines(found: DaemonStatusResult, now_s: float) -> Iterable[tuple[str, str]]:
    """What each line is about, and what it says; `now_s` is the present in seconds UTC."""
    yield "version", f"{found.program_version}, protocol {found.protocol_version}"
    yield "process", str(found.pid)
    yield "started", f"{local_time(found.started_at)} ({since(found.started_at, now_s)})"
    yield "starts on this data so far", str(found.generation)
    yield "clients connected", str(found.clients)
    yield "turns running", str(found.running_turns)
    yield "data", found.data_dir
    yield "journal", found.journal_path
    yield "audit log", found.audit_path
    yield from _data_lines(found.data)


def _data_lines(data: DataInfo) -> Iterable[tuple[str, str]]:
    yield "sessions", UNKNOWN if data.sessions is None else str(data.sessions)
    yield "events take", UNKNOWN if data.events_bytes is None else sized(data.events_bytes)
    yield "outputs and files take", sized(data.blobs_bytes)
    yield "write-ahead log takes", sized(data.log_bytes)
    yield "saves what is done", "yes" if data.accepting else "no"
    yield "reserve for a full disk", "kept" if data.has_reserve else "spent"
