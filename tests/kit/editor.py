"""An editor of the usual kind over raw bytes: open documents with versions, edits that the server asks for.

Purpose: play an LSP client that knows nothing of us, faithful or not, so that a test sees what the server believes.
Invariant: a document's text is what this client holds; it is told to the server by the usual notices.
Must never: use anything of the product beyond framing and the text of a document.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from tests.kit.daemon import Daemon
from tests.kit.raw_client import WAIT_S, RawClient

from gloveport.protocol.wire.framing import Body, FrameReader, encode_frame
from gloveport.server.transports.lsp.textsync import Change, apply_changes

CAPABILITIES = {
    "textDocument": {"synchronization": {"didSave": True}},
    "workspace": {"applyEdit": True, "workspaceEdit": {"documentChanges": True, "changeAnnotationSupport": {}}},
}


def script_of(folder: Path, *turns: Sequence[tuple[str, dict[str, Any]]]) -> Path:
    """A script whose model makes these calls, turn by turn."""
    steps: list[dict[str, Any]] = []
    for number, calls in enumerate(turns):
        made = [{"name": name, "arguments": arguments} for name, arguments in calls]
        steps.append({"when": {"turn": 0, "user_contains": f"go{number or ''}"}, "calls": made})
    steps = steps[::-1]
    path = folder / "script.json"
    path.write_text(json.dumps({"name": "test", "steps": [*steps, {"text": "Done."}]}))
    return path


@dataclass(slots=True)
class Document:
    """A document as the editor holds it, with what it was before each edit."""

    uri: str
    text: str
    version: int = 1
    undone: list[str] = field(default_factory=list)


Behaviour = Callable[["EditorClient", dict[str, Any]], Any]


def faithful(editor: "EditorClient", params: dict[str, Any]) -> Any:
    """Make the edit if every version is the one that is open; tell so."""
    changes = params["edit"]["documentChanges"]
    for change in changes:
        known = editor.documents.get(change["textDocument"]["uri"])
        if known is None or known.version != change["textDocument"]["version"]:
            return {"applied": False, "failureReason": "stale"}
    for change in changes:
        editor.edit(change["textDocument"]["uri"], change["edits"])
    return {"applied": True}


class EditorClient:
    """One connection of an editor. `behaviour` answers `workspace/applyEdit`; `asked` keeps what was asked."""

    def __init__(self, client: RawClient, behaviour: Behaviour) -> None:
        self.client, self.behaviour = client, behaviour
        self.documents: dict[str, Document] = {}
        self.asked: list[dict[str, Any]] = []
        self.told: list[dict[str, Any]] = []
        self.capabilities: dict[str, Any] = {}
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._outgoing: list[dict[str, Any]] = []
        self._count = 0

    async def run(self) -> None:
        """Read until the end, answering what is asked."""
        frames = FrameReader()
        while chunk := await self.client.reader.read(1 << 16):
            for item in frames.feed(chunk):
                if isinstance(item, Body):
                    await self._take(orjson.loads(item.data))

    async def _take(self, message: dict[str, Any]) -> None:
        name = message.get("id")
        if "method" not in message:
            waiting = self._answers.pop(str(name), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
        elif message["method"] == "workspace/applyEdit":
            self.asked.append(message["params"])
            answer = self.behaviour(self, message["params"])
            await self.flush()
            if answer is not None:
                await self.client.send({"jsonrpc": "2.0", "id": name, "result": answer})
        else:
            self.told.append(message)
            if name is not None:
                await self.client.send({"jsonrpc": "2.0", "id": name, "result": None})

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Say something; sent with the next `flush`."""
        self._outgoing.append({"jsonrpc": "2.0", "method": method, "params": params})

    async def flush(self) -> None:
        """Send what was said."""
        pending, self._outgoing = self._outgoing, []
        for message in pending:
            await self.client.send_bytes(encode_frame(orjson.dumps(message)))

    async def ask(self, method: str, params: object) -> Any:
        """A request and its whole reply."""
        await self.flush()
        self._count += 1
        name = f"e{self._count}"
        self._answers[name] = asyncio.get_running_loop().create_future()
        await self.client.send({"jsonrpc": "2.0", "id": name, "method": method, "params": params})
        async with asyncio.timeout(WAIT_S):
            return await self._answers[name]

    async def open(self, path: Path, text: str | None = None, *, uri: str | None = None) -> Document:
        """Show a file, with another text than it has where one is given."""
        shown = path.read_bytes().decode("utf-8-sig") if text is None else text
        document = Document(uri or path.as_uri(), shown)
        self.documents[document.uri] = document
        item = {"uri": document.uri, "languageId": "text", "version": 1, "text": shown}
        self.notify("textDocument/didOpen", {"textDocument": item})
        await self.flush()
        return document

    def edit(self, uri: str, edits: list[dict[str, Any]]) -> None:
        """Make edits of LSP, all of which speak of the text as it is, and tell of it."""
        document = self.documents[uri]
        places = sorted(edits, key=lambda one: (one["range"]["start"]["line"], one["range"]["start"]["character"]))
        text = document.text
        for one in reversed(places):
            text = apply_changes(text, [Change.model_validate({"range": one["range"], "text": one["newText"]})])
        self.type(uri, text)

    def type(self, uri: str, text: str) -> None:
        """Let the document hold another text, and tell of it."""
        document = self.documents[uri]
        document.undone.append(document.text)
        document.text, document.version = text, document.version + 1
        named = {"uri": uri, "version": document.version}
        self.notify("textDocument/didChange", {"textDocument": named, "contentChanges": [{"text": text}]})

    async def undo(self, uri: str) -> None:
        """The editor's own undo."""
        document = self.documents[uri]
        self.type(uri, document.undone.pop())
        document.undone.pop()
        await self.flush()

    async def save(self, path: Path) -> None:
        """Write the document into its file, and tell of it."""
        document = self.documents[path.as_uri()]
        path.write_bytes(document.text.encode())
        self.notify("textDocument/didSave", {"textDocument": {"uri": document.uri}})
        await self.flush()

    async def close(self, path: Path) -> None:
        """Close the document."""
        document = self.documents.pop(path.as_uri())
        self.notify("textDocument/didClose", {"textDocument": {"uri": document.uri}})
        await self.flush()

    async def lenses(self, path: Path) -> list[dict[str, Any]]:
        """The code lenses of a document."""
        found = await self.ask("textDocument/codeLens", {"textDocument": {"uri": path.as_uri()}})
        rows: list[dict[str, Any]] = found["result"]
        return rows

    async def actions(self, path: Path, line: int, **context: Any) -> list[dict[str, Any]]:
        """The code actions at a line."""
        place = {"line": line, "character": 0}
        params = {
            "textDocument": {"uri": path.as_uri()},
            "range": {"start": place, "end": place},
            "context": {"diagnostics": [], **context},
        }
        rows: list[dict[str, Any]] = (await self.ask("textDocument/codeAction", params))["result"]
        return rows

    async def execute(self, command: dict[str, Any]) -> Any:
        """Choose a command; the whole reply."""
        params = {"command": command["command"], "arguments": command["arguments"]}
        return await self.ask("workspace/executeCommand", params)


@asynccontextmanager
async def editor_client(
    daemon: Daemon,
    *,
    deciding: bool = True,
    behaviour: Behaviour = faithful,
    name: str = "an editor",
    capabilities: dict[str, Any] | None = None,
) -> AsyncIterator[EditorClient]:
    """A connected editor that speaks documents and edits."""
    client = await RawClient.open(daemon.places.socket)
    options = {"decisionToken": daemon.places.token.read_text()} if deciding else {}
    editor = EditorClient(client, behaviour)
    params = {
        "processId": None,
        "clientInfo": {"name": name},
        "capabilities": CAPABILITIES if capabilities is None else capabilities,
        "initializationOptions": options,
    }
    reader = asyncio.create_task(editor.run())
    try:
        editor.capabilities = (await editor.ask("initialize", params))["result"]["capabilities"]
        yield editor
    finally:
        reader.cancel()
        await client.close()
