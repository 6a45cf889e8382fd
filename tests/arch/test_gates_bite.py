"""Each gate reports a planted fault, and reports nothing on the same small tree without it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.arch.gates import imports, sizes, style, traces
from tests.arch.test_house import GATES, ROOT, run_import_linter

Gate = Callable[[Path], list[str]]
DOC = '"""A room.\n\nPurpose: p.\nInvariant: i.\nMust never: n.\n"""\n'
SERVER = "server/gloveport/server/"
PROTOCOL = "protocol/gloveport/protocol/"
RUNNER = "sandbox/gloveport/sandbox/runner/"
TRY = "try:\n    X = 1\n"
SHORT = "\n\ndef f() -> None:\n    '''Do.'''\n"
CLEAN: dict[str, str] = {
    PROTOCOL + "__init__.py": DOC,
    PROTOCOL + "ids.py": DOC + "X: int = 1\n",
    PROTOCOL + "errors.py": DOC + "from gloveport.protocol.ids import X\n",
    PROTOCOL + "wire/__init__.py": DOC + "import pydantic\n",
    PROTOCOL + "journal/__init__.py": DOC,
    PROTOCOL + "jail/__init__.py": DOC + "from dataclasses import dataclass\n",
    "sandbox/gloveport/sandbox/__init__.py": DOC,
    RUNNER + "__init__.py": DOC + "import os\nimport gloveport.protocol.jail\n",
    SERVER + "__init__.py": DOC,
    SERVER + "turn/__init__.py": DOC + "import hashlib\nfrom gloveport.protocol import ids\n",
    SERVER + "session/__init__.py": DOC,
    SERVER + "journal/__init__.py": DOC + "import aiosqlite\n",
    SERVER + "models/__init__.py": DOC,
    SERVER + "models/openai.py": DOC + "\n\ndef load() -> None:\n    '''Late.'''\n    import openai\n",
    SERVER + "tools/__init__.py": DOC,
    SERVER + "client/__init__.py": DOC + "from gloveport.protocol import wire\n",
    SERVER + "cli/__init__.py": DOC + "import typer\nimport gloveport.server.client\n",
    SERVER + "transports/__init__.py": DOC,
    SERVER + "commands/__init__.py": DOC + "import gloveport.server.journal\nimport gloveport.server.transports\n",
    SERVER + "app/foreground.py": DOC + SHORT + "    import gloveport.server.app\n",
    SERVER + "app/__init__.py": DOC + "import gloveport.server.commands\nimport gloveport.server.client\n",
    SERVER + "settings.py": DOC + "import gloveport.server.secrets\n",
    SERVER + "secrets/__init__.py": DOC,
    "sandbox/gloveport/sandbox/backends/__init__.py": DOC,
    "sandbox/gloveport/sandbox/doctor/__init__.py": DOC + "import gloveport.sandbox.backends\n",
    "tests/unit/test_a.py": '"""A test."""\n',
    "client-vscode/src/common/reducer.ts": "export {};\n",
    "README.md": "Plain words.\n",
}


def body(lines: int) -> str:
    """A function of the given length."""
    return "\n\ndef f() -> None:\n    '''Do.'''\n" + "    print()\n" * (lines - 2)


Plant = tuple[Gate, str, str]
PLANTS: tuple[Plant, ...] = (
    (sizes.check_file_sizes, SERVER + "turn/long.py", DOC + "#\n" * 500),
    (sizes.check_file_sizes, "tests/unit/test_long.py", '"""T."""\n' + "#\n" * 700),
    (sizes.check_function_sizes, SERVER + "turn/long.py", DOC + body(71)),
    (sizes.check_house_numbers, SERVER + "turn/long.py", DOC + body(40)),
    (style.check_module_docstrings, SERVER + "turn/bare.py", "X = 1\n"),
    (style.check_module_docstrings, SERVER + "turn/half.py", '"""One line.\n\nPurpose: p.\n"""\nX = 1\n'),
    (style.check_module_docstrings, "tests/unit/test_bare.py", "X = 1\n"),
    (style.check_public_docstrings, SERVER + "turn/bare.py", DOC + "\n\ndef f() -> None:\n    print()\n"),
    (style.check_file_names, SERVER + "turn/utils.py", DOC),
    (style.check_file_names, "client-vscode/src/node/helpers.ts", "export {};\n"),
    (style.check_file_names, "server/gloveport/__init__.py", DOC),
    (style.check_packages, SERVER + "policy/rules.py", DOC),
    (style.check_test_names, "tests/property/test_a.py", '"""Another."""\n'),
    (style.check_broad_excepts, SERVER + "journal/a.py", DOC + TRY + "except Exception:\n    pass\n"),
    (style.check_broad_excepts, SERVER + "journal/a.py", DOC + TRY + "except:\n    raise\n"),
    (style.check_suppressions, SERVER + "turn/a.py", DOC + "X = 1  # no" + "qa\n"),
    (style.check_suppressions, SERVER + "turn/a.py", DOC + "X = 1  # no" + "qa: S105\n"),
    (style.check_suppressions, SERVER + "turn/a.py", DOC + "X = 1  # type: ig" + "nore[misc]\n"),
    (style.check_suppressions, SERVER + "turn/a.py", DOC + "# ruff: no" + "qa\n"),
    (style.check_module_state, SERVER + "turn/a.py", DOC + "CACHE: dict[str, int] = {}\n"),
    (style.check_module_state, SERVER + "turn/a.py", DOC + "print(1)\n"),
    (style.check_module_state, SERVER + "turn/a.py", DOC + SHORT + "    global X\n    X = 1\n"),
    (style.check_annotations, SERVER + "turn/a.py", DOC + "\n\ndef f(x) -> None:\n    '''Do.'''\n"),
    (style.check_no_mocks, "tests/unit/test_b.py", '"""T."""\nfrom unittest import mo' + "ck\n"),
    (traces.check_traces, "docs/a.md", "TO" + "DO: write\n"),
    (traces.check_traces, "docs/a.md", "see iss" + "ue 12\n"),
    (traces.check_traces, SERVER + "turn/a.py", DOC + "X = 1  # as (#" + "12) says\n"),
    (traces.check_traces, "docs/a.md", "see https://py" + "pi.org/x\n"),
    (traces.check_traces, "client-vscode/package-lock.json", '"https://registry.npm' + 'js.org/x"\n'),
    (traces.check_traces, "Makefile", "cd /wo" + "rk/main\n"),
    (imports.check_kernel_purity, SERVER + "turn/a.py", DOC + "import time\n"),
    (imports.check_kernel_purity, SERVER + "session/a.py", DOC + SHORT + "    from pathlib import Path\n"),
    (imports.check_kernel_purity, SERVER + "turn/a.py", DOC + "from gloveport.server import journal\n"),
    (imports.check_kernel_purity, SERVER + "turn/a.py", DOC + "from .. import journal\n"),
    (imports.check_kernel_purity, SERVER + "turn/a.py", DOC + "import pydantic\n"),
    (imports.check_kernel_purity, SERVER + "turn/a.py", DOC + "\n\nasync def f() -> None:\n    '''Do.'''\n"),
    (imports.check_kernel_purity, SERVER + "turn/a.py", DOC + SHORT + "    open('x')\n"),
    (imports.check_protocol_purity, PROTOCOL + "wire/a.py", DOC + "import datetime\n"),
    (imports.check_protocol_purity, PROTOCOL + "jail/a.py", DOC + "import pydantic\n"),
    (imports.check_protocol_purity, PROTOCOL + "wire/a.py", DOC + "import gloveport.protocol.jail\n"),
    (imports.check_runner_bareness, RUNNER + "a.py", DOC + "import anyio\n"),
    (imports.check_runner_bareness, RUNNER + "a.py", DOC + "import gloveport.sandbox\n"),
    (imports.check_clients, SERVER + "cli/a.py", DOC + "from gloveport.server import journal\n"),
    (imports.check_clients, SERVER + "cli/a.py", DOC + "import gloveport.server.app\n"),
    (imports.check_clients, SERVER + "client/a.py", DOC + "import gloveport.server.app.foreground\n"),
    (imports.check_bounds, SERVER + "commands/a.py", DOC + "import gloveport.server.transports.lsp\n"),
    (imports.check_bounds, SERVER + "tools/a.py", DOC + "import gloveport.server.policy\n"),
    (imports.check_bounds, "sandbox/gloveport/sandbox/a.py", DOC + "import gloveport.server\n"),
    (imports.check_doors, SERVER + "turn/a.py", DOC + "import pygls\n"),
    (imports.check_doors, SERVER + "models/anthropic.py", DOC + SHORT + "    import openai\n"),
    (imports.check_doors, SERVER + "models/__init__.py", DOC + "import numpy\n"),
    (imports.check_doors, SERVER + "models/a.py", DOC + "import sqlite3\n"),
    (imports.check_doors, SERVER + "turn/a.py", DOC + "import anyio\n"),
    (imports.check_circles, PROTOCOL + "ids.py", DOC + SHORT + "    from gloveport.protocol.errors import X\n"),
    (imports.check_roots, "server/gloveport/extra/__init__.py", DOC),
)  # fmt: skip


def grow(root: Path, files: dict[str, str]) -> None:
    """Write the files below the root."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("plant", PLANTS, ids=lambda p: f"{p[0].__name__}-{Path(p[1]).name}")
def test_planted_fault_is_reported(plant: Plant, tmp_path: Path) -> None:
    """The gate is silent on the clean tree and names the planted file."""
    gate, name, text = plant
    grow(tmp_path, CLEAN)
    assert gate(tmp_path) == []
    grow(tmp_path, {name: text})
    assert gate(tmp_path), f"{gate.__name__} did not see {name}"


def test_every_gate_has_a_plant() -> None:
    """No gate is trusted unseen."""
    assert {gate.__name__ for gate in GATES} == {plant[0].__name__ for plant in PLANTS}


def test_import_contracts_are_silent_on_the_clean_tree(tmp_path: Path) -> None:
    """The small tree keeps every contract, so what breaks one below is the plant."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    grow(tmp_path, {key: value for key, value in CLEAN.items() if key.endswith(".py")})
    done = run_import_linter(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        (SERVER + "attic/__init__.py", DOC, "gloveport.server.attic"),
        ("sandbox/gloveport/sandbox/attic.py", DOC, "gloveport.sandbox.attic"),
        (PROTOCOL + "attic.py", DOC, "gloveport.protocol.attic"),
        (SERVER + "journal/a.py", DOC + "import gloveport.server.models\n", "journal is not allowed"),
        (SERVER + "tools/a.py", DOC + "import gloveport.server.transports\n", "tools is not allowed"),
        (SERVER + "transports/a.py", DOC + "import gloveport.server.commands\n", "transports is not allowed"),
        (SERVER + "journal/a.py", DOC + "import gloveport.server.commands\n", "journal is not allowed"),
        (SERVER + "secrets/__init__.py", DOC + "import gloveport.server.settings\n", "secrets is not allowed"),
        ("sandbox/gloveport/sandbox/profile.py", DOC + "import gloveport.sandbox.backends\n", "profile is not allowed"),
        (
            PROTOCOL + "wire/a.py",
            DOC + "import gloveport.protocol.jail\n",
            "wire is not allowed",
        ),
        (
            PROTOCOL + "wire/a.py",
            DOC + "import gloveport.sandbox\n",
            "protocol is not allowed",
        ),
    ],
)
def test_import_contract_bites(name: str, text: str, word: str, tmp_path: Path) -> None:
    """An undeclared room, or an import against the floors, breaks a contract and is named."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    grow(tmp_path, {key: value for key, value in CLEAN.items() if key.endswith(".py")})
    grow(tmp_path, {name: text})
    done = run_import_linter(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert word in done.stdout
