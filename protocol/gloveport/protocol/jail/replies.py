"""What a supervisor writes about a run.

Purpose: the state and the end of one run, from the supervisor's own evidence.
Invariant: `RunExit` is written once, after the last process of the tree is dead.
Must never: carry anything that the code inside the jail said about itself, except its output bytes' count.
"""

from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final

from gloveport.protocol.jail.codec import JailFormatError, dump_body, parse_body

TAMPERED: Final = "what came back was tampered with"
"""Begins the evidence of a lost run whose results are none that a program of ours sends."""


@unique
class RunState(StrEnum):
    """How far a supervisor has come."""

    STARTING = "starting"
    RUNNING = "running"


@unique
class ExitKind(StrEnum):
    """How a run ended, from evidence. A supervisor reports `lost` where another machine took the evidence along; where
    the supervisor itself is gone, the absence of an end says it."""

    OK = "ok"
    FAILED = "failed"
    TIMEOUT = "timeout"
    OOM = "oom"
    KILLED = "killed"
    POLICY = "policy"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class RunStatus:
    """Identity of supervisor and main process: pid plus start time in clock ticks since boot `boot_id`."""

    run_id: str
    state: RunState
    boot_id: str
    supervisor_pid: int
    supervisor_start_ticks: int
    main_pid: int
    main_start_ticks: int


@dataclass(frozen=True, slots=True)
class RunExit:
    """The end of a run. Times in seconds, memory and output in bytes.

    `denied`: refused calls in words with how often, the first one first. `alarms`: thresholds that were passed.
    `dump`: what the processes were doing when the breaker ended them.
    """

    kind: ExitKind
    exit_code: int | None
    signal: int | None
    evidence: str
    wall_s: float
    cpu_s: float
    memory_peak_bytes: int | None
    output_bytes_total: int
    denied: tuple[tuple[str, str], ...] = ()
    alarms: tuple[str, ...] = ()
    dump: str = ""


def encode_status(status: RunStatus) -> bytes:
    """The bytes of `status.json`."""
    return dump_body({name: getattr(status, name) for name in RunStatus.__slots__})


def decode_status(raw: bytes) -> RunStatus:
    """Read `status.json`; raises `JailFormatError`."""
    body = parse_body(raw)
    try:
        state = RunState(body.text("state"))
    except ValueError as error:
        raise JailFormatError("unknown state") from error
    return RunStatus(
        run_id=body.text("run_id"),
        state=state,
        boot_id=body.text("boot_id"),
        supervisor_pid=body.integer("supervisor_pid"),
        supervisor_start_ticks=body.integer("supervisor_start_ticks"),
        main_pid=body.integer("main_pid"),
        main_start_ticks=body.integer("main_start_ticks"),
    )


def encode_exit(end: RunExit) -> bytes:
    """The bytes of `exit.json`."""
    return dump_body({name: getattr(end, name) for name in RunExit.__slots__})


def decode_exit(raw: bytes) -> RunExit:
    """Read `exit.json`; raises `JailFormatError`."""
    body = parse_body(raw)
    try:
        kind = ExitKind(body.text("kind"))
    except ValueError as error:
        raise JailFormatError("unknown kind") from error
    return RunExit(
        kind=kind,
        exit_code=body.integer_or_none("exit_code"),
        signal=body.integer_or_none("signal"),
        evidence=body.text("evidence"),
        wall_s=body.number("wall_s"),
        cpu_s=body.number("cpu_s"),
        memory_peak_bytes=body.integer_or_none("memory_peak_bytes"),
        output_bytes_total=body.integer("output_bytes_total"),
        denied=body.pairs_or_none("denied"),
        alarms=body.texts_or_none("alarms"),
        dump=body.text_or_none("dump"),
    )
