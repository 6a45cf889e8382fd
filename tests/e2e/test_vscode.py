"""The extension in a real VS Code (code-server) and Chromium, against the real daemon, model script and sandbox.

Each test is a file of scenarios in `client-vscode/e2e`, with a server and a browser of its own; `make e2e-vscode` runs
them one after the other. Pictures are left in `client-vscode/e2e/shots`.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit.require import NODE_PACKAGES, require, require_bubblewrap, require_node

CLIENT = NODE_PACKAGES.parent
CACHE = Path(
    os.environ.get("GLOVEPORT_E2E_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gloveport-e2e"
)
SCENARIOS_S = 1_200  # on a machine that does four other things; alone a file takes a minute or two
UNIT_S = 60


def run_vitest(*arguments: str, limit_s: int) -> None:
    """Run tests of the client; what they say is shown when one fails."""
    require_node()
    require((NODE_PACKAGES / "vitest").is_dir(), "the client's packages are missing (make client)")
    command = ["node", str(NODE_PACKAGES / "vitest" / "vitest.mjs"), "run", *arguments]
    environment = {**os.environ, "GLOVEPORT_PYTHON": sys.executable}
    done = subprocess.run(
        command, cwd=CLIENT, env=environment, capture_output=True, text=True, timeout=limit_s, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def run_scenarios(name: str) -> None:
    """Run one file of scenarios in a real window."""
    require_bubblewrap()
    require(any(CACHE.glob("done-*")), "VS Code is not installed for tests (client-vscode/e2e/install)")
    require(any(CLIENT.glob("*.vsix")), "the extension is not packed (make client)")
    run_vitest("--config", "e2e/vitest.config.ts", f"e2e/{name}.e2e.ts", limit_s=SCENARIOS_S)


@pytest.mark.parametrize("name", sorted(path.name.removesuffix(".test.ts") for path in CLIENT.glob("test/*.test.ts")))
def test_the_models_of_the_client(name: str) -> None:
    """What is shown is a function of the record: rows, cards, markdown, hunks; the reducer on the shared vectors."""
    run_vitest(f"test/{name}.test.ts", limit_s=UNIT_S)


@pytest.mark.window
@pytest.mark.timeout(SCENARIOS_S)
def test_the_panel_alone_acts_as_its_keys_and_buttons_say() -> None:
    """The page by itself: an unknown outcome, live output, a long list by keys, chips, steps; whole at any width."""
    require(Path("/usr/bin/chromium").exists(), "Chromium is not installed (client-vscode/e2e/install)")
    files = ("e2e/page.e2e.ts", "e2e/files.e2e.ts", "e2e/looks.e2e.ts")
    run_vitest("--config", "e2e/vitest.config.ts", *files, limit_s=SCENARIOS_S)


@pytest.mark.window
@pytest.mark.timeout(SCENARIOS_S)
def test_the_main_job_in_a_window() -> None:
    """Trust, a narrowed answer, tests in the sandbox, one hunk accepted, one rejected, the file exact on disk."""
    run_scenarios("job")


@pytest.mark.window
@pytest.mark.timeout(SCENARIOS_S)
def test_a_window_outlives_reloads_and_daemons() -> None:
    """Reload in mid-stream and in mid-approval, a killed daemon, steering, two windows (D06, D08)."""
    run_scenarios("life")


@pytest.mark.window
@pytest.mark.timeout(SCENARIOS_S)
def test_nothing_of_data_acts_in_a_window() -> None:
    """Hostile text and a listener that hears nothing, hidden commands, odd names, unsaved words, restricted mode."""
    run_scenarios("safety")


@pytest.mark.window
@pytest.mark.timeout(SCENARIOS_S)
def test_the_views_beside_the_chat() -> None:
    """Grants and their revoking, sandboxes, status, Test Explorer, trace, several roots, other themes."""
    run_scenarios("views")


@pytest.mark.window
@pytest.mark.timeout(SCENARIOS_S)
def test_the_bounds_of_a_session_in_a_window() -> None:
    """Plan mode and limits of tokens, set in the composer, held by the daemon, shown where they end a turn."""
    run_scenarios("bounds")


@pytest.mark.window
@pytest.mark.timeout(SCENARIOS_S)
def test_what_cards_show_in_a_window() -> None:
    """Where words come from, what leaves to the byte, what is held back, and all of it in a narrow panel too."""
    run_scenarios("cards")


@pytest.mark.window
@pytest.mark.timeout(SCENARIOS_S)
def test_what_the_panel_tells_in_a_window() -> None:
    """What looks planted or secret, a session that waits beside the shown one, a hit far before what is loaded."""
    run_scenarios("panel")


@pytest.mark.window
@pytest.mark.timeout(SCENARIOS_S)
def test_the_users_word_in_a_window() -> None:
    """An unknown outcome, an erased text, rules of a session, another model, live output, what was blocked."""
    run_scenarios("record")


@pytest.mark.window
@pytest.mark.timeout(SCENARIOS_S)
def test_the_surfaces_beside_the_main_job() -> None:
    """A missing program, walkthrough, attachments, many files, undo, points, conflicts, notices, doctor, keys."""
    run_scenarios("surfaces")


@pytest.mark.window
@pytest.mark.timeout(SCENARIOS_S)
def test_the_panel_is_there_for_everybody() -> None:
    """Roles, names and contrast in four themes as axe sees them; the main job by the keyboard alone."""
    run_scenarios("access")


@pytest.mark.window
@pytest.mark.timeout(SCENARIOS_S)
def test_a07_d06_h07_in_the_extension_host() -> None:
    """Inside a real extension host: commands, scopes, hunks in unsaved text, odd names, a killed daemon."""
    run_scenarios("host")
