"""What happens between a finished jail and its command: Landlock, the filter that reports, exec.

Purpose: from a profile and a command to the entry program's list of calls.
Invariant: a step that fails ends the run before the command starts, with words on its output.
Must never: leave a descriptor besides the three pipes open for the command.
"""

import os
import resource
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gloveport.protocol.jail.requests import WATCH_FD, WatchPlan
from gloveport.sandbox.backends.entry import EXIT_NOT_ENTERED, EXIT_NOT_FOUND, Assembly, is_known_here
from gloveport.sandbox.backends.landlock import DEVICES, READ, WRITE, PathRule, add_rules, find_abi, is_used
from gloveport.sandbox.backends.seccomp import REPORTED, build_filter, name_calls, name_reaching, name_set_id_calls
from gloveport.sandbox.profile import Access, Profile

WRAPPER_DEPTH: Final = 2
"""bwrap itself and its init stand between the supervisor and the command."""
PLACE: Final = "/.gloveport-enter"
"""Where the program lies inside; it holds what the command's own environment and arguments hold."""
_DESCRIPTORS_MAX: Final = 0xFFFFFFFF
_FILTER_MODE, _NEW_LISTENER, _WAIT_KILLABLE = 1, 8, 32
"""With the last a call that is being looked at is cut by no signal but a deadly one (Linux 5.19)."""
_LISTENER_FD: Final = 3
_SOL_SOCKET, _SCM_RIGHTS = 1, 1
_WRITTEN_ANYWAY: Final = ("/tmp", "/var/tmp", "/dev", "/proc")  # noqa: S108 - places inside the jail
"""What the jail gives beside the mounts, by its names inside."""
_WRITABLE: Final = ("/tmp", "/dev/shm")  # noqa: S108 - places inside the jail


@dataclass(frozen=True, slots=True)
class Entering:
    """How jails are entered here: the Landlock ABI to use (0: none) and whether refusals are reported.

    `counts`: the kernel counts a user's processes apart in each user namespace, so that it can hold the limit of
    processes exactly; root's it does not count.
    """

    abi: int = 0
    reports: bool = False
    counts: bool = False

    def is_needed(self, tool_kind: str) -> bool:
        """Whether an entry program stands before the command at all."""
        return self.reports or self.counts or is_used(self.abi, tool_kind)


def find_entering(abi_max: int) -> Entering:
    """The best way in that this machine should have; a trial shows whether it has."""
    if not is_known_here():
        return Entering()
    return Entering(min(find_abi(), abi_max), True, _kernel() >= (5, 14))


def has_own_users() -> bool:
    """Whether each run can have a user id of its own: asks for root, and for layers on mounts that map ids."""
    return os.getuid() == 0 and _kernel() >= (5, 19)


def _kernel() -> tuple[int, ...]:
    return tuple(int(part) for part in os.uname().release.split(".")[:2] if part.isdigit())


def assemble(entering: Entering, profile: Profile, argv: tuple[str, ...], environment: Mapping[str, str]) -> bytes:
    """The program of one run."""
    assembly = Assembly()
    first_kept = WATCH_FD if entering.reports else 3
    if first_kept > 3:
        assembly.call("close_range", 3, first_kept - 1, 0, on_failure="lost")
    assembly.call("close_range", first_kept + int(entering.reports), _DESCRIPTORS_MAX, 0, on_failure="lost")
    if entering.counts and profile.limits.processes_max is not None:
        most = profile.limits.processes_max + WRAPPER_DEPTH
        limit = assembly.place(struct.pack("<QQ", most, most))
        assembly.call("setrlimit", resource.RLIMIT_NPROC, limit, on_failure="lost")
    if is_used(entering.abi, profile.tool_kind):
        add_rules(assembly, entering.abi, list_rules(profile), "lost")
    if entering.reports:
        _hand_over_filter(assembly, profile.tool_kind)
    _start(assembly, argv, environment)
    assembly.label("lost")
    assembly.end(b"gloveport: the sandbox could not be entered\n", EXIT_NOT_ENTERED)
    return assembly.build()


def plan_watch(profile: Profile) -> WatchPlan:
    """What the supervisor is told of the filter that reports."""
    refused, counted = name_calls(profile.tool_kind)
    written = (mount.target for mount in profile.mounts if mount.access is not Access.READ_ONLY)
    return WatchPlan(
        refused=tuple((str(number), name) for name, number in refused.items()),
        counted=tuple((str(number), name) for name, number in counted.items()),
        set_id=tuple((str(number), str(index)) for number, index in name_set_id_calls().items()),
        reaching=tuple((str(number), name) for name, number in name_reaching().items()),
        writable=(*_WRITTEN_ANYWAY, *written),
    )


def list_rules(profile: Profile) -> Iterator[PathRule]:
    """The view once more: all of it may be read, and written what the profile mounts writable."""
    yield PathRule("/", READ)
    yield PathRule("/dev", DEVICES)
    yield PathRule("/proc", DEVICES)
    for path in _WRITABLE:
        yield PathRule(path, WRITE)
    for mount in profile.mounts:
        if mount.access is not Access.READ_ONLY:
            yield PathRule(mount.target, WRITE, is_folder=os.path.isdir(mount.source))


def _hand_over_filter(assembly: Assembly, tool_kind: str) -> None:
    """Install the filter, send its listener to the supervisor, keep no way to it."""
    program = build_filter(tool_kind, answers=REPORTED) or b""
    described = assembly.place(struct.pack("<HxxxxxxQ", len(program) // 8, assembly.place(program)))
    flags = _NEW_LISTENER | (_WAIT_KILLABLE if _kernel() >= (5, 19) else 0)
    assembly.call("seccomp", _FILTER_MODE, flags, described, on_failure="lost")
    word = assembly.place(struct.pack("<QQ", assembly.place(b"l"), 1))
    control = assembly.place(struct.pack("<Qiii", 20, _SOL_SOCKET, _SCM_RIGHTS, _LISTENER_FD) + bytes(4))
    message = assembly.place(struct.pack("<QIxxxxQQQQixxxx", 0, 0, word, 1, control, 24, 0))
    assembly.call("sendmsg", WATCH_FD, message, 0, on_failure="lost")
    assembly.call("close", _LISTENER_FD, on_failure="lost")
    assembly.call("close", WATCH_FD, on_failure="lost")


def _start(assembly: Assembly, argv: tuple[str, ...], environment: Mapping[str, str]) -> None:
    words = assembly.place_addresses([os.fsencode(word) for word in argv])
    entries = assembly.place_addresses([os.fsencode(f"{name}={value}") for name, value in environment.items()])
    folders = [""] if "/" in argv[0] else [f"{folder}/" for folder in environment.get("PATH", "").split(":") if folder]
    for number, folder in enumerate(folders):
        assembly.label(f"try-{number}")
        path = assembly.place_text(os.fsencode(folder + argv[0]))
        assembly.call("execve", path, words, entries, on_failure=f"try-{number + 1}")
    assembly.label(f"try-{len(folders)}")
    said = f"gloveport: cannot start {argv[0]}: no such program in the sandbox, or it may not be run\n"
    assembly.end(os.fsencode(said), EXIT_NOT_FOUND)
