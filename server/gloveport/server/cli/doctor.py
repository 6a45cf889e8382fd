"""gloveport doctor: what this machine can hold.

Purpose: show each sandbox's claims as probed, and where data, journal and audit lie.
Invariant: every line says what was seen and, where something does not hold, how to mend it.
Must never: claim what was not probed.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable
from types import MappingProxyType
from typing import Annotated, Final

import typer

from gloveport.protocol.wire.base import Empty
from gloveport.protocol.wire.place import ProbeInfo, SandboxDoctorParams, SandboxInfo
from gloveport.server.cli.link import Exit, fail, say, with_client
from gloveport.server.client.connect import Client

_MARKS: Final = MappingProxyType(
    {"holds": ("✓", "green"), "does_not_hold": ("✗", "red"), "not_claimed": ("–", "yellow")}
)


def doctor(
    sandbox: Annotated[str, typer.Option("--sandbox", help="Only this sandbox.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Probe the sandboxes and show where things lie. Exit code 1 when a claim does not hold, or the one named fails."""

    async def work(client: Client) -> int:
        status = await client.call("daemon/status", Empty())
        rungs = (await client.call("sandbox/list", Empty())).sandboxes
        if sandbox:
            known = ", ".join(rung.name for rung in rungs)
            rungs = tuple(rung for rung in rungs if rung.name == sandbox)
            if not rungs:
                words = f"there is no sandbox {sandbox!r}; there are: {known}"
                fail(words, code=Exit.USAGE)
        models = (await client.call("model/list", Empty())).models
        probes = {
            rung.name: (await client.call("sandbox/doctor", SandboxDoctorParams(sandbox=rung.name))).probes
            for rung in rungs
            if rung.available
        }
        failed = any(probe.verdict == "does_not_hold" for found in probes.values() for probe in found)
        failed = failed or (bool(sandbox) and not rungs[0].available)
        if as_json:
            told = {
                "daemon": status.model_dump(mode="json", by_alias=True),
                "models": [model.model_dump(mode="json", by_alias=True) for model in models],
                "sandboxes": [rung.model_dump(mode="json", by_alias=True) for rung in rungs],
                "probes": {
                    name: [probe.model_dump(mode="json", by_alias=True) for probe in found]
                    for name, found in probes.items()
                },
            }
            sys.stdout.write(json.dumps(told, ensure_ascii=False, indent=2) + "\n")
            return int(Exit.FAILED if failed else Exit.OK)
        say(f"gloveport {status.program_version}, daemon {status.pid}", "bold")
        for name, path in (("data", status.data_dir), ("journal", status.journal_path), ("audit", status.audit_path)):
            say(f"{name}: {path}")
        for words in (*status.data.told, *status.sandboxes_told):
            say(words, "yellow")
        for model in models:
            say(f"model {model.provider}/{model.model}: {model.label}")
        for rung in rungs:
            _print_rung(rung)
            _print_probes(probes.get(rung.name, ()))
        return int(Exit.FAILED if failed else Exit.OK)

    raise typer.Exit(with_client(work))


def _print_probes(probes: tuple[ProbeInfo, ...]) -> None:
    usual = _usual_fix(probes)
    for probe in probes:
        mark, style = _MARKS[probe.verdict]
        fix = f" → {probe.fix}" if probe.verdict != "holds" and probe.fix not in ("", usual) else ""
        say(f"  {mark} {probe.name}: {probe.evidence}{fix}", style)
    if usual:
        say(f"  → For each of these that is not claimed: {usual}")


def _usual_fix(probes: Iterable[ProbeInfo]) -> str:
    """What is to be done about several probes, told once; empty where each has its own."""
    fixes = Counter(probe.fix for probe in probes if probe.fix and probe.verdict == "not_claimed")
    words, count = next(iter(fixes.most_common(1)), ("", 0))
    return words if count > 1 else ""


def _print_rung(rung: SandboxInfo) -> None:
    state = "works" if rung.available else f"does not work: {rung.reason} {rung.fix}"
    say(f"sandbox {rung.name} (strength {rung.strength}) {state}", "bold")
    say(f"  {rung.statement}")
    for claim in rung.does_not_hold:
        say(f"  – {claim.claim} is not claimed: {claim.words}", "yellow")
