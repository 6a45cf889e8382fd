"""What policy says of a call, whole: the decision, its factors, the card with every sentence, and what it is bound to.

Purpose: one table of calls and circumstances, whose cards lie reviewed in `tests/golden/cards.json`.
Invariant: a row changes one thing of an ordinary call; a changed word or binding shows as a changed row.
Must never: decide.

`python -m tests.kit.cards --write` writes the table; read the difference before it is committed.
"""

import dataclasses
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tests.kit import policy_cases as cases

from gloveport.protocol.ids import Sha256
from gloveport.server.policy.answer import grant_from_answer, issued_fields
from gloveport.server.policy.card import build_card
from gloveport.server.policy.decide import decide
from gloveport.server.policy.explain import explain, show
from gloveport.server.policy.labels import Integrity, Label
from gloveport.server.policy.origins import Told
from gloveport.server.policy.request import Leaving, Request, Sending, request_digest
from gloveport.server.policy.rung import TrustLevel

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "cards.json"
CONFIDENTIAL: Final = Label(Integrity.UNTRUSTED, frozenset({"model:a", "api.example.org"}), ("file:.env", "issue:9"))
SHA: Final = "b" * 64


def _calls() -> Iterator[tuple[str, Request]]:
    file = cases.effect
    yield "write", cases.request(file("write", "conftest.py"))
    yield "write two", cases.request(file("write", "a/conftest.py"), file("write", "a/package.json"))
    yield "write far apart", cases.request(file("write", "a/conftest.py"), file("write", "b/package.json"))
    yield "write deep", cases.request(file("write", "a/b/conftest.py"), file("write", "a/b/c/package.json"))
    yield "write secret", cases.request(file("write", ".env"))
    yield "delete many", cases.request(file("delete", "src", recursive="true", count="12"), tool="delete_file")
    for kind in ("read", "search", "secret_read"):
        yield f"{kind} secret", cases.request(file(kind, ".env"), tool="read_file")
        yield f"{kind} outside", cases.request(file(kind, "/usr/include/stdio.h"), tool="read_file")
    yield "read by a command", cases.command("cat", ".env")
    for kind in ("network", "publish", "message", "memory_write", "git_history", "install"):
        yield kind, cases.request(file(kind, "api.example.org:443", data="two\nlines\u202e"), tool="http_request")
    yield "unknown", cases.request(unknown=("beam:x\u202e",), tool="edit_file")
    yield "no effect", cases.request(tool="edit_file")
    yield "foreign tool", cases.request(file("write", "a.py"), tool="server__write")
    leaving = Leaving("network", "https", "api.example.org", 443, Sha256(SHA), 12)
    told = Told("file", "src/app.py", "a line of the project that was read\n")
    sending = Sending(("POST /a\u202e", "X: y"), "It says: a line of the project\nzero\u200bwidth", True, (told,))
    sent = cases.request(file("network", "api.example.org:443"), tool="http_request", payload=leaving, sending=sending)
    sent = replace(sent, sources=Label(Integrity.UNTRUSTED, None, ("http:b.example:443", "user", "workspace")))
    yield "release", sent
    yield "release held back", replace(sent, label=Label(Integrity.WORKSPACE, frozenset({"model:a"}), ("secret:.env",)))
    for argv in (
        ("pytest", "-q"), ("python3", "-m", "pytest", "tests/test_a.py"), ("npm", "test"), ("rm", "-rf", "build"),
        ("git", "push"), ("git", "rebase", "main"), ("pip", "install", "x"), ("sudo", "ls"), ("make",), ("./tool",),
        ("curl", "https://api.example.org/"), ("env", "A=1", "python3", "a.py"), ("timeout", "5", "rm", "a"),
        ("cargo", "build"), ("go", "test", "./..."), ("python3", "a\u202e.py"), ("find", ".", "-delete"),
        ("docker", "run", "x"), ("sh", "-c", "ls $(id)"),
    ):  # fmt: skip
        yield f"run {' '.join(argv).encode('ascii', 'backslashreplace').decode()}", cases.command(*argv)
    yield "tests", cases.command("pytest", "-q", tool="run_tests")
    yield "tests of a module", cases.command("python3", "-m", "unittest", tool="run_tests")


def _changed() -> Iterator[tuple[str, Request]]:
    """An ordinary run and an ordinary write, each with one thing changed."""
    run, write = cases.command("npm", "test"), cases.request(cases.effect("write", "conftest.py"))
    changes: dict[str, dict[str, Any]] = {
        "user": {"label": cases.USER},
        "unseen": {"unseen": ("target/app\u202e",)},
        "untrusted": {"label": cases.UNTRUSTED},
        "confidential": {"label": CONFIDENTIAL},
        "named": {"intent": "named"},
        "absent": {"intent": "absent"},
        "irreversible": {"reversible": False},
        "files": {"file_digests": (("a.py", SHA), ("b\u202e.py", SHA))},
        "unbound": {"unbound": ("a.py", "c.py")},
        "environment": {"environment": (("A", "1\u202e"), ("LD_PRELOAD", "x.so"))},
        "folder": {"cwd": "sub\u202e"},
    }
    for name, change in changes.items():
        yield f"npm {name}", replace(run, **change)
        if name not in ("environment", "folder"):
            yield f"write {name}", replace(write, **change)
    yield "delete absent", cases.request(cases.effect("delete", "a.py"), tool="delete_file", intent="absent")
    elsewhere = replace(cases.BUBBLEWRAP, host="far.example\u202e")
    listed = replace(cases.BUBBLEWRAP, holds=("egress_list", "no network"))
    for name, sandbox in (
        ("process", cases.PROCESS), ("machine", cases.MACHINE), ("elsewhere", elsewhere), ("listed", listed),
    ):  # fmt: skip
        yield f"npm on {name}", replace(run, sandbox=sandbox)
        yield f"curl on {name}", cases.command("curl", "https://api.example.org/", sandbox=sandbox)
        place = cases.effect("network", "api.example.org:443")
        yield f"place on {name}", replace(run, sandbox=sandbox, effects=(*run.effects, place), label=CONFIDENTIAL)
    yield "run nowhere", replace(run, sandbox=None)


def _circumstances() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "", {}
    yield " (trust unset)", {"trust_level": None}
    yield " (restricted)", {"trust_level": TrustLevel.restricted}
    yield " (untrusted)", {"trust_level": TrustLevel.untrusted}
    yield " (strange worktree)", {"worktree": Integrity.UNTRUSTED}
    yield " (goal 2)", {"goal_revision": 2}
    yield " (a child)", {"agent": "child", "ancestors": ("main",), "trust_generation": 4}


def row(call: Request, changes: dict[str, Any]) -> dict[str, Any]:
    """What policy says of one call, as plain JSON."""
    context = cases.context(**changes)
    decision = decide(call, cases.default_rules(), (), context)
    said: dict[str, Any] = {
        "verdict": str(decision.verdict),
        "risk": decision.risk,
        "reason": decision.reason,
        "rules": list(decision.rule_ids),
        "explained": dataclasses.asdict(explain(decision)),
        "factors": [f"{one.name} {one.level.name}: {one.words}" for one in decision.factors],
        "request": request_digest(call),
    }
    if decision.need is not None:
        card = build_card(call, decision, context, summary="One\u202e line", diff="+added\u202e\n -kept\n")
        said["card"] = {
            name: value for name, value in card.items() if name not in ("factors", "reason", "rules_hash", "risk")
        }
        said["grants"] = [
            issued_fields(grant_from_answer(card, option=at, grant_id="g", approval_id="a", issued_at=7))
            for at in range(len(card["options"]))
        ]
    return said


def asked() -> dict[str, tuple[Request, dict[str, Any]]]:
    """Every row's call, and what is changed of the circumstances."""
    ordinary = dict((*_calls(), *_changed()))
    rows: dict[str, tuple[Request, dict[str, Any]]] = {name: (call, {}) for name, call in ordinary.items()}
    for words, changes in _circumstances():
        for name in ("write", "npm untrusted", "network", "npm on process"):
            rows[name + words] = ordinary[name], changes
    return rows


def golden() -> str:
    """The file's text: a row a line, and every rule as it is shown."""
    rows = {name: row(*one) for name, one in asked().items()}
    rows["rules"] = show(cases.default_rules())
    lines = (f"{json.dumps(name)}: {json.dumps(rows[name], sort_keys=True, default=str)}" for name in sorted(rows))
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        raise SystemExit("python -m tests.kit.cards --write")
    GOLDEN.write_text(golden(), encoding="ascii")
