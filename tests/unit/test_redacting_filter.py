"""The filter for log handlers: the line, its arguments and its traceback, and never an exception of its own."""

import logging

from gloveport.server.secrets.detect import Redactor
from gloveport.server.secrets.logs import RedactingFilter

KEY = "sesame-open-123"


def written(record: logging.LogRecord) -> str:
    """The record as a handler would write it, behind the filter."""
    assert RedactingFilter(Redactor([KEY])).filter(record)
    return logging.Formatter().format(record)


def record_of(message: str, *args: object, exc: BaseException | None = None) -> logging.LogRecord:
    """A record."""
    info = (type(exc), exc, exc.__traceback__) if exc else None
    return logging.LogRecord("x", logging.INFO, __file__, 1, message, args, info)


def test_a_secret_goes_from_the_message_and_its_arguments() -> None:
    assert KEY not in written(record_of("key %s and %r", KEY, {"k": KEY}))
    assert written(record_of("plain %d", 3)) == "plain 3"


def test_a_secret_goes_from_the_traceback_with_its_causes() -> None:
    try:
        try:
            raise ValueError(KEY)
        except ValueError as err:
            raise RuntimeError(f"again {KEY}") from err
    except RuntimeError as err:
        line = written(record_of("failed", exc=err))
    assert KEY not in line
    assert "RuntimeError" in line
    assert "ValueError" in line


def test_a_record_that_does_not_format_passes_all_the_same() -> None:
    assert KEY not in written(record_of(f"%d of {KEY}", "no number"))
    assert "do not fit" in written(record_of("%d", "no number"))
