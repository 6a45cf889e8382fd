"""The one door to a container engine: the official SDK, loaded late.

Purpose: ask an engine what it is, give it our root image, list and remove containers of ours.
Invariant: only containers that bear our labels are touched; every call has a time limit.
Must never: pull anything from a registry, or run a container itself; runs belong to supervisors.

Errors: `SandboxError` (SANDBOX_UNAVAILABLE) with reason and fix for an engine that cannot be used.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gloveport.protocol.errors import ErrorCode
from gloveport.sandbox.backends.docker_choice import UNIX
from gloveport.sandbox.backends.docker_plan import OWNER_LABEL, Facts, pack_machine_root, read_facts
from gloveport.sandbox.contract import SandboxError
from gloveport.sandbox.runner.engine_api import EngineError, EngineSocket

if TYPE_CHECKING:
    from docker import DockerClient

CALL_S: Final = 20
MACHINE_IMAGE: Final = "gloveport/machine"
_START_IT: Final = (
    "Install and start Docker, or name its socket by DOCKER_HOST (unix:///path). Use of an engine that runs as root "
    "is as good as being root: prefer rootless Docker."
)


class Engine:
    """Calls to one engine. Blocking: call it in a thread."""

    def __init__(self, socket_path: str) -> None:
        self.socket_path = socket_path
        self._client: DockerClient | None = None

    def look(self) -> Facts:
        """What the engine says of itself. Raises `SandboxError`."""
        try:
            return read_facts(self._open().info())
        except OSError as error:
            raise self._unreachable(str(error)) from error

    def place_machine_image(self) -> str:
        """The reference of our root image, handed over when the engine does not have it. No registry is asked."""
        packed = pack_machine_root()
        reference = f"{MACHINE_IMAGE}:{hashlib.sha256(packed).hexdigest()[:16]}"
        if not self.has_image(reference):
            repository, _, tag = reference.partition(":")
            self._open().api.import_image_from_data(packed, repository=repository, tag=tag)
        return reference

    def has_image(self, reference: str) -> bool:
        """Whether the engine has the image."""
        from docker.errors import ImageNotFound

        try:
            self._open().images.get(reference)
        except ImageNotFound:
            return False
        return True

    def find_image(self, reference: str) -> str:
        """The id of the image's own bytes, which no other image can take over; empty where the engine has none."""
        from docker.errors import DockerException

        try:
            return str(self._open().images.get(reference).id)
        except DockerException:
            return ""

    def list_ours(self, owner: str) -> tuple[Mapping[str, Any], ...]:
        """Containers of this owner: `Id`, `Labels`, `State`."""
        found = self._open().api.containers(all=True, filters={"label": f"{OWNER_LABEL}={owner}"})
        return tuple(found)

    def remove(self, container: str) -> None:
        """Kill and remove; one that is gone already is fine."""
        from docker.errors import APIError

        try:
            self._open().api.remove_container(container, v=True, force=True)
        except APIError as error:
            if error.status_code not in (404, 409):
                raise

    def close(self) -> None:
        """Give the connection back."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _open(self) -> "DockerClient":
        if self._client is None:
            if not Path(self.socket_path).exists():
                raise self._unreachable(f"there is no socket at {self.socket_path}")
            try:
                from docker import DockerClient
                from docker.errors import DockerException
            except ImportError as error:
                words = "The package `docker` is not installed."
                raise SandboxError(
                    ErrorCode.SANDBOX_UNAVAILABLE, words, hint="Install gloveport with its extra: gloveport[docker]."
                ) from error
            try:
                EngineSocket(self.socket_path, CALL_S).call("GET", "/version")  # the SDK leaves a refusal's socket open
                self._client = DockerClient(base_url=UNIX + self.socket_path, timeout=CALL_S)
            except (DockerException, EngineError, OSError) as error:
                raise self._unreachable(str(error)) from error
        return self._client

    def _unreachable(self, words: str) -> SandboxError:
        fix = _START_IT
        if not os.access(self.socket_path, os.R_OK | os.W_OK) and os.path.exists(self.socket_path):
            fix = "You may not use this engine. Set up rootless Docker, or have the administrator let you."
        return SandboxError(ErrorCode.SANDBOX_UNAVAILABLE, f"No container engine answers: {words}.", hint=fix)
