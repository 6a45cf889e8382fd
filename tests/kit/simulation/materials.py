"""What simulated models, tools and policies hand in: awkward on purpose, chosen by a seeded source.

Purpose: texts with astral and combining characters and lone surrogates, arguments strict and broken, plans, facts.
Invariant: a function of its arguments and the random source alone.
"""

import hashlib
from random import Random
from typing import Any, Final

from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.protocol.journal.events.tool import EffectRecord, EgressPlace, FileFingerprint, PlanItem, TestCase
from gloveport.server.turn import inputs as inp

PIECES: Final = (
    "a", "word ", "é", "e\u0301", "中文", "😀", "𝒳𝒴", "👩\u200d👩\u200d👧", "\n", "\u2028", "\x00", "\ufffd", "\ufeff",
    "\ud83d", "\ude00", "\U0010ffff", "end.\n", "",
)  # fmt: skip
TOOLS: Final = ("read_file", "edit_file", "run_command", "run_tests", "no_such_tool")
GOOD_ARGUMENTS: Final = ("{}", '{"path":"a.py"}', '{ "b": [1, 2.5, null], "a": {"c": "😀"} }', '{"n":-0,"m":1e2}')
BROKEN_ARGUMENTS: Final = (
    "", "[1]", "null", '{"a":1,"a":2}', '{"a":NaN}', '{"a":1e999}', '{"a":"\\ud800"}', '{"a":1', "{'a':1}",
    '{"a":' + "[" * 200 + "]" * 200 + "}", '{"a":1}{"b":2}', "\ud83d",
)  # fmt: skip
PLAIN_LABEL: Final = LabelRecord(integrity=1, readers=None, provenance=("workspace",))
LABELS: Final = (
    PLAIN_LABEL,
    LabelRecord(integrity=2, readers=("me", "team"), provenance=("web",)),
    LabelRecord(integrity=0, readers=("me",), provenance=("user",)),
)
RULES_HASH: Final = hashlib.sha256(b"rules").hexdigest()


def sha(text: str) -> str:
    """A digest-shaped value made of a name."""
    return hashlib.sha256(text.encode()).hexdigest()


def some_text(rng: Random, most: int = 5) -> str:
    """A few pieces; never empty."""
    return "".join(rng.choice(PIECES) for _ in range(rng.randint(1, most))) or "x"


def clean_text(rng: Random, most: int = 5) -> str:
    """Some text as a validated client sends it: no lone surrogates."""
    return some_text(rng, most).encode("utf-8", "replace").decode()


def some_calls(rng: Random) -> tuple[inp.ModelCall, ...]:
    """No call, one, some, or more than a response may hold."""
    count = rng.choice((0, 0, 1, 1, 2, 3)) if rng.random() > 0.01 else 70
    return tuple(
        inp.ModelCall(
            provider_call_id=rng.choice(("call_1", "call_1", "toolu_😀", "")),
            tool=rng.choice(TOOLS),
            arguments_json=rng.choice(GOOD_ARGUMENTS if rng.random() < 0.75 else BROKEN_ARGUMENTS),
        )
        for _ in range(count)
    )


def some_plan(rng: Random) -> inp.Plan:
    """What a call would do."""
    return inp.Plan(
        title=clean_text(rng),
        effects=(EffectRecord(kind="read", target="a.py"),),
        recovery=rng.choice(("read_only", "idempotent", "fingerprinted", "probeable", "opaque")),
        stop_class=rng.choice(("killable", "atomic", "opaque")),
        executor="memory",
        fingerprint=(FileFingerprint(path="a.py", base_hash=sha("a"), result_hash=None),),
        label=rng.choice(LABELS),
        security_context={"network": "none", "limits": {"time_s": 3}},
    )


def judgement(verdict: str, grant_id: str | None = None, uses_left: int | None = None) -> inp.Judgement:
    """Policy's answer."""
    assert verdict in ("allow", "ask", "deny")
    return inp.Judgement(
        verdict=verdict,  # type: ignore[arg-type] # narrowed by the assertion above
        risk="low",
        reason=f"rule says {verdict}",
        rule_ids=("r1",),
        rules_hash=RULES_HASH,
        grant_id=grant_id,
        grant_uses_left=uses_left,
    )


def card(approval: str, expires_at: int | None) -> inp.CardShown:
    """The card of an approval; every fourth one shows bytes that an answer for once releases."""
    shown: dict[str, Any] = {"title": "Run 😀?", "options": ["once"]}
    if sha(approval)[0] in "0123":
        place = {"effect": "network", "scheme": "https", "host": "api.example", "port": 443}
        label = PLAIN_LABEL.model_dump(mode="json")
        shown["release"] = {**place, "sha256": sha(f"bytes of {approval}"), "bytes": 7, "label": label}
    return inp.CardShown(card=shown, card_digest=sha(approval), expires_at=expires_at)


def grant(grant_id: str, scope: str, call_id: str) -> ev.GrantIssued:
    """A right as an answered card issues it."""
    assert scope in ("once", "turn", "session")
    return ev.GrantIssued(
        grant_id=grant_id,
        scope=scope,  # type: ignore[arg-type] # narrowed by the assertion above
        sentence="may run a.py",
        grant={"call": call_id},
    )


def change(turn_id: str, revision: int, call_id: str, number: int) -> ev.ChangeProposed:
    """A proposal of one path with one hunk."""
    return ev.ChangeProposed(
        turn_id=turn_id,
        goal_revision=revision,
        call_id=call_id,
        change_id=f"ch{number % 3}",
        path=f"dir/a{number % 3}.py",
        renamed_from=None,
        kind="modify",
        base_hash=sha("base"),
        result_hash=sha(f"result{number}"),
        base_mode=0o644,
        result_mode=0o644,
        hunks=(
            ev.HunkRecord(
                hunk_id="h1", digest=sha(f"hunk{number}"), old_start=1, old_count=1, new_start=1, new_count=2
            ),
        ),
        digest=sha(f"change{number}"),
        runs_by_itself=None,
        label=PLAIN_LABEL,
    )


def _place(allowed: bool) -> EgressPlace:
    return EgressPlace(
        host="api.example", port=443, allowed=allowed, reason="listed 😀", trace_id="t-1", attempts=2, sent_bytes=5,
        received_bytes=7, credentials=("forge",),
    )  # fmt: skip


def tool_facts(rng: Random, turn_id: str, revision: int, call_id: str, number: int) -> tuple[ev.EventBody, ...]:
    """What a tool changed: nothing, a plan, test results, a proposal."""
    born: dict[str, Any] = {"turn_id": turn_id, "goal_revision": revision}
    kind = rng.randrange(5)
    if kind == 0:
        items = (
            PlanItem(title=clean_text(rng), state="running", goal_revision=revision),
            PlanItem(title="then", state="pending", goal_revision=revision),
        )
        return (ev.PlanUpdated(turn_id=turn_id, goal_revision=revision, items=items),)
    if kind == 1:
        case = TestCase(name="test_😀", status="failed", duration_us=5, message=clean_text(rng))
        return (
            ev.TestRunFinished.model_validate(
                {**born, "call_id": call_id, "framework": "pytest", "passed": 1, "failed": 1, "errors": 0,
                 "skipped": 0, "cases": (case,), "cases_left_out": 0}
            ),
            ev.EgressRecorded(**born, call_id=call_id, places=(_place(True), _place(False)), left_out=1),
            ev.CopyUnseen(**born, call_id=call_id, files=2, paths=("target/app", f"target/{number}")),
            ev.InjectionSuspected(
                **born, call_id=call_id, tool="read_file", left_out=1,
                hints=(ev.Hint(kind="hidden_characters", line=2, excerpt="U+E0041"),),
            ),
        )  # fmt: skip
    if kind == 3 and sha(call_id)[0] == "0":
        return (ev.SessionFrozen(freeze_id=call_id, call_id=call_id, evidence="mount, ptrace", words="It tried 😀."),)
    if kind != 2:
        return ()
    made = change(turn_id, revision, call_id, number)
    suspected = ev.ArtifactSuspected(
        **born, call_id=call_id, change_id=made.change_id, path=made.path, left_out=0, looked_at=True,
        secrets=(ev.SecretPlace(kind="aws access key", line=3),), hints=(),
    )  # fmt: skip
    return (made, suspected) if number % 2 else (made,)


def decided_facts(rng: Random, change_ids: list[str]) -> tuple[ev.EventBody, ...]:
    """What an apply settles: a hunk decided and, often, nothing left of its proposal."""
    if not change_ids:
        return ()
    one = rng.choice(change_ids)
    decided = ev.HunkDecided(
        change_id=one, path="dir/a.py", hunk_ids=("h1",), digests=(sha("h"),), decision="accepted", by="user"
    )
    gone = ev.ChangeWithdrawn(change_id=one, path="dir/a.py", reason="accepted")
    return (decided, gone) if rng.random() < 0.7 else (decided,)


def rates(model: str, *, input_usd: int = 1, output_usd: int = 4) -> ev.ModelRates:
    """What a model of a story costs, in US dollars for a million tokens; from the cache a tenth of its input."""
    million = 10**9
    return ev.ModelRates(
        provider="scripted",
        model=model,
        input=(ev.RateStep(above=-1, nano_usd=input_usd * million),),
        output=(ev.RateStep(above=-1, nano_usd=output_usd * million),),
        cached=(ev.RateStep(above=-1, nano_usd=input_usd * million // 10),),
        request_nano_usd=0,
    )


def outside_fact(rng: Random, grant_ids: list[str], number: int) -> ev.EventBody:
    """What commands and the recovery write beside the machine."""
    facts: list[ev.EventBody] = [
        ev.SessionRenamed(title=clean_text(rng)),
        ev.ModelSelected(provider="scripted", model=f"m{number % 3}", model_label="Other 😀"),
        ev.SandboxChosen(sandbox="bubblewrap", trust_level="trusted", statement="it holds", image=""),
        ev.ModeChosen(mode=rng.choice(("agent", "agent", "agent", "plan")), by="user"),
        ev.SessionRulesSet(text=f"# {number}", ids=(), by="user"),
        ev.BudgetSet(
            turn_tokens=rng.choice((None, None, None, 30)),
            session_tokens=rng.choice((None, None, 9_000)),
            turn_nano_usd=rng.choice((None, None, None, 60_000_000)),
            session_nano_usd=rng.choice((None, None, 10**9)),
            rates=tuple(map(rates, ("script", "m0", "m1")[: rng.randint(2, 3)])),
            by="user",
        ),
        ev.TextErased(
            erase_id=f"e{number}",
            events=3,
            outputs=0,
            label=rng.choice(LABELS),
            by="user",
            calls=(),
            unknowns=None,
            overflows=None,
        ),
        ev.SnapshotTaken(snapshot_id=f"s{number}", files=2, bytes_total=9, not_covered=("big.bin",)),
        ev.EditsTaken(turn_id=f"t{number}", taken=("a.py",), conflicted=("b.py",), not_covered=(), text="they meet"),
        ev.DriftDetected(paths=("a.py",), paths_total=2),
        ev.FaultsFound(findings=(f"the result of t{number}.c1 is not recorded",), read_only=False),
        ev.RecoverySummarised(
            interrupted_requests=1,
            reconciled_calls=0,
            pending_approvals=0,
            unfinished_applies=0,
            text="back again",
            items=(),
        ),
    ]
    if grant_ids and rng.random() < 0.4:
        return ev.GrantRevoked(grant_id=rng.choice(grant_ids), reason="the user ended it")
    return rng.choice(facts)
