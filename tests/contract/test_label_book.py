"""The book of labels: what it finds by content, after a restart too, and what it says when it is full."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest
from tests.kit.journal_kit import STAMP, opened

from gloveport.protocol.journal.envelope import StoredEvent
from gloveport.protocol.journal.events import LabelledFile
from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.server.engine import label_book
from gloveport.server.engine.daemon_facts import DaemonFacts
from gloveport.server.engine.label_book import EMPTY, WORST, LabelBook
from gloveport.server.journal.store import Journal

ONE = LabelRecord(integrity=0, readers=("model/a",), provenance=("secret:one",))
TWO = LabelRecord(integrity=2, readers=None, provenance=("http:two",))
ASKED = (("x", "a"), ("b",), ("a", "b"), ("x", ""), ())


def book_of(journal: Journal) -> LabelBook:
    """The book of this journal."""

    async def untold(_events: Sequence[StoredEvent]) -> None:
        """Nobody keeps an audit log here."""

    return LabelBook(journal, DaemonFacts(journal, lambda: STAMP, untold))


def named(text: str) -> str:
    """The hash of a content."""
    return sha256(text.encode()).hexdigest()


async def test_contents_are_found_among_others_also_by_the_next_daemon(tmp_path: Path) -> None:
    """Joined, whatever their paths; an empty content and what has none say nothing."""
    files = (
        LabelledFile(path="/p/a", digest=named("a"), label=ONE),
        LabelledFile(path="/p/a", digest=named("b"), label=TWO),
        LabelledFile(path="/p/empty", digest=EMPTY, label=ONE),
        LabelledFile(path="/q", digest=None, label=TWO),
    )
    for names in (files, ()):
        async with opened(tmp_path) as journal:
            book = book_of(journal)
            await book.ready()
            for one in names:
                await book.note("s", (one,))
            told = [book.among(map(named, words)) for words in ASKED]
            said = [(one.integrity, one.readers) if one is not None else None for one in told]
            assert said == [(0, ("model/a",)), (2, None), (2, ("model/a",)), None, None]
            assert [book.below("/q") is None, book.below("/other") is None] == [False, True]


async def test_more_contents_than_can_be_remembered_are_the_worst(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where they were all given to one file, one after another."""
    monkeypatch.setattr(label_book, "LABELLED_MAX", 3)
    async with opened(tmp_path) as journal:
        book = book_of(journal)
        for number in range(3):
            await book.note("s", (LabelledFile(path="/p/a", digest=named(str(number)), label=ONE),))
        assert book.below("/elsewhere") is None
        await book.note("s", (LabelledFile(path="/p/a", digest=named("3"), label=ONE),))
        assert book.below("/elsewhere") == WORST
        assert book.of("/elsewhere/b", None) == WORST
