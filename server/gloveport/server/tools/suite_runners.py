"""Which runner a workspace's tests ask for, and how each is started in a jail.

Purpose: find the framework by the workspace's own files, and its words, environment and toolchain.
Invariant: nothing is installed and nothing of the network is asked; a toolchain is found by files alone.
Must never: run a program to find out which program to run.
"""

import json
import os
import shutil
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.tools.contract import ToolContext, ToolError

Framework = Literal["pytest", "unittest", "node", "vitest", "jest", "go", "cargo"]
_SUFFIXES: Final[Mapping[str, Framework]] = MappingProxyType({".py": "pytest", ".go": "go", ".rs": "cargo"})
_SCRIPT_SUFFIXES: Final = (".js", ".mjs", ".cjs", ".ts", ".tsx", ".jsx", ".mts")
_PYTHON_MARKS: Final = ("pyproject.toml", "setup.py", "setup.cfg", "pytest.ini", "tox.ini", "conftest.py")
_BUILD: Final = "/tmp/gloveport-build"  # noqa: S108 - a place inside the jail
_SYSTEM: Final = "/usr"


@dataclass(frozen=True, slots=True)
class Runner:
    """How a framework is started: words, environment, and folders of this machine that are shown read-only."""

    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    shown: tuple[str, ...] = ()


async def find_framework(wanted: str, paths: list[str], context: ToolContext) -> Framework:
    """The one asked for, else by the named files, else by the workspace's own."""
    if wanted != "auto":
        return wanted  # type: ignore[return-value] # - the arguments' shape allows no other word
    for path in paths:
        suffix = os.path.splitext(path.partition("::")[0])[1]
        if suffix in _SUFFIXES:
            return _SUFFIXES[suffix]
        if suffix in _SCRIPT_SUFFIXES:
            return await _script_runner(context)
    if any([await _has(context, name) for name in _PYTHON_MARKS]):
        return "pytest"
    if await _has(context, "Cargo.toml"):
        return "cargo"
    if await _has(context, "go.mod"):
        return "go"
    return await _script_runner(context) if await _has(context, "package.json") else "pytest"


async def _has(context: ToolContext, name: str) -> bool:
    try:
        return await context.workspace.digest(name) is not None
    except GloveportError:
        return False


async def _script_runner(context: ToolContext) -> Framework:
    """vitest or jest where the package names them, else node's own."""
    try:
        told = json.loads(await context.workspace.read("package.json"))
    except (GloveportError, ValueError, RecursionError):
        return "node"
    named = {name for key in ("dependencies", "devDependencies") for name in _keys(told, key)}
    return "vitest" if "vitest" in named else "jest" if "jest" in named else "node"


def _keys(told: Any, key: str) -> list[str]:
    inner = told.get(key) if isinstance(told, dict) else None
    return list(inner) if isinstance(inner, dict) else []


def plan_runner(framework: Framework, paths: list[str]) -> Runner:
    """How to start one of the runners that report by a format of their own. Raises ToolError without its program."""
    return _PLANS[framework](paths)


def _node(paths: list[str]) -> Runner:
    return Runner(("node", "--test", "--test-reporter=tap", *paths), (("NO_COLOR", "1"),))


def _vitest(paths: list[str]) -> Runner:
    words = ("node", "node_modules/vitest/vitest.mjs", "run", "--reporter=json", *paths)
    return Runner(words, (("CI", "1"), ("NO_COLOR", "1")))


def _jest(paths: list[str]) -> Runner:
    words = ("node", "node_modules/jest/bin/jest.js", "--json", "--ci", f"--cacheDirectory={_BUILD}", *paths)
    return Runner(words, (("CI", "1"), ("NO_COLOR", "1")))


def _go(paths: list[str]) -> Runner:
    program = _find_program("go", ("/usr/local/go/bin",))
    modules = Path(os.environ.get("GOMODCACHE") or Path.home() / "go/pkg/mod")
    environment = (
        ("GOCACHE", f"{_BUILD}/go"), ("GOFLAGS", "-mod=mod" if modules.is_dir() else ""), ("GOPROXY", "off"),
        ("GOTOOLCHAIN", "local"), ("GOMODCACHE", str(modules)), ("GOPATH", f"{_BUILD}/gopath"), ("CGO_ENABLED", "0"),
    )  # fmt: skip
    shown = tuple(str(path) for path in (modules, Path(program).resolve().parents[1]) if path.is_dir())
    packages = tuple(path if path.startswith((".", "/")) else f"./{path}" for path in paths) or ("./...",)
    return Runner((program, "test", "-json", *packages), environment, _outside_system(shown))


def _cargo(paths: list[str]) -> Runner:
    program, shown = _find_cargo()
    folder = os.path.dirname(program)
    environment = (
        ("CARGO_HOME", f"{_BUILD}/cargo"), ("CARGO_TARGET_DIR", f"{_BUILD}/target"), ("CARGO_TERM_COLOR", "never"),
        ("PATH", f"{folder}:/usr/local/bin:/usr/bin:/bin"),
    )  # fmt: skip
    names = tuple(path.partition("::")[2] or path for path in paths)
    words = (program, "test", "--offline", "--no-fail-fast", *(("--", *names) if names else ()))
    return Runner(words, environment, shown)


def _find_cargo() -> tuple[str, tuple[str, ...]]:
    """The toolchain that rustup's settings name, by its files; else the system's."""
    home = Path(os.environ.get("RUSTUP_HOME") or Path.home() / ".rustup")
    try:
        named = tomllib.loads((home / "settings.toml").read_text(encoding="utf-8")).get("default_toolchain")
    except (OSError, ValueError):
        named = None
    if isinstance(named, str) and "/" not in named and (home / "toolchains" / named / "bin/cargo").is_file():
        toolchain = home / "toolchains" / named
        return str(toolchain / "bin/cargo"), _outside_system((str(toolchain),))
    return _find_program("cargo", ()), ()


def _find_program(name: str, places: tuple[str, ...]) -> str:
    found = shutil.which(name, path=os.pathsep.join((*places, "/usr/local/bin", "/usr/bin", "/bin")))
    if found is None:
        words = f"{name} is not installed where a sandbox sees it"
        raise ToolError(ErrorCode.TOOL_FAILED, words, hint=f"Install {name}, or run the tests by another runner.")
    return found


def _outside_system(folders: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(folder for folder in folders if folder != _SYSTEM and not folder.startswith(f"{_SYSTEM}/"))


_PLANS: Final[Mapping[str, Callable[[list[str]], Runner]]] = MappingProxyType(
    {"node": _node, "vitest": _vitest, "jest": _jest, "go": _go, "cargo": _cargo}
)
