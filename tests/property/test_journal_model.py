"""The journal against a model: random appends, reads, retries, epochs, erasures and reopens."""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.kit.journal_kit import STAMP, event, open_journal

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal.envelope import ERASED_PAYLOAD, ChainPoint, Durability, StoredEvent, verify_chain
from gloveport.server.journal.errors import JournalError
from gloveport.server.journal.offline import OfflineJournal
from gloveport.server.journal.records import Append, ClientRequest, StreamAppend

T = TypeVar("T")
STREAMS = st.sampled_from(["session/a", "session/b", "daemon"])
TEXTS = st.lists(st.text("abcé𝄞", max_size=8), min_size=1, max_size=4)
PARTS = st.dictionaries(STREAMS, TEXTS, min_size=1, max_size=3)


class JournalMachine(RuleBasedStateMachine):
    """Every answer of the journal is compared with lists and dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp(prefix="gloveport-journal-"))
        self.streams: dict[str, list[StoredEvent]] = {}
        self.answers: dict[str, tuple[str, bytes]] = {}
        self.epochs: dict[str, int] = {}
        self.durable: dict[str, int] = {}
        self.boot = 1
        self.journal, report = self.run(open_journal(self.folder / "data"))
        assert not report.unclean

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""
        return self.loop.run_until_complete(asyncio.wait_for(work, 20))

    def teardown(self) -> None:
        """Leave nothing behind."""
        self.run(self.journal.close())
        self.loop.close()
        shutil.rmtree(self.folder)

    @rule(parts=PARTS, durability=st.sampled_from(Durability), off_by=st.sampled_from([0, 0, 0, 1, -1]))
    def append(self, parts: dict[str, list[str]], durability: Durability, off_by: int) -> None:
        """Right positions are taken, wrong ones leave nothing."""
        made = tuple(
            StreamAppend(name, len(self.streams.get(name, [])) + 1 + off_by, tuple(event(t) for t in texts))
            for name, texts in parts.items()
        )
        if off_by:
            with pytest.raises(JournalError) as caught:
                self.run(self.journal.append(Append(made, STAMP, durability)))
            assert caught.value.code is ErrorCode.CONFLICT
            return
        done = self.run(self.journal.append(Append(made, STAMP, durability)))
        self.note(done.events, durability)
        for name in parts:
            assert done.durable_seq(name) == self.durable_seq(name)

    @rule(stream=STREAMS, key=st.sampled_from(["r1", "r2"]), digest=st.sampled_from(["x", "y"]), texts=TEXTS)
    def request(self, stream: str, key: str, digest: str, texts: list[str]) -> None:
        """A request happens once; its retry is answered; its id with other content is refused."""
        answer = f"{key}-{len(self.answers)}".encode()
        part = StreamAppend(stream, len(self.streams.get(stream, [])) + 1, tuple(event(t) for t in texts))
        work = self.journal.append(Append((part,), STAMP, request=ClientRequest(key, answer, digest)))
        known = self.answers.get(key)
        if known is not None and known[0] != digest:
            with pytest.raises(JournalError):
                self.run(work)
            return
        done = self.run(work)
        if known is not None:
            assert (done.answered, done.events) == (known[1], ())
            return
        self.answers[key] = (digest, answer)
        self.note(done.events, Durability.FULL)

    @rule(stream=STREAMS)
    def begin_epoch(self, stream: str) -> None:
        """A new epoch goes on counting."""
        expected = len(self.streams.get(stream, [])) + 1
        done = self.run(self.journal.new_epoch(stream, event("epoch"), expected_next_seq=expected, at=STAMP))
        assert done.events[0].epoch == self.epochs.get(stream, 1) + 1
        self.note(done.events, Durability.FULL)

    @precondition(lambda self: self.streams)
    @rule(data=st.data())
    def erase(self, data: st.DataObject) -> None:
        """An erased payload is gone, its hash stays."""
        stream = data.draw(st.sampled_from(sorted(self.streams)))
        seq = data.draw(st.integers(1, len(self.streams[stream])))
        old = self.streams[stream][seq - 1]
        count = self.run(self.journal.erase(stream, [seq]))
        assert count == (old.erased is None)
        if count:
            self.streams[stream][seq - 1] = StoredEvent(
                old.stream, old.epoch, seq, old.type, old.version, old.at, ERASED_PAYLOAD, old.digest, old.payload_hash
            )
            self.durable = {}

    @rule()
    def sync(self) -> None:
        """Everything is durable afterwards."""
        self.run(self.journal.sync())
        self.durable = {}

    @rule(stream=STREAMS, after=st.integers(0, 8), limit=st.integers(1, 5))
    def read(self, stream: str, after: int, limit: int) -> None:
        """Reading is a slice of the model."""
        found = self.run(self.journal.read(stream, after, limit))
        assert list(found) == self.streams.get(stream, [])[after : after + limit]

    @rule(other_boot=st.booleans())
    def reopen_cleanly(self, other_boot: bool) -> None:
        """A clean close loses nothing and begins no epoch, whatever the boot."""
        self.run(self.journal.close())
        self.boot += other_boot
        self.journal, report = self.run(open_journal(self.folder / "data", boot_id=f"boot-{self.boot}"))
        assert (report.unclean, report.quarantined, report.lost) == (False, (), ())
        self.durable = {}

    @rule()
    def reopen_in_place(self) -> None:
        """What `reopen` finds is what was acknowledged, as long as the disk kept its word."""
        report = self.run(self.journal.reopen())
        assert (report.other_boot, report.quarantined, report.lost) == (False, (), ())
        self.durable = {}

    @rule()
    def read_beside(self) -> None:
        """A reader beside the daemon sees the same and disturbs nothing."""
        with OfflineJournal.open(self.folder / "data") as offline:
            for stream, events in self.streams.items():
                assert list(offline.read(stream, 0)) == events

    @invariant()
    def heads_agree(self) -> None:
        """Heads, chains and the durable position follow the model."""
        for stream, events in self.streams.items():
            head = self.run(self.journal.head(stream))
            assert head is not None
            assert (head.seq, head.digest) == (len(events), events[-1].digest)
            assert head.durable_seq == self.durable_seq(stream)
            assert verify_chain(events) == ChainPoint(events[-1].epoch, len(events), events[-1].digest)

    def durable_seq(self, stream: str) -> int:
        """Up to where the model thinks a power loss takes nothing."""
        return self.durable.get(stream, len(self.streams[stream]))

    def note(self, events: tuple[StoredEvent, ...], durability: Durability) -> None:
        """Take events into the model."""
        if durability is Durability.FULL:
            self.durable = {}
        for found in events:
            mine = self.streams.setdefault(found.stream, [])
            if durability is Durability.RELAXED:
                self.durable.setdefault(found.stream, len(mine))
            mine.append(found)
            assert found.seq == len(mine)
            self.epochs[found.stream] = found.epoch


JournalMachine.TestCase.settings = settings(
    max_examples=20, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
TestJournalModel = JournalMachine.TestCase
