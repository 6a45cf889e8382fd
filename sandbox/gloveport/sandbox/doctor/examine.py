"""Examines one rung by running our own program in it and looking from outside.

Purpose: start-and-hang kill, mounts, network, system call filter, secrets, audit fields: six lines of findings.
Invariant: canaries are placed outside before the run and looked at outside after it; all of them are removed.
Must never: raise because a probe failed; that is a finding.
"""

import contextlib
import json
import os
import secrets
import socket
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gloveport.sandbox.contract import Availability, Claim, Command, Result, ResultKind, Sandbox, SandboxError
from gloveport.sandbox.doctor import inside
from gloveport.sandbox.doctor.findings import Finding, Verdict, judge
from gloveport.sandbox.interpreter import find_interpreter
from gloveport.sandbox.profile import Access, Limits, Mount, Profile

LOOK_LIMITS: Final = Limits(wall_s=20.0, memory_bytes_max=256 * 1024 * 1024, processes_max=64)
HANG_LIMITS: Final = Limits(wall_s=0.5)
HANG_SLACK_S: Final = 2.0
GRACE_S: Final = 0.2
AUDIT_FIELDS: Final = ("sandbox", "isolation", "network", "seccomp", "mounts", "limits", "environment_names", "held_by")
ENVIRONMENT_ALLOWED: Final = frozenset({"PATH", "LANG", "LC_ALL", "LC_CTYPE", "HOME", "PWD", "TMPDIR", "SHLVL", "_"})
PROBES: Final = ("hang_is_killed", "mounts_isolated", "network_closed", "calls_filtered", "no_secrets", "audit_fields")


@dataclass(frozen=True, slots=True)
class Canaries:
    """What was placed outside: a file, a folder that is mounted, a listening port, a secret word."""

    outside: Path
    mounted: Path
    listener: socket.socket
    secret: str


async def examine(backend: Sandbox) -> tuple[Finding, ...]:
    """Probe a rung; one finding per probe, in a fixed order."""
    availability = await backend.probe()
    if not availability.ok:
        return tuple(Finding(n, Verdict.DOES_NOT_HOLD, availability.reason, availability.fix) for n in PROBES)
    token = secrets.token_hex(8)
    with place_canaries(token) as canaries:
        report, context = await look_inside(backend, f"doctor-look-{token}", canaries)
        reached = _was_reached(canaries.listener)
        hang = await _run_hang(backend, f"doctor-hang-{token}")
        return (
            judge_hang(availability, hang),
            judge_mounts(availability, report, canaries),
            judge_network(availability, report, reached),
            judge_calls(availability, report),
            judge_secrets(availability, report),
            judge_audit(context),
        )


@contextlib.contextmanager
def place_canaries(token: str) -> Iterator[Canaries]:
    """Folders, a port and a word; gone afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="gloveport-doctor-") as folder,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        listener.setblocking(False)
        outside, mounted = Path(folder, "outside"), Path(folder, "mounted")
        mounted.mkdir()
        outside.write_text("untouched", encoding="utf-8")
        yield Canaries(outside, mounted, listener, f"canary-{token}")


async def look_inside(
    backend: Sandbox, run_id: str, canaries: Canaries
) -> tuple[Mapping[str, Any] | str, Mapping[str, object]]:
    """The inner program's report, or words why there is none; and the security context."""
    interpreter = find_interpreter()
    mounts = (*interpreter.mounts, Mount(str(canaries.mounted), "/mnt/probe", Access.READ_WRITE))
    profile = Profile(label="doctor", tool_kind="small", mounts=mounts, working_dir="/mnt/probe", limits=LOOK_LIMITS)
    request = {
        "host_ports": [str(canaries.listener.getsockname()[1])],
        "reads": [str(canaries.outside)],
        "writes": [str(canaries.outside), f"/tmp/{canaries.secret}"],  # noqa: S108 - tried on purpose
    }
    source = Path(inside.__file__).read_text(encoding="utf-8")
    argv = (interpreter.path, "-I", "-S", "-B", "-c", source)
    context: Mapping[str, object] = {}
    try:
        lease = await backend.prepare(profile, run_id)
        context = lease.security_context
        try:
            result = await (await lease.start(Command(argv, run_id, json.dumps(request).encode()))).result()
        finally:
            await lease.release()
    except SandboxError as error:
        return error.message, context
    return _read_report(result), context


async def _run_hang(backend: Sandbox, run_id: str) -> Result | str:
    profile = Profile("doctor", "small", (), "/", HANG_LIMITS, grace_s=GRACE_S)
    try:
        lease = await backend.prepare(profile, run_id)
        try:
            return await (await lease.start(Command(("sleep", "60"), run_id))).result()
        finally:
            await lease.release()
    except SandboxError as error:
        return error.message


def _read_report(result: Result) -> Mapping[str, Any] | str:
    try:
        report = json.loads(result.output)
    except ValueError:
        report = None
    if result.kind is ResultKind.OK and isinstance(report, dict):
        return report
    return f"The probe did not run: {result.output[-300:].decode('utf-8', 'replace') or result.evidence}"


def _was_reached(listener: socket.socket) -> bool:
    try:
        connection, _address = listener.accept()
    except BlockingIOError:
        return False
    connection.close()
    return True


def judge_hang(availability: Availability, hang: Result | str) -> Finding:
    """A command that hangs is ended at its limit, with its whole tree."""
    fault, seen = None, ""
    if isinstance(hang, str):
        fault = hang
    elif hang.kind is not ResultKind.TIMEOUT or hang.wall_s > HANG_LIMITS.wall_s + GRACE_S + HANG_SLACK_S:
        fault = f"A sleep of 60 s ended as {hang.kind} after {hang.wall_s:.1f} s: {hang.evidence}"
    else:
        seen = f"A sleep of 60 s was ended after {hang.wall_s:.1f} s: {hang.evidence}"
    return judge("hang_is_killed", (Claim.WALL_LIMIT,), availability, fault, seen)


def judge_mounts(availability: Availability, report: Mapping[str, Any] | str, canaries: Canaries) -> Finding:
    """A file outside is neither read nor changed, and a temporary file stays inside."""
    claims = (Claim.FILESYSTEM_VIEW, Claim.PRIVATE_TMP)
    leaked = Path(tempfile.gettempdir(), canaries.secret)
    faults = []
    if leaked.exists():
        leaked.unlink()
        faults.append("a temporary file written inside appeared outside")
    if canaries.outside.read_text(encoding="utf-8") != "untouched":
        faults.append("a file outside was changed")
    if isinstance(report, str):
        faults.append(report)
    elif report["reads"][str(canaries.outside)] == "done":
        faults.append("a file outside was read")
    fault = "; ".join(faults) or None
    return judge("mounts_isolated", claims, availability, fault, "A file outside was not found from inside.")


def judge_network(availability: Availability, report: Mapping[str, Any] | str, reached: bool) -> Finding:
    """A port of this machine and an address outside cannot be reached; loopback inside works."""
    faults = ["a port of this machine was reached"] if reached else []
    seen = ""
    if isinstance(report, str):
        faults.append(report)
    else:
        if report["connect_outside"] in ("done", "TIMEOUT", "ECONNREFUSED"):
            faults.append(f"an address outside was routed to ({report['connect_outside']})")
        if report["loopback"] != "done":
            faults.append(f"loopback inside does not work ({report['loopback']})")
        seen = f"An address outside gives {report['connect_outside']}; loopback inside works."
    claims = (Claim.NO_NETWORK, Claim.LOOPBACK)
    return judge("network_closed", claims, availability, "; ".join(faults) or None, seen)


def judge_calls(availability: Availability, report: Mapping[str, Any] | str) -> Finding:
    """The filter is in force and refuses what it should."""
    fault, seen = None, ""
    if isinstance(report, str):
        fault = report
    else:
        passed = sorted(name for name, outcome in report["calls"].items() if outcome == "done")
        if report["status"]["Seccomp"] != "2":
            fault = "no filter is in force"
        elif passed:
            fault = "these calls went through: " + ", ".join(passed)
        seen = "; ".join(f"{name}: {outcome}" for name, outcome in report["calls"].items())
    return judge("calls_filtered", (Claim.SYSCALL_FILTER, Claim.NO_NEW_NAMESPACES), availability, fault, seen)


def judge_secrets(availability: Availability, report: Mapping[str, Any] | str) -> Finding:
    """Nothing of this program's environment is inside."""
    fault, seen = None, ""
    if isinstance(report, str):
        fault = report
    else:
        own = {name for name, value in os.environ.items() if value and report["environment"].get(name) == value}
        leaked = sorted(own - ENVIRONMENT_ALLOWED)
        if leaked:
            fault = "inside the sandbox were: " + ", ".join(leaked)
        seen = "Inside are only: " + ", ".join(sorted(report["environment"]))
    return judge("no_secrets", (Claim.CLEAN_ENVIRONMENT,), availability, fault, seen)


def judge_audit(context: Mapping[str, object]) -> Finding:
    """The security context names the values in force."""
    missing = [name for name in AUDIT_FIELDS if name not in context]
    if missing:
        words = "The security context lacks: " + ", ".join(missing)
        return Finding("audit_fields", Verdict.DOES_NOT_HOLD, words, "Report this finding.")
    named = [f"{name} ({value})" if isinstance(value := context[name], str) else name for name in AUDIT_FIELDS]
    return Finding("audit_fields", Verdict.HOLDS, "Recorded of every run: " + ", ".join(named), "")
