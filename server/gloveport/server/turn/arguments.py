"""Strict reading of a model's tool arguments.

Purpose: accept exactly one JSON object without duplicate names or non-finite numbers; digest it canonically.
Invariant: what is digested is what runs; nothing is repaired or guessed.
Must never: turn broken arguments into empty ones that run.
"""

import hashlib
import json
from typing import Any, Final

ARGUMENTS_CHARACTERS_MAX: Final = 4_000_000
ARGUMENTS_DEPTH_MAX: Final = 64
ERROR_EXCERPT_CHARACTERS: Final = 200


class ArgumentsError(ValueError):
    """The arguments are not one strict JSON object; the text says what is wrong."""


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise ArgumentsError("a name appears twice in an object")
    return dict(pairs)


def _no_constant(name: str) -> Any:
    raise ArgumentsError(f"{name} is not JSON")


def _refuse_depth(value: Any) -> None:
    """Raise ArgumentsError below the deepest level taken, so that the answer does not depend on the stack's room."""
    level = [value]
    for _ in range(ARGUMENTS_DEPTH_MAX):
        level = [
            part
            for outer in level
            if isinstance(outer, dict | list)
            for part in (outer.values() if isinstance(outer, dict) else outer)
        ]
    if any(isinstance(part, dict | list) for part in level):
        raise ArgumentsError(f"objects and lists are nested deeper than {ARGUMENTS_DEPTH_MAX} levels")


def parse_arguments(raw: str) -> dict[str, Any]:
    """The arguments as an object. Raises ArgumentsError."""
    if len(raw) > ARGUMENTS_CHARACTERS_MAX:
        raise ArgumentsError(f"{len(raw)} characters of arguments are over the limit of {ARGUMENTS_CHARACTERS_MAX}")
    try:
        value = json.loads(raw, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
        _refuse_depth(value)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except ArgumentsError:
        raise
    except (ValueError, RecursionError) as error:
        excerpt = raw[:ERROR_EXCERPT_CHARACTERS].encode("utf-8", "replace").decode()
        raise ArgumentsError(f"not valid JSON ({type(error).__name__}): {excerpt!r}") from error
    if not isinstance(value, dict):
        raise ArgumentsError(f"an object is needed, not {type(value).__name__}")
    return value


def canonical_arguments(value: dict[str, Any]) -> str:
    """One spelling for equal arguments: names sorted, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def text_digest(text: str) -> str:
    """SHA-256 of the UTF-8 bytes, hexadecimal."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
