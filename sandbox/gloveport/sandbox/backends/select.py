"""Opens a rung by its name.

Purpose: the one place where names become backends, and where all rungs are tried for the user to choose from.
Invariant: the rung that is named is the rung that is opened; an unknown name is an error.
Must never: choose a rung, or put one in the place of another.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from gloveport.protocol.errors import ErrorCode
from gloveport.sandbox.backends.docker_choice import EngineChoice
from gloveport.sandbox.backends.names import NAMES, REMOTE_NAMES
from gloveport.sandbox.backends.remote_choice import RemoteChoice
from gloveport.sandbox.contract import Availability, Sandbox, SandboxError


def open_backend(
    name: str,
    runs_dir: Path,
    *,
    hidden: Iterable[Path] = (),
    exposed: Iterable[Path] = (),
    engine: EngineChoice | None = None,
    remotes: Mapping[str, RemoteChoice] | None = None,
) -> Sandbox:
    """The backend of that name. `hidden` is never seen in a jail; below it, content of `exposed` folders may be.

    `engine` names the container engine for the rungs that have one; without it the environment does. `remotes` names
    the machine of each remote rung; without it that rung is unavailable.
    """
    if name == "bubblewrap":
        from gloveport.sandbox.backends.bubblewrap import BubblewrapSandbox

        return BubblewrapSandbox(runs_dir, hidden, exposed)
    if name == "docker":
        from gloveport.sandbox.backends.docker import DockerSandbox

        return DockerSandbox(runs_dir, hidden, exposed, engine)
    if name == "gvisor":
        from gloveport.sandbox.backends.docker_gvisor import GvisorSandbox

        return GvisorSandbox(runs_dir, hidden, exposed, engine)
    if name in REMOTE_NAMES:
        from gloveport.sandbox.backends.remote import RemoteSshSandbox, RemoteTlsSandbox

        kind = RemoteSshSandbox if name == RemoteSshSandbox.name else RemoteTlsSandbox
        return kind(runs_dir, hidden, exposed, (remotes or {}).get(name))
    if name == "process":
        from gloveport.sandbox.backends.process import ProcessSandbox

        return ProcessSandbox(runs_dir)
    if name == "memory":
        from gloveport.sandbox.backends.memory import MemorySandbox

        return MemorySandbox()
    known = ", ".join(NAMES)
    raise SandboxError(ErrorCode.SANDBOX_UNAVAILABLE, f"There is no sandbox {name!r}.", hint=f"Choose one of: {known}.")


async def available(backends: Iterable[Sandbox]) -> dict[str, Availability]:
    """Each backend's own finding after a real trial run, in the order given."""
    return {backend.name: await backend.probe() for backend in backends}
