"""Keeping secrets out of logs.

Purpose: a filter for log handlers that redacts the finished line, its traceback included.
Invariant: a record that passed holds its text as it will be written; nothing is formatted again from raw arguments.
Must never: drop a record, or raise for one that cannot be formatted.
"""

import logging

from gloveport.server.secrets.detect import Redactor


class RedactingFilter(logging.Filter):
    """Put it on every handler: `handler.addFilter(RedactingFilter(redactor))`. A logger's own filter would not see
    what its children log.
    """

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        """Redacts the record in place; always lets it pass."""
        record.msg, record.args = self._redactor.redact(_message(record)), None
        if record.exc_info:
            record.exc_text = record.exc_text or logging.Formatter().formatException(record.exc_info)
            record.exc_info = None
        for name in ("exc_text", "stack_info"):
            text = getattr(record, name)
            if text:
                setattr(record, name, self._redactor.redact(text))
        return True


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):
        return f"{record.msg} (its arguments do not fit)"
