"""What to do next, in commands.

Purpose: the one table from error codes and rules to the command that helps.
Invariant: a hint names commands of this program and no method of the wire.
Must never: hide what went wrong; it stands before the hint.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import Final

from gloveport.protocol.errors import ERRORS, ErrorCode, GloveportError
from gloveport.protocol.wire.methods import METHODS
from gloveport.server.client.paths import find_places

SETTLE_HINT: Final = "Look whether it took effect, then say so: gloveport settle done, or gloveport settle not-done"
HINTS: Final[Mapping[ErrorCode, str]] = MappingProxyType(
    {
        ErrorCode.INVALID_PARAMS: "See the command's own words: gloveport {command} --help",
        ErrorCode.INTERNAL: "Look the reference up in the daemon's log (gloveport doctor says where) and report it.",
        ErrorCode.UNREACHABLE: "The next command starts it again, and a turn that ran goes on: gloveport resume",
        ErrorCode.SHUTTING_DOWN: "The daemon is going down; run the command again.",
        ErrorCode.BUSY: "Wait a moment, then run the command again.",
        ErrorCode.DECISION_TOKEN: "Run it as the user whose daemon this is.",
        ErrorCode.LEASE_HELD: "Another daemon serves this data: gloveport daemon status, gloveport daemon stop",
        ErrorCode.VERSION_MISMATCH: "End the daemon of the other version: gloveport daemon stop",
        ErrorCode.CONFLICT: "Run the command again.",
        ErrorCode.SESSION_UNKNOWN: "See gloveport sessions.",
        ErrorCode.TURN_BUSY: "Wait for the turn (gloveport resume), or stop it: gloveport cancel",
        ErrorCode.TURN_MISMATCH: "The turn has moved on; see gloveport show.",
        ErrorCode.APPROVAL_UNKNOWN: "See what waits: gloveport approve",
        ErrorCode.SUPERSEDED: "Look at the card as it is now: gloveport approve",
        ErrorCode.WORKSPACE_UNTRUSTED: "Say how far you trust the folder: gloveport trust restricted",
        ErrorCode.CHANGE_UNKNOWN: "See gloveport diff.",
        ErrorCode.CHANGE_CONFLICT: "Where you changed the same lines, gloveport diff shows both sides. Put your lines "
        "back as they were and accept again, or drop it (gloveport reject PATH) and ask anew: "
        "gloveport resume -m '...'",
        ErrorCode.CHANGE_SUPERSEDED: "Look at what is proposed now: gloveport diff",
        ErrorCode.SANDBOX_REFUSED: "Choose a stronger one (gloveport run --sandbox), or trust more: gloveport trust",
        ErrorCode.SANDBOX_LOST: SETTLE_HINT,
        ErrorCode.MODEL_UNREACHABLE: "Check its address (config.toml) and the network; then: gloveport resume -m '...'",
        ErrorCode.MODEL_AUTH: "Set a valid key for it (config.toml, key_env) and: gloveport daemon stop",
        ErrorCode.MODEL_RATE: "Wait as long as the provider asks; then: gloveport resume -m 'go on'",
        ErrorCode.MODEL_QUOTA: "Raise the quota, or use another model: gloveport models use PROVIDER/MODEL",
        ErrorCode.MODEL_BROKEN: "What arrived is kept. Go on with: gloveport resume -m 'go on'",
        ErrorCode.MODEL_UNKNOWN: "See gloveport models.",
        ErrorCode.MODEL_CONTEXT: "Use a model with a larger window (gloveport models use PROVIDER/MODEL), "
        "or begin a new session: gloveport run",
        ErrorCode.POLICY_DENIED: "A rule forbids this; see gloveport why.",
        ErrorCode.RULES_INVALID: "Mend the named rule in rules.toml.",
    }
)
"""Where the table of codes speaks to a client, this one speaks to a person at a terminal."""

RULE_HINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "mode:plan": "Plan mode looks and changes nothing. To let it work: gloveport mode agent, "
        "then gloveport resume -m '...'",
        "kernel:no-sandbox": "See what each sandbox needs here: gloveport doctor",
        "kernel:trust-unset": "Say how far you trust this folder: gloveport trust restricted",
        "kernel:old-goal": "Nothing to do; it was proposed for a goal that has changed.",
        "kernel:confidential": "Send it yourself, or begin a session that has read nothing confidential: gloveport run",
    }
)
_RUNG_HINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "trusted": "Its sandbox does not work here: gloveport doctor says why.",
        "restricted": "A restricted folder needs bubblewrap or stronger (gloveport doctor says what works here). "
        "To let its programs run as plain processes of yours: gloveport trust trusted",
    }
)
_RUNG_USUAL: Final = (
    "To let its programs run in a container without network: gloveport trust restricted\n"
    "To let them run as plain processes of yours, too: gloveport trust trusted"
)
OUTCOME_HINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "denied": "Ask for another way: gloveport resume -m '...'; the next question can be answered with yes.",
        "failed": "It ran and ended with a failure of its own; what it printed stands above. "
        "Go on with: gloveport resume -m 'try again'",
        "invalid": "The model asked in a way that cannot be carried out; it was told so.",
        "timeout": "Ask for a narrower run or a longer time: gloveport resume -m '...'",
        "oom": "It used more memory than its limit; ask for a narrower run: gloveport resume -m '...'",
        "killed": "Something ended it from outside; try again: gloveport resume -m 'try again'",
        "policy": "The sandbox refused what it tried; gloveport doctor shows what each sandbox allows.",
        "lost": SETTLE_HINT,
        "unknown": SETTLE_HINT,
        "waiting": "It waits for your answer: gloveport approve",
        "running": "It runs; follow it with gloveport resume, stop it with gloveport cancel",
    }
)
_COMMAND: Final = "{command}"
_running: Final[ContextVar[str]] = ContextVar("running command", default="COMMAND")
_METHOD_NAMES: Final = re.compile("|".join(re.escape(name) for name in METHODS))


def name_command(name: str) -> None:
    """Which command runs, as hints name it."""
    _running.set(name)


BACK_CONFLICT_HINT: Final = (
    "You changed the same lines since then, and they were left alone. Put your lines back as they were and run "
    "the command again, or change the rest by hand; gloveport show tells what was decided."
)


@contextmanager
def taking_back() -> Iterator[None]:
    """Undo, redo and restore run in it: over a conflict of theirs there is no proposal to look at."""
    try:
        yield
    except GloveportError as error:
        if error.code is ErrorCode.CHANGE_CONFLICT and error.hint == ERRORS[error.code].hint:
            error.hint = BACK_CONFLICT_HINT
        raise


def hint_of(error: GloveportError) -> str:
    """The hint of a failure for a person at a terminal."""
    return advice(error.code.value, error.hint)


def advice(code: str, hint: str) -> str:
    """A hint in commands: what was said for this very case, or the table where that was said for clients."""
    known = next((one for one in ErrorCode if one.value == code), None)
    usual = "" if known is None else HINTS.get(known, "")
    if known is not None and hint == ERRORS[known].hint:
        hint = usual or hint
    chosen = usual if _METHOD_NAMES.search(hint) else hint
    return chosen.replace(_COMMAND, _running.get())


RULES_NAME: Final = "rules.toml"
MANAGED_SETTINGS: Final = Path("/etc/gloveport")
NO_ANSWER_ALLOWS: Final = (
    "No answer can allow it; do it yourself if you want it done, or ask for another way: gloveport resume -m '...'"
)
_VERDICTS: Final = re.compile(r"(?:^| then )(allow|ask|deny)\b")
_BRACKETS: Final = re.compile(r"\[([^\[\]]*)\]")
RERUN_HINT: Final = (
    "If it needs that call and you trust it, choose another sandbox in the settings (sandbox.trusted) and run it "
    "again; gloveport doctor says what each one refuses."
)


def _denied_by(rules: Sequence[str]) -> str:
    """What can be done where a rule forbids: no answer allows it. `rules`: `source:id` of those that decided."""
    names = [name for one in rules for name in one.split(", ")]
    for source, folder in (("user", find_places().config_dir), ("managed", MANAGED_SETTINGS)):
        ids = [name.removeprefix(f"{source}:") for name in names if name.startswith(f"{source}:")]
        if ids:
            whose = "a rule of yours" if source == "user" else "a rule of this machine's owner"
            words = f"{whose} forbids it, and no answer can allow it: {', '.join(ids)} in {folder / RULES_NAME}"
            return f"{words}. See gloveport policy show."
    own = [name.removeprefix("session:") for name in names if name.startswith("session:")]
    if own:
        words = f"a rule of this session's own forbids it, and no answer can allow it: {', '.join(own)}"
        return f"{words}. See gloveport policy rules."
    return NO_ANSWER_ALLOWS


def hint_for_call(decision: str, outcome: str, trust_level: str) -> str:
    """What can be done about a call that ended so; `decision` names the rules that spoke."""
    if outcome in ("denied", "waiting"):
        if "kernel:rung" in decision:
            return _RUNG_HINTS.get(trust_level, _RUNG_USUAL)
        found = next((words for rule, words in RULE_HINTS.items() if rule in decision), None)
        if found is not None and outcome == "denied":
            return found
        if outcome == "denied" and _VERDICTS.findall(decision)[-1:] == ["deny"]:
            return _denied_by(_BRACKETS.findall(decision)[-1:])
    return OUTCOME_HINTS.get(outcome, "")
