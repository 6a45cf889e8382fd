"""Rules of one session: they narrow there, over restarts, and nothing else changes; what cannot be read refuses."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from tests.kit.policy_cases import builtin_text, request
from tests.kit.room import Home, Kit, call, new_home

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal import events as ev
from gloveport.protocol.wire.policy import PolicyShowParams, PolicyShowResult, SessionRulesParams, SessionRulesResult
from gloveport.server.policy.effects import Effect, EffectKind
from gloveport.server.policy.findings import rule_findings
from gloveport.server.policy.rules.load import load_rules
from gloveport.server.policy.rules.rule import Source, Verdict, subject_of
from gloveport.server.policy.rules.ruleset import build_ruleset

PICKED = Path(__file__).resolve().parents[2] / "client-vscode/test/picked.toml"
NO_NOTES = """
version = 1
[[rule]]
id = "own.no-notes"
effects = ["read", "search"]
paths = ["notes/**"]
verdict = "deny"
justification = "Not in this session."
match = [{ effect = "read", target = "notes/a.txt" }]
"""


BUILTIN = load_rules(builtin_text(), Source.builtin)


@pytest.fixture
def home() -> Iterator[Home]:
    """A home with a note, and a model that reads it."""
    with new_home() as made:
        (made.root / "notes").mkdir()
        (made.root / "notes/a.txt").write_text("one\n")
        made.play({"when": {"turn": 0}, "calls": [call("read_file", path="notes/a.txt")]}, {"text": "Done."})
        yield made


def rule(verdict: str, *, name: str = "own.x", effect: str = "network", ceiling: str = "workspace") -> str:
    """A text with one rule for everything of a kind."""
    return (
        f'version = 1\n[[rule]]\nid = "{name}"\neffects = ["{effect}"]\nverdict = "{verdict}"\nceiling = "{ceiling}"\n'
        f'justification = "Because."\nmatch = [{{ effect = "{effect}", target = "a.example:443" }}]\n'
    )


def params(session_id: str, text: str, name: str = "rules") -> SessionRulesParams:
    """A request to set these rules."""
    return SessionRulesParams(client_request_id=name, session_id=session_id, text=text)


async def shown(kit: Kit, session_id: str | None) -> PolicyShowResult:
    """The rules in force, there or for everybody."""
    result: PolicyShowResult = await kit.call("policy/show", PolicyShowParams(session_id=session_id))
    return result


async def outcome(kit: Kit, session_id: str) -> str:
    """How the model's one call ends."""
    await kit.send(session_id)
    await kit.idle(session_id)
    return (await kit.ends(session_id))[-1]


async def test_they_hold_in_their_session_alone_over_a_restart_until_they_are_taken_away(home: Home) -> None:
    async with home.room() as kit:
        session_id, other = await kit.begin(), await kit.begin()
        everybodys = await shown(kit, None)
        done: SessionRulesResult = await kit.call("session/rules", params(session_id, NO_NOTES))
        assert [(one.rule_id, one.source) for one in done.rules] == [("own.no-notes", "session")]
        assert done.rules_hash != everybodys.rules_hash
        assert await outcome(kit, other) == "ok"
    async with home.room() as kit:
        assert await outcome(kit, session_id) == "denied"
        (decided,) = [one for one in await kit.bodies(session_id, "PolicyDecided") if one["verdict"] == "deny"]
        assert decided["rules_hash"] == (await shown(kit, session_id)).rules_hash == done.rules_hash
        assert "session:own.no-notes" in decided["rule_ids"]
        assert (await shown(kit, other)).rules_hash == (await shown(kit, None)).rules_hash == everybodys.rules_hash
        assert (await kit.call("session/rules", params(session_id, "", "away"))).rules == ()
        assert await outcome(kit, session_id) == "ok"


async def test_a_session_rule_never_allows_and_a_wrong_one_changes_nothing(home: Home) -> None:
    async with home.room() as kit:
        session_id = await kit.begin()
        await kit.call("session/rules", params(session_id, NO_NOTES))
        for number, text in enumerate((rule("allow"), "version = 1\n[[rule]]\n", rule("deny", name="execute.default"))):
            refused = await kit.refused("session/rules", params(session_id, text, f"wrong{number}"))
            assert refused.code is ErrorCode.RULES_INVALID
        assert await outcome(kit, session_id) == "denied"


async def test_the_text_is_shown_as_it_was_given_and_what_the_window_writes_is_taken(home: Home) -> None:
    """The extension makes a rule of whatever can be picked there, and takes one out of the text that it is shown."""
    text = PICKED.read_text(encoding="utf-8")
    async with home.room() as kit:
        session_id = await kit.begin()
        assert (await shown(kit, session_id)).own_text == ""
        done: SessionRulesResult = await kit.call("session/rules", params(session_id, text))
        assert {one.verdict for one in done.rules} == {"ask", "deny"}
        assert (await shown(kit, session_id)).own_text == text
        assert (await shown(kit, None)).own_text == ""


async def test_a_text_made_from_one_that_was_replaced_meanwhile_is_refused(home: Home) -> None:
    """Two windows read the same text and each add to it: the second is told, and the first one's rule stays."""

    def based(session_id: str, text: str, base: str, name: str) -> SessionRulesParams:
        digest = sha256(base.encode()).hexdigest()
        return params(session_id, text, name).model_copy(update={"base_digest": digest})

    async with home.room() as kit:
        session_id = await kit.begin()
        await kit.call("session/rules", based(session_id, NO_NOTES, "", "one"))
        refused = await kit.refused("session/rules", based(session_id, rule("deny"), "", "other"))
        assert (refused.code, "changed since they were read" in str(refused)) == (ErrorCode.SUPERSEDED, True)
        assert (await shown(kit, session_id)).own_text == NO_NOTES
        assert await outcome(kit, session_id) == "denied"
        await kit.call("session/rules", based(session_id, NO_NOTES, "", "one"))  # the same request, answered again
        await kit.call("session/rules", based(session_id, rule("deny"), NO_NOTES, "after"))
        assert (await shown(kit, session_id)).own_text == rule("deny")


async def test_what_a_later_version_cannot_read_refuses_everything_until_it_is_set_again(home: Home) -> None:
    async with home.room() as kit:
        session_id = await kit.begin()
        await kit.actor(session_id).record((ev.SessionRulesSet(text="version = 9", ids=(), by="newer"),))
        assert await outcome(kit, session_id) == "denied"
        own = [one for one in (await shown(kit, session_id)).rules if one.source == "session"]
        assert [one.verdict for one in own] == ["deny"]
        await kit.call("session/rules", params(session_id, ""))
        assert await outcome(kit, session_id) == "ok"


@pytest.mark.parametrize("kind", list(EffectKind))
def test_no_rule_of_a_session_takes_the_place_of_another(kind: EffectKind) -> None:
    """A fallback speaks on, and where nobody spoke it is still said that no rule speaks."""
    (own,) = load_rules(rule("ask", effect=kind), Source.session)
    subject = subject_of("t", Effect(kind, "a.example:443"))
    for others in ((), tuple(each for each in BUILTIN if kind in each.kinds)):
        before, after = build_ruleset(others).matching(subject), build_ruleset((*others, own)).matching(subject)
        assert set(after) == {*before, own}
        asked = request(Effect(kind, "a.example:443"), tool="t")
        said = {one.rule_id for one in rule_findings(asked, asked.effects, build_ruleset(others))}
        now = {one.rule_id for one in rule_findings(asked, asked.effects, build_ruleset((*others, own)))}
        assert now == {*said, own.qualified_id}
    assert own.verdict is Verdict.ask
