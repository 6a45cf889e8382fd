"""The doctor on another machine whose containers lack some walls: exactly those probes fail, by either way there.

Purpose: a remote rung's probes are seen failing; one case breaks many things, as each examination sends everything.
Invariant: what is broken is what the engine over there is asked for, or what this side holds and looks at.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.kit.remotes import remote_machine
from tests.kit.sandboxes import Rig, open_rig
from tests.security.test_doctor_broken import failing, surviving_child, trusting_collector

from gloveport.protocol.jail.requests import ParcelPlan, RunRequest
from gloveport.sandbox.backends.docker import Ready
from gloveport.sandbox.backends.remote import RemoteSandbox, RemoteSshSandbox, RemoteTlsSandbox
from gloveport.sandbox.contract import Command
from gloveport.sandbox.doctor.examine import PROBES
from gloveport.sandbox.doctor.judging import AUDIT_FIELDS
from gloveport.sandbox.profile import Profile

pytestmark = [pytest.mark.timeout(400), pytest.mark.engine]
Edit = Callable[[RunRequest], RunRequest]
BY_KEEPER = {"rights_dropped", "only_pipes", "set_id_removed"}
"""Held by our own program over there and by what is taken back, whatever the engine does: no engine can break them."""
NOT_PROMISED = {"network_list", "denials_named", "landlock", "own_user"}


def body(change: Callable[[dict[str, Any]], None]) -> Edit:
    """Ask the engine for another container."""

    def edit(request: RunRequest) -> RunRequest:
        assert request.engine is not None
        asked = json.loads(request.engine.create)
        change(asked["HostConfig"])
        return replace(request, engine=replace(request.engine, create=json.dumps(asked)))

    return edit


def open_container(host: dict[str, Any]) -> None:
    """The machine's own network, every system call, no bounds."""
    for name in ("Sysctls", "PidsLimit", "Memory", "MemorySwap"):
        host.pop(name, None)
    host["NetworkMode"] = "host"
    host["SecurityOpt"] = ["no-new-privileges:true", "seccomp=unconfined"]
    host["Tmpfs"] = {path: words.replace("size=4194304", "size=99999744") for path, words in host["Tmpfs"].items()}


def without_walls(request: RunRequest) -> RunRequest:
    """The container of no bounds; its memory follows from the limits of the run."""
    return body(open_container)(replace(request, limits=replace(request.limits, memory_bytes_max=None)))


def machine_shown(request: RunRequest) -> RunRequest:
    """The temporary folder of the machine over there, which is this one, to a command that runs as its root."""
    assert request.remote is not None

    def change(host: dict[str, Any]) -> None:
        host["Tmpfs"].pop("/tmp")
        host["Binds"] = ["/tmp:/tmp"]

    return body(change)(replace(request, remote=replace(request.remote, user="0:0")))


def endless(request: RunRequest) -> RunRequest:
    """No limit is held, and this program's own variable goes along."""
    limits = replace(request.limits, wall_s=3600.0, cpu_s=None, file_bytes_max=None, output_bytes_max=64 << 20)
    return replace(request, limits=limits, environment=(*request.environment, ("SECRET_OF_OURS", "x")))


def careless(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this side looks at is not looked at."""
    monkeypatch.setenv("SECRET_OF_OURS", "x")
    surviving_child(monkeypatch)
    trusting_collector(monkeypatch)


class Broken(RemoteSandbox):
    """A remote rung whose runs are changed on their way, and which claims what it always does."""

    edit: Edit = staticmethod(lambda request: request)
    careless = False

    def _plan_run(
        self, ready: Ready, profile: Profile, parcels: tuple[ParcelPlan, ...], command: Command, lease_id: str
    ) -> RunRequest:
        request = super()._plan_run(ready, profile, parcels, command, lease_id)
        return request if profile.label == "trial" else self.edit(request)

    def _describe_far(self, profile: Profile, ready: Ready, parcels: tuple[ParcelPlan, ...]) -> Mapping[str, object]:
        told = super()._describe_far(profile, ready, parcels)
        return {name: value for name, value in told.items() if not self.careless or name != AUDIT_FIELDS[3]}

    async def attach(self, run_id: str) -> Any:
        """A rung that forgets what runs."""
        return None if self.careless else await super().attach(run_id)


class BrokenSsh(Broken, RemoteSshSandbox):
    """By ssh."""


class BrokenTls(Broken, RemoteTlsSandbox):
    """By certificates."""


@dataclass(frozen=True)
class Case:
    """What is broken, on which rung, and the probes that must fail by it; every other claimed one must hold."""

    name: str
    rung: type[Broken]
    fails: set[str]
    edit: Edit
    careless: bool = False


CASES = (
    Case(
        "no walls around the container",
        BrokenSsh,
        {"network_closed", "calls_filtered", "socket_families", "no_new_namespaces", "fork_bomb_held", "memory_held",
         "tmp_bounded"},
        without_walls,
    ),
    Case(
        "the machine is shown",
        BrokenTls,
        {"mounts_isolated", "hooks_protected", "links_contained", "daemon_hidden", "tmp_private", "tmp_bounded"},
        machine_shown,
    ),
    Case(
        "no limits, and carelessness here",
        BrokenTls,
        {"hang_is_killed", "cpu_held", "file_size_held", "output_bounded", "no_secrets", "leftovers_gone",
         "artifacts_plain", "audit_fields", "run_found_again"},
        endless,
        careless=True,
    ),
)  # fmt: skip


async def seen_failing(rig: Rig, case: Case) -> dict[str, tuple[str, str]]:
    """What the doctor says of the broken rung."""
    usual = rig.backend
    broken = case.rung(rig.runs_dir, choice=remote_machine().choose(case.rung.kind))
    broken.edit, broken.careless = case.edit, case.careless  # type: ignore[method-assign] # - a static one, replaced
    rig.backend = broken
    try:
        return await failing(rig)
    finally:
        await broken.close()
        rig.backend = usual


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_what_is_broken_over_there_is_found(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its own probes and by no other."""
    async with open_rig(case.rung.name) as rig:
        if case.careless:
            careless(monkeypatch)
        found = await seen_failing(rig, case)
    assert set(found) == case.fails, found
    assert all(evidence and fix for evidence, fix in found.values())


def test_every_probe_that_a_machine_can_break_is_seen_failing() -> None:
    seen: Iterable[str] = set().union(*(case.fails for case in CASES))
    assert set(seen) == set(PROBES) - BY_KEEPER - NOT_PROMISED - {"runs_apart"}
