"""House style that a linter does not know: docstrings, names, excepts, suppressions, module state.

Purpose: each rule of the house that can be read off the syntax is read off it.
Invariant: an exception to a rule is declared here by path, never in the file that breaks it.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.arch.gates.imports import list_imports
from tests.arch.gates.tree import (
    SHIPPED_ROOTS,
    TESTS,
    Source,
    walk_all_python,
    walk_files,
    walk_functions,
    walk_python,
    walk_shipped,
)

DOCSTRING_PARTS: Final = ("Purpose:", "Invariant:", "Must never:")
FORBIDDEN_NAMES: Final = frozenset({"utils", "util", "helpers", "helper", "manager", "common", "misc"})
FORBIDDEN_NAME_EXEMPT: Final = ("client-vscode/src/common", "client-vscode/test/common")
# The outer edge, where any failure must become a typed answer instead of killing the process.
BROAD_EXCEPT_EDGES: Final = (
    "server/gloveport/server/engine/perform",
    "server/gloveport/server/transports/",
    "server/gloveport/server/app",
    "server/gloveport/server/__main__.py",
    "server/gloveport/server/hands/inside/frame.py",  # the edge of a process of its own
    "sandbox/gloveport/sandbox/egress/edge.py",  # each connection from a jail is an edge of its own
)
NOQA: Final = re.compile(r"#\s*noqa(?P<codes>:\s*[A-Z]+[0-9]+(?:\s*,\s*[A-Z]+[0-9]+)*)?(?P<rest>[^\n]*)")
TYPE_IGNORE: Final = re.compile(r"#\s*type:\s*ignore(?P<codes>\[[a-z\-, ]+\])?(?P<rest>[^\n]*)")
REASON: Final = re.compile(r"^\s*(?:#\s*)?[-–—]\s*\S+|^\s*#\s*\S{3,}")
MOCK_MODULES: Final = frozenset({"mock", "unittest.mock", "pytest_mock"})


def check_module_docstrings(root: Path) -> list[str]:
    """Shipped modules without a docstring of one line, purpose, invariant and what they must never do."""
    faults = []
    for source in walk_shipped(root):
        text = ast.get_docstring(source.tree) or ""
        missing = [part for part in DOCSTRING_PARTS if part not in text]
        if not text:
            faults.append(f"{source.path}: no module docstring")
        elif missing and not _is_marker(source):
            faults.append(f"{source.path}: module docstring lacks {', '.join(missing)}")
    for source in walk_python(root, TESTS):
        if not ast.get_docstring(source.tree) and source.text.strip():
            faults.append(f"{source.path}: no module docstring")
    return faults


def _is_marker(source: Source) -> bool:
    """A package marker: a docstring and nothing else."""
    return source.path.endswith("__init__.py") and len(source.tree.body) == 1


def check_public_docstrings(root: Path) -> list[str]:
    """Public classes and functions at module level of the shipped tree without a docstring."""
    return [
        f"{source.path}:{node.lineno}: {node.name} has no docstring"
        for source in walk_shipped(root)
        if not source.generated
        for node in source.tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if not node.name.startswith("_") and not ast.get_docstring(node)
    ]


def check_file_names(root: Path) -> list[str]:
    """Names that say nothing about what is inside, and a folder `gloveport` that is not a bare namespace."""
    faults = []
    for path in walk_files(root, (*SHIPPED_ROOTS, TESTS, "scripts", "client-vscode")):
        relative = path.relative_to(root).as_posix()
        if relative.startswith(FORBIDDEN_NAME_EXEMPT):
            continue
        words = {Path(part).stem.lower().lstrip("_") for part in Path(relative).parts}
        faults += [f"{relative}: forbidden name {word}" for word in sorted(words & FORBIDDEN_NAMES)]
    faults += [
        f"{root_name}/gloveport/__init__.py: the namespace has no __init__.py"
        for root_name in SHIPPED_ROOTS
        if (root / root_name / "gloveport" / "__init__.py").exists()
    ]
    return faults


def check_packages(root: Path) -> list[str]:
    """Room folders without `__init__.py`: import contracts would not see them."""
    faults = []
    for source in walk_shipped(root):
        folder = (root / source.path).parent
        if folder.name != "gloveport" and not (folder / "__init__.py").exists():
            faults.append(f"{folder.relative_to(root).as_posix()}: no __init__.py")
    return sorted(set(faults))


def check_test_names(root: Path) -> list[str]:
    """Test files that share a base name: reports and reruns would be ambiguous."""
    names = Counter(Path(source.path).name for source in walk_python(root, TESTS))
    return [f"tests: {n} files named {name}" for name, n in names.items() if n > 1 and name.startswith("test_")]


def check_broad_excepts(root: Path) -> list[str]:
    """`except:`, `except Exception` and `except BaseException` away from the declared edges."""
    faults = []
    for source in walk_shipped(root):
        if source.path.startswith(BROAD_EXCEPT_EDGES):
            continue
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ExceptHandler) and _is_broad(node):
                faults.append(f"{source.path}:{node.lineno}: broad except")
    return faults


def _is_broad(handler: ast.ExceptHandler) -> bool:
    """Whether a handler catches (nearly) everything and does not raise it again at once."""
    if handler.type is None:
        return True
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {node.id for node in caught if isinstance(node, ast.Name)}
    reraises = bool(handler.body) and isinstance(handler.body[-1], ast.Raise) and handler.body[-1].exc is None
    if names & {"BaseException"} and reraises:
        return False  # clean-up that lets the failure go on
    return bool(names & {"Exception", "BaseException"})


def check_suppressions(root: Path) -> list[str]:
    """Suppressions without a code or without a reason, and whole-file ones."""
    faults = []
    for source in walk_all_python(root):
        for number, line in enumerate(source.text.splitlines(), 1):
            faults += [f"{source.path}:{number}: {fault}" for fault in _suppression_faults(line)]
    return faults


def _suppression_faults(line: str) -> Iterator[str]:
    """Faults of the suppressions on one line; only real comments count, not words in a string."""
    if "ruff: noqa" in line or "mypy: ignore" in line or "flake8: noqa" in line:
        if '"' not in line:
            yield "whole-file suppression"
        return
    for pattern, what in ((NOQA, "noqa"), (TYPE_IGNORE, "type: ignore")):
        found = pattern.search(line)
        if found is None or line[: found.start()].count('"') % 2 or line[: found.start()].rstrip().endswith("r"):
            continue
        if not found["codes"]:
            yield f"{what} without a code"
        elif not REASON.search(found["rest"]):
            yield f"{what} without a reason (`# {what}… - why`)"


def check_module_state(root: Path) -> list[str]:
    """Module globals that change, and work done at import time, in the shipped tree."""
    faults = []
    for source in walk_shipped(root):
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Global):
                faults.append(f"{source.path}:{node.lineno}: global {', '.join(node.names)}")
        for statement in source.tree.body:
            faults += [f"{source.path}:{statement.lineno}: {fault}" for fault in _import_time_faults(statement)]
    return faults


def _import_time_faults(statement: ast.stmt) -> Iterator[str]:
    """What a module-level statement does that belongs into a function."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        yield "a call at import time"
    if isinstance(statement, ast.For | ast.While | ast.With):
        yield "a loop or context at import time"
    if isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(
        statement.value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp
    ):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if not any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            yield "a module global that can change (use a tuple, frozenset or MappingProxyType)"


def check_annotations(root: Path) -> list[str]:
    """Functions of the shipped tree, tests and scripts with an unannotated argument or result."""
    faults = []
    for source in walk_all_python(root):
        for node in walk_functions(source):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            bare = [a.arg for a in arguments if a.annotation is None and a.arg not in {"self", "cls"}]
            if bare or node.returns is None:
                faults.append(f"{source.path}:{node.lineno}: {node.name} is not fully annotated")
    return faults


def check_no_mocks(root: Path) -> list[str]:
    """Tests that mock: fakes are real backends here."""
    return [
        f"{source.path}:{line}: mocks our own code"
        for source in walk_python(root, TESTS)
        for line, name in list_imports(source)
        if name in MOCK_MODULES or name.startswith(tuple(f"{module}." for module in MOCK_MODULES))
    ]
