"""A changed copy of a frozen state.

Purpose: what `dataclasses.replace` does, at a fraction of its time: every event of a session makes such a copy.
Invariant: the copy differs from the original in the named fields alone; a name that is no field is refused.
Must never: change its argument.

These classes have no slots for its sake: a dictionary is copied at once, and slots one by one.
"""

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, Final, TypeVar

from gloveport.server.session.state import Call, Request, SessionState, Turn

T = TypeVar("T", SessionState, Turn, Call, Request)

_put: Final = vars(object)["__setattr__"]
_NAMES: Final[Mapping[type, frozenset[str]]] = MappingProxyType(
    {kind: frozenset(one.name for one in fields(kind)) for kind in (SessionState, Turn, Call, Request)}
)


def evolve(value: T, **changes: Any) -> T:
    """`value` with other values in the named fields. Raises KeyError for a name that is no field."""
    kind = type(value)
    if not _NAMES[kind].issuperset(changes):
        raise KeyError(*changes.keys() - _NAMES[kind])
    copy: T = object.__new__(kind)
    values = vars(value).copy()
    values.update(changes)
    _put(copy, "__dict__", values)
    return copy
