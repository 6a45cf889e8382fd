"""The few programs that the memory rung knows by itself.

Purpose: enough words for a test to say what a command does: print, wait, fail, read, write, flood.
Invariant: each behaves as its namesake would for the given words.
Must never: touch a file outside the mounts.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import anyio

from gloveport.sandbox.backends.memory_run import Program, Stage

_CHUNK: Final = 64 * 1024


async def _true(_stage: Stage) -> int:
    return 0


async def _exit(stage: Stage) -> int:
    return int(stage.argv[1])


async def _echo(stage: Stage) -> int:
    stage.write(" ".join(stage.argv[1:]).encode() + b"\n")
    return 0


async def _cat(stage: Stage) -> int:
    """Input, or the named files."""
    for name in stage.argv[1:]:
        stage.write(await anyio.Path(stage.host_path(name, writing=False)).read_bytes())
    if len(stage.argv) == 1:
        stage.write(stage.stdin)
    return 0


async def _sleep(stage: Stage) -> int:
    await anyio.sleep(float(stage.argv[1]))
    return 0


async def _say_and_sleep(stage: Stage) -> int:
    """Print the first word at once, then wait as many seconds as the second says."""
    stage.write(stage.argv[1].encode() + b"\n")
    await anyio.sleep(float(stage.argv[2]))
    return 0


async def _env(stage: Stage) -> int:
    stage.write("".join(f"{name}={value}\n" for name, value in stage.environment.items()).encode())
    return 0


async def _write(stage: Stage) -> int:
    """`write PATH TEXT`."""
    path = anyio.Path(stage.host_path(stage.argv[1], writing=True))
    await path.write_bytes(stage.argv[2].encode())
    return 0


async def _flood(stage: Stage) -> int:
    """`flood BYTES`: that many bytes, then a last line."""
    left = int(stage.argv[1])
    while left > 0:
        stage.write(b"x" * min(left, _CHUNK))
        left -= _CHUNK
        await anyio.lowlevel.checkpoint()
    stage.write(b"\nend\n")
    return 0


PROGRAMS: Final[Mapping[str, Program]] = MappingProxyType(
    {"true": _true, "exit": _exit, "echo": _echo, "cat": _cat, "sleep": _sleep, "say": _say_and_sleep, "env": _env,
     "write": _write, "flood": _flood}
)  # fmt: skip
