"""Examines one rung by running our own program in it and looking from outside.

Purpose: every claim of a rung as one probe: holds, does not hold, not claimed, with the evidence and what mends it.
Invariant: canaries are placed outside before the runs and looked at outside after them; all of them are removed.
Must never: raise because a probe failed; that is a finding.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from gloveport.sandbox.contract import Availability, Claim, Sandbox
from gloveport.sandbox.doctor import judging
from gloveport.sandbox.doctor.findings import Finding, Verdict, judge
from gloveport.sandbox.doctor.trials import Canaries, Seen, Trials, make_token, place_canaries

PROBES: Final = tuple(probe.name for probe in judging.PROBES)


async def examine(
    backend: Sandbox, hidden: tuple[Path, ...] = (), reopen: Callable[[], Sandbox] | None = None
) -> tuple[Finding, ...]:
    """Probe a rung; one finding per probe, in a fixed order.

    `hidden` are the daemon's own token and socket; `reopen` opens the same rung as a restarted daemon would.
    """
    availability = await backend.probe()
    if not availability.ok:
        return tuple(Finding(n, Verdict.DOES_NOT_HOLD, availability.reason, availability.fix) for n in PROBES)
    token = make_token()
    with place_canaries(token) as canaries:
        trials = Trials(backend, canaries, token, hidden)
        await trials.look()
        await trials.pass_limits()
        await trials.leave_something()
        if Claim.EGRESS_LIST in availability.holds:
            await trials.ask_outside()
        await trials.find_again(reopen)
        return tuple(_find(probe, availability, trials.seen, canaries) for probe in judging.PROBES)


def _find(probe: judging.Probe, availability: Availability, seen: Seen, canaries: Canaries) -> Finding:
    try:
        fault, evidence = probe.judge(seen, canaries)
    except LookupError as error:
        fault, evidence = str(error), ""
    return judge(probe.name, probe.claims, availability, fault, evidence, probe.fix)
