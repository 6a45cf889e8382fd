"""The permanent upcasters: what a release wrote is read for ever."""

from gloveport.protocol.journal.events import RecoverySummarised, decode_body
from gloveport.protocol.journal.upcast import registry_gaps, upcast

SUMMARY_1 = {
    "interrupted_requests": 1,
    "reconciled_calls": 2,
    "pending_approvals": 0,
    "unfinished_applies": 0,
    "text": "The daemon was started again.",
}


def test_a_summary_of_the_first_version_has_no_items() -> None:
    """Its words and counts stay as they were."""
    body = decode_body(RecoverySummarised, upcast("RecoverySummarised", 1, SUMMARY_1))
    assert isinstance(body, RecoverySummarised)
    assert (body.text, body.items) == (SUMMARY_1["text"], ())


def test_the_registry_has_no_gaps() -> None:
    """Every version leads to the newest."""
    assert registry_gaps() == ()
