"""What a stored event does to the view, straight from its bytes.

Purpose: a client that catches up needs the operations of every event and no body: making and checking bodies is most of
what catching up would cost.
Invariant: the same operations as of the decoded body (`ops.project_ops`). What is not as this version writes it is left
to that slower way, which says what is wrong with it.
Must never: be used for what is decided: the fold checks every body, or the first of pieces that go on as it began.

Most of a log is pieces of text. Their operation is cut out of the stored bytes: a text is as good JSON there as here.
"""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final, NamedTuple

import orjson

from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.envelope import StoredEvent
from gloveport.server.session.views.ops import Op, projector_of

_NESTED: Final = frozenset(
    {
        "TestRunFinished",
        "EgressRecorded",
        "PlanUpdated",
        "ChangeProposed",
        "ChangeUnsettled",
        "RecoverySummarised",
        "InjectionSuspected",
    }
)
"""Their operations are made from records within the body."""

_TEXT: Final = rb'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u00[01][0-9a-f])[^"\\\x00-\x1f]*+)*+"'
_PIECE: Final = (
    rb'\{"turn_id":%b,"goal_revision":[0-9]++,"%b":"([^"\\\x00-\x1f]*+)","offset":(0|[1-9][0-9]{0,15}),"text":(%b)\}'
)
_PIECES: Final[Mapping[str, tuple[int, re.Pattern[bytes], bytes]]] = MappingProxyType(
    {
        kind.__name__: (
            kind.version,
            re.compile(_PIECE % (_TEXT, owner, _TEXT)),
            b'[{"op":"append","item":"%b/%%b","field":"%b","offset":%%b,"text":%%b}]' % (item, field),
        )
        for kind, owner, item, field in (
            (ev.ModelTextDelta, b"request_id", b"answer", b"text"),
            (ev.ToolExecutionProgress, b"call_id", b"tool", b"output"),
        )
    }
)
"""Version, stored form and operation of each kind of piece."""
_ANSWER: Final = ev.ModelTextDelta.__name__
_ANSWER_VERSION, _ANSWER_FORM, _ = _PIECES[_ANSWER]


def raw_ops(events: Iterable[StoredEvent]) -> list[bytes | None]:
    """The operations of each stored piece of text as JSON; null where they have to be made."""
    made: list[bytes | None] = []
    for _, _, _, type_name, version, _, payload, _, erased in events:
        known, raw = _PIECES.get(type_name), None
        if known is not None and known[0] == version and erased is None:
            found = known[1].fullmatch(payload)
            if found is not None and _is_text(payload):
                raw = known[2] % found.groups()
        made.append(raw)
    return made


class Piece(NamedTuple):
    """A stored piece of an answer. `head` is what is stored before its offset: whose answer, for which goal."""

    head: bytes
    offset: int
    text: str


def answer_piece(event: StoredEvent) -> Piece | None:
    """The piece of an answer that is stored, if it is one as this version writes them."""
    _, _, _, type_name, version, _, payload, _, erased = event
    if type_name != _ANSWER or version != _ANSWER_VERSION or erased is not None:
        return None
    found = _ANSWER_FORM.fullmatch(payload)
    if found is None or not _is_text(payload):
        return None
    return Piece(payload[: found.start(2)], int(found[2]), orjson.loads(found[3]))


def joined_piece(event: StoredEvent, text: str) -> StoredEvent:
    """A stored piece of an answer with another text."""
    found = _ANSWER_FORM.fullmatch(event.payload)
    if found is None:
        raise ValueError("this is no piece of an answer")
    return event._replace(payload=b"%b%b}" % (event.payload[: found.start(3)], orjson.dumps(text)))


def _is_text(payload: bytes) -> bool:
    try:
        return payload.isascii() or bool(payload.decode())
    except UnicodeDecodeError:
        return False


def quick_ops(type_name: str, version: int, payload: bytes) -> tuple[Op, ...] | None:
    """The operations of a stored event; null where the body has to be made."""
    known = ev.REGISTRY.get(type_name)
    if known is None or known.version != version or type_name in _NESTED:
        return None
    try:
        fields = orjson.loads(payload)
        if known is ev.ModelTextDelta:
            return (_piece("answer/" + fields["request_id"], "text", fields),)
        if known is ev.ToolExecutionProgress:
            return (_piece("tool/" + fields["call_id"], "output", fields),)
        projector = projector_of(known)
        return () if projector is None else projector(SimpleNamespace(**fields))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _piece(item: str, field: str, fields: dict[str, Any]) -> Op:
    offset, text = fields["offset"], fields["text"]
    if type(offset) is not int or offset < 0 or type(text) is not str:
        raise TypeError("a piece is a text at an offset")
    return {"op": "append", "item": item, "field": field, "offset": offset, "text": text}
