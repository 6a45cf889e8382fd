"""The body by which a container is made, and the filter told to engines, as pure data.

Purpose: every hardening is in the body whatever the profile; what an engine says of itself is read right.
"""

import json
from itertools import product
from typing import Any

import pytest

from gloveport.protocol.errors import ErrorCode
from gloveport.sandbox.backends.docker_choice import SYSTEM_SOCKET, find_socket
from gloveport.sandbox.backends.docker_plan import Facts, Making, pack_machine_root, plan_container, read_facts
from gloveport.sandbox.backends.seccomp import ARCHITECTURES, NEW_NAMESPACE_FLAGS, describe_filter
from gloveport.sandbox.backends.view import Hidden
from gloveport.sandbox.contract import SandboxError
from gloveport.sandbox.profile import Limits, Profile

INFO = {
    "ServerVersion": "20.10.24",
    "CgroupDriver": "cgroupfs",
    "CgroupVersion": "1",
    "MemoryLimit": True,
    "PidsLimit": True,
    "SecurityOptions": ["name=seccomp,profile=default"],
    "Runtimes": {"runc": {}, "runsc": {}},
    "DefaultRuntime": "runc",
}
MAKING = Making("image", False, "runc", has_init=True, has_own_kernel=False, labels={"gloveport.run": "r"})


def plan(limits: Limits | None = None, *, tool_kind: str = "small", **changes: Any) -> dict[str, Any]:
    """The body for a profile without mounts."""
    profile = Profile("t", tool_kind, (), "/", limits or Limits(wall_s=1.0))
    body: dict[str, Any] = json.loads(
        plan_container(profile, ("true",), MAKING, Hidden(()), read_facts({**INFO, **changes}))
    )
    return body


@pytest.mark.parametrize("kind", ["small", "build"])
def test_every_body_is_hardened(kind: str) -> None:
    body = plan(tool_kind=kind)
    host = body["HostConfig"]
    assert (host["NetworkMode"], host["ReadonlyRootfs"], host["CapDrop"]) == ("none", True, ["ALL"])
    assert not {"CapAdd", "Privileged", "Devices", "Binds", "VolumesFrom"} & set(host)
    assert host["SecurityOpt"][0] == "no-new-privileges:true"
    rules = json.loads(host["SecurityOpt"][1].removeprefix("seccomp="))
    assert rules["syscalls"][0]["names"][0] == "mount"
    assert (host["IpcMode"], host["PidMode"], host["AutoRemove"]) == ("private", "", False)
    assert "/proc/pressure" in host["ReadonlyPaths"]
    assert {one["Name"] for one in host["Ulimits"]} == {"core", "nofile", "memlock"}
    assert (body["Entrypoint"], body["Healthcheck"]) == ([], {"Test": ["NONE"]})
    assert "HOSTNAME" in body["Env"], "the engine's own is taken away"


def test_limits_are_told_to_the_engine() -> None:
    limits = Limits(wall_s=1.0, memory_bytes_max=9_000_000, processes_max=5, file_bytes_max=7, cpu_s=3)
    host = plan(limits)["HostConfig"]
    assert (host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (9_000_000, 9_000_000, 6)
    assert {one["Name"]: one["Hard"] for one in host["Ulimits"]}.items() >= {"fsize": 7, "cpu": 4}.items()


def test_rootless_and_remapped_engines_are_recognised() -> None:
    rootless = read_facts({**INFO, "SecurityOptions": ["name=seccomp,profile=default", "name=rootless"]})
    assert rootless.rootless
    assert not rootless.remaps_users
    assert plan(SecurityOptions=["name=rootless"])["User"] == "0:0", "the user's own ids, by their name inside"
    assert plan(SecurityOptions=["name=userns"])["HostConfig"]["UsernsMode"] == "host", "outputs must be the user's"
    assert "UsernsMode" not in plan()["HostConfig"]


@pytest.mark.parametrize("driver", ["none", ""])
def test_an_engine_without_control_groups_holds_no_limits(driver: str) -> None:
    facts: Facts = read_facts({**INFO, "CgroupDriver": driver})
    assert not facts.holds_limits
    assert read_facts(INFO).holds_limits


def test_the_root_image_is_the_same_bytes_every_time() -> None:
    assert pack_machine_root() == pack_machine_root()


def test_an_address_that_is_no_socket_is_refused_with_words() -> None:
    with pytest.raises(SandboxError) as caught:
        find_socket("tcp://10.0.0.1:2375", {})
    assert caught.value.code is ErrorCode.SANDBOX_UNAVAILABLE
    assert "unix:///" in caught.value.hint
    assert find_socket("", {}) == SYSTEM_SOCKET
    assert find_socket("", {"DOCKER_HOST": "unix:///x/y.sock"}) == "/x/y.sock"
    assert find_socket("unix:///set.sock", {"DOCKER_HOST": "unix:///x/y.sock"}) == "/set.sock"


def refuses(rules: dict[str, Any], name: str, *arguments: int) -> bool:
    """What an engine's filter decides: some rule of the call has all its conditions met."""
    return any(
        name in rule["names"] and all(_is_met(one, arguments) for one in rule["args"]) for rule in rules["syscalls"]
    )


def _is_met(condition: dict[str, Any], arguments: tuple[int, ...]) -> bool:
    value = arguments[condition["index"]]
    match condition["op"]:
        case "SCMP_CMP_MASKED_EQ":
            return bool(value & condition["value"] == condition["valueTwo"])
        case "SCMP_CMP_GT":
            return bool(value > condition["value"])
        case "SCMP_CMP_NE":
            return bool(value != condition["value"])
    raise AssertionError(condition)


@pytest.mark.parametrize("machine", sorted(ARCHITECTURES))
def test_the_engines_filter_is_no_wider_than_the_jails(machine: str) -> None:
    rules: Any = describe_filter("small", machine)
    high = 1 << 32
    for flag in (1 << bit for bit in range(32) if NEW_NAMESPACE_FLAGS >> bit & 1):
        assert refuses(rules, "clone", flag | 17)
        assert refuses(rules, "clone", flag | high)
    assert not refuses(rules, "clone", 0x3D0F00), "threads"
    for family, beyond in product(range(80), (0, high)):
        wanted = family in (1, 2, 10, 16) and not beyond
        assert refuses(rules, "socket", family + beyond, 1, 0) != wanted
    assert refuses(rules, "socket", 16, 3, 12)
    assert refuses(rules, "socket", 16, 3, high), "more than route"
    for call in (0x5412, 0x541C, 0x5412 + high):
        assert refuses(rules, "ioctl", 0, call)
    assert not refuses(rules, "ioctl", 0, 0x5401)
    for name in ("mount", "bpf", "io_uring_setup", "keyctl", "ptrace", "clone3"):
        assert refuses(rules, name)
    assert not refuses(rules, "read", 0)
    open_rules: Any = describe_filter("build", machine, has_clone3=False)
    assert not refuses(open_rules, "ptrace")
    assert not refuses(open_rules, "clone3")
