"""Requests that were decided on and never sent.

Purpose: tell them from those that reached for the provider.
Invariant: a request is held back only where the log says so: by the breaker, or by a full line before the provider.
Must never: be asked about a request whose retry is not known yet; the last one of a turn that gave up has none.
"""

from typing import Any, Final

HELD_BACK: Final = "paused"
"""The failure class of a request that was not sent."""


def is_held_back(body: Any) -> bool:
    """Whether the failed request of a `RetryScheduled` was never sent."""
    return getattr(body, "error_class", None) == HELD_BACK
