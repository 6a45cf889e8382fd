"""Trial runs by which a container rung finds out what it may claim.

Purpose: see, not believe: memory is held, the kernel inside is another, files made inside are the user's.
Invariant: each trial is one run under limits in a container of the very kind that runs get; words tell what was wrong.
Must never: leave a file or a container behind.
"""

import os
import secrets
import tempfile
from pathlib import Path
from typing import Final, Protocol

from gloveport.sandbox.contract import Command, Lease, Result, ResultKind, SandboxError
from gloveport.sandbox.profile import Access, Limits, Mount, Profile

TRIAL_LABEL: Final = "trial"
_USUAL: Final = Limits(wall_s=15.0, output_bytes_max=4096)
_MEMORY: Final = Limits(wall_s=15.0, output_bytes_max=4096, memory_bytes_max=24 * 1024 * 1024, processes_max=16)
_EATER: Final = ("sh", "-c", "read -r _ && exec tail /dev/zero")
"""Takes memory until it is killed, once it is told to: whoever is to see the kill listens by then. Part of every base
system."""
_GO: Final = b"go\n"
_FOLDER: Final = "/mnt/trial"
_VERSION: Final = "/proc/version"
_BOOT: Final = "/proc/sys/kernel/random/boot_id"


class Preparing(Protocol):
    """The half of a rung that trials need."""

    async def prepare(self, profile: Profile, lease_id: str) -> Lease:
        """Make a lease. Raises `SandboxError`."""
        ...


def trial_profile(limits: Limits = _USUAL, mounts: tuple[Mount, ...] = ()) -> Profile:
    """What a trial run is made with."""
    return Profile(label=TRIAL_LABEL, tool_kind="small", mounts=mounts, working_dir="/", limits=limits)


async def try_memory(rung: Preparing) -> str | None:
    """Words about why the memory limit is not held, None when a run was seen killed for it."""
    result = await _run(rung, trial_profile(_MEMORY), _EATER, _GO)
    if isinstance(result, str):
        return result
    if result.kind is ResultKind.OOM:
        return None
    return f"A run that took more memory than its limit was not killed for it: {result.evidence}."


async def try_files(rung: Preparing) -> str | None:
    """Words about why a folder of this machine cannot be worked in, None when a file made inside was the user's."""
    with tempfile.TemporaryDirectory(prefix="gloveport-trial-") as folder:
        mounts = (Mount(os.path.realpath(folder), _FOLDER, Access.READ_WRITE),)
        result = await _run(rung, trial_profile(mounts=mounts), ("touch", f"{_FOLDER}/made"))
        if isinstance(result, str):
            return result
        if result.kind is not ResultKind.OK:
            said = result.output.decode("utf-8", "replace").strip()[-200:]
            return f"A container cannot write into a folder of yours: {said or result.evidence}"
        try:
            owner = Path(folder, "made").stat().st_uid
        except OSError:
            return "The engine does not see this machine's folders: a file made in a container did not appear here."
    if owner != os.getuid():
        return f"Files made in a container would belong to user {owner}, not to you."
    return None


async def try_kernel(rung: Preparing) -> str | None:
    """Words about why the kernel inside is not another one, None when it was seen to be."""
    result = await _run(rung, trial_profile(), ("cat", _VERSION))
    if isinstance(result, str):
        return result
    if result.kind is not ResultKind.OK or not result.output.strip():
        return f"The kernel inside could not be looked at: {result.evidence}."
    if result.output.strip() == Path(_VERSION).read_bytes().strip():
        return "The runtime runs containers on this machine's own kernel; it is not gVisor."
    return None


async def read_boot_id(rung: Preparing) -> str | None:
    """The name of the boot of the kernel inside, None when it cannot be read."""
    result = await _run(rung, trial_profile(), ("cat", _BOOT))
    if isinstance(result, str) or result.kind is not ResultKind.OK:
        return None
    return result.output.decode("ascii", "replace").strip() or None


async def _run(rung: Preparing, profile: Profile, argv: tuple[str, ...], stdin: bytes = b"") -> Result | str:
    run_id = f"trial-{secrets.token_hex(8)}"
    try:
        lease = await rung.prepare(profile, run_id)
        try:
            return await (await lease.start(Command(argv, run_id, stdin))).result()
        finally:
            await lease.release()
    except SandboxError as error:
        return error.message
