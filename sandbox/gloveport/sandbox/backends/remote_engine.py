"""The daemon's door to an engine on another machine.

Purpose: ask the engine what it is and what of ours it holds, over a way that is opened when it is first needed.
Invariant: the way is the one that the user's settings pin; only containers and volumes with our labels are touched.
Must never: pull an image, or take proxies, authorities or hosts from the environment.

Errors: `SandboxError` (SANDBOX_UNAVAILABLE) with reason and fix.
"""

import json
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.jail.requests import LinkPlan
from gloveport.sandbox.backends.docker_plan import OWNER_LABEL, RUN_LABEL, Facts, read_facts
from gloveport.sandbox.contract import SandboxError
from gloveport.sandbox.runner.engine_api import GONE, EngineError, EngineSocket, quote
from gloveport.sandbox.runner.link import Link, LinkError
from gloveport.sandbox.runner.remote_cargo import KEPT_LABEL
from gloveport.sandbox.runner.remote_channel import remove_volumes

FIXES: Final[Mapping[str, str]] = MappingProxyType({
    "missing": "Install the program `ssh` (Debian: openssh-client).",
    "host_key": "If the machine was set up anew, write its new key as host_key into your settings, taken from the "
                "machine itself (ssh-keygen -l -f /etc/ssh/ssh_host_ed25519_key.pub); if not, somebody stands between.",
    "denied": "Put the public half of your key into ~/.ssh/authorized_keys of that user on the machine.",
    "certificate": "Take the authority, certificate and key that belong to this engine; the certificate must name "
                   "the host as your settings do, and the engine must ask for yours (dockerd --tlsverify).",
    "unreachable": "See that the machine is up and that your network lets you reach it.",
    "settings": "Mend the setting that is named.",
    "engine": "See that the engine runs over there and that the user may use its socket.",
})  # fmt: skip


class RemoteEngine:
    """Calls to one engine. Blocking: call it in a thread."""

    def __init__(self, plan: LinkPlan, place: str) -> None:
        self._place = place
        self._link = Link(plan)
        self._turn = threading.Lock()

    @property
    def address(self) -> str:
        """Where the way's socket lies; empty while it does not stand."""
        return self._link.address

    def look(self) -> Facts:
        """What the engine says of itself. Raises `SandboxError`."""
        info = self._call("GET", "/info")
        if not isinstance(info, dict):
            raise self._refuse("engine", "its answer is none")
        return read_facts(info)

    def has_image(self, reference: str) -> bool:
        """Whether the engine has the image."""
        try:
            self._call("GET", f"/images/{quote(reference)}/json")
        except EngineError:
            return False
        return True

    def list_ours(self, owner: str) -> tuple[Mapping[str, Any], ...]:
        """Containers of this owner: `Id`, `Names`, `Labels`, `State`."""
        return tuple(self._call("GET", f"/containers/json?all=1&filters={_labelled(owner)}") or ())

    def list_volumes(self, owner: str) -> dict[str, str]:
        """Volumes of this owner that belong to a run: the run's id by name."""
        told = self._call("GET", f"/volumes?filters={_labelled(owner)}") or {}
        found = [one for one in told.get("Volumes") or () if KEPT_LABEL not in (one.get("Labels") or {})]
        return {str(one["Name"]): str(one["Labels"].get(RUN_LABEL, "")) for one in found}

    def remove(self, container: str) -> None:
        """Kill and remove; one that is gone already is fine."""
        try:
            self._call("DELETE", f"/containers/{container}?force=1&v=1")
        except EngineError as error:
            if error.status not in (GONE, 409):
                raise self._refuse("engine", str(error)) from error

    def remove_volumes(self, names: tuple[str, ...]) -> None:
        """Remove volumes that nothing uses any more."""
        remove_volumes(EngineSocket(self._open()), names)

    def close(self) -> None:
        """Let go of the way."""
        with self._turn:
            self._link.close()

    def _open(self) -> str:
        with self._turn:
            try:
                return self._link.open()
            except LinkError as error:
                raise self._refuse(error.kind, error.words) from error

    def _call(self, method: str, path: str) -> Any:
        """Raises `SandboxError` where nobody answers, `EngineError` where the engine refuses."""
        address = self._open()
        try:
            return EngineSocket(address).call(method, path)
        except EngineError as error:
            if error.status:
                raise
            raise self._refuse("engine", str(error)) from error
        except OSError as error:
            raise self._refuse("engine", str(error)) from error

    def _refuse(self, kind: str, words: str) -> SandboxError:
        reason = f"No engine answers at {self._place}: {words}."
        return SandboxError(ErrorCode.SANDBOX_UNAVAILABLE, reason, hint=FIXES.get(kind, FIXES["settings"]))


def _labelled(owner: str) -> str:
    return quote(json.dumps({"label": [f"{OWNER_LABEL}={owner}"]}))
