"""The table of levels: from evidence alone, and never silent."""

import pytest

from gloveport.protocol.jail.replies import TAMPERED
from gloveport.sandbox.contract import Result, ResultKind
from gloveport.sandbox.monitor.levels import LEVELS, TAMPERED_WORDS, Level, level_of, words_of
from gloveport.server.tools.programs import evidence_of, hostile_evidence, outcome_of, what_was_refused

OUT = tuple((name, 1) for name in ("mount /x", "unshare", "setns", "bpf(0x0)", "keyctl(0x1)"))
TAMPERING = f"{TAMPERED}, and nothing of it was taken: 'out/b/00' is not what its hash says"


def ended(kind: str, denied: tuple[tuple[str, int], ...] = (), output: bytes = b"", **more: object) -> Result:
    """The end of a run."""
    evidence = str(more.get("evidence", "exit status 1"))
    return Result(ResultKind(kind), 1, None, evidence, 1.0, 1.0, None, output, 0, False, denied)


@pytest.mark.parametrize(
    ("result", "level"),
    [
        (ended("ok"), None),
        (ended("lost"), None),
        (ended("lost", evidence=TAMPERING), Level.HOSTILE),
        (ended("failed", evidence=TAMPERING), Level.INPUT),
        (ended("killed", evidence="stopped on request"), None),
        (ended("failed"), Level.INPUT),
        (ended("failed", output=b"ModuleNotFoundError: No module named 'x'"), Level.DEPENDENCY),
        (ended("failed", (("socket(vsock)", 1),)), Level.DENIED),
        (ended("policy", (("mount /x", 1),)), Level.DENIED),
        (ended("oom"), Level.RESOURCES),
        (ended("timeout", (("mount /x", 1),)), Level.RESOURCES),
        (ended("killed", evidence="breaker, processor: at least 95 % of a core for 3 s"), Level.RESOURCES),
        (ended("failed", OUT), Level.HOSTILE),
        (ended("ok", OUT), Level.HOSTILE),
        (ended("failed", OUT[:4]), Level.DENIED),
        (ended("failed", (("ioctl(0x5412)", 1), *((f"socket(family {n})", 1) for n in range(20)))), Level.DENIED),
    ],
)
def test_level_of_an_end(result: Result, level: Level | None) -> None:
    """137, 143 and 255 mean nothing; refused calls, our kill and counters do."""
    assert level_of(result) is level
    said = evidence_of(result)
    assert (f"level {int(level)}: {words_of(result)}" in said) if level is not None else "level" not in said


def test_several_ways_out_are_a_matter_of_policy_however_it_ended() -> None:
    """Also where the program says that all went well."""
    assert outcome_of(ended("ok", OUT)) == "policy"
    assert outcome_of(ended("ok", OUT[:4])) == "ok"


def test_what_shows_an_attack_is_told_with_its_own_words() -> None:
    """Refused calls, or results that are not what their hashes say; anything else freezes nothing."""
    assert hostile_evidence(ended("lost", evidence=TAMPERING)) == TAMPERING
    assert words_of(ended("lost", evidence=TAMPERING)) == TAMPERED_WORDS
    assert "mount" in hostile_evidence(ended("ok", OUT))
    assert words_of(ended("ok", OUT)) == LEVELS[Level.HOSTILE].words
    assert hostile_evidence(ended("lost", evidence="what came back was refused: more files than may come back")) == ""


def test_every_level_has_its_row() -> None:
    """Detection, route and words."""
    assert set(LEVELS) == set(Level)
    assert all(row.detection and row.route and row.words for row in LEVELS.values())


def test_what_was_refused_is_bounded_and_visible() -> None:
    """The first one first; control characters are shown, not printed."""
    many = ended("failed", (("mount /\x1b[2J", 3), *((f"socket(family {n})", 1) for n in range(10))))
    said = what_was_refused(many)
    assert said.startswith("the sandbox refused: mount /")
    assert "\x1b" not in said
    assert "(3 times)" in said
    assert said.endswith("and 5 more")
    assert what_was_refused(ended("failed")) == ""
