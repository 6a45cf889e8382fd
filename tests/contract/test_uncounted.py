"""A limit of tokens before a real server that ends its streams before it counts them, and a user who stops them."""

from pathlib import Path

import pytest
from tests.kit.daemon import request_id, run_turn, running_daemon, send, start_session, trust
from tests.kit.model_server import Behaviour, ModelServer

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.session import SessionBudgetParams
from gloveport.protocol.wire.turn import TurnCancelParams
from gloveport.server.client.connect import Client

LIMIT = 50
LONG = ("word " * 50,)
PIECES = 38
HOW = {
    "counted": Behaviour(uses_max=1_000),
    "cut": Behaviour(text=LONG, repeat=40, cut_after=PIECES, uses_max=1_000),
    "ended": Behaviour(text=LONG, repeat=40, end_after=PIECES, uses_max=1_000),
    "stopped": Behaviour(text=LONG, repeat=40, silence_after=PIECES, uses_max=1_000),
    "refused": Behaviour(status=400, body={"error": {"message": "no"}}, uses_max=1_000),
}


ROOM = {"counted": 3, "cut": 1, "ended": 1, "stopped": 1, "refused": 4}
"""How many requests are made of four messages, each of some twenty tokens if it is counted."""


async def _stop_in_mid_stream(client: Client, session_id: str, turn_id: str | None) -> None:
    follow = client.follow(session_id)
    async for _ in follow:
        answers = [item for item in follow.view.items() if item["id"].startswith("answer/")]
        if answers and answers[-1]["fields"].get("text"):
            break
    params = TurnCancelParams(client_request_id=request_id(), session_id=session_id, turn_id=turn_id)
    await client.call("turn/cancel", params)


async def _talk(client: Client, session_id: str, *, stops: bool) -> str:
    """Say it four times; why the last one was refused, empty where none was."""
    for _ in range(4):
        try:
            turn_id = await send(client, session_id, "say a lot")
        except GloveportError as error:
            return f"{error.code}: {error.message}"
        if stops:
            await _stop_in_mid_stream(client, session_id, turn_id)
        await run_turn(client, session_id)
    return ""


@pytest.mark.parametrize("how", HOW)
async def test_no_stream_that_ends_before_it_is_counted_is_free(tmp_path: Path, how: str) -> None:
    """Three whole answers fit; of cut or stopped ones there is one request. Refused ones cost nothing."""
    root = tmp_path / "p"
    root.mkdir()
    async with ModelServer([HOW[how]]) as server:
        url = server.base_url("openai")
        with running_daemon(started=False) as daemon:
            daemon.write_settings(f'[[models]]\nprovider = "openai"\nmodel = "m"\nbase_url = "{url}"\nkey_env = "K"\n')
            daemon.start(K="k")
            async with daemon.client("A") as client:
                await trust(client, root)
                session_id = (await start_session(client, root)).session_id
                limits = SessionBudgetParams(
                    client_request_id=request_id(), session_id=session_id, session_tokens=LIMIT
                )
                await client.call("session/budget", limits)
                why = await _talk(client, session_id, stops=how == "stopped")
                shown = await client.call("session/show", SessionParams(session_id=session_id))
                asked = len(server.requests)
    assert asked == ROOM[how]
    spent = shown.input_tokens + shown.output_tokens
    if how == "refused":
        assert (why, spent, shown.uncounted_tokens) == ("", 0, 0)
        return
    uncounted = 0 if how == "counted" else spent
    assert (shown.uncounted_tokens, shown.turn_uncounted_tokens) == (uncounted, uncounted)
    about = "about " if uncounted else ""
    assert why == f"{ErrorCode.BUDGET}: this session has used {about}{spent:,} of {LIMIT} tokens"
    arrived = 0 if how == "counted" else PIECES * len(LONG[0]) // 8
    assert spent > max(LIMIT, arrived)
