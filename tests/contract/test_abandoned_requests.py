"""Requests under way when their connection ends: one reply each, even when the client takes its time to read."""

import asyncio

import pytest
from tests.kit.memory_backend import run_daemon
from tests.kit.raw_client import RawClient, until

from gloveport.protocol.errors import ERRORS, ErrorCode
from gloveport.server.transports.lsp.limits import Limits


@pytest.mark.parametrize("end", ["stop", "exit"])
async def test_an_answer_that_comes_too_late_is_not_a_second_one(end: str) -> None:
    """Replies wait for room while the end comes; requests that finish meanwhile were told of the end already."""
    async with run_daemon(limits=Limits(finish_grace_s=100)) as daemon:
        client = await RawClient.open(daemon.socket)
        await client.initialize()
        for name in range(4):
            await client.send({"jsonrpc": "2.0", "id": name, "method": "test/wait"})
        await until(lambda: daemon.backend.started == 4)
        for name in range(4, 7):
            await client.send({"jsonrpc": "2.0", "id": name, "method": "test/large"})
        await until(lambda: len(daemon.backend.callers) == 7)
        if end == "stop":
            daemon.stop.set()
        else:
            await client.send({"jsonrpc": "2.0", "method": "exit"})
        for _ in range(20):
            await asyncio.sleep(0)  # both sides are of one loop: the end has begun, and waits for the reader
        daemon.backend.gate.set()
        for _ in range(20):
            await asyncio.sleep(0)
        answers: dict[int, list[int]] = {name: [] for name in range(7)}
        while (message := await client.recv()) is not None:
            answers[message["id"]].append(message.get("error", {}).get("code", 0))
        assert all(len(codes) == 1 for codes in answers.values()), repr(answers)
        assert {codes[0] for codes in answers.values()} <= {0, ERRORS[ErrorCode.SHUTTING_DOWN].rpc}
        await client.close()
