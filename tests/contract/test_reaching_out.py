"""A rung that cannot hold a list of hosts lets nothing through, and says so before anything is asked."""

from typing import Any

import pytest
from tests.kit.room import SECRET, call, new_home


@pytest.mark.parametrize(
    "wanted",
    [
        call("run_command", argv=["true"], network=["api.example:443"]),
        call("run_tests", network=["api.example:443"]),
        call("http_request", url="https://api.example/x"),
    ],
    ids=["run_command", "run_tests", "http_request"],
)
async def test_no_list_no_way_out(wanted: dict[str, Any]) -> None:
    with new_home() as home:
        home.play({"when": {"turns_total": 0}, "calls": [wanted]}, {"text": "Done."})
        async with home.room() as kit:
            session = await kit.begin()
            await kit.send(session)
            await kit.idle(session)
            events = await kit.events(session)
    ended = next(one["payload"] for one in events if one["type"] == "ToolExecutionFinished")
    assert ended["outcome"] == "invalid"
    assert "cannot let api.example:443 through and keep the rest out" in ended["text"]
    assert not any(one["type"] == "ApprovalRequested" for one in events)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"url": "https://user@api.example/"}, "host is not taken"),
        ({"url": "https://127.1/"}, "host is not taken"),
        ({"url": "ftp://api.example/"}, "not a plain http or https URL"),
        ({"url": "https://api.example/a b"}, "not a plain http or https URL"),
        ({"url": "https://api.example/#x"}, "not a plain http or https URL"),
        ({"url": "https://api.example/", "headers": {"Host": "other.example"}}, "not yours to set"),
        ({"url": "https://api.example/", "headers": {"X": "a\r\nHost: b"}}, "no header"),
        ({"url": "https://api.example/", "method": "CONNECT"}, "wrong arguments"),
        ({"url": f"https://api.example/?q={SECRET}"}, "known to be a secret"),
        ({"url": "https://api.example/", "body": f"x {SECRET} y", "method": "POST"}, "known to be a secret"),
    ],
)
async def test_a_request_is_spelled_plainly_and_holds_no_secret(arguments: dict[str, Any], words: str) -> None:
    with new_home() as home:
        home.play({"when": {"turns_total": 0}, "calls": [call("http_request", **arguments)]}, {"text": "Done."})
        async with home.room() as kit:
            session = await kit.begin()
            await kit.send(session)
            await kit.idle(session)
            events = await kit.events(session)
    assert words in next(one["payload"]["text"] for one in events if one["type"] == "ToolExecutionFinished")
