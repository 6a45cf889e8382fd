"""Containers whose kernel is gVisor: the engine's runtime `runsc`.

Purpose: a rung for code that is not trusted at all, where no virtual machine works.
Invariant: a trial run saw another kernel than this machine's; the name of a runtime proves nothing.
Must never: fall back to the engine's own runtime.
"""

from typing import Final

from gloveport.sandbox.backends.docker import DockerSandbox, refuse_trial
from gloveport.sandbox.backends.docker_plan import Facts
from gloveport.sandbox.backends.docker_trials import try_kernel
from gloveport.sandbox.contract import Availability, Strength

RUNTIME: Final = "runsc"
_FIX: Final = (
    "Install gVisor (Debian: runsc) and name it in the engine's daemon.json: "
    '{"runtimes": {"runsc": {"path": "/usr/bin/runsc", "runtimeArgs": '
    '["--platform=ptrace", "--network=none", "--oci-seccomp"]}}}; then restart the engine.'
)


class GvisorSandbox(DockerSandbox):
    """Commands in containers on a kernel of their own, written in a memory-safe language."""

    name = "gvisor"
    strength = Strength.VIRTUAL_MACHINE
    statement = (
        "Code run here sees the session's copy of the project in a container: no network, none of your other files. "
        "Its system calls are answered by gVisor, a kernel of its own; yours is reached by gVisor alone. Programs that "
        "make many system calls are several times slower."
    )
    filter_holder = "gVisor"
    has_own_kernel = True

    async def probe(self) -> Availability:
        """As for a container, and the kernel inside must not be this machine's."""
        availability = await super().probe()
        if availability.ok and (fault := await try_kernel(self)) is not None:
            self.forget_trial()
            return refuse_trial(fault, _FIX)
        return availability

    def _pick_runtime(self, facts: Facts) -> str:
        if self._choice.runtime:
            return super()._pick_runtime(facts)
        return self._need_runtime(facts, RUNTIME, _FIX)
