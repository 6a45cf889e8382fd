"""How a run ended, from evidence.

Purpose: one pure decision over what the supervisor saw.
Invariant: our own act or a kernel counter names the kind; an exit number alone is only ok or failed.
Must never: read a meaning into numbers such as 137, 143 or 255.
"""

import signal
from dataclasses import dataclass
from typing import Final

from gloveport.protocol.jail.replies import ExitKind

SIGNALLED: Final = 128
"""What stands before a signal's number in the status of a wrapper or an engine."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Why the supervisor itself ended the run; `at_once` leaves it no grace."""

    kind: ExitKind
    evidence: str
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a run: `wait_status` of the main process, the kernel's memory kills, our own act.

    `denied` is the first refused call in words, `denied_decides` whether a hand of this kind is never refused one.
    `wrapped`: a wrapper stands between and reports a signal as 128+n; `wrapper_reported` whether it said that
    the command was run at all. `by_engine`: an engine gives the status, and has one number for both.
    """

    wait_status: int
    ending: Ending | None
    memory_kills: int
    memory_bytes_max: int | None
    cpu_s: float
    cpu_s_max: int | None
    wrapped: bool
    wrapper_reported: bool
    denied: str = ""
    denied_decides: bool = False
    by_engine: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """Kind, exit code or signal, and the evidence in words."""

    kind: ExitKind
    exit_code: int | None
    signal: int | None
    evidence: str


def decide_verdict(seen: Seen) -> Verdict:
    """The end of a run; the strongest evidence wins: memory kill, our act, CPU use, then the status."""
    code, number = _split(seen.wait_status)
    if seen.memory_kills:
        words = f"the kernel killed {seen.memory_kills} process(es) at the limit of {seen.memory_bytes_max} bytes"
        return Verdict(ExitKind.OOM, code, number, words)
    if seen.ending is not None:
        return Verdict(seen.ending.kind, code, number, seen.ending.evidence)
    if seen.wrapped and not seen.wrapper_reported and number is None:
        return Verdict(ExitKind.FAILED, None, None, "the sandbox could not be set up; the command was never started")
    if code == 0:
        return Verdict(ExitKind.OK, 0, None, "exit status 0")
    if seen.cpu_s_max is not None and seen.cpu_s >= seen.cpu_s_max:
        words = f"{seen.cpu_s:.1f} s of CPU used, the limit is {seen.cpu_s_max} s"
        return Verdict(ExitKind.TIMEOUT, code, number, words)
    if number == signal.SIGSYS:
        return Verdict(ExitKind.POLICY, None, number, "a forbidden system call ended the program")
    if seen.denied and seen.denied_decides:
        return Verdict(ExitKind.POLICY, code, number, f"it failed after the sandbox refused: {seen.denied}")
    if number is not None:
        return Verdict(ExitKind.FAILED, None, number, f"ended by signal {number}, not sent by the supervisor")
    return Verdict(ExitKind.FAILED, code, None, _describe_status(seen, code))


def _describe_status(seen: Seen, code: int | None) -> str:
    """A status in words, with what it may stand for where a wrapper or an engine reports it."""
    words = f"exit status {code}"
    if seen.wrapped and code is not None and code > SIGNALLED:
        words += f" (the jail's init reports an end by signal {code - SIGNALLED} with the same number)"
    if seen.by_engine and code == SIGNALLED + signal.SIGKILL:
        words += " (its own, or it was killed and the engine does not say why)"
    return words


def _split(wait_status: int) -> tuple[int | None, int | None]:
    """(exit code, None) or (None, signal) of a wait status in waitstatus_to_exitcode form."""
    return (wait_status, None) if wait_status >= 0 else (None, -wait_status)
