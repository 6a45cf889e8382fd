"""Replay and export without a daemon: any place of any log, whatever file it lies in, and nothing is changed."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.journal_first import EVENTS, write_first
from tests.kit.journal_kit import opened
from tests.kit.room import SECRET, Home, call, new_home

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import SessionId, session_stream
from gloveport.protocol.wire.methods import METHODS
from gloveport.server.app.offline_views import answer_offline
from gloveport.server.app.replay import VIEWS, export_session, replay_session
from gloveport.server.journal.schema import backup_path

DONE = {"text": "Done."}


@pytest.fixture
def home() -> Iterator[Home]:
    """An empty home."""
    with new_home() as made:
        yield made


async def recorded(home: Home, text: str = "go") -> tuple[str, list[dict[str, Any]], str]:
    """A session with a call and an answer: its id, its events and the digest of its view."""
    home.play({"when": {"turn": 0}, "calls": [call("list_files", path=".")]}, DONE)
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session, text)
        await kit.idle(session)
        return session, await kit.events(session), kit.actor(session).view.digest()


def picture(directory: Path) -> dict[str, tuple[int, int, int]]:
    """What a reader could change."""
    return {one.name: (one.stat().st_ino, one.stat().st_size, one.stat().st_mtime_ns) for one in os.scandir(directory)}


async def test_replay_at_every_event(home: Home) -> None:
    """The fold, the items and the state at each event are those of its prefix; the last is the daemon's own view."""
    session, events, digest = await recorded(home)
    before = picture(home.data)
    for view in VIEWS:
        shown = replay_session(home.data, session, len(events), view, lambda text: text.replace("Done", "X")).shown
        assert "Done" not in json.dumps(shown), view
    counts = []
    for at in range(1, len(events) + 1):
        report = replay_session(home.data, session, at, "items")
        assert (report.events, report.chain) == (at, "holds")
        assert len(report.shown) == report.items
        counts.append(report.items)
        (state,) = replay_session(home.data, session, at, "state").shown
        assert state["session_id"] == session
        shown = replay_session(home.data, session, at, "events").shown
        assert [line["seq"] for line in shown] == list(range(1, at + 1))
    assert counts == sorted(counts)
    assert replay_session(home.data, session).view_digest == digest
    assert picture(home.data) == before


@pytest.mark.parametrize("view", sorted(VIEWS))
async def test_every_view_of_every_event(home: Home, view: str) -> None:
    """Each is plain JSON at each event, the last as at the end of the whole log."""
    session, events, _digest = await recorded(home)
    for at in range(1, len(events) + 1):
        shown = replay_session(home.data, session, at, view).shown
        assert json.loads(json.dumps(shown)) == list(shown)
    assert replay_session(home.data, session, None, view).shown == shown
    assert shown


@pytest.mark.parametrize(("at", "view"), [(0, ""), (10_000, ""), (None, "nonsense")])
async def test_what_there_is_not_is_said(home: Home, at: int | None, view: str) -> None:
    """An event beyond the end, a view that there is not: typed, with what there is."""
    session, events, _digest = await recorded(home)
    if at == 0:
        assert replay_session(home.data, session, at).events == 0
        return
    with pytest.raises(GloveportError) as caught:
        replay_session(home.data, session, at, view)
    assert caught.value.code is ErrorCode.INVALID_PARAMS
    assert (", ".join(VIEWS) if view else str(len(events))) in caught.value.message


async def test_an_export_is_redacted_and_replays_from_its_file(home: Home, tmp_path: Path) -> None:
    """What it holds is the log without known secrets; from the file alone the fold is the same, and so is the chain."""
    (home.folder / "config.toml").write_text("")
    os.environ["GLOVEPORT_TEST_SECRET"] = SECRET
    try:
        session, events, _digest = await recorded(home, f"the key is {SECRET}")
        lines = list(export_session(home.data, home.folder, session, False))
        raw = list(export_session(home.data, home.folder, session, True))
    finally:
        del os.environ["GLOVEPORT_TEST_SECRET"]
    assert [line["seq"] for line in lines] == list(range(1, len(events) + 1))
    assert SECRET not in json.dumps(lines)
    for name, exported in (("redacted", lines), ("raw", raw)):
        file = tmp_path / f"{name}.ndjson"
        file.write_text("".join(json.dumps(line) + "\n" for line in exported))
        report = replay_session(tmp_path / "nowhere", str(file))
        assert (report.session_id, report.events, report.chain) == (session, len(events), "holds")
        if name == "raw":
            assert report.view_digest == replay_session(home.data, session).view_digest
    # One line more or less, or another order, is told.
    for wrong in (lines[:3] + lines[4:], [lines[1], lines[0], *lines[2:]]):
        file.write_text("".join(json.dumps(line) + "\n" for line in wrong))
        assert "broken at line" in replay_session(tmp_path, str(file)).chain
    file.write_text('{"seq": 1}\n')
    with pytest.raises(GloveportError) as caught:
        replay_session(tmp_path, str(file))
    assert caught.value.code is ErrorCode.CORRUPT


async def test_any_file_that_holds_a_log(home: Home, tmp_path: Path) -> None:
    """A data directory by its path, one database file, a copy of an earlier version."""
    session, events, _digest = await recorded(home)
    copy = tmp_path / "copy.db"
    shutil.copyfile(home.data / "journal.db", copy)
    for named in (home.data, copy):
        report = replay_session(tmp_path / "nowhere", str(named))
        assert (report.session_id, report.events) == (session, len(events))
    directory = tmp_path / "old"
    write_first(directory)
    async with opened(directory):
        pass
    report = replay_session(directory, str(backup_path(directory / "journal.db", 1)), view="events")
    assert (report.events, report.unknown, report.chain) == (EVENTS, EVENTS, "holds")


async def test_d04_a_session_that_the_list_lacks_is_found_by_its_log(home: Home) -> None:
    """The index is a help, not a condition."""
    session, events, _digest = await recorded(home)
    async with opened(home.data) as journal:
        await journal._writing().run(lambda c: c.execute("DELETE FROM session_index").fetchall())
    assert replay_session(home.data, "").events == len(events)
    assert replay_session(home.data, session[-6:]).session_id == session
    with pytest.raises(GloveportError) as caught:
        replay_session(home.data, "none")
    assert caught.value.code is ErrorCode.SESSION_UNKNOWN


async def test_a_damaged_payload_is_exported_as_unknown(home: Home) -> None:
    """What cannot be read as text cannot be redacted, so it is left out and its hash stays."""
    session, _events, _digest = await recorded(home)
    async with opened(home.data) as journal:
        sql = "UPDATE event SET payload=x'7b00' WHERE stream=? AND seq=4"
        stream = session_stream(SessionId(session))
        await journal._writing().run(lambda c: c.execute(sql, (stream,)).fetchall())
    lines = list(export_session(home.data, home.folder, session, False))
    assert lines[3]["payload"] is None
    assert lines[4]["payload"] is not None


@pytest.mark.parametrize("method", ["usage/show", "trace/show", "plan/show", "task/show", "sample/list"])
async def test_the_views_read_an_export_like_the_log(home: Home, tmp_path: Path, method: str) -> None:
    """From the data, and from a raw export of it moved elsewhere: the same answer, under the session's own id."""
    session, _events, _digest = await recorded(home)
    file = tmp_path / "export.ndjson"
    file.write_text("".join(json.dumps(line) + "\n" for line in export_session(home.data, home.folder, session, True)))
    asked = METHODS[method].params.model_validate({"session_id": "-"})
    answers = [
        answer_offline(home.data, home.folder, method, asked.model_copy(update={"session_id": name}))
        for name in (session, str(file))
    ]
    assert answers[0] == answers[1]
    assert session in answers[0].model_dump_json()
