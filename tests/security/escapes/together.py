"""Many attempts in one run, each a process of its own with a word of its own.

Purpose: where a run begins with a container, most of the time of a hundred attempts is a hundred beginnings.
Invariant: each is judged from outside. What an attempt says is its own, and so is the word that it may say. Where one
got out, the others found another field than theirs: each of them is made again by itself. So is what had no end.
Must never: take an attempt that wants a jail of its own, or whose promise is about what a run begins with or leaves.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gloveport.sandbox.contract import Claim, Command, Sandbox, SandboxError
from gloveport.sandbox.interpreter import find_interpreter

from .catalogue import Attempt
from .field import OPTIONS, PROJECT, Field, Outcome, _look, judge_outside, profile_of

CLAIMS = frozenset(
    {Claim.SYSCALL_FILTER, Claim.NO_CAPABILITIES, Claim.NO_NEW_NAMESPACES, Claim.FILESYSTEM_VIEW, Claim.HIDES_DAEMON,
     Claim.NO_NETWORK}
)  # fmt: skip
OWN = frozenset({"said", "told"})
"""Judged by what the attempt itself said."""
COMMON = frozenset({"reached", "outside_changed", "signalled"})
"""Judged by what is seen outside, whoever did it."""
AT_ONCE = 24
WALL_S = 120.0
EACH_S = 20
SAID_CHARS = 4_000
RUNNER = r"""
import json, os, shutil, subprocess, sys
given = json.load(sys.stdin)
def clean():
    for name in os.listdir("."):
        if os.path.isdir(name) and not os.path.islink(name): shutil.rmtree(name, ignore_errors=True)
        else: os.unlink(name)
for one in given["attempts"]:
    clean()
    argv = [sys.executable, *given["options"], one["source"]]
    context = json.dumps({**given["context"], "word": one["word"]}).encode()
    try:
        done = subprocess.run(
            argv, input=context, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=given["each_s"]
        )
    except (OSError, subprocess.SubprocessError):
        continue
    print(json.dumps([one["id"], done.stdout.decode("utf-8", "replace")[-given["chars"]:]]), flush=True)
"""


def goes_together(attempt: Attempt) -> bool:
    """Whether an attempt needs nothing but the usual jail, in which others were before it."""
    special = attempt.first or attempt.covered or attempt.mounted or attempt.limits or attempt.kind != "build"
    held = attempt.collect_while_running or attempt.hard_link_before
    return attempt.claim in CLAIMS and attempt.judge in OWN | COMMON and not special and not held


async def try_together(backend: Sandbox, attempts: Sequence[Attempt], field: Field) -> dict[str, Outcome]:
    """Outcomes by id of the attempts that go together, for those of which something can be said."""
    wanted = [one for one in attempts if goes_together(one)]
    found: dict[str, Outcome] = {}
    for at in range(0, len(wanted), AT_ONCE):
        found |= await _try_some(backend, wanted[at : at + AT_ONCE], field)
    return found


async def _try_some(backend: Sandbox, attempts: Sequence[Attempt], field: Field) -> dict[str, Outcome]:
    field.reset()
    before = field.snapshot()
    words = {one.id: f"escaped-{secrets.token_hex(12)}" for one in attempts}
    context = field.context(PROJECT, bare=False)
    rows = [{"id": one.id, "word": words[one.id], "source": one.source(field.marker)} for one in attempts]
    given = {"options": OPTIONS, "context": context, "each_s": EACH_S, "chars": SAID_CHARS, "attempts": rows}
    usual = profile_of(attempts[0], field)
    profile = replace(usual, limits=replace(usual.limits, wall_s=WALL_S))
    try:
        lease = await backend.prepare(profile, field.marker)
        try:
            argv = (find_interpreter().path, *OPTIONS, f"# {field.marker}\n{RUNNER}")
            command = Command(argv, f"run-{field.marker}", json.dumps(given).encode())
            result = await (await lease.start(command)).result()
            _look(attempts[0], field)
        finally:
            await lease.release()
    except SandboxError:
        return {}
    if any([await _seen(attempts, judge, field, before) for judge in COMMON]):
        return {}
    said = _said(result.output)
    found = {one.id: _outcome(one, said[one.id], words[one.id], field) for one in attempts if one.id in said}
    out = {name: outcome for name, outcome in found.items() if outcome.escaped}
    return out or found


async def _seen(attempts: Sequence[Attempt], judge: str, field: Field, before: Mapping[str, bytes]) -> bool:
    """Whether one of those that are judged this way got out."""
    some = next((one for one in attempts if one.judge == judge), None)
    return some is not None and await judge_outside(some, field, before, b"")


def _said(output: bytes) -> dict[str, str]:
    found = {}
    for line in output.decode("utf-8", "replace").splitlines():
        try:
            name, words = json.loads(line)
        except (ValueError, TypeError):
            continue
        found[str(name)] = str(words)
    return found


def _outcome(attempt: Attempt, said: str, word: str, field: Field) -> Outcome:
    if said.startswith("absent here: "):
        return Outcome(False, absent=said.strip())
    escaped = word in said if attempt.judge == "said" else attempt.judge == "told" and field.secret in said
    return Outcome(escaped, words=f"together: {said[-200:]}")
