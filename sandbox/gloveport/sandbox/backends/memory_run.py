"""One run of the memory rung.

Purpose: run a program that is a coroutine, with output kept head and tail, wall and idle limits, stop and a result.
Invariant: a result comes once, after the coroutine has ended; a reader that comes late still reads from the first byte.
Must never: run a program beyond its end being told.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from gloveport.sandbox.contract import Command, Result, ResultKind
from gloveport.sandbox.profile import Access, Limits, Profile, is_below


class Flow:
    """Output of a run: the head, and the newest tail."""

    def __init__(self, bytes_max: int) -> None:
        self._head_max = bytes_max // 2
        self._tail_max = bytes_max - self._head_max
        self._head, self._tail = b"", b""
        self.total = 0
        self.changed = anyio.Event()
        self.last_at = time.monotonic()

    def write(self, chunk: bytes) -> None:
        """Append, dropping the middle when it is too much."""
        room = self._head_max - len(self._head)
        self._head += chunk[:room]
        self._tail = (self._tail + chunk[room:])[-self._tail_max :]
        self.total += len(chunk)
        self.last_at = time.monotonic()
        self.wake()

    def wake(self) -> None:
        """Let readers look again."""
        self.changed.set()
        self.changed = anyio.Event()

    def kept(self) -> bytes:
        """Head and tail."""
        return self._head + self._tail

    @property
    def truncated(self) -> bool:
        """Whether the middle is missing."""
        return self.total > len(self._head) + len(self._tail)

    def read_from(self, offset: int) -> tuple[bytes, int]:
        """What is kept of the bytes from `offset` on, and the offset behind it."""
        if offset < len(self._head):
            return self._head[offset:], len(self._head)
        start = self.total - len(self._tail)
        return self._tail[max(0, offset - start) :], self.total


@dataclass(frozen=True, slots=True)
class Stage:
    """What a program is given: its words, input, environment and files."""

    argv: tuple[str, ...]
    stdin: bytes
    environment: Mapping[str, str]
    profile: Profile
    flow: Flow = field(repr=False)

    def write(self, data: bytes) -> None:
        """Write output."""
        self.flow.write(data)

    def host_path(self, inside: str, *, writing: bool) -> Path:
        """Where a path inside lies; `PermissionError` when no mount gives it."""
        path = str(Path(self.profile.working_dir, inside))
        for mount in sorted(self.profile.mounts, key=lambda mount: -len(mount.target)):
            if is_below(path, mount.target) and (not writing or mount.access is Access.READ_WRITE):
                return Path(mount.source + path[len(mount.target) :])
        raise PermissionError(f"{path} is in no mount")


Program = Callable[[Stage], Coroutine[None, None, int]]
"""A program: from its stage to its exit status."""


class MemoryExecution:
    """A program that runs as a task of the event loop that started it."""

    def __init__(self, command: Command, profile: Profile, program: Program) -> None:
        limits = profile.limits
        self._command, self._limits = command, limits
        self._flow = Flow(limits.output_bytes_max)
        environment = {"PATH": "/usr/bin:/bin", **profile.environment}
        stage = Stage(command.argv, command.stdin, environment, profile, self._flow)
        self._began = time.monotonic()
        self._result: Result | None = None
        self._program = asyncio.ensure_future(program(stage))
        self._watch = asyncio.get_running_loop().create_task(self._perform())

    @property
    def run_id(self) -> str:
        """The caller's id of this run."""
        return self._command.run_id

    @property
    def is_of_this_boot(self) -> bool:
        """Always: nothing outlives this program."""
        return True

    def is_over(self) -> bool:
        """Whether the end is known."""
        return self._result is not None

    async def output(self) -> AsyncIterator[bytes]:
        """Chunks from the first byte on."""
        offset = 0
        while True:
            changed, over = self._flow.changed, self.is_over()
            chunk, offset = self._flow.read_from(offset)
            if chunk:
                yield chunk
            elif over:
                return
            else:
                await changed.wait()

    async def result(self) -> Result:
        """Wait for the end."""
        while self._result is None:
            await self._flow.changed.wait()
        return self._result

    async def stop(self) -> None:
        """Cancel the program and wait for its end."""
        self._program.cancel()
        await self.result()

    async def _perform(self) -> None:
        try:
            self._result = await self._await_end()
        finally:
            self._program.cancel()
            self._flow.wake()

    async def _await_end(self) -> Result:
        while not self._program.done():
            now = time.monotonic()
            if (words := _limit_passed(self._limits, self._began, self._flow.last_at, now)) is not None:
                self._program.cancel()
                await asyncio.wait({self._program})
                return self._describe(ResultKind.TIMEOUT, None, words)
            left = _time_left(self._limits, self._began, self._flow.last_at, now)
            await asyncio.wait({self._program}, timeout=left)
        return self._read_end()

    def _read_end(self) -> Result:
        try:
            code = self._program.result()
        except asyncio.CancelledError:
            return self._describe(ResultKind.KILLED, None, "stopped on request")
        except (OSError, ValueError) as error:
            self._flow.write(f"{error}\n".encode())
            code = 1
        kind = ResultKind.OK if code == 0 else ResultKind.FAILED
        return self._describe(kind, code, f"exit status {code}")

    def _describe(self, kind: ResultKind, code: int | None, evidence: str) -> Result:
        flow = self._flow
        wall_s = time.monotonic() - self._began
        return Result(kind, code, None, evidence, wall_s, 0.0, None, flow.kept(), flow.total, flow.truncated)


def _limit_passed(limits: Limits, began: float, last: float, now: float) -> str | None:
    if now - began >= limits.wall_s:
        return f"wall limit of {limits.wall_s:g} s"
    if limits.idle_s is not None and now - last >= limits.idle_s:
        return f"idle limit: no output for {limits.idle_s:g} s"
    return None


def _time_left(limits: Limits, began: float, last: float, now: float) -> float:
    moments = [began + limits.wall_s] + ([] if limits.idle_s is None else [last + limits.idle_s])
    return max(0.0, min(moments) - now)
