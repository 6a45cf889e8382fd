"""The engine's side of the way out: places, notes, the log, loans."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gloveport.sandbox.contract import SandboxError
from gloveport.sandbox.egress.hosts import Authority
from gloveport.sandbox.egress.watch import Contact, ContactEnd
from gloveport.server.engine.way_out import LOG_FILE, OLD_LOG_FILE, PLACES_MAX, Notes, WaysOut, clear_ways, erase_lines
from gloveport.server.secrets.value import Secret
from gloveport.server.settings import Credential


def ways(folder: Path, *places: str, credentials: tuple[Credential, ...] = ()) -> WaysOut:
    """Ways out with these settings, at a time that stands still."""
    return WaysOut(folder, lambda: 7, known=lambda: places, credentials=lambda: credentials)


def contact(number: int, place: Authority | None, *, allowed: bool = True) -> Contact:
    return Contact(f"c1-{number}", "http", "GET", place, allowed, "listed")


def test_settings_say_how_a_place_is_reached_and_never_that_another_is(tmp_path: Path) -> None:
    opened = ways(tmp_path, "db.example:5432 private raw", "*.idx.example:443 methods=GET")
    assert str(opened.entry_of("db.example:5432")) == "db.example:5432 private raw"
    assert str(opened.entry_of("a.idx.example:443")) == "a.idx.example:443 methods=GET"
    assert str(opened.entry_of("db.example:5433")) == "db.example:5433"
    for wrong in ("db.example", "*.idx.example:443", "DB.example:5432", "x.example:443 raw", "bücher.example:443", ""):
        with pytest.raises(SandboxError):
            opened.entry_of(wrong)


def test_notes_sum_up_by_place_and_verdict() -> None:
    notes, place = Notes(), Authority("a.example", 443)
    for number in range(3):
        notes.decided(contact(number, place))
    notes.decided(contact(3, place, allowed=False))
    notes.decided(contact(4, None, allowed=False))
    notes.ended(ContactEnd("c1-0", "1.2.3.4", 10, 20, 200, "", ("forge",)))
    notes.ended(ContactEnd("c1-2", "1.2.3.4", 1, 2, 200, "", ("forge",)))
    notes.ended(ContactEnd("unknown", "1.2.3.4", 1000, 1000, 200, ""))
    (fact,) = notes.fact("t1", 1, "c1")
    told = [(one.host, one.port, one.allowed, one.attempts, one.sent_bytes, one.received_bytes) for one in fact.places]
    assert told == [("a.example", 443, True, 3, 11, 22), ("a.example", 443, False, 1, 0, 0), ("", 0, False, 1, 0, 0)]
    assert fact.places[0].credentials == ("forge",)
    assert notes.words() == "[blocked by sandbox: a.example:443 (listed); what names no place:0 (listed)]"
    assert fact.places[0].trace_id == "c1-0"


def test_notes_are_bounded() -> None:
    notes = Notes()
    assert notes.fact("t1", 1, "c1") == ()
    for number in range(PLACES_MAX + 5):
        notes.decided(contact(number, Authority(f"a{number}.example", 443), allowed=False))
    (fact,) = notes.fact("t1", 1, "c1")
    assert (len(fact.places), fact.left_out) == (PLACES_MAX, 5)


async def test_what_was_written_down_is_recalled_whatever_else_the_log_holds(tmp_path: Path) -> None:
    opened, notes = ways(tmp_path), Notes()
    for call_id in ("c1", "c11"):
        opened.note(
            {"at": 1, "call_id": call_id, "trace_id": f"{call_id}-1", "way": "http", "method": "GET",
             "host": "a.example", "port": 80, "allowed": True, "reason": "listed"}
        )  # fmt: skip
        opened.note(
            {"at": 2, "call_id": call_id, "trace_id": f"{call_id}-1", "address": "1.2.3.4", "sent_bytes": 3,
             "received_bytes": 4, "status": 200, "cut": "", "credentials": []}
        )  # fmt: skip
    (tmp_path / OLD_LOG_FILE).write_text('{"call_id":"c1"}\nc1 no json\n')
    with (tmp_path / LOG_FILE).open("a") as file:
        file.write('{"call_id": "c1", "trace_id": "c1-2", "allo')
    opened.recall("c1", notes)
    (fact,) = notes.fact("t1", 1, "c1")
    assert [(one.attempts, one.sent_bytes, one.received_bytes) for one in fact.places] == [(1, 3, 4)]
    assert (tmp_path / LOG_FILE).stat().st_mode & 0o777 == 0o600


def test_the_log_is_put_aside_when_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gloveport.server.engine.way_out.LOG_BYTES_MAX", 100)
    opened = ways(tmp_path)
    for number in range(20):
        opened.note({"number": number, "more": "x" * 30})
    logs = [tmp_path / OLD_LOG_FILE, tmp_path / LOG_FILE]
    kept = "".join(path.read_text() for path in logs if path.exists())
    assert json.loads(kept.splitlines()[-1])["number"] == 19
    assert len(kept) < 400


def test_a_credential_is_lent_for_its_place_alone_and_under_a_new_name_each_time(tmp_path: Path) -> None:
    forge = Credential("forge", Secret("the-real-value"), "api.example:443", methods=("GET",), path="/v1/")
    opened = ways(tmp_path, credentials=(forge, replace(forge, name="short", value=Secret("x"))))
    first, second = (opened.lend("forge")[0] for _ in range(2))
    assert first.stand_in != second.stand_in
    assert "the-real-value" not in repr(first) + first.stand_in
    assert first.is_for(Authority("api.example", 443), "GET", "/v1/x")
    for name, words in (("none", "there are: forge, short"), ("short", "too short")):
        with pytest.raises(SandboxError, match=words):
            opened.lend(name)


def test_a_deleted_sessions_lines_leave_the_log(tmp_path: Path) -> None:
    erase_lines(tmp_path, "s-1")
    opened = ways(tmp_path)
    for session_id in ("s-1", "s-11", "s-1", "s-2"):
        opened.note({"at": 1, "session_id": session_id, "host": f"{session_id}.example"})
    (tmp_path / OLD_LOG_FILE).write_bytes((tmp_path / LOG_FILE).read_bytes())
    erase_lines(tmp_path, "s-1")
    for name in (LOG_FILE, OLD_LOG_FILE):
        told = [json.loads(line)["host"] for line in (tmp_path / name).read_text().splitlines()]
        assert told == ["s-11.example", "s-2.example"]
    assert (tmp_path / LOG_FILE).stat().st_mode & 0o777 == 0o600


def test_what_an_earlier_daemon_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "egress" / "call-1" / "way").mkdir(parents=True)
    clear_ways(tmp_path)
    clear_ways(tmp_path)
    assert not (tmp_path / "egress").exists()
