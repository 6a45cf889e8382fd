"""A value that does not show itself.

Purpose: carry a key through settings, errors and logs without it ever being printed by accident.
Invariant: `repr`, `str`, format and pickling never give the value; only `reveal()` does.
Must never: compare in a time that depends on the value, or hash to something derived from it.
"""

import hmac
from typing import Final, NoReturn

_SHOWN: Final = "Secret(hidden)"


class Secret:
    """A secret text. Equality is constant-time; instances are unhashable so that none ends as a dictionary
    key.
    """

    __slots__ = ("_value",)
    __hash__ = None  # type: ignore[assignment]  # - a class is made unhashable in exactly this way

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself."""
        return self._value

    def __repr__(self) -> str:
        return _SHOWN

    def __format__(self, spec: str) -> str:
        return format(_SHOWN, spec)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(
            self._value.encode("utf-8", "surrogatepass"), other._value.encode("utf-8", "surrogatepass")
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled")
