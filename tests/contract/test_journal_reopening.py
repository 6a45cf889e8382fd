"""The journal while it is opened anew."""

from pathlib import Path

import anyio
import anyio.lowlevel
from tests.kit.journal_kit import opened, write

from gloveport.protocol.errors import ErrorCode
from gloveport.server.journal.errors import JournalError

ROUNDS = 30


async def test_a_read_during_a_reopen_is_answered_or_refused_typed(tmp_path: Path) -> None:
    """A client that asks meanwhile gets a typed refusal at worst (found by a disk that refused)."""
    async with opened(tmp_path / "data") as journal:
        await write(journal, "s", "x")
        refusals: list[ErrorCode] = []
        done = anyio.Event()

        async def read() -> None:
            while not done.is_set():
                try:
                    await journal.head("s")
                except JournalError as error:
                    refusals.append(error.code)
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(read)
            for _ in range(ROUNDS):
                await journal.reopen()
                assert await journal.head("s") is not None
            done.set()
        assert set(refusals) == {ErrorCode.NOT_SAVED}
