"""Errors as prose."""

import pytest

from gloveport.protocol.errors import ErrorCode, GloveportError


@pytest.mark.parametrize("message", ["nothing is there", "Nothing is there."])
def test_advice_is_two_sentences_whatever_the_message_ends_with(message: str) -> None:
    """Rooms end their messages with a full stop or without; the reader sees one."""
    error = GloveportError(ErrorCode.INVALID_PARAMS, message, hint="Look elsewhere.")
    assert error.advice == f"{message.rstrip('.')}. Look elsewhere."


def test_advice_without_a_hint_is_the_message() -> None:
    """No gap stays where the hint would be."""
    assert GloveportError(ErrorCode.INVALID_PARAMS, "no", hint="").advice == "no."
