"""The example of rules for users is a file that the program takes, and does what it says."""

import re
from pathlib import Path

import pytest
from tests.kit.require import require

from gloveport.server.app.resources import RULES_FILE, load_rules
from gloveport.server.policy.effects import Effect, EffectKind
from gloveport.server.policy.errors import RulesInvalidError
from gloveport.server.policy.rules.load import _KEYS
from gloveport.server.policy.rules.rule import CommandLine, Source, subject_of

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "rules.md"


def example() -> str:
    """The fenced example."""
    found = re.search(r"```toml\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("kind", "target", "argv", "rule"),
    [
        ("read", "web/.env.local", None, "user:mine.no-dot-env"),
        ("write", "migrations/0002_next.sql", None, "user:mine.migrations"),
        ("execute", "terraform destroy", ("terraform", "destroy"), "user:mine.no-terraform-apply"),
    ],
)
def test_the_example_is_taken_and_speaks(
    tmp_path: Path, kind: str, target: str, argv: tuple[str, ...] | None, rule: str
) -> None:
    """Loaded as the daemon loads it, beside the built-in rules."""
    (tmp_path / RULES_FILE).write_text(example(), encoding="utf-8")
    rules = load_rules(tmp_path)
    assert sum(one.source is Source.user for one in rules.rules) == 3
    found = rules.matching(subject_of("example", Effect(EffectKind(kind), target, ()), CommandLine(argv)))
    assert rule in {one.qualified_id for one in found}


def test_the_table_names_every_key() -> None:
    """No more and no fewer than the loader takes, but `fallback`, which is for built-in rules."""
    named = set(re.findall(r"^\| (\w+) \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)) - {"key"}
    assert named == _KEYS - {"fallback"}


@pytest.fixture
def managed(tmp_path: Path) -> Path:
    """A file of managed rules that belongs to root, as far as this user can make one."""
    path = tmp_path / "etc" / RULES_FILE
    path.parent.mkdir(mode=0o755)
    path.write_text("version = 1\n[[rule]]" + example().split("[[rule]]")[3].replace("mine.", "owner."))
    path.chmod(0o644)
    return path


def test_managed_rules_cannot_be_weakened(tmp_path: Path, managed: Path) -> None:
    """What a managed rule refuses no rule of the user's allows, and the set's hash tells that it is there."""
    require(managed.stat().st_uid == 0, "only root can make a file of root's")
    allowing = example().split("[[rule]]")[3].replace('"deny"', '"allow"').replace(
        '["terraform", "destroy"]', '["terraform", "apply", "-auto-approve"]'
    )  # fmt: skip
    (tmp_path / RULES_FILE).write_text("version = 1\n[[rule]]" + allowing)
    rules = load_rules(tmp_path, managed)
    subject = subject_of("x", Effect(EffectKind.execute, "t"), CommandLine(("terraform", "apply", "-auto-approve")))
    found = {(str(one.source), str(one.verdict)) for one in rules.matching(subject)}
    assert {("managed", "deny"), ("user", "allow")} <= found
    assert rules.hash != load_rules(tmp_path, tmp_path / "none").hash


def test_managed_rules_that_others_may_write_are_refused(tmp_path: Path, managed: Path) -> None:
    """The daemon does not start with rules that anybody could have put there."""
    for path in (managed, managed.parent):
        path.chmod(path.stat().st_mode | 0o022)
        with pytest.raises(RulesInvalidError):
            load_rules(tmp_path, managed)
        path.chmod(path.stat().st_mode & ~0o022)


def test_a_wrong_word_is_answered_with_the_words_that_are_right(tmp_path: Path) -> None:
    """In every place of a rule that takes one of a few."""
    for good, bad, told in (
        ('verdict = "ask"', 'verdict = "aks"', "'aks' is not one of allow, ask, deny"),
        ('effects = ["read"', 'effects = ["raed"', "'raed' is not one of .*read"),
    ):
        assert good in example()
        (tmp_path / RULES_FILE).write_text(example().replace(good, bad, 1), encoding="utf-8")
        with pytest.raises(RulesInvalidError, match=told):
            load_rules(tmp_path)
