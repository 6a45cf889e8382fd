"""From a profile to the body by which an engine makes a hardened container.

Purpose: every option of a container of ours, as data, in one place.
Invariant: read-only root, no capability, no new privileges, our own filter, no network, limits as hard as asked for;
the environment is the profile's and nothing else.
Must never: mount the engine's socket, share a namespace of the host, or let an image decide what is started.
"""

import io
import json
import os
import resource
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gloveport.sandbox.backends.bubblewrap_options import ETC_SHOWN, ROOT_LINKS
from gloveport.sandbox.backends.seccomp import describe_filter
from gloveport.sandbox.backends.view import Cover, Hidden, Placing, plan_covers, plan_mounts, plan_system
from gloveport.sandbox.egress.way import host_lines
from gloveport.sandbox.profile import Limits, Profile
from gloveport.sandbox.programs import PATH_DEFAULT

TMP: Final = "/tmp"  # noqa: S108 - a place inside the container
SHM_BYTES: Final = 64 * 1024 * 1024
MEMLOCK_BYTES: Final = 64 * 1024 * 1024
INIT_PROCESSES: Final = 1
"""The engine's init stands beside the command and counts as a process."""
GVISOR_THREADS: Final = 256
GVISOR_THREADS_EACH: Final = 8
"""What gVisor itself takes of a limit of processes, in sum and for each process inside."""
RUN_LABEL, LEASE_LABEL, OWNER_LABEL, PLACE_LABEL, POOL_LABEL = (
    f"gloveport.{name}" for name in ("run", "lease", "owner", "place", "pool")
)  # fmt: skip
_FOLDERS: Final = ("dev", "etc", "proc", "run", "sbin", "sys", "tmp", "usr", "var")
_IPV6: Final = "/proc/sys/net/ipv6"
_MASKED: Final = (
    "/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
    "/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap",
    "/sys/firmware",
)  # fmt: skip
_READ_ONLY: Final = tuple(
    f"/proc/{name}" for name in ("bus", "fs", "irq", "mtrr", "pressure", "sys", "sysrq-trigger")
)  # fmt: skip
"""Kernel settings that the host's root could write by its uid alone, without any capability."""
_NO_SOURCE: Final = frozenset({Cover.EMPTY_FILE, Cover.COVERED})


@dataclass(frozen=True, slots=True)
class Facts:
    """What an engine says of itself."""

    version: str
    cgroup_driver: str
    cgroup_version: str
    limits_memory: bool
    limits_processes: bool
    filters_calls: bool
    rootless: bool
    remaps_users: bool
    runtimes: tuple[str, ...]
    default_runtime: str

    @property
    def holds_limits(self) -> bool:
        """False for an engine without control groups: it takes limits and holds none."""
        return self.cgroup_driver not in ("", "none")


@dataclass(frozen=True, slots=True)
class Making:
    """What a container is made with, beside its profile. `image` shows the machine's programs when `shows_machine`."""

    image: str
    shows_machine: bool
    runtime: str
    has_init: bool
    has_own_kernel: bool
    labels: Mapping[str, str]


def read_facts(info: Mapping[str, Any]) -> Facts:
    """The engine's `info` answer."""
    options = [str(option) for option in info.get("SecurityOptions") or ()]
    return Facts(
        version=str(info.get("ServerVersion", "")),
        cgroup_driver=str(info.get("CgroupDriver", "")),
        cgroup_version=str(info.get("CgroupVersion", "1")),
        limits_memory=bool(info.get("MemoryLimit")),
        limits_processes=bool(info.get("PidsLimit")),
        filters_calls=any(option.startswith("name=seccomp") for option in options),
        rootless="name=rootless" in options,
        remaps_users="name=userns" in options,
        runtimes=tuple(sorted(info.get("Runtimes") or {})),
        default_runtime=str(info.get("DefaultRuntime", "")),
    )


def plan_container(profile: Profile, argv: tuple[str, ...], making: Making, hidden: Hidden, facts: Facts) -> str:
    """The JSON body of the engine's `create`. Raises `SandboxError` for a view that cannot be shown."""
    body = {
        "Image": making.image,
        "Entrypoint": [],
        "Cmd": list(argv),
        "Env": plan_environment(profile),
        "WorkingDir": profile.working_dir,
        "User": name_user(facts),
        "Hostname": "gloveport",
        "Labels": dict(making.labels),
        "Tty": False,
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": _plan_host(profile, making, hidden, facts),
    }
    return json.dumps(body, separators=(",", ":"))


def plan_environment(profile: Profile) -> list[str]:
    """The profile's, with the few names that programs cannot do without; a bare name takes the engine's own away."""
    defaults = {"PATH": PATH_DEFAULT, "LANG": "C.UTF-8", "HOME": TMP, "TMPDIR": TMP}
    values = {**defaults, **profile.environment}
    return [f"{name}={value}" for name, value in values.items()] + ["HOSTNAME"] * ("HOSTNAME" not in values)


def name_user(facts: Facts) -> str:
    """The user's own ids, so that outputs are the user's; inside a rootless engine these are called root."""
    return "0:0" if facts.rootless else f"{os.getuid()}:{os.getgid()}"


def pack_machine_root() -> bytes:
    """An image of nothing but places: what it lacks is mounted from the machine. The same bytes every time."""
    user, group = os.getuid(), os.getgid()
    files = {
        "etc/passwd": f"user:x:{user}:{group}::{TMP}:/bin/sh\n",
        "etc/group": f"user:x:{group}:\n",
        "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in _FOLDERS:
            archive.addfile(_entry(name, tarfile.DIRTYPE, 0o755))
        for link in ROOT_LINKS:
            if link.lstrip("/") not in _FOLDERS and os.path.islink(link):
                entry = _entry(link.lstrip("/"), tarfile.SYMTYPE, 0o777)
                entry.linkname = os.readlink(link)
                archive.addfile(entry)
        entry = _entry("var/tmp", tarfile.SYMTYPE, 0o777)
        entry.linkname = TMP
        archive.addfile(entry)
        for name, text in files.items():
            entry = _entry(name, tarfile.REGTYPE, 0o444)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()


def plan_view(profile: Profile, shows_machine: bool, hidden: Hidden) -> list[Placing]:
    """Everything that is mounted, in the order of its depth. Raises `SandboxError`."""
    own = plan_system(_machine_paths(), hidden) if shows_machine else []
    return [*own, *plan_mounts(profile.mounts, hidden), *plan_covers(profile.mounts, profile.covered)]


def _machine_paths() -> Iterable[str]:
    # /sbin stays a folder of the image: the engine puts its init there.
    folders = (link for link in ROOT_LINKS if not os.path.islink(link) and link != "/sbin")
    return ("/usr", *ETC_SHOWN, *folders)


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = kind, mode
    return entry


def _plan_host(profile: Profile, making: Making, hidden: Hidden, facts: Facts) -> dict[str, Any]:
    limits = profile.limits
    tmpfs = {TMP: f"rw,exec,nosuid,nodev,size={limits.tmp_bytes_max},mode=1777"}
    mounts = []
    for placing in plan_view(profile, making.shows_machine, hidden):
        if placing.cover is Cover.EMPTY_FOLDER:
            tmpfs[placing.target] = "ro,nosuid,nodev,noexec,size=4096,mode=0555"
        else:
            mounts.append(_plan_mount(placing))
    host: dict[str, Any] = {
        "NetworkMode": "none",
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        "SecurityOpt": _plan_security(profile.tool_kind, making),
        "Mounts": mounts,
        "Tmpfs": tmpfs,
        "ShmSize": min(limits.tmp_bytes_max, SHM_BYTES),
        "IpcMode": "private",
        "PidMode": "",
        "Init": making.has_init,
        "AutoRemove": False,
        "RestartPolicy": {"Name": "no"},
        "LogConfig": {"Type": "none"},
        "Ulimits": _plan_ulimits(limits),
        "Runtime": making.runtime,
        "MaskedPaths": list(_MASKED),
        "ReadonlyPaths": list(_READ_ONLY),
    }
    if os.path.exists(_IPV6):
        host["Sysctls"] = {"net.ipv6.conf.all.disable_ipv6": "0"}  # else ::1 is not there
    if profile.way_out is not None:
        host["ExtraHosts"] = [f"{name}:{address}" for address, name in _split_hosts(host_lines(profile.way_out))]
    if facts.remaps_users:
        host["UsernsMode"] = "host"
    if limits.memory_bytes_max is not None:
        host |= {"Memory": limits.memory_bytes_max, "MemorySwap": limits.memory_bytes_max}
    if limits.processes_max is not None:
        host["PidsLimit"] = _count_processes(limits.processes_max, int(profile.way_out is not None), making)
    return host


def _split_hosts(lines: bytes) -> list[list[str]]:
    return [line.split() for line in lines.decode("ascii").splitlines()]


def _count_processes(wanted: int, bridges: int, making: Making) -> int:
    inside = wanted + bridges + INIT_PROCESSES * making.has_init
    return GVISOR_THREADS + GVISOR_THREADS_EACH * inside if making.has_own_kernel else inside


def _plan_mount(placing: Placing) -> dict[str, Any]:
    is_writable = placing.cover is Cover.READ_WRITE
    return {
        "Type": "bind",
        "Source": os.devnull if placing.cover in _NO_SOURCE else placing.source,
        "Target": placing.target,
        "ReadOnly": not is_writable,
        # What is mounted below a source is not shown: read-only would not reach it.
        "BindOptions": {"Propagation": "rprivate", "NonRecursive": True},
    }


def _plan_security(tool_kind: str, making: Making) -> list[str]:
    options = ["no-new-privileges:true"]
    if (rules := describe_filter(tool_kind, has_clone3=not making.has_own_kernel)) is not None:
        options.append(f"seccomp={json.dumps(rules, separators=(',', ':'))}")
    return options


def _plan_ulimits(limits: Limits) -> list[dict[str, Any]]:
    # An engine that may not raise limits refuses one above its own, which is taken to be like ours.
    _soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    locked = MEMLOCK_BYTES if hard == resource.RLIM_INFINITY else min(MEMLOCK_BYTES, hard)
    values = {"core": 0, "nofile": limits.open_files_max, "memlock": locked}
    if limits.file_bytes_max is not None:
        values["fsize"] = limits.file_bytes_max
    if limits.cpu_s is not None:
        values["cpu"] = limits.cpu_s + 1
    return [{"Name": name, "Soft": value, "Hard": value} for name, value in values.items()]
