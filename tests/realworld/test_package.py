"""A real package, broken and repaired, without the daemon: its tests fail as stated, and the script mends them."""

from pathlib import Path

import pytest
from tests.kit.mini_agent import converse, failing
from tests.realworld.package import SCRIPT, prepare

from gloveport.server.models.script_file import load_script
from gloveport.server.models.scripted import ScriptedProvider


@pytest.mark.timeout(400)
async def test_the_script_repairs_the_broken_package(tmp_path: Path) -> None:
    """Broken: exactly the expected tests fail. Repaired by the script's own calls: none does."""
    package = prepare(tmp_path)
    told = await converse(ScriptedProvider(load_script(SCRIPT), SCRIPT.parent), package.root, "Mend the package.")
    assert not [result.text for _, result in told.calls if result.is_error]
    assert told.replies[-1] == "All tests of the package pass."
    before, after = (result.text for call, result in told.calls if call.name == "run_tests")
    assert failing(before) == list(package.expected_failing)
    assert failing(after) == []
    assert after.startswith("180 passed, 0 failed, 0 errors")
