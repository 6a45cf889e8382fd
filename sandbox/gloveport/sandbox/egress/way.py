"""A lease's way out, opened and closed with it.

Purpose: the folder that a jail is shown, the proxy that listens in it, and what a profile needs to use it.
Invariant: the folder's parent is the user's alone; when the way is closed nothing of it listens, runs or lies there.
Must never: outlive its owner, or be shown to two leases.
"""

import os
import shutil
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
from anyio.abc import SocketListener, SocketStream, TaskGroup

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.sandbox.contract import SandboxError
from gloveport.sandbox.egress.credentials import Loan
from gloveport.sandbox.egress.entries import Entry, EntryError, read_entries
from gloveport.sandbox.egress.handover import SECRET_SOCKET, hand_over
from gloveport.sandbox.egress.limits import EgressLimits
from gloveport.sandbox.egress.resolver import Resolver, SystemResolver
from gloveport.sandbox.egress.watch import Watch
from gloveport.sandbox.profile import Access, Forward, Mount, Profile, WayOut, is_below

if TYPE_CHECKING:
    from gloveport.sandbox.egress.opener import TlsOpener
    from gloveport.sandbox.egress.proxy import Proxy

WAY_TARGET: Final = "/run/gloveport/out"
"""Where a jail finds the folder."""
SOCKET_FILE: Final = "proxy.sock"
BRIDGE_FILE: Final = "bridge.py"
BUNDLE_FILE: Final = "ca.pem"
_BUNDLE_NAMES: Final = (
    "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "PIP_CERT",
    "CARGO_HTTP_CAINFO",
)  # fmt: skip
"""Variables by which programs are told whom to trust, beside the machine's own roots."""
PROXY_PORT: Final = 3128
_UNPRIVILEGED: Final = 1024
_RAISED: Final = 10_000
_NO_PROXY: Final = "localhost,127.0.0.1,::1"
TOLD_BUSY: Final = 4
_BACKLOG: Final = 128


@asynccontextmanager
async def open_way_out(
    parent: Path,
    name: str,
    egress: tuple[str, ...],
    watch: Watch,
    *,
    resolver: Resolver | None = None,
    limits: EgressLimits | None = None,
    loans: tuple[Loan, ...] = (),
    trust: ssl.SSLContext | None = None,
    secret: bytes = b"",
) -> AsyncIterator[WayOut]:
    """Serve a list of hosts on a socket in a new folder `parent/name`. Raises SandboxError for a wrong list.

    `secret` is given to the first who asks for it at the folder's other socket, and to nobody after.
    While it is open the daemon's loop serves it; connections that are open when it is left end within `drain_s`.
    """
    from gloveport.sandbox.egress.proxy import Proxy  # few sessions have a way out

    entries = check_egress(egress)
    limits = limits or EgressLimits()
    folder = await anyio.to_thread.run_sync(_make_folder, parent, name)
    opener = await anyio.to_thread.run_sync(_open_tls, entries, folder / "way", trust)
    proxy = Proxy(entries, watch, resolver or SystemResolver(), limits, name, opener, loans)
    failure: GloveportError | None = None
    try:
        async with await _listen(folder / "way") as listener, anyio.create_task_group() as connections:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_accept, listener, proxy, connections, limits)
                if secret:
                    once = await _listen(folder / "way", SECRET_SOCKET)
                    tasks.start_soon(hand_over, once, folder / "way" / SECRET_SOCKET, secret)
                try:
                    yield WayOut(str(folder / "way"), plan_forwards(entries), has_bundle=opener is not None)
                except GloveportError as error:  # else it would leave as a group
                    failure = error
                tasks.cancel_scope.cancel()
            with anyio.move_on_after(limits.drain_s):
                await proxy.wait_idle()
            connections.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(shutil.rmtree, folder, True)
    if failure is not None:
        raise failure


async def _accept(listener: SocketListener, proxy: "Proxy", connections: TaskGroup, limits: EgressLimits) -> None:
    """Take connections as long as there is room; whoever comes beyond that waits in the kernel's line.

    A few more than `connections_max` are taken, so that the reason can be told.
    """
    room = anyio.CapacityLimiter(limits.connections_max + TOLD_BUSY)

    async def serve(stream: SocketStream) -> None:
        try:
            await proxy.serve(stream)
        finally:
            room.release_on_behalf_of(stream)

    for _ in range(limits.accepts_max):
        stream = await listener.accept()
        await room.acquire_on_behalf_of(stream)
        connections.start_soon(serve, stream)
    await listener.aclose()


def check_egress(egress: tuple[str, ...]) -> tuple[Entry, ...]:
    """The entries of a list. Raises SandboxError (SANDBOX_REFUSED) naming the wrong one."""
    try:
        return read_entries(egress)
    except EntryError as error:
        hint = "Name a host and a port, for example api.example.org:443."
        raise SandboxError(
            ErrorCode.SANDBOX_REFUSED, f"Not a place that can be let through: {error}.", hint=hint
        ) from error


def plan_forwards(entries: tuple[Entry, ...]) -> tuple[Forward, ...]:
    """A port of loopback for each place that is reached by clients that know no proxy.

    Each keeps its number where programs may open it and nobody else has it.
    """
    taken, forwards = {PROXY_PORT}, []
    for entry in entries:
        if entry.raw and not entry.host.startswith("*"):
            local = entry.port if entry.port >= _UNPRIVILEGED else entry.port + _RAISED
            while local in taken:
                local += 1
            taken.add(local)
            forwards.append(Forward(local, entry.host, entry.port))
    return tuple(forwards)


def equip(profile: Profile, way: WayOut) -> Profile:
    """A profile with this way out: the folder shown read-only, the variables that programs look for."""
    mount = Mount(way.folder, WAY_TARGET, Access.READ_ONLY)
    environment = {**profile.environment, **way_environment(way)}
    return replace(profile, way_out=way, mounts=(*profile.mounts, mount), environment=environment)


def way_environment(way: WayOut) -> Mapping[str, str]:
    """The variables by which programs find the proxy; loopback is never sent there."""
    proxy = f"http://127.0.0.1:{PROXY_PORT}"
    names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    environment = {name: proxy for upper in names for name in (upper, upper.lower())}
    environment |= {"NO_PROXY": _NO_PROXY, "no_proxy": _NO_PROXY, "NODE_USE_ENV_PROXY": "1"}
    if way.has_bundle:
        environment |= dict.fromkeys(_BUNDLE_NAMES, f"{WAY_TARGET}/{BUNDLE_FILE}")
    if way.forwards:
        environment["GLOVEPORT_FORWARDS"] = ",".join(
            f"{one.host}:{one.port}=127.0.0.1:{one.local_port}" for one in way.forwards
        )
    return environment


def bridge_argv(way: WayOut, python: str) -> tuple[str, ...]:
    """What stands before a command's own words, so that the ports are open before it starts. `python`: inside."""
    forwards = (f"{one.local_port}={one.place}" for one in way.forwards)
    bridge = f"{WAY_TARGET}/{BRIDGE_FILE}"
    return (python, "-I", "-S", "-B", bridge, f"{WAY_TARGET}/{SOCKET_FILE}", str(PROXY_PORT), *forwards, "--")


def host_lines(way: WayOut) -> bytes:
    """Lines for a jail's own `/etc/hosts`: names whose port on loopback is the place's own number."""
    names = dict.fromkeys(one.host for one in way.forwards if one.local_port == one.port and not one.is_address)
    return b"".join(b"127.0.0.1 %s\n" % name.encode("ascii") for name in names)


def check_way_out(profile: Profile) -> None:
    """Refuse a profile that names a list and no place where it is held, or a place and no list. Raises SandboxError."""
    if bool(profile.egress) != (profile.way_out is not None):
        words = "A list of hosts needs a way out that holds it, and a way out needs a list."
        raise SandboxError(ErrorCode.SANDBOX_REFUSED, words, hint="Open a way out for the list, or ask for no network.")


def refuse_egress(profile: Profile, rung: str) -> None:
    """Refuse a profile that lets single hosts through, where the others cannot be kept out. Raises SandboxError."""
    if profile.egress or profile.way_out is not None:
        words = f"The sandbox {rung!r} cannot hold a list of hosts: {', '.join(profile.egress)}."
        hint = "Choose a sandbox with a network of its own, or ask for no network."
        raise SandboxError(ErrorCode.SANDBOX_REFUSED, words, hint=hint)


def make_room(profile: Profile, mounts: tuple[Mount, ...]) -> Profile:
    """The profile with what the bridge needs beside the command: its interpreter, and one process more."""
    most = profile.limits.processes_max
    limits = replace(profile.limits, processes_max=None if most is None else most + 1)
    return replace(profile, mounts=(*profile.mounts, *missing_mounts(profile, mounts)), limits=limits)


def missing_mounts(profile: Profile, mounts: tuple[Mount, ...]) -> tuple[Mount, ...]:
    """Those of the mounts whose target the profile does not show already."""
    shown = [mount.target for mount in profile.mounts]
    return tuple(mount for mount in mounts if not any(is_below(mount.target, target) for target in shown))


def _make_folder(parent: Path, name: str) -> Path:
    folder = parent / name
    try:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
        way = folder / "way"
        way.mkdir(mode=0o755)
        (way / BRIDGE_FILE).write_bytes(Path(__file__).with_name(BRIDGE_FILE).read_bytes())
        (way / BRIDGE_FILE).chmod(0o444)
        way.chmod(0o755)
    except OSError as error:
        words = f"The way out has no folder ({error.strerror}); nothing was started."
        raise SandboxError(ErrorCode.SANDBOX_UNAVAILABLE, words) from error
    return folder


def _open_tls(entries: tuple[Entry, ...], way: Path, trust: ssl.SSLContext | None) -> "TlsOpener | None":
    """What opens TLS, with its root in the folder that the jail sees; None where no entry asks for it."""
    if not any(entry.terminates for entry in entries):
        return None
    from gloveport.sandbox.egress.authority import LeaseAuthority  # its library costs a part of a second
    from gloveport.sandbox.egress.opener import TlsOpener

    authority = LeaseAuthority()
    bundle = way / BUNDLE_FILE
    bundle.write_bytes(authority.bundle())
    bundle.chmod(0o444)
    return TlsOpener(authority, trust)


async def _listen(folder: Path, name: str = SOCKET_FILE) -> SocketListener:
    """Listen in a folder of any length: the socket is bound by way of the folder's descriptor."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return await anyio.create_unix_listener(f"/proc/self/fd/{fd}/{name}", mode=0o666, backlog=_BACKLOG)
    except OSError as error:
        words = f"The way out cannot listen ({error.strerror}); nothing was started."
        raise SandboxError(ErrorCode.SANDBOX_UNAVAILABLE, words) from error
    finally:
        os.close(fd)
