"""What a stored event does to the view, straight from its bytes.

Purpose: a client that catches up needs the operations of every event and no body: making and checking bodies is most of
what catching up would cost.
Invariant: the same operations as of the decoded body (`ops.project_ops`). What is not as this version writes it is left
to that slower way, which says what is wrong with it.
Must never: be used for what is decided: the fold checks every body, or the first of pieces that go on as it began.

Most of a log is pieces of text. What clients get of them is cut out of the stored bytes: a text is as good JSON there
as here.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final, NamedTuple

import orjson

from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.envelope import StoredEvent
from gloveport.protocol.wire.event import kind_of, start_of
from gloveport.server.session.views.ops import PLACED, Op, projector_of

_NESTED: Final = frozenset(
    {
        "TestRunFinished",
        "EgressRecorded",
        "PlanUpdated",
        "ChangeProposed",
        "ChangeUnsettled",
        "RecoverySummarised",
        "InjectionSuspected",
        "ArtifactSuspected",
    }
)
"""Their operations are made from records within the body."""
_TEXT: Final = rb'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u00[01][0-9a-f])[^"\\\x00-\x1f]*+)*+"'
_PIECE: Final = (
    rb'\{"turn_id":%b,"goal_revision":[0-9]++,"%b":"([^"\\\x00-\x1f]*+)","offset":(0|[1-9][0-9]{0,15}),"text":(%b)\}'
)
_PARTS: Final[Mapping[type[ev.EventBody], tuple[str, str, str]]] = MappingProxyType(
    {
        ev.ModelTextDelta: ("request_id", "answer", "text"),
        ev.ToolExecutionProgress: ("call_id", "tool", "output"),
    }
)
"""The field that names a piece's owner, what the owner's item is called, and the item's field that grows."""


class _Cut(NamedTuple):
    """How a kind of piece is cut out: its version, its stored form, and what clients get of the parts found."""

    version: int
    match: Callable[[bytes], re.Match[bytes] | None]
    sent: bytes


_PIECES: Final[Mapping[str, _Cut]] = MappingProxyType(
    {
        kind.__name__: _Cut(
            kind.version,
            re.compile(_PIECE % (_TEXT, owner.encode(), _TEXT)).fullmatch,
            b'%%b%%d,"at":%%d%b[{"op":"append","item":"%b/%%b","field":"%b","offset":%%b,"text":%%b}]}'
            % (kind_of(kind.__name__), item.encode(), field.encode()),
        )
        for kind, (owner, item, field) in _PARTS.items()
    }
)
_ANSWER: Final = ev.ModelTextDelta.__name__
_ANSWER_VERSION, _ANSWER_FORM, _ = _PIECES[_ANSWER]


def _piece_projector(owner: str, item: str, field: str) -> Callable[[Any], tuple[Op, ...]]:
    def project(body: Any) -> tuple[Op, ...]:
        whose, offset, text = getattr(body, owner), body.offset, body.text
        if type(whose) is not str or type(offset) is not int or offset < 0 or type(text) is not str:
            raise TypeError("a piece is a text of somebody's at an offset")
        return ({"op": "append", "item": f"{item}/{whose}", "field": field, "offset": offset, "text": text},)

    return project


_QUICK: Final = MappingProxyType(
    {
        name: (kind.version, _piece_projector(*_PARTS[kind]) if kind in _PARTS else projector_of(kind))
        for name, kind in ev.REGISTRY.items()
        if name not in _NESTED and kind not in PLACED
    }
)
"""Version and projector of each type whose stored fields are all that its operations are made of."""


def raw_events(events: Iterable[StoredEvent], slower: Callable[[StoredEvent], bytes]) -> list[bytes]:
    """Each event as clients get it: a stored piece of text cut out of its bytes, any other made by `slower`."""
    made: list[bytes] = []
    add, known_pieces = made.append, _PIECES.get
    for event in events:
        stream, epoch, seq, type_name, version, at, payload, _, erased = event
        known = known_pieces(type_name)
        if known is not None and known.version == version and erased is None:
            found = known.match(payload)
            if found is not None and (payload.isascii() or _is_text(payload)):
                owner, offset, text = found.groups()
                add(known.sent % (start_of(stream, epoch), seq, at, owner, offset, text))
                continue
        add(slower(event))
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
    found = _ANSWER_FORM(payload)
    if found is None or not _is_text(payload):
        return None
    return Piece(payload[: found.start(2)], int(found[2]), orjson.loads(found[3]))


def joined_piece(event: StoredEvent, text: str) -> StoredEvent:
    """A stored piece of an answer with another text."""
    found = _ANSWER_FORM(event.payload)
    if found is None:
        raise ValueError("this is no piece of an answer")
    return event._replace(payload=b"%b%b}" % (event.payload[: found.start(3)], orjson.dumps(text)))


def _is_text(payload: bytes) -> bool:
    try:
        return bool(payload.decode())
    except UnicodeDecodeError:
        return False


def quick_ops(type_name: str, version: int, payload: bytes) -> tuple[Op, ...] | None:
    """The operations of a stored event; null where the body has to be made."""
    known = _QUICK.get(type_name)
    if known is None or known[0] != version:
        return None
    projector = known[1]
    try:
        fields = orjson.loads(payload)
        return () if projector is None else projector(SimpleNamespace(**fields))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
