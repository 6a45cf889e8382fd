"""A process that owns a journal and is killed in the middle of its work.

Purpose: tests of crashes kill a real process between real commits.
Invariant: a line on stdout is written only after the journal acknowledged what it names.

Usage: journal_child.py DIRECTORY append|hold
"""

import asyncio
import sys
from pathlib import Path

from gloveport.protocol.journal.envelope import Durability, NewEvent
from gloveport.server.journal.records import Append, ClientRequest, StreamAppend
from gloveport.server.journal.store import Journal


async def append_for_ever(journal: Journal, name: str) -> None:
    """Acknowledge append after append, full and relaxed in turn, each under a request id."""
    head = await journal.head(name)
    seq = head.next_seq if head is not None else 1
    while True:
        durability = Durability.RELAXED if seq % 3 else Durability.FULL
        payload = f'{{"text":"{"z" * (seq % 700)}"}}'.encode()
        part = StreamAppend(name, seq, (NewEvent("Noted", 1, payload),))
        request = ClientRequest(f"{name}:{seq}", b"done")
        done = await journal.append(Append((part,), 1, durability, request))
        print(f"{name} {seq} {done.events[0].digest} {done.durable_seq(name)}", flush=True)
        seq += 1


async def main(directory: Path, mode: str) -> None:
    """Open, say so, then work until killed."""
    journal, _report = await Journal.open(directory, clock=lambda: 1, boot_id="boot-1", ballast_bytes=4096)
    print("open", flush=True)
    if mode == "append":
        await asyncio.gather(*(append_for_ever(journal, f"session/{number}") for number in range(3)))
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await journal.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
