"""The example of rules for users is a file that the program takes, and does what it says."""

import re
from pathlib import Path

import pytest

from gloveport.server.app.resources import RULES_FILE, load_rules
from gloveport.server.policy.effects import Effect, EffectKind
from gloveport.server.policy.rules.load import _KEYS
from gloveport.server.policy.rules.rule import Source, subject_of

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
    found = rules.matching(subject_of("example", Effect(EffectKind(kind), target, ()), argv))
    assert rule in {one.qualified_id for one in found}


def test_the_table_names_every_key() -> None:
    """No more and no fewer than the loader takes, but `fallback`, which is for built-in rules."""
    named = set(re.findall(r"^\| (\w+) \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)) - {"key"}
    assert named == _KEYS - {"fallback"}
