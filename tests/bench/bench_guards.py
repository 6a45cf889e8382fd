"""What looking for secrets and keeping the audit log cost, beside hashing the same bytes.

Purpose: keep both far below the cost of what they guard.
Invariant: prints ratios; asserts nothing.
Must never: be part of the test run.
"""

import asyncio
import hashlib
import os
import random
import tempfile
import time
import timeit
from pathlib import Path

from gloveport.server.audit.line import Action, Entry
from gloveport.server.audit.log import AuditLog
from gloveport.server.audit.reading import verify_log
from gloveport.server.policy.hints import suspicions
from gloveport.server.secrets.detect import Redactor

LINES = 5_120
GROUP = 256
SINGLE = 50


def text_of(size: int) -> bytes:
    """Text like source, the same each time."""
    rng = random.Random(7)
    words = ("def", "return", "token", "value", "import", "self", "=", "(", ")", "key:", "# note", "api_key", "x1")
    lines: list[str] = []
    while sum(map(len, lines)) < size:
        lines.append(" ".join(rng.choices(words, k=9)) + "\n")
    return "".join(lines).encode()[:size]


def scan() -> None:
    """The redactor and the hints, on a megabyte and on four kilobytes."""
    known = Redactor([f"known-secret-value-{number}" for number in range(20)])
    for name, size, rounds in (("1 MB", 1_000_000, 3), ("4 kB", 4_096, 300)):
        data = text_of(size)
        unit = timeit.timeit(lambda data=data: hashlib.sha256(data).digest(), number=rounds) / rounds
        took = timeit.timeit(lambda data=data: known.redact_bytes(data), number=rounds) / rounds
        told = timeit.timeit(lambda data=data: suspicions(data.decode()), number=rounds) / rounds
        print(f"secret scan of {name}: {took * 1e3:.2f} ms, {took / unit:.0f} x its hash")
        print(f"injection hints in {name}: {told * 1e3:.2f} ms, {told / unit:.0f} x its hash")


async def audit() -> None:
    """Appending in groups, one by one, and following the whole chain."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "audit.jsonl"
        os.chmod(folder, 0o700)
        log = await AuditLog.open(path, clock=lambda: 1)
        entry = Entry(1, Action.DECISION, "session/s", "main", "bubblewrap", "agent", "allow", {"tool": "read_file"})
        began = time.perf_counter()
        for _ in range(LINES // GROUP):
            await log.record_all((entry,) * GROUP)
        grouped = time.perf_counter() - began
        began = time.perf_counter()
        for _ in range(SINGLE):
            await log.record(entry)
        single = time.perf_counter() - began
        await log.close()
        began = time.perf_counter()
        report = verify_log(path)
        took = time.perf_counter() - began
        assert report.ok
        print(
            f"audit append, {GROUP} together: {LINES / grouped:.0f} lines/s; one by one: {SINGLE / single:.0f} lines/s"
        )
        print(f"audit verify: {report.lines / took:.0f} lines/s")


if __name__ == "__main__":
    scan()
    asyncio.run(audit())
