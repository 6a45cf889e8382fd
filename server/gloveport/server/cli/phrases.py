"""Words for numbers, times, calls and ends.

Purpose: one way of saying each thing in a terminal.
Invariant: a text that is shown as a reason is one.
Must never: print.
"""

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

from gloveport.protocol.text import counted

_ID_CHARACTERS_MIN: Final = 6
_TITLE_CHARACTERS_MAX: Final = 200
_REASON_CHARACTERS_MAX: Final = 400
_FOR_THE_MODEL: Final = " Choose another way."
NOT_SENT: Final = "paused"
"""The failure class of a request that was held back before it was sent."""
_SIZES: Final = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_PHASES: Final = MappingProxyType({"model": "answering", "tools": "working"})
_DECIDED: Final = ("accepted", "rejected", "undone")
"""Where a hunk stands that was decided on, in the order in which they are told."""
_UNITS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def change_words(kind: str, path: str, renamed_from: str | None) -> str:
    """What is proposed, in words; of a rename both names."""
    return f"{kind.replace('_', ' ')} {'' if renamed_from is None else f'{renamed_from} → '}{path}"


_ENDED_STATES: Final = MappingProxyType({"reverted": "nothing left to change (as proposed already, or taken back)"})
_CARD_STATES: Final = MappingProxyType({"superseded": "no longer asked", "withdrawn": "not needed any more"})


def standing_words(state: str, ends: Iterable[str]) -> str:
    """Where a proposal stands, by its own state and its hunks that wait no more: `1 accepted, 1 rejected`."""
    counts = Counter(end for end in ends if end in _DECIDED)
    told = ", ".join(f"{counts[end]} {end}" for end in _DECIDED if counts[end])
    if state == "pending":
        return f"{state}, {told}" if told else state
    return told if len(counts) > 1 else next(iter(counts), _ENDED_STATES.get(state, state))


def card_words(state: str) -> str:
    """How a card stands or ended, as people say it."""
    return _CARD_STATES.get(state, state)


def answered_words(fields: Mapping[str, Any]) -> str:
    """By whom a card ended, when and at which event; empty while it waits, or where the record does not say."""
    if "answeredSeq" not in fields:
        return ""
    at = int(fields["answeredAt"])
    return " · ".join([str(fields["by"]), *([local_time(at)] if at else []), f"#{fields['answeredSeq']:,}"])


def phase_words(phase: str) -> str:
    """Where a session stands, as people say it."""
    return _PHASES.get(phase, phase)


def stopped(text: str) -> str:
    """A sentence without its last stop, to stand before a colon or at the end of a line."""
    return text.strip().removesuffix(".")


def counts_of_tests(fields: Mapping[str, Any]) -> str:
    """What a test run found."""
    passed, failed = int(fields["passed"]), int(fields["failed"])
    errors, skipped = int(fields["errors"]), int(fields.get("skipped") or 0)
    if not passed + failed + errors + skipped:
        return "no tests ran"
    more = [f"{skipped} skipped"] if skipped else []
    return ", ".join([f"{passed} passed", f"{failed} failed", *([counted(errors, "error")] if errors else []), *more])


def egress_words(place: Mapping[str, Any]) -> str:
    """What a call reached outside, or was refused, at one place."""
    where = f"{place['host'] or 'a place that cannot be read'}:{place['port']}"
    times = "" if place["attempts"] == 1 else f", {place['attempts']} times"
    if not place["allowed"]:
        return f"blocked by sandbox: {where}{times} ({place['reason']}; trace {place['trace_id']})"
    sizes = f"{sized(place['sent_bytes'])} sent, {sized(place['received_bytes'])} received"
    return f"reached {where}{times}: {sizes} (trace {place['trace_id']})"


def retry_words(retry: Mapping[str, Any]) -> str:
    """Why a request is made again, and when."""
    seconds = -(-int(retry["backoffUs"]) // 1_000_000)
    reason = stopped(str(retry["reason"]))
    if retry["errorClass"] == NOT_SENT:
        return f"not sent yet: {reason}; looking again in {seconds} s"
    return f"{reason}; trying again in {seconds} s, attempt {retry['attempt']} of {retry['attemptsMax']}"


def local_time(micros: int) -> str:
    """A moment as the user's clock shows it."""
    return datetime.fromtimestamp(micros / 1e6, UTC).astimezone().strftime("%Y-%m-%d %H:%M")


def since(micros: int, now_s: float) -> str:
    """How long ago a moment was."""
    seconds = max(0, int(now_s - micros / 1e6))
    size, noun = next((unit for unit in _UNITS if seconds >= unit[0]), _UNITS[-1])
    return f"{counted(seconds // size, noun)} ago"


def call_title(tool: str, arguments_json: str) -> str:
    """A call that never began, by what it asked for."""
    try:
        arguments = json.loads(arguments_json)
    except ValueError:
        return tool
    if not isinstance(arguments, dict):
        return tool
    argv = arguments.get("argv")
    if isinstance(argv, list):
        return f"Run {shlex.join(map(str, argv))}"[:_TITLE_CHARACTERS_MAX]
    target = next((arguments[key] for key in ("path", "pattern", "query") if isinstance(arguments.get(key), str)), "")
    return f"{tool} {target}".strip()[:_TITLE_CHARACTERS_MAX]


def reason_of(fields: Mapping[str, Any]) -> str:
    """Why a call did not end well, in one line; empty where nothing but its output is known."""
    if fields["state"] == "failed" and isinstance(fields.get("exitCode"), int):
        return f"exit code {fields['exitCode']}"
    evidence, result = str(fields.get("evidence") or ""), str(fields.get("result") or "")
    ran = bool(fields.get("outputBytes")) or fields["state"] in ("timeout", "oom", "killed", "policy", "lost")
    text = evidence.partition(";")[0] if ran and evidence else result.removesuffix(_FOR_THE_MODEL)
    lines = text.strip().splitlines()
    if len(lines) > 1 and lines[0].endswith(":"):  # what it announces is said, too
        lines[0] = f"{lines[0]} {lines[1].strip()}"
    return stopped(lines[0])[:_REASON_CHARACTERS_MAX] if lines else ""


def short_ids(names: Iterable[str]) -> dict[str, str]:
    """The shortest end of each id that is in no other, six characters at least."""
    every = tuple(dict.fromkeys(names))
    short = {}
    for name in every:
        size = _ID_CHARACTERS_MIN
        while size < len(name) and sum(name[-size:] in other for other in every) > 1:
            size += 1
        short[name] = name[-size:]
    return short


def short_id(name: str) -> str:
    """The end of an id, as other commands take it."""
    return name[-_ID_CHARACTERS_MIN:]


def short_call(call_id: str) -> str:
    """The end of a call's id: that of its turn, and its number there."""
    turn, dot, number = call_id.rpartition(".")
    return f"{short_id(turn)}{dot}{number}"


def dollars(nano_usd: int) -> str:
    """An amount in words: `$0.0123`, never rounded to nothing (`<$0.0001`)."""
    ten_thousandths = (nano_usd + 50_000) // 100_000
    if not ten_thousandths:
        return "<$0.0001" if nano_usd else "$0"
    return f"${ten_thousandths // 10_000}.{ten_thousandths % 10_000:04d}"


def sized(count: int) -> str:
    """A number of bytes in the unit that suits it: `850 bytes`, `12.3 KiB`, `4.6 MiB`."""
    if count < 1024:
        return counted(count, "byte")
    size, unit = next((one for one in _SIZES if count >= one[0]), _SIZES[-1])
    return f"{count / size:.1f} {unit}"


def lasting(micros: int) -> str:
    """A duration in the unit that suits it: `850 µs`, `12.3 ms`, `4.56 s`, `2 min 05 s`."""
    if micros < 1_000:
        return f"{micros} µs"
    if micros < 1_000_000:
        return f"{micros / 1e3:.1f} ms"
    if micros < 60_000_000:
        return f"{micros / 1e6:.2f} s"
    return f"{micros // 60_000_000} min {micros // 1_000_000 % 60:02d} s"
