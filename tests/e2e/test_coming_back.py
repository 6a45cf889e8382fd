"""A run goes on while its watchers come and go: a real daemon, real sockets, real connections that are dropped."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.daemon import Daemon, running_daemon, send, start_session, trust

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.envelope import cursor_at, decode_cursor, encode_cursor
from gloveport.protocol.wire.reducer import View
from gloveport.protocol.wire.session import SessionDeleteParams
from gloveport.server.client.connect import Client
from gloveport.server.client.follow import Follow

WORDS = "".join(f"word {number} 😀 " for number in range(60))
STEPS = [
    {"when": {"user_contains": "break"}, "text": "Half of it", "error": {"error_class": "quota", "message": "gone"}},
    {"text": WORDS, "chunk_chars": 12, "delay_ms": 10},
]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon whose model speaks slowly, or breaks off."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"name": "slow", "steps": STEPS}))
    with running_daemon(script) as running:
        yield running


async def begin(client: Client, tmp_path: Path) -> str:
    """A session."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("a\n")
    await trust(client, root)
    return (await start_session(client, root)).session_id


def copied(view: View) -> View:
    """A client's view as it would have kept it."""
    kept = View()
    kept.load(json.loads(json.dumps(view.items())), view.watermark, view.first)
    return kept


def states(view: View, kind: str) -> list[Any]:
    """The states of all items of a kind."""
    return [item["fields"]["state"] for item in view.items() if item["kind"] == kind]


async def until_ended(follow: Follow) -> list[int]:
    """Follow until the turn has ended and the digests agree; the seqs of what came."""
    seqs: list[int] = []
    async for update in follow:
        seqs += [event.seq for event in update.events]
        if update.in_sync and set(states(follow.view, "turn")) & {"completed", "failed"}:
            return seqs
    raise AssertionError("the stream ended")


async def test_d06_the_link_drops_while_events_go_on(daemon: Daemon, tmp_path: Path) -> None:
    """Back with the last cursor, whichever it was: what was missed comes once, in order, to the same view."""
    async with daemon.client("watch") as watch:
        session_id = await begin(watch, tmp_path)
        follow = watch.follow(session_id)
        places: list[tuple[str, View]] = []
        async with daemon.client("dropped", deciding=False) as dropped:
            lost = dropped.follow(session_id)
            assert await send(watch, session_id, "go") is not None
            async for update in lost:
                places.append((update.cursor, copied(lost.view)))
                if any(event.type == "ModelTextDelta" for event in update.events):
                    break  # and the connection goes, in the middle of the answer
        assert states(lost.view, "message.assistant") == ["streaming"]
        async for update in follow:
            places.append((update.cursor, copied(follow.view)))
            if update.in_sync and states(follow.view, "turn") == ["completed"]:
                break
        last = follow.view.watermark
        assert len(places) > 6
        for cursor, view in places:
            seq = decode_cursor(cursor).seq
            async with daemon.client("back", deciding=False) as back, back.follow(
                session_id, after=cursor, view=view
            ) as again:  # fmt: skip
                assert await until_ended(again) == list(range(seq + 1, last + 1))
                assert again.view.items() == follow.view.items()
                assert again.view.digest() == follow.view.digest()


async def test_d06_a_new_client_in_the_error_state_sees_the_text_and_why(daemon: Daemon, tmp_path: Path) -> None:
    """Who comes when all is over, also over a restart, sees what arrived, that it broke off, and what to do."""
    async with daemon.client("first") as first:
        session_id = await begin(first, tmp_path)
        follow = first.follow(session_id)
        await send(first, session_id, "break")
        await until_ended(follow)
        seen, cursor = copied(follow.view), follow.cursor
        assert cursor is not None
    for restarts in range(2):
        if restarts:
            daemon.stop()
            daemon.start()
        async with daemon.client("late", deciding=False) as late:
            whole = late.follow(session_id)
            await until_ended(whole)
            assert states(whole.view, "turn") == ["failed"]
            (turn,) = [item["fields"] for item in whole.view.items() if item["kind"] == "turn"]
            assert turn["message"]
            assert turn["hint"]
            (answer,) = [item["fields"] for item in whole.view.items() if item["kind"] == "message.assistant"]
            assert (answer["text"], answer["state"]) == ("Half of it", "interrupted")
            assert whole.view.items() == seen.items()
            place = decode_cursor(cursor)
            foreign = encode_cursor(cursor_at(place.epoch + 7, place.seq, place.digest + "0" * 32))
            async with late.follow(session_id, after=foreign, view=copied(View())) as anew:
                first_update = await anew.__anext__()
                assert first_update.began_anew
                await until_ended(anew)
                assert anew.view.digest() == seen.digest()


async def test_whoever_follows_a_deleted_session_is_told(daemon: Daemon, tmp_path: Path) -> None:
    """At once, also who had not read what came before; what was shown stays, and nothing is asked about it again."""
    async with daemon.client("owner") as owner, daemon.client("watcher", deciding=False) as watcher:
        session_id = await begin(owner, tmp_path)
        await send(owner, session_id, "break")
        async with owner.follow(session_id) as near, watcher.follow(session_id, newest_only=True) as far:
            await until_ended(near)
            await far.__anext__()
            await owner.call("session/delete", SessionDeleteParams(client_request_id="d", session_id=session_id))
            for follow in (near, far):
                with pytest.raises(GloveportError) as told:
                    await until_refused(follow)
                assert told.value.code is ErrorCode.SESSION_UNKNOWN
                assert "the user deleted it" in told.value.message
                assert follow.subscription_id is None
                with pytest.raises(GloveportError) as later:
                    await follow.__anext__()
                assert later.value.code is ErrorCode.SESSION_UNKNOWN
            assert states(near.view, "turn") == ["failed"]
        assert await send(owner, await begin_again(owner, tmp_path), "go") is not None  # all connections still serve


async def until_refused(follow: Follow) -> None:
    """Follow until nothing follows any more."""
    async for _ in follow:
        pass


async def begin_again(client: Client, tmp_path: Path) -> str:
    """Another session on the same folder."""
    return (await start_session(client, tmp_path / "project")).session_id
