"""The documents and the tree agree; each check is seen failing on a planted fault."""

import importlib
import json
import pkgutil
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripts.surface import list_cli_commands, list_make_targets, list_settings, read_settings_example
from tests.arch.gates import docs
from tests.arch.gates.docs import Surface

import gloveport
from gloveport.protocol.errors import ERRORS, ErrorCode, GloveportError
from gloveport.protocol.wire.methods import METHODS, NOTIFICATIONS
from gloveport.server.transports.lsp.handlers.names import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
Check = Callable[[Path, Surface], list[str]]
CHECKS: tuple[Check, ...] = (
    docs.check_documents_exist,
    docs.check_links,
    docs.check_named_things_exist,
    docs.check_everything_is_named,
    docs.check_invariants,
    docs.check_rooms_are_described,
    docs.check_changelog,
)


def read_surface() -> Surface:
    """What exists in this tree."""
    contributes = json.loads((ROOT / "client-vscode/package.json").read_text(encoding="utf-8"))["contributes"]
    editor = {row["command"] for row in contributes["commands"]} | contributes["configuration"]["properties"].keys()
    editor |= set(COMMANDS)
    modules = {found.name for found in pkgutil.walk_packages(gloveport.__path__, "gloveport.")}
    return Surface(
        methods=frozenset({*METHODS, *NOTIFICATIONS}),
        codes=frozenset(code.value for code in ErrorCode),
        commands=frozenset(list_cli_commands()),
        settings=frozenset(list_settings()),
        targets=frozenset(list_make_targets(ROOT)),
        editor=frozenset(editor),
        modules=frozenset(modules),
    )


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_docs_hold(check: Check) -> None:
    """No fault in the documents of the tree."""
    faults = check(ROOT, read_surface())
    assert not faults, "\n".join(faults)


SMALL = Surface(
    methods=frozenset({"turn/start"}),
    codes=frozenset({"turn.busy"}),
    commands=frozenset({"run", "audit verify"}),
    settings=frozenset({"sandbox.trusted"}),
    targets=frozenset({"demo", "test"}),
    editor=frozenset({"gloveport.command"}),
    modules=frozenset({"gloveport.server"}),
)
ARCHITECTURE = "# A\n\nRooms: turn.\n\n- INV-1 it holds: `tests/unit/test_a.py::test_x`\n- **INV-2** too:\n"
ARCHITECTURE += "  `tests/unit/test_a.py::TestB::test_y`\n"
NAMES = "`turn/start` `turn.busy` `gloveport run` `gloveport audit verify` `sandbox.trusted` `make demo` `make test`"
CLEAN = {
    "README.md": "Say `make demo`, `make test`, `make demo PYTHON=python3`; see `docs/reference.md`, ARCHITECTURE.md.\n"
    "```\ngloveport run 'x'\n```\n`session/one` `app.py` `turn.py` `gloveport.server`\n",
    "ARCHITECTURE.md": ARCHITECTURE,
    "docs/reference.md": f"{NAMES} `gloveport.command`\n",
    "CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-01-02\n\n### Added\n- x\n\n"
    "## [0.1.0] - 2026-01-01\n\n### Fixed\n- y\n",
    "tests/unit/test_a.py": "def test_x(): ...\n\n\nclass TestB:\n    def test_y(self): ...\n",
    "server/gloveport/server/turn/__init__.py": "",
}
PLANTS: tuple[tuple[Check, str, str, str], ...] = (
    (docs.check_documents_exist, "README.md", "`make test`", ""),
    (docs.check_links, "README.md", "ARCHITECTURE.md.", "[how](ARCHITECTURE.md#rooms), ![it](docs/picture.svg)."),
    (docs.check_named_things_exist, "README.md", "`make demo`", "`make nothing`"),
    (docs.check_named_things_exist, "README.md", "gloveport run 'x'", "gloveport walk"),
    (docs.check_named_things_exist, "README.md", "session/one", "turn/stop"),
    (docs.check_named_things_exist, "README.md", "app.py", "turn.lazy"),
    (docs.check_named_things_exist, "README.md", "gloveport.server", "gloveport.nothing"),
    (docs.check_named_things_exist, "ARCHITECTURE.md", "turn.", "`server/gloveport/nowhere.py`, turn."),
    (docs.check_named_things_exist, "docs/reference.md", "`turn/start`", "`turn/start` `make love`"),
    *((docs.check_everything_is_named, "docs/reference.md", name, "") for name in re.findall("`[^`]+`", NAMES)),
    (docs.check_everything_is_named, "docs/reference.md", "`gloveport.command`", ""),
    (docs.check_invariants, "ARCHITECTURE.md", "# A\n", "# A\n" + "\n" * 300),
    (docs.check_invariants, "ARCHITECTURE.md", "INV-2", "INV-1"),
    (docs.check_invariants, "ARCHITECTURE.md", "Rooms: turn.", "Rooms: turn. INV-1 within a line, too."),
    (docs.check_invariants, "ARCHITECTURE.md", "::test_x", "::test_z"),
    (docs.check_invariants, "ARCHITECTURE.md", "::TestB::", "::"),
    (docs.check_invariants, "ARCHITECTURE.md", "`tests/unit/test_a.py::test_x`", "for sure"),
    (docs.check_invariants, "ARCHITECTURE.md", ARCHITECTURE, "# A\n"),
    (docs.check_rooms_are_described, "ARCHITECTURE.md", "turn", "none"),
    (docs.check_changelog, "CHANGELOG.md", "## [Unreleased]\n", ""),
    (docs.check_changelog, "CHANGELOG.md", " - 2026-01-02", ""),
    (docs.check_changelog, "CHANGELOG.md", "0.2.0", "0.0.9"),
    (docs.check_changelog, "CHANGELOG.md", "### Added", "### News"),
    (docs.check_changelog, "CHANGELOG.md", "- x\n", ""),
)


def grow(root: Path, files: dict[str, str]) -> None:
    """Write the files below the root."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: f"{plant[0].__name__}-{plant[3].strip() or plant[2]}"[:60])
def test_planted_fault_is_reported(plant: tuple[Check, str, str, str], tmp_path: Path) -> None:
    """The check is silent on the clean tree and not on the changed one."""
    check, name, old, new = plant
    grow(tmp_path, CLEAN)
    assert check(tmp_path, SMALL) == []
    assert old in CLEAN[name]
    grow(tmp_path, {name: CLEAN[name].replace(old, new)})
    assert check(tmp_path, SMALL), f"{check.__name__} did not see {old!r} -> {new!r}"


def test_every_check_has_a_plant() -> None:
    """No check is trusted unseen."""
    assert {check.__name__ for check in CHECKS} == {plant[0].__name__ for plant in PLANTS}


def test_missing_documents_are_told(tmp_path: Path) -> None:
    """A tree without documents does not pass in silence."""
    assert len([fault for fault in docs.check_documents_exist(tmp_path, SMALL) if fault.endswith("missing")]) == 4


def test_help_shows_every_target() -> None:
    """Each target of the Makefile but the inner ones is in `make help`, and the phony ones have a rule."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    rules = set(re.findall(r"^([a-z][a-z0-9-]*):(?!=)", text, re.MULTILINE))
    phony = set(re.findall(r"^\.PHONY: (.+)$", text, re.MULTILINE)[0].split())
    assert phony == rules
    assert rules - {"help", "bootstrap-dev"} == set(list_make_targets(ROOT))


def test_one_version_everywhere() -> None:
    """The extension and the distribution are released together."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    package = json.loads((ROOT / "client-vscode/package.json").read_text(encoding="utf-8"))
    lock = json.loads((ROOT / "client-vscode/package-lock.json").read_text(encoding="utf-8"))
    assert project["version"] == package["version"] == lock["version"]


def test_every_code_has_its_own_number_and_a_hint() -> None:
    """The table of errors is whole: no code without a row, no number twice, no empty hint."""
    assert set(ERRORS) == set(ErrorCode)
    assert len({spec.rpc for spec in ERRORS.values()}) == len(ERRORS)
    assert all(spec.hint.endswith((".", "daemon", "gloveport daemon")) for spec in ERRORS.values())


def test_settings_example_is_accepted(tmp_path: Path) -> None:
    """The file that the settings' docstring shows is a valid one, and shows every top-level key."""
    example = read_settings_example()
    if not example:
        assert not (ROOT / "server/gloveport/server/settings.py").exists(), "the docstring shows no settings file"
        return
    settings: Any = importlib.import_module("gloveport.server.settings")
    path = tmp_path / settings.SETTINGS_FILE
    path.write_text(example, encoding="utf-8")
    settings.load_settings(tmp_path, {})
    path.write_text("no_such_key = 1\n", encoding="utf-8")
    with pytest.raises(GloveportError, match="no_such_key") as refused:
        settings.load_settings(tmp_path, {})
    known = set(str(refused.value).partition("there are: ")[2].split(", "))
    assert known == set(tomllib.loads(example))
