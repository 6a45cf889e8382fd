"""Reading foreign JSON whose shape is only promised.

Purpose: accessors that give an empty value of the wanted type where a server sent something else.
Invariant: every function is total; none raises.
Must never: convert between types (a number is no text), so that a wrong shape shows as missing, not as
    garbage.
"""

from collections.abc import Mapping, Sequence


def as_mapping(value: object) -> Mapping[str, object]:
    """The object, or an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> Sequence[object]:
    """The array, or an empty one."""
    return value if isinstance(value, list) else ()


def as_text(value: object) -> str:
    """The string, or an empty one."""
    return value if isinstance(value, str) else ""


def as_count(value: object) -> int:
    """The whole number from 0 up, or 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
