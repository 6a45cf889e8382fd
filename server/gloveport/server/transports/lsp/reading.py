"""What a client sends, as the shape it should have.

Purpose: the one place where a connection checks params; the checker is loaded when the first ones come.
Invariant: what does not fit is a typed error that names each bad field.
Must never: show a value that was sent.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gloveport.protocol.errors import ErrorCode, GloveportError

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

    M = TypeVar("M", bound=BaseModel)

FIELD_FAULTS_MAX: Final = 20
FIELD_NAME_CHARS_MAX: Final = 200


def read_params(shape: "type[M]", params: object) -> "M":
    """What was sent, in its shape. Raises GloveportError (INVALID_PARAMS)."""
    from pydantic import ValidationError

    try:
        return shape.model_validate(params)
    except ValidationError as fault:
        raise _named(fault) from None


def _named(fault: "ValidationError") -> GloveportError:
    rows: list[Any] = list(fault.errors(include_url=False, include_context=False, include_input=False))
    fields = [{"loc": _field_name(row["loc"]), "msg": row["msg"]} for row in rows[:FIELD_FAULTS_MAX]]
    named = ", ".join(field["loc"] or "params" for field in fields)
    return GloveportError(ErrorCode.INVALID_PARAMS, f"invalid: {named}", errors=fields)


def _field_name(parts: Iterable[int | str]) -> str:
    return ".".join(str(part) for part in parts)[:FIELD_NAME_CHARS_MAX]
