"""kill -9 of the daemon in a pause before a retry: the next one waits for the rest of it, asks then, and once."""

from pathlib import Path
from typing import Any

from tests.kit.daemon import running_daemon, send, start_session, trust
from tests.kit.model_process import model_process

from gloveport.protocol.wire.session import SessionExportParams
from gloveport.server.client.connect import Client
from gloveport.server.client.follow import Follow

BUSY = {
    "status": 429,
    "headers": {"retry-after": "4"},
    "body": {"error": {"message": "slow down", "type": "rate_limit_error"}},
    "uses_max": 1,
}


async def turn_becomes(follow: Follow, *states: str) -> str:
    """Follow until the turn is in one of these states; which."""
    async for _ in follow:
        turns = [item["fields"]["state"] for item in follow.view.items() if item["kind"] == "turn"]
        if turns and turns[-1] in states:
            return str(turns[-1])
    raise AssertionError("the stream ended")


async def exported(client: Client, session_id: str) -> list[dict[str, Any]]:
    """The record of a session."""
    page = await client.call("session/export", SessionExportParams(session_id=session_id, after_seq=0, limit=200))
    return list(page.events)


async def test_d08_kill_in_a_pause_waits_for_the_rest_of_it(tmp_path: Path) -> None:
    """The moment stands in the record: not earlier, not anew, one request more, and the session ends its turn."""
    root = tmp_path / "project"
    root.mkdir()
    with (
        running_daemon(started=False) as daemon,
        model_process(daemon.home, "busy", BUSY, {"text": ["Here again."]}) as entry,
    ):
        daemon.write_settings(entry)
        daemon.start()
        async with daemon.client() as client:
            await trust(client, root)
            session_id = (await start_session(client, root, provider="openai", model="busy")).session_id
            await send(client, session_id, "go")
            assert await turn_becomes(client.follow(session_id), "retrying") == "retrying"
        daemon.kill()
        daemon.start()
        async with daemon.client() as client:
            assert await turn_becomes(client.follow(session_id), "completed", "failed") == "completed"
            events = await exported(client, session_id)
    (pause,) = [event for event in events if event["type"] == "RetryScheduled"]
    (began,) = [event for event in events if event["type"] == "RetryStarted"]
    assert pause["payload"]["backoff_us"] >= 4_000_000
    assert began["at"] >= pause["payload"]["due_at"]
    assert [event["type"] for event in events].count("ModelRequestStarted") == 2
