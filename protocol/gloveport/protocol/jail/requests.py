"""What a supervisor is asked to run.

Purpose: the whole description of one run as plain data; the supervisor decides nothing beyond it.
Invariant: decode(encode(request)) == request; limits that are None are not enforced and were declared so.
Must never: name a path inside the jail's own reach as the place of the run folder.
"""

from dataclasses import dataclass
from typing import Final

from gloveport.protocol.jail.codec import Fields, JailFormatError, decode_bytes, dump_body, encode_bytes, parse_body

BLOB_FD_FIRST: Final = 10
"""The i-th blob of a request is open in the started program as descriptor `BLOB_FD_FIRST + i`."""

STATUS_FD: Final = 9
"""Where a wrapper reports its own state, when `wrapper_depth` is above 0."""

WATCH_FD: Final = 8
"""Where the started program hands over the listener of its call filter, when the request has a `watch`."""


@dataclass(frozen=True, slots=True)
class CgroupPlan:
    """Control groups to make for the run; file names are absolute, directories are made and removed."""

    version: int
    directories: tuple[str, ...]
    writes: tuple[tuple[str, str], ...]
    events_file: str
    peak_file: str


@dataclass(frozen=True, slots=True)
class WatchPlan:
    """System calls that the run's filter reports: `(number, name)`.

    `refused` are always answered with an error; all others go on to the kernel's own judgement, `counted` are counted.
    `set_id`: calls that can set set-id bits, as `(number, index of the argument that holds the mode)`; -1 in memory.
    `reaching`: calls that are named where they reach for what the jail does not give: a place outside, or a file that
    is below none of `writable` to write it.
    """

    refused: tuple[tuple[str, str], ...]
    counted: tuple[tuple[str, str], ...]
    set_id: tuple[tuple[str, str], ...] = ()
    reaching: tuple[tuple[str, str], ...] = ()
    writable: tuple[str, ...] = ()


BREAKER: Final = "breaker, "
"""With this begin the words of a threshold that was passed."""


@dataclass(frozen=True, slots=True)
class BreakerPlan:
    """Thresholds beyond the limits; null is none. `ends` False: they are noted and the run goes on.

    `cpu_share` of one core for `cpu_window_s` seconds on end; bytes of the whole tree; counted calls a second.
    """

    ends: bool
    cpu_share: float | None
    cpu_window_s: float
    memory_soft_bytes: int | None
    calls_per_s_max: int | None


@dataclass(frozen=True, slots=True)
class BoundPlan:
    """A folder of this machine that the run may write and that may take so much on the disk; `name` tells of it."""

    folder: str
    name: str
    bytes_max: int
    files_max: int


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits in force; seconds and bytes. None means: not enforced by the supervisor."""

    wall_s: float
    idle_s: float | None
    cpu_s: int | None
    memory_bytes_max: int | None
    processes_max: int | None
    user_processes_max: int | None
    file_bytes_max: int | None
    open_files_max: int
    output_bytes_max: int
    grace_s: float


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """A run in a container of an engine. `address` is the path of the engine's socket.

    `create` and `execute` are JSON bodies of the engine's interface. Without `execute` the container `name` is made
    from `create` and is the run; with it the container waits already, unused, and the command is executed in it; one
    that does not wait any more is made from `create`.
    """

    address: str
    name: str
    create: str
    execute: str


@dataclass(frozen=True, slots=True)
class LinkPlan:
    """How an engine on another machine is reached; a field that the `kind` does not use is empty.

    "ssh": as `user` at `host`, `port` with `key_file`, where the host proves `host_key`; `socket` is the engine's over
    there. "tls": `host`, `port`, whose certificate `ca_file` vouches for, with `cert_file` and `key_file`.
    """

    kind: str
    host: str
    port: int
    user: str
    socket: str
    key_file: str
    host_key: str
    ca_file: str
    cert_file: str


@dataclass(frozen=True, slots=True)
class ParcelPlan:
    """A folder of this machine whose content is sent to stand at `target`; with `is_writable` its changes come back."""

    source: str
    target: str
    is_writable: bool


@dataclass(frozen=True, slots=True)
class RemotePlan:
    """What a run on another machine needs beside its container.

    `covered`: files by their path inside whose content is not sent. `store`: the volume over there that keeps what was
    sent before. `owner`: whose volumes these are. `memory`: folder here that remembers hashes of files. `away_s`: after
    so many seconds in which nobody was heard the run ends itself. `user`: "uid:gid" of the command.
    """

    link: LinkPlan
    parcels: tuple[ParcelPlan, ...]
    covered: tuple[str, ...]
    store: str
    owner: str
    memory: str
    away_s: float
    user: str


@dataclass(frozen=True, slots=True)
class UserPlan:
    """A run under a user id that it alone has: mounts that wait for the started program, as `(source, place)`.

    There what is root's shows as that user's, and what that user makes is root's.
    """

    mounts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class DomainPlan:
    """A Landlock domain of the run's own: rights that are held to the rules, and what does not reach beyond it.

    `handled` and each right are the kernel's bits; `rules` give a path's rights in decimal. A path that is not there
    gives none.
    """

    handled: int
    scoped: int
    rules: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One run. `wrapper_depth` counts the wrapper's own processes between supervisor and command.

    `written`: folders of this machine that the run may write; set-id bits are taken from their files at its end.

    `domain`: the run traces no process but its own, and what else that says.

    With an `engine` the command is run by it, and `argv`, `environment` and `working_dir` are for the reader alone,
    but where a `remote` says that the engine is on another machine: there they are what is run.
    """

    run_id: str
    argv: tuple[str, ...]
    working_dir: str
    environment: tuple[tuple[str, str], ...]
    stdin: bytes
    blobs: tuple[bytes, ...]
    wrapper_depth: int
    limits: RunLimits
    cgroup: CgroupPlan | None
    watch: WatchPlan | None = None
    breaker: BreakerPlan | None = None
    written: tuple[str, ...] = ()
    engine: EnginePlan | None = None
    domain: DomainPlan | None = None
    remote: RemotePlan | None = None
    user: UserPlan | None = None
    bounds: tuple[BoundPlan, ...] = ()


def encode_request(request: RunRequest) -> bytes:
    """The bytes of `request.json`."""
    limits, cgroup, engine = request.limits, request.cgroup, request.engine
    watch, breaker = request.watch, request.breaker
    return dump_body(
        {
            "run_id": request.run_id,
            "argv": list(request.argv),
            "working_dir": request.working_dir,
            "environment": [list(pair) for pair in request.environment],
            "stdin": encode_bytes(request.stdin),
            "blobs": [encode_bytes(blob) for blob in request.blobs],
            "wrapper_depth": request.wrapper_depth,
            "limits": {name: getattr(limits, name) for name in RunLimits.__slots__},
            "cgroup": None if cgroup is None else {name: getattr(cgroup, name) for name in CgroupPlan.__slots__},
            "watch": None if watch is None else {name: getattr(watch, name) for name in WatchPlan.__slots__},
            "breaker": None if breaker is None else {name: getattr(breaker, name) for name in BreakerPlan.__slots__},
            "written": list(request.written),
            "engine": None if engine is None else {name: getattr(engine, name) for name in EnginePlan.__slots__},
            "domain": None if request.domain is None else _encode_domain(request.domain),
            "remote": None if request.remote is None else _encode_remote(request.remote),
            "user": None if request.user is None else {"mounts": [list(pair) for pair in request.user.mounts]},
            "bounds": [{name: getattr(one, name) for name in BoundPlan.__slots__} for one in request.bounds],
        }
    )


def decode_request(raw: bytes) -> RunRequest:
    """Read `request.json`; raises `JailFormatError`."""
    body = parse_body(raw)
    argv = body.texts("argv")
    limits = body.inner("limits")
    if not argv or limits is None:
        raise JailFormatError("request names no program or no limits")
    return RunRequest(
        run_id=body.text("run_id"),
        argv=argv,
        working_dir=body.text("working_dir"),
        environment=body.pairs("environment"),
        stdin=decode_bytes(body.text("stdin")),
        blobs=tuple(decode_bytes(blob) for blob in body.texts("blobs")),
        wrapper_depth=body.integer("wrapper_depth"),
        limits=_limits(limits),
        cgroup=_cgroup(body.inner("cgroup")),
        watch=_watch(body.inner("watch")),
        breaker=_breaker(body.inner("breaker")),
        written=body.texts_or_none("written"),
        engine=_engine(body.inner("engine")),
        domain=_domain(body.inner("domain")),
        remote=_remote(body.inner("remote")),
        bounds=tuple(_bound(each) for each in body.inners_or_none("bounds")),
        user=_user(body.inner("user")),
    )


def _limits(body: Fields) -> RunLimits:
    return RunLimits(
        wall_s=body.number("wall_s"),
        idle_s=body.number_or_none("idle_s"),
        cpu_s=body.integer_or_none("cpu_s"),
        memory_bytes_max=body.integer_or_none("memory_bytes_max"),
        processes_max=body.integer_or_none("processes_max"),
        user_processes_max=body.integer_or_none("user_processes_max"),
        file_bytes_max=body.integer_or_none("file_bytes_max"),
        open_files_max=body.integer("open_files_max"),
        output_bytes_max=body.integer("output_bytes_max"),
        grace_s=body.number("grace_s"),
    )


def _cgroup(body: Fields | None) -> CgroupPlan | None:
    if body is None:
        return None
    return CgroupPlan(
        version=body.integer("version"),
        directories=body.texts("directories"),
        writes=body.pairs("writes"),
        events_file=body.text("events_file"),
        peak_file=body.text("peak_file"),
    )


def _watch(body: Fields | None) -> WatchPlan | None:
    if body is None:
        return None
    return WatchPlan(
        refused=body.pairs("refused"),
        counted=body.pairs("counted"),
        set_id=body.pairs_or_none("set_id"),
        reaching=body.pairs_or_none("reaching"),
        writable=body.texts_or_none("writable"),
    )


def _breaker(body: Fields | None) -> BreakerPlan | None:
    if body is None:
        return None
    return BreakerPlan(
        ends=body.flag("ends"),
        cpu_share=body.number_or_none("cpu_share"),
        cpu_window_s=body.number("cpu_window_s"),
        memory_soft_bytes=body.integer_or_none("memory_soft_bytes"),
        calls_per_s_max=body.integer_or_none("calls_per_s_max"),
    )


def _bound(body: Fields) -> BoundPlan:
    return BoundPlan(body.text("folder"), body.text("name"), body.integer("bytes_max"), body.integer("files_max"))


def _engine(body: Fields | None) -> EnginePlan | None:
    return None if body is None else EnginePlan(**{name: body.text(name) for name in EnginePlan.__slots__})


def _encode_domain(plan: DomainPlan) -> dict[str, object]:
    return {"handled": plan.handled, "scoped": plan.scoped, "rules": [list(pair) for pair in plan.rules]}


def _domain(body: Fields | None) -> DomainPlan | None:
    if body is None:
        return None
    return DomainPlan(body.integer("handled"), body.integer("scoped"), body.pairs("rules"))


def _user(body: Fields | None) -> UserPlan | None:
    return None if body is None else UserPlan(body.pairs("mounts"))


def _encode_remote(plan: RemotePlan) -> dict[str, object]:
    values = {name: getattr(plan, name) for name in RemotePlan.__slots__}
    values["link"] = {name: getattr(plan.link, name) for name in LinkPlan.__slots__}
    values["parcels"] = [{name: getattr(one, name) for name in ParcelPlan.__slots__} for one in plan.parcels]
    return values


def _remote(body: Fields | None) -> RemotePlan | None:
    if body is None:
        return None
    link = body.inner("link")
    if link is None:
        raise JailFormatError("remote names no link")
    texts = (name for name in LinkPlan.__slots__ if name != "port")
    return RemotePlan(
        link=LinkPlan(port=link.integer("port"), **{name: link.text(name) for name in texts}),
        parcels=tuple(
            ParcelPlan(one.text("source"), one.text("target"), one.flag("is_writable"))
            for one in body.inners("parcels")
        ),
        covered=body.texts("covered"),
        store=body.text("store"),
        owner=body.text("owner"),
        memory=body.text("memory"),
        away_s=body.number("away_s"),
        user=body.text("user"),
    )
