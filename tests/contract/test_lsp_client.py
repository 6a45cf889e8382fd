"""An LSP client that is not ours, over `gloveport lsp` as its editor would start it."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from lsprotocol import types
from pytest_lsp import LanguageClient, client_capabilities, make_test_lsp_client
from tests.kit.memory_backend import Daemon, run_daemon

from gloveport.protocol.wire.reducer import View

PIPER = "import sys; from gloveport.server.client import paths, stdio; sys.exit(stdio.attach(paths.find_places()))"


@asynccontextmanager
async def editor(daemon: Daemon) -> AsyncIterator[tuple[LanguageClient, asyncio.Queue[Any]]]:
    """A started client, and the events it is sent."""
    client, events = make_test_lsp_client(), asyncio.Queue[Any]()

    @client.feature("session/events")
    def take(batch: Any) -> None:
        events.put_nowait(batch)

    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "GLOVEPORT_HOME": str(daemon.socket.parent),
    }
    async with asyncio.timeout(30):
        await client.start_io(sys.executable, "-c", PIPER, env=environ)
        yield client, events
        await client.stop()


async def test_an_editor_of_the_usual_kind_is_served() -> None:
    """Handshake, open documents, our own methods, events, shutdown and exit."""
    async with run_daemon() as daemon, editor(daemon) as (client, events):
        result = await client.initialize_session(
            types.InitializeParams(capabilities=client_capabilities("neovim"), process_id=os.getpid())
        )
        assert isinstance(result.capabilities.text_document_sync, types.TextDocumentSyncOptions)
        assert result.server_info == types.ServerInfo("gloveport", "0.1.0")
        item = types.TextDocumentItem("file:///a.py", types.LanguageKind.Python, 1, "x = 1\n")
        client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        started = await client.protocol.send_request_async(
            "session/start", {"clientRequestId": "1", "root": "/r", "title": "t"}
        )
        name = started.sessionId
        begun = await client.protocol.send_request_async("session/subscribe", {"sessionId": name})
        view = View()
        view.load(
            [{"id": item.id, "kind": item.kind, "fields": item.fields._asdict()} for item in begun.snapshot.items], 2
        )
        assert (await events.get()).viewDigest == view.digest()
        message = {"sessionId": name, "clientRequestId": "2", "text": "héllo😀"}
        await client.protocol.send_request_async("turn/start", message)
        batch = await events.get()
        for event in batch.events:
            view.apply(event.seq, [op._asdict() for op in event.ops])
        assert batch.viewDigest == view.digest()
        (buffer,) = daemon.backend.buffers.values()
        assert buffer.text == "x = 1\n"
        await client.shutdown_session()
    assert daemon.backend.buffers == {}
