"""Redaction of values that are made of texts.

Purpose: redact each text of a JSON value by itself.
Invariant: what is left has the same form.
Must never: redact the text of a whole value: that would be no JSON any more.
"""

from collections.abc import Callable
from typing import Any


def redacted_parts(value: Any, redact: Callable[[str], str]) -> Any:
    """Every text in a value redacted by itself, so that what is left is the same JSON."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {redact(key): redacted_parts(part, redact) for key, part in value.items()}
    return [redacted_parts(part, redact) for part in value] if isinstance(value, list | tuple) else value
