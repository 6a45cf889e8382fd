"""The daemon's door against raw bytes on a real socket: exactly one reply each, and nobody else is disturbed."""

import asyncio
import json
import logging
import socket
from typing import Any

import anyio
import orjson
import pytest
from tests.kit.memory_backend import MemoryBackend, run_daemon
from tests.kit.raw_client import RawClient, raw_client, until

from gloveport.protocol.errors import ERRORS, ErrorCode
from gloveport.protocol.wire.framing import encode_frame
from gloveport.protocol.wire.methods import METHODS
from gloveport.server.transports.lsp.limits import Limits


def code_of(message: Any) -> int:
    """The JSON-RPC number of an error reply that is as complete as every error must be."""
    error = message["error"]
    assert set(message) == {"jsonrpc", "id", "error"}
    assert ERRORS[ErrorCode(error["data"]["code"])].rpc == error["code"]
    assert error["data"]["hint"]
    return int(error["code"])


async def assert_lives(client: RawClient) -> None:
    """The connection still serves, and no stray reply lies in between."""
    await client.send({"jsonrpc": "2.0", "id": "alive", "method": "session/list", "params": {}})
    answer = await client.recv()
    assert answer["id"] == "alive", answer
    assert "result" in answer


BAD_BODIES = {
    "no json": (b"{nope", None, -32700),
    "empty body": (b"", None, -32700),
    "not utf-8": (b'{"jsonrpc":"2.0","id":3,"method":"\xff"}', None, -32700),
    "half a surrogate pair": (b'{"jsonrpc":"2.0","id":3,"method":"session/list","params":{"a":"\\ud800"}}', 3, -32700),
    "nested too deep": (b"[" * 100_000, None, -32700),
    "batch": (b'[{"jsonrpc":"2.0","id":1,"method":"session/list"}]', None, -32600),
    "empty batch": (b"[]", None, -32600),
    "a number": (b"42", None, -32600),
    "no version": (b'{"id":4,"method":"session/list"}', 4, -32600),
    "wrong version": (b'{"jsonrpc":"1.0","id":4,"method":"session/list"}', 4, -32600),
    "no method": (b'{"jsonrpc":"2.0","id":4}', 4, -32600),
    "method no string": (b'{"jsonrpc":"2.0","id":4,"method":7}', 4, -32600),
    "id null": (b'{"jsonrpc":"2.0","id":null,"method":"session/list"}', None, -32600),
    "id an object": (b'{"jsonrpc":"2.0","id":{},"method":"session/list"}', None, -32600),
    "unknown method": (b'{"jsonrpc":"2.0","id":4,"method":"no/such"}', 4, -32601),
    "unknown dollar request": (b'{"jsonrpc":"2.0","id":4,"method":"$/no"}', 4, -32601),
    "params missing": (b'{"jsonrpc":"2.0","id":4,"method":"session/show"}', 4, -32602),
    "params null": (b'{"jsonrpc":"2.0","id":4,"method":"session/show","params":null}', 4, -32602),
    "params a list": (b'{"jsonrpc":"2.0","id":4,"method":"session/show","params":["s"]}', 4, -32602),
    "params of another type": (
        b'{"jsonrpc":"2.0","id":4,"method":"session/show","params":{"sessionId":{}}}',
        4,
        -32602,
    ),
}


@pytest.mark.parametrize("case", BAD_BODIES)
async def test_bad_body_gets_one_reply_and_the_connection_lives(case: str) -> None:
    """Stock fault: invalid params, bad JSON and batches got no reply at all."""
    body, name, number = BAD_BODIES[case]
    async with run_daemon() as daemon, raw_client(daemon.socket) as client:
        await client.send_bytes(encode_frame(body))
        answer = await client.recv()
        assert answer["id"] == name
        assert code_of(answer) == number
        await assert_lives(client)


async def test_request_without_params_is_served() -> None:
    """Stock fault: a custom request without `params` got no reply."""
    async with run_daemon() as daemon, raw_client(daemon.socket) as client:
        await client.send_bytes(encode_frame(b'{"jsonrpc":"2.0","id":1,"method":"session/list"}'))
        assert (await client.recv())["result"]["sessions"] == []


async def test_nested_jsonrpc_key_is_data() -> None:
    """Stock fault: a payload holding a `jsonrpc` key was taken for a message of its own."""
    params = {"clientRequestId": "1", "root": "/r", "title": "t", "jsonrpc": "2.0", "more": {"jsonrpc": "2.0", "id": 9}}
    async with run_daemon() as daemon, raw_client(daemon.socket) as client:
        assert (await client.ask("session/start", params))["result"]["title"] == "t"
        await assert_lives(client)


@pytest.mark.parametrize(
    "header",
    [b"content-length", b"CONTENT-LENGTH", b"Content-Type: x; charset=utf-8\r\nContent-Length", b"Content-Length "],
)
async def test_header_names_in_any_case(header: bytes) -> None:
    """Stock fault: lower-case `content-length` was ignored."""
    body = b'{"jsonrpc":"2.0","id":1,"method":"session/list"}'
    async with run_daemon() as daemon, raw_client(daemon.socket) as client:
        await client.send_bytes(b"%b: %d\r\n\r\n%b" % (header, len(body), body))
        assert (await client.recv())["id"] == 1


async def test_message_over_the_limit_is_refused_and_skipped() -> None:
    """H05: an explicit limit with a clean reply; the connection lives. Just below the limit is served."""
    async with run_daemon(limits=Limits(message_bytes_max=200_000)) as daemon, raw_client(daemon.socket) as client:
        await client.send_bytes(encode_frame(b"x" * 200_001))
        assert code_of(await client.recv()) == ERRORS[ErrorCode.TOO_LARGE].rpc
        await assert_lives(client)


@pytest.mark.parametrize("length", [b"99999999999999", b"9" * 4000, b"-1", b"1e3", b"0x10", b"", b"5, 5"])
async def test_senseless_length_ends_the_connection_with_a_word(length: bytes) -> None:
    """Stock fault: a huge Content-Length was a MemoryError. Nothing is allocated for it here."""
    async with run_daemon() as daemon, raw_client(daemon.socket) as other, raw_client(daemon.socket) as client:
        await client.send_bytes(b"Content-Length: %b\r\n\r\n{}" % length)
        assert code_of(await client.recv()) == -32600
        assert await client.recv() is None
        await assert_lives(other)


@pytest.mark.parametrize("size", [65_535, 65_537, 1_000_000, 20_000_000])
async def test_big_messages_both_ways(size: int) -> None:
    """H05: lengths around 64 KiB and far above, with a multi-byte character on every border."""
    title = "é" * (size // 2)
    async with run_daemon() as daemon, raw_client(daemon.socket) as client:
        answer = await client.ask("session/start", {"clientRequestId": "1", "root": "/r", "title": title})
        assert answer["result"]["title"] == title


async def test_every_byte_by_itself() -> None:
    """Pieces of a message may arrive in any cut."""
    async with run_daemon() as daemon, raw_client(daemon.socket) as client:
        for byte in encode_frame(b'{"jsonrpc":"2.0","id":1,"method":"session/list"}'):
            await client.send_bytes(bytes([byte]))
            await asyncio.sleep(0)
        assert (await client.recv())["id"] == 1


async def test_before_initialize_nothing_is_served() -> None:
    """Requests are refused, notifications ignored, a second initialize refused."""
    async with run_daemon() as daemon, raw_client(daemon.socket, initialized=False) as client:
        for method in (*METHODS, "shutdown", "no/such"):
            assert code_of(await client.ask(method, {})) == -32002
        await client.send({"jsonrpc": "2.0", "method": "session/ack", "params": {"subscriptionId": "x", "seq": 1}})
        assert "result" in await client.initialize()
        assert code_of(await client.initialize()) == -32600
        assert daemon.backend.callers == []


async def test_initialize_says_who_serves() -> None:
    """Protocol version, epoch and the right to decide; document features only for who speaks of documents."""
    async with run_daemon() as daemon:
        async with raw_client(daemon.socket, initialized=False) as client:
            result = (await client.initialize(textDocument={}))["result"]
            assert result["capabilities"]["textDocumentSync"]["change"] == 2
            assert result["capabilities"]["experimental"]["gloveport"] == {
                "protocolVersion": 1,
                "epoch": 7,
                "deciding": False,
            }
        async with raw_client(daemon.socket, initialized=False) as client:
            result = (await client.initialize())["result"]
            assert set(result["capabilities"]) == {"experimental"}
            assert result["serverInfo"] == {"name": "gloveport", "version": "0.1.0"}
        async with raw_client(daemon.socket, initialized=False) as client:
            answer = await client.ask("initialize", {"initializationOptions": {"protocolVersion": 99}})
            assert code_of(answer) == ERRORS[ErrorCode.VERSION_MISMATCH].rpc


DECIDING = [name for name, method in METHODS.items() if method.decides]


@pytest.mark.parametrize("token", [None, "", "wrong", "é"])
async def test_no_decision_without_the_token(token: str | None) -> None:
    """A uid is not an authorisation: every deciding method is refused before its params are looked at."""
    async with run_daemon() as daemon, raw_client(daemon.socket, initialized=False) as client:
        assert not (await client.initialize(token))["result"]["capabilities"]["experimental"]["gloveport"]["deciding"]
        for method in DECIDING:
            assert code_of(await client.ask(method, {})) == ERRORS[ErrorCode.DECISION_TOKEN].rpc
        assert daemon.backend.callers == []


async def test_token_lets_decide() -> None:
    """In initialize, or in a proof before it; not afterwards."""
    async with run_daemon() as daemon:
        proof = {"jsonrpc": "2.0", "method": "$/gloveport/prove", "params": {"decisionToken": daemon.token}}
        async with raw_client(daemon.socket, initialized=False) as client:
            await client.initialize(daemon.token)
            assert "result" in await client.ask("daemon/stop")
        async with raw_client(daemon.socket, initialized=False) as client:
            await client.send(proof)
            await client.initialize()
            assert "result" in await client.ask("daemon/stop")
        async with raw_client(daemon.socket) as client:
            await client.send(proof)
            assert "error" in await client.ask("daemon/stop")
        assert [caller.deciding for caller in daemon.backend.callers] == [True, True]


@pytest.mark.parametrize("method", ["test/fail", "test/unwritable", "test/selfcancel"])
async def test_faults_of_ours_show_a_reference_only(method: str, caplog: pytest.LogCaptureFixture) -> None:
    """Stock fault: traceback and paths in `error.data`. The log has them under the reference."""
    caplog.set_level(logging.ERROR)
    async with run_daemon() as daemon, raw_client(daemon.socket) as client:
        answer = await client.ask(method, {})
        assert code_of(answer) == -32603
        assert set(answer["error"]["data"]) == {"code", "hint", "ref"}
        assert answer["error"]["data"]["ref"] in caplog.text
        for word in (b"Traceback", b"secret", b".py", b"object at"):
            assert word not in client.seen
        await assert_lives(client)


async def test_typed_refusal_keeps_its_code_and_plain_data() -> None:
    """The table's number and hint; data that JSON can't hold is left out."""
    async with run_daemon() as daemon, raw_client(daemon.socket) as client:
        error = (await client.ask("test/refuse"))["error"]
        assert error["code"] == ERRORS[ErrorCode.CHANGE_CONFLICT].rpc
        assert error["message"] == "changed meanwhile"
        assert error["data"] == {
            "code": "change.conflict",
            "hint": ERRORS[ErrorCode.CHANGE_CONFLICT].hint,
            "path": "a.py",
        }


async def test_invalid_params_name_the_field_and_not_the_value() -> None:
    """The words are pydantic's, the value is nobody's."""
    params = {"clientRequestId": "1", "sessionId": "s", "expectedTurnId": "t", "text": 12345678, "kind": "hush-hush"}
    async with run_daemon() as daemon, raw_client(daemon.socket) as client:
        answer = await client.ask("turn/steer", params)
        assert code_of(answer) == -32602
        named = {row["loc"]: row["msg"] for row in answer["error"]["data"]["errors"]}
        assert set(named) == {"text", "kind"}
        assert "valid string" in named["text"]
        assert b"hush-hush" not in client.seen
        assert b"12345678" not in client.seen


async def test_cancelled_requests_get_one_reply_each() -> None:
    """H10: one long request, then 50 cancelled ones; unknown ids and late cancels do nothing."""
    async with run_daemon(limits=Limits(running_max=8)) as daemon, raw_client(daemon.socket) as client:
        for name in range(51):
            await client.send({"jsonrpc": "2.0", "id": name, "method": "test/wait"})
        for name in range(1, 51):
            await client.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": name}})
        await client.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": "nobody"}})
        await client.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": None})
        answers = [await client.recv() for _ in range(50)]
        assert sorted(answer["id"] for answer in answers) == list(range(1, 51))
        assert {code_of(answer) for answer in answers} == {-32800}
        daemon.backend.gate.set()
        assert "result" in await client.recv()
        await client.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 0}})
        await assert_lives(client)
        assert daemon.backend.started <= 8
        assert daemon.backend.cancelled == daemon.backend.started - 1


async def test_an_id_in_use_is_refused_and_the_first_request_lives() -> None:
    """Two requests under one id: one refusal, one answer."""
    async with run_daemon() as daemon, raw_client(daemon.socket) as client:
        for _ in range(2):
            await client.send({"jsonrpc": "2.0", "id": 5, "method": "test/wait"})
        assert code_of(await client.recv()) == -32600
        daemon.backend.gate.set()
        assert "result" in await client.recv()


async def test_too_many_requests_are_refused_as_busy() -> None:
    """A bound on everything: what waits is bounded too."""
    limits = Limits(running_max=2, waiting_max=3)
    async with run_daemon(limits=limits) as daemon, raw_client(daemon.socket) as client:
        for name in range(7):
            await client.send({"jsonrpc": "2.0", "id": name, "method": "test/wait"})
        refused = [await client.recv() for _ in range(2)]
        assert [answer["id"] for answer in refused] == [5, 6]
        assert {code_of(answer) for answer in refused} == {ERRORS[ErrorCode.BUSY].rpc}
        daemon.backend.gate.set()
        assert sorted([(await client.recv())["id"] for _ in range(5)]) == [0, 1, 2, 3, 4]


async def test_shutdown_then_exit() -> None:
    """After shutdown only exit is taken; exit ends the connection, not the daemon."""
    async with run_daemon() as daemon, raw_client(daemon.socket) as other, raw_client(daemon.socket) as client:
        assert (await client.ask("shutdown"))["result"] is None
        assert code_of(await client.ask("session/list")) == -32600
        await client.send({"jsonrpc": "2.0", "method": "exit"})
        assert await client.recv() is None
        await assert_lives(other)


async def test_client_that_dies_in_the_middle_of_a_message() -> None:
    """H02: whatever it left half done ends, and nobody else notices."""
    async with run_daemon() as daemon, raw_client(daemon.socket) as other:
        client = await RawClient.open(daemon.socket)
        await client.initialize()
        await client.send({"jsonrpc": "2.0", "id": 1, "method": "test/wait"})
        await client.send_bytes(b"Content-Length: 500\r\n\r\n{")
        await assert_lives(other)
        assert daemon.backend.started == 1
        client.writer.transport.abort()
        await until(lambda: daemon.endpoint.clients == 1)
        assert daemon.backend.cancelled == 1
        await assert_lives(other)


async def test_half_closed_client_gets_its_answers() -> None:
    """A client that said all it had to say may still listen."""
    async with run_daemon(limits=Limits(finish_grace_s=100)) as daemon, raw_client(daemon.socket) as client:
        await client.send({"jsonrpc": "2.0", "id": 1, "method": "test/wait"})
        client.writer.write_eof()
        await until(lambda: daemon.backend.started == 1)
        daemon.backend.gate.set()
        assert "result" in await client.recv()
        assert await client.recv() is None


async def test_reader_that_stalls_is_let_go_and_slows_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """Stock fault: a client that does not read froze the loop."""
    async with run_daemon(limits=Limits(stall_s_max=0.3)) as daemon, raw_client(daemon.socket) as other:
        client = await RawClient.open(daemon.socket)
        await client.initialize()
        for name in range(3):
            await client.send({"jsonrpc": "2.0", "id": name, "method": "test/large"})
        with anyio.fail_after(60):
            while daemon.endpoint.clients > 1:
                await assert_lives(other)
        assert "took nothing" in caplog.text
        client.writer.transport.abort()


async def test_answers_to_no_question_are_ignored() -> None:
    """A late or invented response of a client changes nothing."""
    async with run_daemon() as daemon, raw_client(daemon.socket) as client:
        await client.send({"jsonrpc": "2.0", "id": "gloveport-1", "result": {"applied": True}})
        await client.send({"jsonrpc": "2.0", "id": 77, "error": {"code": 1, "message": "x"}})
        await client.send({"jsonrpc": "2.0", "method": "no/such"})
        await assert_lives(client)


@pytest.mark.parametrize("grace_s", [100.0, 0.3])
async def test_stop_ends_all_clients(grace_s: float) -> None:
    """Every open request still gets its one reply; one that never reads does not hold the others up, and is let go."""
    async with run_daemon(limits=Limits(finish_grace_s=grace_s)) as daemon:
        clients = [await RawClient.open(daemon.socket) for _ in range(3)]
        for client in clients:
            await client.initialize()
            await client.send({"jsonrpc": "2.0", "id": 1, "method": "test/wait"})
        await clients[2].send({"jsonrpc": "2.0", "id": 2, "method": "test/large"})
        await until(lambda: daemon.backend.started == 3)
        daemon.stop.set()
        for client in clients[:2]:
            assert code_of(await client.recv()) == ERRORS[ErrorCode.SHUTTING_DOWN].rpc
            assert await client.recv() is None
        if grace_s > 1:
            await until(lambda: daemon.endpoint.clients == 1)  # the one that reads nothing still has its time
            clients[2].writer.transport.abort()
        await until(lambda: not daemon.endpoint.clients)
        clients[2].writer.transport.abort()
        for client in clients[:2]:
            await client.close()


async def test_more_clients_than_allowed_are_told_so() -> None:
    """The bound on connections answers and hangs up."""
    async with run_daemon(limits=Limits(connections_max=1)) as daemon, raw_client(daemon.socket) as first:
        second = await RawClient.open(daemon.socket)
        assert code_of(await second.recv()) == ERRORS[ErrorCode.BUSY].rpc
        assert await second.recv() is None
        await second.close()
        await assert_lives(first)


async def test_every_method_of_the_table_answers() -> None:
    """Whatever is asked with whatever params, there is one reply under its id."""
    async with run_daemon() as daemon, raw_client(daemon.socket, initialized=False) as client:
        await client.initialize(daemon.token)
        for params in (None, {}, [], {"sessionId": "s", "clientRequestId": "1"}):
            for method in METHODS:
                assert await client.ask(method, params) is not None
        await assert_lives(client)


async def test_documents_are_followed_in_utf16(caplog: pytest.LogCaptureFixture) -> None:
    """H07: one document under all its spellings; lines end where LSP says; a change that does not fit lets it go."""
    backend = MemoryBackend()
    async with run_daemon(backend) as daemon, raw_client(daemon.socket, initialized=False) as client:
        await client.initialize(textDocument={})
        await client.send(notice("didOpen", textDocument=document("file:///c%3A/a%20b.py", 1, "a\x0cb\n😀x\r\ny")))
        change = {"range": span(1, 2, 1, 3), "text": "Z"}
        await client.send(
            notice("didChange", textDocument={"uri": "file:///C:/a b.py", "version": 2}, contentChanges=[change])
        )
        await assert_lives(client)
        (buffer,) = backend.buffers.values()
        assert (buffer.text, buffer.version) == ("a\x0cb\n😀Z\r\ny", 2)
        assert (buffer.key, buffer.uri) == ("file:///c:/a%20b.py", "file:///c%3A/a%20b.py")
        await client.send(notice("didChange", textDocument={"uri": buffer.uri, "version": "x"}, contentChanges=[{}]))
        await assert_lives(client)
        assert backend.buffers == {}
        await client.send(notice("didOpen", textDocument=document("untitled:1", 1, "t")))
        await assert_lives(client)
        assert len(backend.buffers) == 1
    assert backend.buffers == {}


def notice(method: str, **params: object) -> dict[str, object]:
    """A textDocument notification."""
    return {"jsonrpc": "2.0", "method": f"textDocument/{method}", "params": params}


def document(uri: str, version: int, text: str) -> dict[str, object]:
    """A TextDocumentItem."""
    return {"uri": uri, "languageId": "python", "version": version, "text": text}


def span(line: int, character: int, end_line: int, end_character: int) -> dict[str, object]:
    """A range."""
    return {
        "start": {"line": line, "character": character},
        "end": {"line": end_line, "character": end_character},
    }


async def test_a_blocking_client_sees_plain_lsp() -> None:
    """Nothing but header, empty line and JSON is on the wire."""

    def talk(path: str) -> bytes:
        with socket.socket(socket.AF_UNIX) as bare:
            bare.settimeout(10)
            bare.connect(path)
            bare.sendall(encode_frame(orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}})))
            bare.shutdown(socket.SHUT_WR)
            parts = []
            while part := bare.recv(4096):
                parts.append(part)
            return b"".join(parts)

    async with run_daemon() as daemon:
        head, _, body = (await asyncio.to_thread(talk, str(daemon.socket))).partition(b"\r\n\r\n")
        assert head == b"Content-Length: %d" % len(body)
        assert json.loads(body)["id"] == 1
