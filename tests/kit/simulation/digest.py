"""One spelling of a session's state, for comparing and for recording.

Purpose: turn a state into plain JSON and a digest of it.
Invariant: fields that hold their default are left out, so that a new field does not change old recordings.
"""

import dataclasses
import hashlib
from collections.abc import Mapping
from enum import Enum
from typing import Any

from gloveport.protocol.journal.events.base import Record
from gloveport.protocol.wire.reducer import canonical_json
from gloveport.server.session.series import Series
from gloveport.server.session.state import SessionState


def plain(value: Any) -> Any:
    """The value as plain JSON."""
    if isinstance(value, Record):
        return {"": type(value).__name__, **value.model_dump(mode="json")}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if not _is_default(f, value)}
        return {"": type(value).__name__, **{name: plain(part) for name, part in fields.items()}}
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, tuple | list | Series):
        return [plain(part) for part in value]
    return value.value if isinstance(value, Enum) else value


def _is_default(spec: "dataclasses.Field[Any]", owner: Any) -> bool:
    value = getattr(owner, spec.name)
    if spec.default_factory is not dataclasses.MISSING:
        return bool(value == spec.default_factory())
    return spec.default is not dataclasses.MISSING and bool(value == spec.default)


def state_digest(state: SessionState) -> str:
    """SHA-256 of the state's canonical JSON."""
    return hashlib.sha256(canonical_json(plain(state))).hexdigest()
