"""The Python client against a real endpoint: types, failures, and views that stay equal."""

import asyncio
import gc
import os
import socket
import typing
from pathlib import Path

import anyio
import pytest
from tests.kit.memory_backend import MemoryBackend, run_daemon, upsert
from tests.kit.raw_client import until

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.base import Empty, WireModel
from gloveport.protocol.wire.framing import MESSAGE_BYTES_MAX
from gloveport.protocol.wire.methods import METHODS
from gloveport.protocol.wire.reducer import View
from gloveport.protocol.wire.session import SessionListParams, SessionStartParams
from gloveport.protocol.wire.turn import TurnStartParams
from gloveport.server.client.calls import Calls
from gloveport.server.client.connect import connect
from gloveport.server.client.follow import Follow, Update
from gloveport.server.client.link import Link


def test_the_overloads_are_the_method_table() -> None:
    """Every method has exactly the types of the table, and no other method is offered."""
    offered: dict[str, tuple[type[WireModel], type[WireModel]]] = {}
    for overload in typing.get_overloads(Calls.call):
        hints = typing.get_type_hints(overload)
        params = next(kind for kind in (typing.get_args(hints["params"]) or (hints["params"],)) if kind)
        for name in typing.get_args(hints["method"]):
            assert name not in offered
            offered[name] = (params, hints["return"])
    assert offered == {name: (method.params, method.result) for name, method in METHODS.items()}


async def test_calls_give_typed_results_and_typed_failures() -> None:
    """A result is of the table's type; a refusal has code, number, words, hint and data."""
    async with run_daemon() as daemon, connect(daemon.socket, client_name="me") as client:
        info = await client.call("session/start", SessionStartParams(client_request_id="1", root="/r", title="t"))
        assert (info.title, info.root) == ("t", "/r")
        again = await client.call("session/start", SessionStartParams(client_request_id="1", root="/r", title="t"))
        assert again == info
        assert len((await client.call("session/list", SessionListParams())).sessions) == 1
        assert daemon.backend.callers[-1].client_name == "me"
        assert (client.server.version, client.server.epoch, client.server.deciding) == ("0.1.0", 7, False)
        with pytest.raises(GloveportError) as told:
            await client.call("daemon/stop", Empty())
        assert told.value.code is ErrorCode.DECISION_TOKEN
        assert told.value.hint


async def test_the_token_lets_decide() -> None:
    """With the token the same call is taken."""
    async with run_daemon() as daemon, connect(daemon.socket, token=daemon.token) as client:
        assert client.server.deciding
        assert isinstance(await client.call("daemon/stop"), Empty)


async def test_nobody_there_and_not_ours(tmp_path: Path) -> None:
    """A typed word each, before a key is sent."""
    with pytest.raises(GloveportError) as told:
        async with connect(tmp_path / "no" / "daemon.sock"):
            pass
    assert told.value.code is ErrorCode.UNREACHABLE
    async with run_daemon() as daemon:
        os.chmod(daemon.socket.parent, 0o755)
        with pytest.raises(GloveportError) as told:
            async with connect(daemon.socket, token=daemon.token):
                pass
        assert told.value.code is ErrorCode.UNSAFE_DIRECTORY
        assert daemon.endpoint.clients == 0
        os.chmod(daemon.socket.parent, 0o700)


async def test_a_failure_of_the_caller_stays_itself() -> None:
    """The block's own exception is not wrapped, and nothing is left open."""
    async with run_daemon() as daemon:
        with pytest.raises(ZeroDivisionError):
            async with connect(daemon.socket):
                raise ZeroDivisionError
        await until(lambda: daemon.endpoint.clients == 0)


async def test_cancelled_and_timed_out_calls_are_cancelled_at_the_daemon() -> None:
    """Neither leaves work behind, and the connection goes on."""
    async with run_daemon() as daemon, connect(daemon.socket) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client._link.ask, "test/wait", {})
            await until(lambda: daemon.backend.started == 1)
            tasks.cancel_scope.cancel()
        await until(lambda: daemon.backend.cancelled == 1)

        async def time_out() -> None:
            with anyio.fail_after(None) as limit:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(client._link.ask, "test/wait", {})
                    await until(lambda: daemon.backend.started == 2)
                    limit.deadline = anyio.current_time()  # it has arrived over there

        with pytest.raises(TimeoutError):
            await time_out()
        await until(lambda: daemon.backend.cancelled == 2)
        assert await client.call("session/list", SessionListParams())


async def test_a_question_that_the_daemon_would_not_read_ends_at_once() -> None:
    """The refusal of a message over the limit names no question: it is not sent, and the link goes on."""
    async with run_daemon() as daemon, connect(daemon.socket) as client:
        params = SessionStartParams.model_construct(client_request_id="1", root="/r", title="t" * MESSAGE_BYTES_MAX)
        with pytest.raises(GloveportError) as told:
            await client.call("session/start", params)
        assert told.value.code is ErrorCode.TOO_LARGE
        assert (await client.call("session/list", SessionListParams())).sessions == ()


@pytest.mark.parametrize(("field", "value"), [("provider", 1 << 70), ("title", "half a pair \ud800")])
async def test_a_question_that_no_message_can_hold_is_refused_here(field: str, value: object) -> None:
    """A number beyond 64 bits, text that is none: a typed error, and the link goes on."""
    async with run_daemon() as daemon, connect(daemon.socket) as client:
        params = {"clientRequestId": "1", "root": "/r", field: value}
        with pytest.raises(GloveportError) as told:
            await client._link.ask("session/start", params)
        assert told.value.code is ErrorCode.INVALID_PARAMS
        assert (await client.call("session/list", SessionListParams())).sessions == ()


async def test_a_daemon_that_goes_away_is_told_to_everybody_who_waits() -> None:
    """Open calls and followers end with UNREACHABLE; so do later ones."""
    backend = MemoryBackend()
    backend.open_session("s")
    async with run_daemon(backend) as daemon, connect(daemon.socket) as client, client.follow("s") as follow:
        await in_sync(follow)
        waiting = asyncio.create_task(client._link.ask("test/wait", {}))
        await until(lambda: backend.started == 1)
        daemon.stop.set()
        with pytest.raises(GloveportError) as told:
            await anext(follow)
        assert told.value.code is ErrorCode.UNREACHABLE
        with pytest.raises(GloveportError) as told:
            await waiting
        assert told.value.code is ErrorCode.SHUTTING_DOWN
        with pytest.raises(GloveportError) as told:
            await client.call("session/list", SessionListParams())
        assert told.value.code is ErrorCode.UNREACHABLE


async def in_sync(follow: Follow) -> Update:
    """Take updates until nothing is missing."""
    async with asyncio.timeout(20):
        async for update in follow:
            if update.in_sync:
                return update
    raise AssertionError("it ended")


async def test_two_clients_end_with_the_daemons_digest() -> None:
    """One from the start, one that joins in the middle with a small window and a short snapshot."""
    backend = MemoryBackend(snapshot_items=3)
    backend.open_session("s")
    for number in range(1200):
        backend.tell("s", upsert(f"message/{number}", "message.user", text=f"{number} é😀"))
    async with (
        run_daemon(backend) as daemon,
        connect(daemon.socket) as one,
        connect(daemon.socket) as two,
        one.follow("s") as first,
    ):
        assert (await anext(first)).began_anew
        await in_sync(first)
        backend.busy.add("session/s")
        await one.call("turn/start", TurnStartParams(session_id="s", client_request_id="1", text="héllo😀"))
        async with two.follow("s", window_bytes=4096) as second:
            backend.tell_text("s", *("x😀" * 100 for _ in range(500)))
            backend.busy.clear()
            backend.tell_text("s", "end")
            await in_sync(first)
            await in_sync(second)
            assert first.view.digest() == second.view.digest() == backend.views["session/s"].digest()
            assert first.view.items() == second.view.items()
            assert first.cursor == second.cursor == first.durable


async def test_reconnect_goes_on_from_cursor_and_view() -> None:
    """Another connection, the same view: only what is missing is sent."""
    backend = MemoryBackend()
    backend.open_session("s")
    async with run_daemon(backend) as daemon:
        async with connect(daemon.socket) as client, client.follow("s") as follow:
            await in_sync(follow)
        backend.tell_text("s", "while", " away")
        async with (
            connect(daemon.socket) as client,
            client.follow("s", after=follow.cursor, view=follow.view) as again,
        ):
            update = await in_sync(again)
            assert not update.began_anew
            assert [event.seq for event in update.events] == [3, 4]
            assert again.view.digest() == backend.views["session/s"].digest()


async def test_another_digest_begins_anew() -> None:
    """A view that went wrong on this side is noticed at rest and mended."""
    backend = MemoryBackend()
    backend.open_session("s")
    async with run_daemon(backend) as daemon, connect(daemon.socket) as client, client.follow("s") as follow:
        await in_sync(follow)
        follow.view.apply(10_000_000, [upsert("planted", "x")])
        backend.tell_text("s", "a")
        assert (await anext(follow)).began_anew
        await in_sync(follow)
        assert follow.view.digest() == backend.views["session/s"].digest()
        assert backend.hub.followed_streams == 1


async def test_a_daemon_one_can_never_agree_with_is_given_up() -> None:
    """No beginning anew for ever."""

    class Lying(MemoryBackend):
        def digest(self, stream: str, seq: int, first: int) -> str | None:
            return "f" * 64

    backend = Lying()
    backend.open_session("s")
    async with run_daemon(backend) as daemon, connect(daemon.socket) as client, client.follow("s") as follow:
        with pytest.raises(GloveportError) as told:
            async for _ in follow:
                pass
        assert told.value.code is ErrorCode.INTERNAL


async def test_a_view_that_cannot_be_joined_begins_anew() -> None:
    """A client that resumes with a view shorter than its cursor says gets a snapshot, not a hole."""
    backend = MemoryBackend()
    backend.open_session("s")
    backend.tell_text("s", "abc")
    async with run_daemon(backend) as daemon:
        async with connect(daemon.socket) as client, client.follow("s") as follow:
            await in_sync(follow)
        backend.tell_text("s", "def")
        async with connect(daemon.socket) as client, client.follow("s", after=follow.cursor, view=View()) as again:
            assert (await anext(again)).began_anew
            await in_sync(again)
            assert again.view.digest() == backend.views["session/s"].digest()


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_connection_that_dies_under_a_call_leaves_no_noise(*, cancelled: bool) -> None:
    """The daemon goes away while a call is still being written, cancelled or not: one typed end, nothing printed."""
    printed: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: printed.append(str(context["message"])))
    ours, theirs = socket.socketpair()
    link = Link(*await asyncio.open_unix_connection(sock=ours))
    reading = asyncio.create_task(link.run())
    asking = asyncio.create_task(link.ask("session/list", {"title": "x" * 8_000_000}))
    await asyncio.sleep(0)
    theirs.close()
    await asyncio.wait({reading})
    if cancelled:
        asking.cancel()
    await asyncio.wait({asking})
    assert asking.cancelled() or isinstance(asking.exception(), GloveportError)
    del asking, link
    gc.collect()
    await asyncio.sleep(0)
    assert printed == []
