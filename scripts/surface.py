"""What the product offers by name outside the wire: commands, settings, make targets.

Purpose: read names from the place that defines them, for the reference document and the docs tests.
Invariant: a room that does not exist yet offers nothing; it is not an error.
Must never: hold a name of its own.
"""

import dataclasses
import importlib
import importlib.util
import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NoReturn

import typer
import typer.main

# Where the command line is put together, and whose docstring shows the user's settings.
CLI_MODULE: Final = "gloveport.server.cli.root"
SETTINGS_MODULE: Final = "gloveport.server.settings"
SETTING_WORDS: Final = re.compile(r"^(?P<key>\w+) = .*?#\s*(?P<words>.+)$", re.MULTILINE)
TARGET_HELP: Final = re.compile(r'@echo "make (?P<name>[a-z0-9-]+)\s+(?P<words>[^"]+)"')


def _import_if_there(name: str) -> ModuleType | None:
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        if importlib.util.find_spec(".".join(parts[:end])) is None:
            return None
    return importlib.import_module(name)


def list_cli_commands() -> dict[str, str]:
    """Commands of the program with their first line of help; groups are spelled out (`audit verify`)."""
    root = _import_if_there(CLI_MODULE)
    if root is None:
        return {}
    doors = root.Doors(**{door.name: _closed for door in dataclasses.fields(root.Doors)})
    return dict(sorted(_list_commands(typer.main.get_command(root.command_line(doors)), "")))


def _closed(*_: object) -> NoReturn:
    raise RuntimeError("the command line is read here, not run")


def _list_commands(command: Any, path: str) -> Iterator[tuple[str, str]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path.strip(), _first_line(command)
        return
    if command.invoke_without_command and path:
        yield path.strip(), _first_line(command)
    for name, part in inner.items():
        if not part.hidden:
            yield from _list_commands(part, f"{path} {name}")


def _first_line(command: Any) -> str:
    lines = (command.help or "").strip().splitlines()
    return lines[0].rstrip() if lines else ""


def read_settings_example() -> str:
    """The settings file that the settings' own docstring shows; empty when there is none yet."""
    lines = inspect.cleandoc(getattr(_import_if_there(SETTINGS_MODULE), "__doc__", None) or "").splitlines()
    return "\n".join(line.strip() for line in lines if line.startswith("    "))


def list_settings() -> dict[str, str]:
    """Keys of the user's settings file, dotted, with the words that the example has beside them."""
    example = read_settings_example()
    words, table = {}, ""
    for line in example.splitlines():
        if line.startswith("["):
            table = line.strip("[] ") + "."
        elif (found := SETTING_WORDS.match(line)) is not None:
            words[table + found["key"]] = found["words"]
    return {name: words.get(name, "") for name in _list_keys(tomllib.loads(example), "")}


def _list_keys(table: dict[str, Any], path: str) -> Iterator[str]:
    for name, value in table.items():
        inner = value[0] if isinstance(value, list) and value else value
        if isinstance(inner, dict):
            yield from _list_keys(inner, f"{path}{name}.")
        else:
            yield f"{path}{name}"


def list_make_targets(root: Path) -> dict[str, str]:
    """Targets that `make help` shows, with its words."""
    text = (root / "Makefile").read_text(encoding="utf-8")
    return {found["name"]: found["words"] for found in TARGET_HELP.finditer(text)}
