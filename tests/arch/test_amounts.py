"""What `make test` tries less of, `make thorough` tries more of, and it leaves nothing of that out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.arch.gates.tree import walk_python
from tests.kit.amount import THOROUGH_NAME

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = {"tests/security/escapes/driver.py": "tests/security/test_escapes.py"}
"""Programs that ask how much is wanted, and the test that starts them."""
ASKING = ("import amount", f'"{THOROUGH_NAME}"', "rungs_of(")
"""Words of whoever asks."""
ASKED = "from tests.kit.amount import amount; from hypothesis import settings; from tests import conftest as _;"


def thorough_paths() -> list[str]:
    """The files and folders that `make thorough` runs."""
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nthorough:")[2].partition("\n\n")[0]
    return [word for word in recipe.split() if word.startswith("tests/")]


def test_whoever_asks_how_much_is_run_by_make_thorough() -> None:
    """Else the larger amount is one that nobody ever tries."""
    asking = {source.path for source in walk_python(ROOT, "tests") if any(word in source.text for word in ASKING)} - {
        "tests/kit/amount.py",
        "tests/kit/sandboxes.py",
        "tests/arch/test_amounts.py",
    }
    wanted = {ELSEWHERE.get(path, path) for path in asking}
    assert len(wanted) >= 5
    assert {path for path in wanted if not path.startswith(tuple(thorough_paths()))} == set()


@pytest.mark.parametrize(("said", "wanted"), [("", "2 60"), ("1", "9 600")])
def test_more_is_tried_when_it_is_asked_for(said: str, wanted: str) -> None:
    """Of what a test counts itself, and of every property's examples."""
    program = f"{ASKED} print(amount(2, 9), settings().max_examples)"
    environment = {**os.environ, THOROUGH_NAME: said, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, cwd=ROOT, check=True
    )
    assert done.stdout.strip() == wanted
