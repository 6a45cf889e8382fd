"""initialize, initialized, shutdown, exit.

Purpose: the states of a connection and what it may do.
Invariant: nothing is served before initialize; whether a connection may decide is settled there, once.
Must never: stop the daemon, or say whether a wrong token was close.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum, unique
from typing import Any

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.version import PROTOCOL_VERSION
from gloveport.server.transports.lsp.handlers.names import CAPABILITIES
from gloveport.server.transports.lsp.limits import CLIENT_NAME_CHARS_MAX
from gloveport.server.transports.lsp.reading import read_params

_VERSIONED_EDITS = ("documentChanges", "resourceOperations")
"""Each means that edits of named versions are taken: operations on files stand among those, and nowhere else."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The part of LSP's InitializeParams that is read here; the rest is the editor's own business."""

    client_name: str = ""
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    decision_token: str | None = field(default=None, repr=False)
    protocol_version: int | None = None


def read_opening(params: object) -> Opening:
    """What a client says first. Raises GloveportError (INVALID_PARAMS)."""
    return plain_opening(params) or checked_opening(params)


def plain_opening(params: object) -> Opening | None:
    """The opening of params that have the plain types; None where somebody has to look closer.

    The first client waits for this while the daemon begins: the checker, which knows more, is loaded after it.
    """
    if not isinstance(params, dict):
        return None
    client, options = (_object(params.get(name)) for name in ("clientInfo", "initializationOptions"))
    capabilities = params.get("capabilities", {})
    if client is None or options is None or not isinstance(capabilities, dict):
        return None
    name, token, protocol = client.get("name", ""), options.get("decisionToken"), options.get("protocolVersion")
    is_client = _is_text(name) and len(name) <= CLIENT_NAME_CHARS_MAX and _is_text(client.get("version", ""))
    if not is_client or not (token is None or _is_text(token)) or not (protocol is None or type(protocol) is int):
        return None
    return Opening(name, capabilities, token, protocol)


def _object(value: object) -> dict[str, Any] | None:
    """The members of an object, none of one that is missing; None for anything else."""
    if value is None:
        return {}
    return value if isinstance(value, dict) else None


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value.isascii()


def checked_opening(params: object) -> Opening:
    """The opening by its shape. Raises GloveportError (INVALID_PARAMS)."""
    from gloveport.server.transports.lsp.handlers.opening import InitializeParams, Options

    read = read_params(InitializeParams, {} if params is None else params)
    options = read.initialization_options or Options()
    name = read.client_info.name if read.client_info is not None else ""
    return Opening(name, read.capabilities, options.decision_token, options.protocol_version)


@unique
class Phase(StrEnum):
    """Where a connection is in its life."""

    NEW = "new"
    SERVING = "serving"
    SHUT_DOWN = "shut_down"


@dataclass(frozen=True, slots=True)
class Identity:
    """What initialize settled about a client."""

    client_name: str
    deciding: bool
    speaks_documents: bool
    speaks_ours: bool = False
    shows_documents: bool = False
    takes_edits: bool = False
    """Edits of named versions of documents."""
    takes_annotations: bool = False
    refreshes_lenses: bool = False


@dataclass(frozen=True, slots=True)
class About:
    """What the daemon says of itself, and the token by which a client may decide."""

    server_version: str
    epoch: int
    decision_token: str = field(repr=False)


class Lifecycle:
    """The state of one connection."""

    def __init__(self, about: About, *, may_decide: bool) -> None:
        self._about = about
        self._may_decide = may_decide
        self._proved = False
        self.phase = Phase.NEW
        self.identity = Identity("", deciding=False, speaks_documents=False)

    def check_serving(self) -> None:
        """Raises NOT_INITIALIZED or INVALID_REQUEST when no request may be served now."""
        if self.phase is Phase.NEW:
            raise GloveportError(ErrorCode.NOT_INITIALIZED, "the connection is not initialized")
        if self.phase is Phase.SHUT_DOWN:
            raise GloveportError(
                ErrorCode.INVALID_REQUEST, "the connection was shut down", hint="Connect again to go on."
            )

    def prove(self, params: object) -> None:
        """A proof ahead of initialize, by the program that carries an editor's bytes; a wrong one is not answered."""
        if self.phase is not Phase.NEW:
            return
        try:
            self._proved = self._proves(read_opening({"initializationOptions": params}).decision_token)
        except GloveportError:
            self._proved = False

    def initialize(self, opening: Opening) -> dict[str, object]:
        """Settle who this is. Raises INVALID_REQUEST when repeated, VERSION_MISMATCH for another protocol."""
        if self.phase is not Phase.NEW:
            raise GloveportError(
                ErrorCode.INVALID_REQUEST, "initialize was already sent", hint="Connect again to begin anew."
            )
        if opening.protocol_version not in (None, PROTOCOL_VERSION):
            raise GloveportError(
                ErrorCode.VERSION_MISMATCH,
                f"this daemon speaks protocol {PROTOCOL_VERSION}",
                protocolVersion=PROTOCOL_VERSION,
            )
        documents = isinstance(opening.capabilities.get("textDocument"), dict)
        deciding = self._proved or self._proves(opening.decision_token)
        self.identity = Identity(
            opening.client_name,
            deciding,
            documents,
            speaks_ours=opening.protocol_version is not None,
            shows_documents=_declares(opening.capabilities, "window", "showDocument", "support"),
            takes_edits=_declares(opening.capabilities, "workspace", "applyEdit")
            and any(_declares(opening.capabilities, "workspace", "workspaceEdit", name) for name in _VERSIONED_EDITS),
            refreshes_lenses=documents and _declares(opening.capabilities, "workspace", "codeLens", "refreshSupport"),
            takes_annotations=_declares(opening.capabilities, "workspace", "workspaceEdit", "changeAnnotationSupport"),
        )
        self.phase = Phase.SERVING
        ours = {
            "protocolVersion": PROTOCOL_VERSION,
            "epoch": self._about.epoch,
            "deciding": self.identity.deciding,
        }
        return {
            "capabilities": {
                **(_document_capabilities() if documents else {}),
                **(CAPABILITIES if documents and not self.identity.speaks_ours else {}),
                "experimental": {"gloveport": ours},
            },
            "serverInfo": {"name": "gloveport", "version": self._about.server_version},
        }

    def shut_down(self) -> None:
        """No request but exit follows."""
        self.phase = Phase.SHUT_DOWN

    def _proves(self, token: str | None) -> bool:
        right = self._about.decision_token
        if token is None or not self._may_decide or not right:
            return False
        return hmac.compare_digest(token.encode(errors="replace"), right.encode())


def _declares(capabilities: Mapping[str, Any], *names: str) -> bool:
    """Whether a client has a capability: by saying true, or by describing it."""
    found: object = capabilities
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found is True or isinstance(found, Mapping | list)


def _document_capabilities() -> dict[str, object]:
    return {
        "positionEncoding": "utf-16",
        "textDocumentSync": {"openClose": True, "change": 2, "save": {"includeText": False}},
    }
