"""change/document: the sides of a proposal as documents.

Purpose: a diff view's texts under our own scheme: the base, the agent's result, what the user has now.
Invariant: a URI names the proposal as it was shown; of one that changed since nothing is given.
Must never: name a file of the worktree, which an editor or its extensions would act on.
"""

from typing import Final, Literal
from urllib.parse import quote, unquote, urlsplit

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.events import ChangeProposed
from gloveport.protocol.wire.change import ChangeDocumentParams, ChangeDocumentResult
from gloveport.server.commands.house import House
from gloveport.server.engine.actor import Actor
from gloveport.server.transports.port import Caller
from gloveport.server.workspace.limits import PREVIEW_BYTES_MAX
from gloveport.server.workspace.opened import text_of

SCHEME: Final = "gloveport-change"
Side = Literal["base", "result", "user"]
SIDES: Final[tuple[Side, ...]] = ("base", "result", "user")


def document_uri(session_id: str, change: ChangeProposed, side: Side) -> str:
    """The name of a side; it ends like the file, so that an editor knows its language."""
    names = "/".join(quote(part, safe="") for part in (session_id, change.change_id, side))
    return f"{SCHEME}:/{names}/{quote(change.path)}?{change.digest}"


async def document(house: House, params: ChangeDocumentParams, caller: Caller) -> ChangeDocumentResult:
    """The text of a side. Raises INVALID_PARAMS, SESSION_UNKNOWN."""
    split = urlsplit(params.uri)
    parts = [unquote(part) for part in split.path.split("/", 4)]
    if split.scheme != SCHEME or len(parts) != 5 or parts[3] not in SIDES:
        raise GloveportError(ErrorCode.INVALID_PARAMS, "uri: none that change/preview named")
    _, session_id, change_id, side, _ = parts
    actor = await house.sessions.open(session_id)
    change = actor.state.changes.get(change_id)
    if change is None or change.digest != split.query:
        return ChangeDocumentResult(uri=params.uri, text=None, words="This proposal is not pending any more.")
    data = await _side(actor, change, side)
    if data is None:
        return ChangeDocumentResult(uri=params.uri, text="", words="There is no file on this side.")
    if len(data) > PREVIEW_BYTES_MAX or change.kind == "symlink" or (text := text_of(data)) is None:
        return ChangeDocumentResult(uri=params.uri, text=None, words="It is no text, or too long to be shown.")
    return ChangeDocumentResult(uri=params.uri, text=text, words="")


async def _side(actor: Actor, change: ChangeProposed, side: str) -> bytes | None:
    workspace = actor.workspace
    if side == "user":
        return await workspace.user_bytes(change.path if change.renamed_from is None else change.renamed_from)
    return await workspace.content(change.base_hash if side == "base" else change.result_hash)
