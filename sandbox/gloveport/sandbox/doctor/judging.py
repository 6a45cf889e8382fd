"""What each probe makes of the trials: one row a claim, judged by what was seen from outside.

Purpose: the table of probes, and for each the fault that was seen or the evidence that there is none.
Invariant: a trial that could not be made is a fault of a claim that is made.
Must never: take the inside's word where the outside can look.
"""

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gloveport.sandbox.contract import Claim, Result, ResultKind
from gloveport.sandbox.doctor.trials import (
    BOMB_MAX,
    FILE_MAX,
    GRACE_S,
    HANG_LIMITS,
    INSIDE,
    OUTPUT_MAX,
    PASSED,
    Canaries,
    Seen,
)

HANG_SLACK_S: Final = 2.0
AUDIT_FIELDS: Final = ("sandbox", "isolation", "network", "seccomp", "mounts", "limits", "environment_names", "held_by")
ENVIRONMENT_ALLOWED: Final = frozenset({"PATH", "LANG", "LC_ALL", "LC_CTYPE", "HOME", "PWD", "TMPDIR", "SHLVL", "_"})
_PIPES: Final = ("pipe:", "host:")
"""A kernel that is a program shows a pipe of the machine, which it was given, as the machine's."""
_FAMILIES: Final = ("socket_vsock", "socket_alg", "socket_others")
_NAMESPACES: Final = ("clone_user_namespace", "unshare_user_namespace", "clone3_user_namespace")
Judged = tuple[str | None, str]
"""The fault, or None, and the evidence that there is none."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One line of the doctor: its name, the claims it stands for, the judgement, what mends a broken one."""

    name: str
    claims: tuple[Claim, ...]
    judge: Callable[[Seen, Canaries], Judged]
    fix: str = ""


def _report(seen: Seen) -> Mapping[str, Any]:
    """The look's report. Raises LookupError with words when there is none."""
    if isinstance(seen.look, str):
        raise LookupError(seen.look)
    return seen.look


def _joined(faults: list[str], evidence: str) -> Judged:
    return ("; ".join(faults) or None, evidence)


def judge_hang(seen: Seen, canaries: Canaries) -> Judged:
    """A command that hangs is ended at its limit, with its whole tree."""
    hang = seen.results["hang"]
    if isinstance(hang, str):
        return hang, ""
    words = f"after {hang.wall_s:.1f} s: {hang.evidence}"
    if hang.kind is not ResultKind.TIMEOUT or hang.wall_s > HANG_LIMITS.wall_s + GRACE_S + HANG_SLACK_S:
        return f"A sleep of 60 s ended as {hang.kind} {words}", ""
    return None, f"A sleep of 60 s was ended {words}"


def judge_mounts(seen: Seen, canaries: Canaries) -> Judged:
    """A file outside is neither read nor changed."""
    faults = []
    if canaries.outside.read_text(encoding="utf-8") != "untouched":
        faults.append("a file outside was changed")
    if _report(seen)["reads"][str(canaries.outside)] == "done":
        faults.append("a file outside was read")
    return _joined(faults, "A file outside was not found from inside, and is as it was.")


def judge_hooks(seen: Seen, canaries: Canaries) -> Judged:
    """A hook of a repository outside, which git would run, is as it was."""
    if canaries.hook.read_text(encoding="utf-8") != "untouched":
        return "a hook of a repository outside was changed", ""
    outcome = _report(seen)["writes"][str(canaries.hook)]
    return None, f"Writing a hook of a repository outside gives {outcome}; the hook is as it was."


def judge_links(seen: Seen, canaries: Canaries) -> Judged:
    """A link in the mounted folder leads nowhere."""
    faults = []
    made = canaries.outside.parent / "made"
    if made.exists():
        made.unlink()
        faults.append("a file was made outside through a link")
    if _report(seen)["reads"][f"{INSIDE}/link/outside"] == "done":
        faults.append("a file outside was read through a link")
    return _joined(faults, "A link in the project that leads outside leads nowhere inside.")


def judge_tmp(seen: Seen, canaries: Canaries) -> Judged:
    """A temporary file stays inside, and the folder is bounded."""
    leaked = Path(tempfile.gettempdir(), canaries.secret)
    if leaked.exists():
        leaked.unlink()
        return "a temporary file written inside appeared outside", ""
    _report(seen)
    return None, "A file written to the temporary folder is not outside."


def judge_network(seen: Seen, canaries: Canaries) -> Judged:
    """A port of this machine and an address outside cannot be reached; loopback inside works."""
    faults = ["a port of this machine was reached"] if seen.reached else []
    report = _report(seen)
    if report["connect_outside"] in ("done", "TIMEOUT", "ECONNREFUSED"):
        faults.append(f"an address outside was routed to ({report['connect_outside']})")
    if report["loopback"] != "done":
        faults.append(f"loopback inside does not work ({report['loopback']})")
    return _joined(faults, f"An address outside gives {report['connect_outside']}; loopback inside works.")


def judge_list(seen: Seen, canaries: Canaries) -> Judged:
    """With a list of one place that place answers and another one does not."""
    if isinstance(seen.asked, str):
        return f"The list could not be tried: {seen.asked or 'its program ended without a word'}", ""
    faults = [] if seen.answered and seen.asked[:1] == ("204",) else [f"the place on the list answers {seen.asked[:1]}"]
    if seen.refused_reached:
        faults.append("a place that is not on the list was reached")
    return _joined(
        faults, f"The place on the list answered; another one was refused ({seen.asked[-1]}) and not reached."
    )


def _judge_calls(seen: Seen, names: tuple[str, ...] | None) -> Judged:
    report = _report(seen)
    calls = {name: how for name, how in report["calls"].items() if names is None or name in names}
    passed = sorted(name for name, outcome in calls.items() if outcome == "done")
    if passed:
        return "these calls went through: " + ", ".join(passed), ""
    return None, "; ".join(f"{name}: {outcome}" for name, outcome in calls.items())


def judge_calls(seen: Seen, canaries: Canaries) -> Judged:
    """The filter is in force and refuses what it should."""
    if _report(seen)["status"]["Seccomp"] != "2":
        return "no filter is in force", ""
    return _judge_calls(seen, ("keyctl", "terminal_injection"))


def judge_families(seen: Seen, canaries: Canaries) -> Judged:
    """No socket but unix, internet and routes."""
    return _judge_calls(seen, _FAMILIES)


def judge_namespaces(seen: Seen, canaries: Canaries) -> Judged:
    """No namespace can be made, by any call."""
    return _judge_calls(seen, _NAMESPACES)


def judge_names(seen: Seen, canaries: Canaries) -> Judged:
    """What the filter refused was named by the supervisor."""
    _report(seen)
    denied = () if seen.look_result is None else seen.look_result.denied
    if not any(words.startswith("socket(vsock)") for words, _times in denied):
        return "a refused socket was not named in the run's record", ""
    return None, "Named in the record: " + ", ".join(words for words, _times in denied[:6])


def judge_landlock(seen: Seen, canaries: Canaries) -> Judged:
    """What only Landlock keeps from a command: the memory map of the jail's own first process."""
    outcome = _report(seen)["reads"]["/proc/1/maps"]
    if outcome == "done":
        return "the jail's first process, which stands outside Landlock's rules, can be looked into", ""
    return None, f"Looking into the jail's first process gives {outcome}."


def judge_rights(seen: Seen, canaries: Canaries) -> Judged:
    """No capability, and none to be gained."""
    status = _report(seen)["status"]
    faults = [f"{name} is {status[name]}" for name in ("CapEff", "CapBnd") if int(status[name], 16)]
    if status["NoNewPrivs"] != "1":
        faults.append("set-user-id programs could give rights")
    return _joined(faults, "No capability is held or can be gained.")


def judge_user(seen: Seen, canaries: Canaries) -> Judged:
    """A run's command has a user id that this daemon has not."""
    if not seen.users:
        return "The command of a run did not show among this machine's processes.", ""
    if os.getuid() in seen.users:
        return f"The command of a run had this daemon's own user id, {os.getuid()}", ""
    return None, f"The command of a run had the user id {min(seen.users)}, which nobody else has."


def judge_apart(seen: Seen, canaries: Canaries) -> Judged:
    """A process outside is neither signalled nor traced."""
    faults = ["a process outside was ended"] if seen.signalled else []
    tried = _report(seen)["process"]
    faults += [f"a process outside was {name}" for name, how in tried.items() if how == "done" and not seen.signalled]
    words = "; ".join(f"{name}: {how}" for name, how in tried.items())
    return _joined(faults, f"A process outside lives on: {words or 'it does not show inside'}.")


def judge_secrets(seen: Seen, canaries: Canaries) -> Judged:
    """Nothing of this program's environment is inside."""
    inside = _report(seen)["environment"]
    own = {name for name, value in os.environ.items() if value and inside.get(name) == value}
    leaked = sorted(own - ENVIRONMENT_ALLOWED)
    words = "inside the sandbox were: " + ", ".join(leaked) if leaked else None
    return words, "Inside are only: " + ", ".join(sorted(inside))


def judge_descriptors(seen: Seen, canaries: Canaries) -> Judged:
    """Three pipes and nothing else."""
    found = _report(seen)["descriptors"]
    wrong = sorted(f"{fd} ({to})" for fd, to in found.items() if fd not in "012" or not to.startswith(_PIPES))
    return ("open inside: " + ", ".join(wrong) if wrong else None), "Open inside are three pipes."


def judge_daemon(seen: Seen, canaries: Canaries) -> Judged:
    """The daemon's socket and token, and a socket like it, are out of reach."""
    faults = ["a unix socket outside was reached"] if seen.unix_reached else []
    report = _report(seen)
    for way in ("reads", "connect_unix"):
        mine = (path for path in report[way] if path not in (str(canaries.outside), "/proc/1/maps"))
        faults += [f"{path} was reached" for path in mine if report[way][path] == "done" and INSIDE not in path]
    return _joined(sorted(set(faults)), "Neither the daemon's token and socket nor one like it could be reached.")


def _judge_limit(seen: Seen, name: str, kinds: tuple[ResultKind, ...] = ()) -> Judged:
    result = seen.results[name]
    if isinstance(result, str):
        return result, ""
    if PASSED in result.output or (kinds and result.kind not in kinds):
        return f"The limit was passed: {result.kind.value}, {result.evidence}", ""
    said = result.output[-200:].decode("utf-8", "replace").strip().rpartition("\n")[2]
    return None, f"{result.evidence}{'; ' + said if said else ''}"


def judge_bomb(seen: Seen, canaries: Canaries) -> Judged:
    """A fork bomb is held."""
    fault, words = _judge_limit(seen, "bomb")
    return fault, f"Of 60 processes at most {BOMB_MAX} could be started: {words}"


def judge_memory(seen: Seen, canaries: Canaries) -> Judged:
    """Twice the memory is not had, and the end says so."""
    return _judge_limit(seen, "memory", (ResultKind.OOM,))


def judge_cpu(seen: Seen, canaries: Canaries) -> Judged:
    """Processor time is counted over the tree."""
    result = seen.results["cpu"]
    if isinstance(result, Result) and result.kind is ResultKind.TIMEOUT and "CPU" not in result.evidence:
        return f"the limit of processor time did not end it: {result.evidence}", ""
    return _judge_limit(seen, "cpu", (ResultKind.TIMEOUT,))


def judge_file(seen: Seen, canaries: Canaries) -> Judged:
    """A file does not grow past its limit."""
    big = canaries.mounted / "big"
    size = big.stat().st_size if big.exists() else 0
    if size > FILE_MAX:
        return f"a file of {size} bytes was written, the limit is {FILE_MAX}", ""
    return _judge_limit(seen, "file")


def judge_tmp_quota(seen: Seen, canaries: Canaries) -> Judged:
    """The temporary folder does not grow past its limit."""
    return _judge_limit(seen, "tmp")


def judge_flood(seen: Seen, canaries: Canaries) -> Judged:
    """Of a flood of output head and tail are kept, and its true size."""
    result = seen.results["flood"]
    if isinstance(result, str):
        return result, ""
    if len(result.output) > OUTPUT_MAX or not result.truncated:
        return f"{len(result.output)} bytes of output were kept, the limit is {OUTPUT_MAX}", ""
    return None, f"Of {result.output_bytes_total} bytes of output {len(result.output)} are kept, head and tail."


def judge_leftovers(seen: Seen, canaries: Canaries) -> Judged:
    """What a run leaves in a session of its own does not live on."""
    words = f"{seen.survivors} process(es) of an ended run lived on" if seen.survivors else None
    return words, "A process that was left in a session of its own is gone."


def judge_artifacts(seen: Seen, canaries: Canaries) -> Judged:
    """Only plain files come back."""
    if isinstance(seen.collected, str):
        return f"Nothing could be collected: {seen.collected}", ""
    names = sorted(os.path.basename(path) for path in seen.collected)
    if names != ["plain.txt"]:
        return f"collected were: {', '.join(names) or 'no file'}; only the plain one should be", ""
    return None, "Of a plain file, links and a pipe only the plain file was taken."


def judge_set_id(seen: Seen, canaries: Canaries) -> Judged:
    """No set-user-id program is left outside."""
    words = "a program with the set-user-id bit was left outside" if seen.set_id_left else None
    return words, "The set-user-id bit of a file made inside is gone outside."


def judge_audit(seen: Seen, canaries: Canaries) -> Judged:
    """The security context names the values in force."""
    missing = [name for name in AUDIT_FIELDS if name not in seen.context]
    if missing:
        return "The security context lacks: " + ", ".join(missing), ""
    values = ((name, seen.context[name]) for name in AUDIT_FIELDS)
    named = [f"{name} ({value})" if isinstance(value, str) else name for name, value in values]
    return None, "Recorded of every run: " + ", ".join(named)


def judge_found_again(seen: Seen, canaries: Canaries) -> Judged:
    """A restarted daemon finds a run that goes on."""
    return seen.found_again or None, "A run that went on was found again by its id, and ended."


_LIMITS: Final = "Let this user make control groups, or do not rely on this limit here."
_APART: Final = "Use a kernel with Landlock from ABI 6 (Linux 6.12), or a sandbox with processes of its own."
_USER: Final = "Use a kernel from 5.19 and a file system that maps ids (ext4, XFS, btrfs) for the data folder."
PROBES: Final = (
    Probe("hang_is_killed", (Claim.WALL_LIMIT,), judge_hang),
    Probe("mounts_isolated", (Claim.FILESYSTEM_VIEW,), judge_mounts),
    Probe("hooks_protected", (Claim.FILESYSTEM_VIEW,), judge_hooks),
    Probe("links_contained", (Claim.FILESYSTEM_VIEW,), judge_links),
    Probe("tmp_private", (Claim.PRIVATE_TMP,), judge_tmp),
    Probe("tmp_bounded", (Claim.TMP_QUOTA,), judge_tmp_quota),
    Probe("network_closed", (Claim.NO_NETWORK, Claim.LOOPBACK), judge_network),
    Probe("network_list", (Claim.EGRESS_LIST,), judge_list),
    Probe("calls_filtered", (Claim.SYSCALL_FILTER,), judge_calls),
    Probe("socket_families", (Claim.SYSCALL_FILTER,), judge_families),
    Probe("no_new_namespaces", (Claim.NO_NEW_NAMESPACES,), judge_namespaces),
    Probe("denials_named", (Claim.NAMED_DENIALS,), judge_names),
    Probe("landlock", (Claim.LANDLOCK,), judge_landlock),
    Probe("rights_dropped", (Claim.NO_CAPABILITIES,), judge_rights),
    Probe("runs_apart", (Claim.RUNS_APART,), judge_apart, _APART),
    Probe("own_user", (Claim.OWN_USER,), judge_user, _USER),
    Probe("fork_bomb_held", (Claim.PROCESS_LIMIT,), judge_bomb, _LIMITS),
    Probe("memory_held", (Claim.MEMORY_LIMIT,), judge_memory, _LIMITS),
    Probe("cpu_held", (Claim.CPU_LIMIT,), judge_cpu),
    Probe("file_size_held", (Claim.FILE_LIMIT,), judge_file),
    Probe("output_bounded", (Claim.OUTPUT_LIMIT,), judge_flood),
    Probe("no_secrets", (Claim.CLEAN_ENVIRONMENT,), judge_secrets),
    Probe("only_pipes", (Claim.ONLY_PIPES,), judge_descriptors),
    Probe("daemon_hidden", (Claim.HIDES_DAEMON,), judge_daemon),
    Probe("leftovers_gone", (Claim.TREE_KILL,), judge_leftovers),
    Probe("artifacts_plain", (Claim.FILESYSTEM_VIEW,), judge_artifacts),
    Probe("set_id_removed", (Claim.FILESYSTEM_VIEW,), judge_set_id),
    Probe("audit_fields", (), judge_audit),
    Probe("run_found_again", (Claim.SURVIVES_DAEMON,), judge_found_again),
)
