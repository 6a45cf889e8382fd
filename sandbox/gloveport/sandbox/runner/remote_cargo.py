"""What a run on another machine takes along, and what it has over there.

Purpose: the folders as they are sent, the container and volumes that take them, the words to the keeper.
Invariant: nothing of this machine is mounted over there; a content is sent once, where it is asked for; volumes that
are a run's alone bear its name.
Must never: send what is covered, or something that is not listed.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from gloveport.protocol.jail.codec import encode_bytes
from gloveport.protocol.jail.requests import EnginePlan, RemotePlan, RunRequest
from gloveport.sandbox.runner.engine_api import EngineError, EngineSocket
from gloveport.sandbox.runner.keeper_store import STORE
from gloveport.sandbox.runner.link import Link, stands
from gloveport.sandbox.runner.parcels import Memory, Parcel, pack
from gloveport.sandbox.runner.remote_channel import keeper_argv, remove_volumes

KEEPER_BYTES: Final = 48 * 1024 * 1024
KEEPER_BYTES_EACH: Final = 2 * 1024
"""What the keeper itself may use of the container's memory, in sum and for each path that is sent."""
DEADLINE_SLACK_S: Final = 30.0
KEPT_LABEL: Final = "gloveport.kept"
"""Volumes that outlive runs: what was sent before, and trees that nobody writes."""


class Cargo:
    """The folders of one run, listed by `pack`."""

    def __init__(self, request: RunRequest, plan: EnginePlan, remote: RemotePlan) -> None:
        self._request, self._plan, self._remote = request, plan, remote
        self.parcels: list[Parcel] = []
        self.covered: list[frozenset[str]] = []

    def pack(self, check_stop: Callable[[], None]) -> None:
        """List every folder. Raises OSError for what cannot be read or is too much."""
        plans = self._remote.parcels
        for plan in plans:
            root = plan.target.rstrip("/") + "/"
            others = tuple(other.target[len(root) :] for other in plans if other.target.startswith(root))
            hidden = frozenset(path[len(root) :] for path in self._remote.covered if path.startswith(root))
            check_stop()
            self.parcels.append(pack(plan, others, hidden, Memory(Path(self._remote.memory), plan.source)))
            self.covered.append(hidden)

    def make_container(self, engine: EngineSocket) -> None:
        """Volumes and the container; nothing runs yet. Raises `EngineError`, `OSError`."""
        body = json.loads(self._plan.create)
        mounts = [_volume(self._remote.store, STORE, writable=True)]
        for index, parcel in enumerate(self.parcels):
            name = self._volume_of(index)
            if not parcel.plan.is_writable:  # the keeper fills it by a way of its own
                mounts.append(_volume(name, self._place_of(index), writable=True))
            mounts.append(_volume(name, parcel.plan.target, writable=parcel.plan.is_writable))
        own = far_volumes(self._request)
        for name in {str(mount["Source"]) for mount in mounts}:
            labels = body["Labels"] if name in own else {**body["Labels"], KEPT_LABEL: "1"}
            engine.call("POST", "/volumes/create", json.dumps({"Name": name, "Labels": labels}))
        body["Cmd"] = keeper_argv(self._remote.away_s)
        body["HostConfig"]["Mounts"] = mounts
        limit = self._request.limits.memory_bytes_max
        if limit is not None:
            both = limit + KEEPER_BYTES + KEEPER_BYTES_EACH * sum(len(parcel.entries) for parcel in self.parcels)
            body["HostConfig"] |= {"Memory": both, "MemorySwap": both}
        engine.call("POST", f"/containers/create?name={self._plan.name}", json.dumps(body))

    def _volume_of(self, index: int) -> str:
        parcel = self.parcels[index]
        if parcel.plan.is_writable:
            return f"{self._plan.name}-{index}"
        return f"gloveport-tree-{self._remote.owner[:16]}-{parcel.digest[:32]}"

    def _place_of(self, index: int) -> str:
        """Where the keeper reaches a parcel."""
        plan = self.parcels[index].plan
        return plan.target if plan.is_writable else f"{STORE}/mounts/{index}"

    def head(self, marker: str, name: str) -> dict[str, Any]:
        """What the keeper is told of the run, whose folder over there is `name`."""
        request, limits = self._request, self._request.limits
        user, _, group = self._remote.user.partition(":")
        held = {"core": 0, "nofile": limits.open_files_max, "fsize": limits.file_bytes_max}
        held["cpu"] = None if limits.cpu_s is None else limits.cpu_s + 1
        return {
            "marker": marker, "run": name, "uid": int(user), "gid": int(group), "argv": list(request.argv),
            "environment": [list(pair) for pair in request.environment], "working_dir": request.working_dir,
            "stdin": encode_bytes(request.stdin),
            "limits": {kind: value for kind, value in held.items() if value is not None},
            "deadline_s": limits.wall_s + limits.grace_s + DEADLINE_SLACK_S, "grace_s": limits.grace_s,
            "parcels": [
                {"at": self._place_of(index), "tree": parcel.digest, "writable": parcel.plan.is_writable,
                 "others": list(parcel.others)}
                for index, parcel in enumerate(self.parcels)
            ],
            "bounds": [
                [index, self._place_of_folder(bound.folder), bound.bytes_max, bound.files_max]
                for index, bound in enumerate(request.bounds)
            ],
        }  # fmt: skip

    def _place_of_folder(self, folder: str) -> str:
        """Where a folder of this machine lies over there. Raises ValueError for one that is not sent."""
        real = os.path.realpath(folder)
        for parcel in self.parcels:
            if real == parcel.plan.source or real.startswith(parcel.plan.source.rstrip("/") + "/"):
                return parcel.plan.target + real[len(parcel.plan.source) :]
        raise ValueError(f"{folder} is bounded and not sent")

    def check_wanted(self, wanted: object) -> list[int]:
        """Indices of folders that are not over there yet. Raises ValueError for what is none."""
        if not isinstance(wanted, list) or not set(wanted) <= set(range(len(self.parcels))):
            raise ValueError("the other machine asks for folders that are not sent")
        return [int(one) for one in wanted]

    def lines(self, wanted: list[int]) -> Iterator[bytes]:
        """The list of the wanted folders, behind it the mark of its end."""
        for index in wanted:
            yield b"".join(json.dumps(entry.line(index)).encode() + b"\n" for entry in self.parcels[index].entries)
        yield b".\n"

    def contents(self, missing: Iterable[str], wanted: list[int]) -> Iterator[bytes]:
        """Contents that are not over there, each once, in the order in which they were asked for."""
        own = {
            entry.what: (self.parcels[index], entry)
            for index in wanted
            for entry in self.parcels[index].entries
            if entry.kind == "f"
        }
        for digest in missing:
            if digest not in own:
                raise ValueError("the other machine asks for a content that is not sent")
            parcel, entry = own[digest]
            yield from parcel.contents(entry)


def _volume(name: str, target: str, *, writable: bool) -> dict[str, Any]:
    return {
        "Type": "volume", "Source": name, "Target": target, "ReadOnly": not writable,
        "VolumeOptions": {"NoCopy": True},
    }  # fmt: skip


def far_volumes(request: RunRequest) -> list[str]:
    """Names of the volumes that are this run's alone."""
    if request.remote is None or request.engine is None:
        return []
    name = request.engine.name
    return [f"{name}-{index}" for index, parcel in enumerate(request.remote.parcels) if parcel.is_writable]


def remove_far(engine: EngineSocket, request: RunRequest) -> bool:
    """Kill and remove a run's container and its own volumes; whether there was one. Raises OSError when cut off."""
    if request.engine is None:
        return False
    found = True
    try:
        engine.call("DELETE", f"/containers/{request.engine.name}?force=1&v=1")
    except EngineError as error:
        if not error.status:
            raise ConnectionError(str(error)) from error
        found = False
    remove_volumes(engine, far_volumes(request))
    return found


def remove_lost(request: RunRequest) -> bool:
    """The same, by whoever has no way yet."""
    if request.remote is None or request.engine is None:
        return False
    if stands(request.engine.address):
        with contextlib.suppress(OSError):
            return remove_far(EngineSocket(request.engine.address), request)
    link = Link(request.remote.link)
    try:
        return remove_far(EngineSocket(link.open()), request)
    except OSError:
        return False
    finally:
        link.close()
