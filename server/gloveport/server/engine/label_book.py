"""Labels of content over sessions.

Purpose: remember with which label content was put into files of the user's, by path and by content, for whoever reads
it later.
Invariant: what is noted is on disk before `note` returns; a label only rises; more than can be remembered is the worst
for every file.
Must never: hold content, or forget a label since its session was deleted.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Final

import anyio

from gloveport.protocol.ids import DAEMON_STREAM
from gloveport.protocol.journal.events import ContentLabelled, LabelledFile
from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.server.engine.daemon_facts import DaemonFacts
from gloveport.server.engine.folding import body_of
from gloveport.server.journal.store import Journal
from gloveport.server.session.fold_labels import join_all_labels, join_labels

LABELLED_MAX: Final = 100_000
FILES_PER_EVENT_MAX: Final = 500
EMPTY: Final = sha256(b"").hexdigest()
"""Many files are empty, and an empty one tells nothing but its name."""
WORST: Final = LabelRecord(integrity=2, readers=(), provenance=("unknown",))


class LabelBook:
    """What is written and labelled, of every workspace; read from the journal when it is first asked."""

    def __init__(self, journal: Journal, facts: DaemonFacts) -> None:
        self._journal, self._facts = journal, facts
        self._by_path: dict[str, LabelRecord] = {}
        self._by_digest: dict[str, LabelRecord] = {}
        self._read_to = -1
        self._lock = anyio.Lock()

    async def ready(self) -> None:
        """Take in what is on disk. Raises JournalError."""
        if self._read_to >= 0:
            return
        async with self._lock:
            seq = max(self._read_to, 0)
            if self._read_to >= 0:
                return
            while events := await self._journal.read(DAEMON_STREAM, seq):
                for event in events:
                    seq = event.seq
                    body = body_of(event) if event.type == ContentLabelled.__name__ else None
                    if isinstance(body, ContentLabelled):
                        self._take(body.files)
            self._read_to = seq

    async def note(self, session_id: str, files: Sequence[LabelledFile]) -> None:
        """Remember labels before their content is written. Raises JournalError (NOT_SAVED, DATA_FULL)."""
        await self.ready()
        news = [one for one in files if self._is_news(one)]
        for start in range(0, len(news), FILES_PER_EVENT_MAX):
            part = tuple(news[start : start + FILES_PER_EVENT_MAX])
            await self._facts.tell(ContentLabelled(session_id=session_id, files=part))
            self._take(part)

    def of(self, path: str, digest: str | None) -> LabelRecord | None:
        """The label of a file by its absolute path and its content; null when nothing is known of either."""
        if self._is_full:
            return WORST
        found = [self._by_path.get(path), self._by_digest.get(digest or "")]
        return join_all_labels(*found) if any(found) else None

    @property
    def is_empty(self) -> bool:
        """True while nothing was ever labelled: nobody needs a hash then."""
        return not self._by_path

    def below(self, root: str) -> LabelRecord | None:
        """The label of everything in a folder that was ever labelled; null when nothing was."""
        if self._is_full:
            return WORST
        top = PurePosixPath(root)
        found = [label for path, label in self._by_path.items() if PurePosixPath(path).is_relative_to(top)]
        return join_all_labels(*found) if found else None

    def among(self, digests: Iterable[str]) -> LabelRecord | None:
        """The label of everything among these contents that was ever labelled; null when nothing was."""
        found = [label for digest in digests if (label := self._by_digest.get(digest)) is not None]
        return join_all_labels(*found) if found else None

    @property
    def _is_full(self) -> bool:
        return max(len(self._by_path), len(self._by_digest)) > LABELLED_MAX

    def _is_news(self, one: LabelledFile) -> bool:
        """Whether the path's own label or that of its content is to rise: each is found without the other."""
        known = [self._by_path.get(one.path)]
        if one.digest not in (None, EMPTY):
            known.append(self._by_digest.get(one.digest))
        return any(label is None or join_labels(label, one.label) != label for label in known)

    def _take(self, files: Iterable[LabelledFile]) -> None:
        for one in files:
            self._by_path[one.path] = join_all_labels(self._by_path.get(one.path), one.label)
            if one.digest not in (None, EMPTY):
                self._by_digest[one.digest] = join_all_labels(self._by_digest.get(one.digest), one.label)
