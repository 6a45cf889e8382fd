"""What the product offers by name outside the wire: commands, settings, make targets.

Purpose: read names from the place that defines them, for the reference document and the docs tests.
Invariant: a room that does not exist yet offers nothing; it is not an error.
Must never: hold a name of its own.
"""

import importlib
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import typer
import typer.main
from pydantic import BaseModel

# Where the command line's `typer.Typer` may stand, and where the user's settings are declared.
CLI_MODULES: Final = ("gloveport.server.cli", "gloveport.server.cli.app", "gloveport.server.__main__")
SETTINGS_MODULE: Final = "gloveport.server.settings"
SETTINGS_CLASS: Final = "Settings"
TARGET_HELP: Final = re.compile(r'@echo "make (?P<name>[a-z0-9-]+)\s+(?P<words>[^"]+)"')


def _import_if_there(name: str) -> ModuleType | None:
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        if importlib.util.find_spec(".".join(parts[:end])) is None:
            return None
    return importlib.import_module(name)


def list_cli_commands() -> dict[str, str]:
    """Commands of the program with their first line of help; groups are spelled out (`audit verify`)."""
    for name in CLI_MODULES:
        for value in vars(_import_if_there(name) or ModuleType("none")).values():
            if isinstance(value, typer.Typer):
                return dict(sorted(_list_commands(typer.main.get_command(value), "")))
    return {}


def _list_commands(command: Any, path: str) -> Iterator[tuple[str, str]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        lines = (command.help or "").strip().splitlines()
        yield path.strip(), lines[0].rstrip() if lines else ""
        return
    for name, part in inner.items():
        if not part.hidden:
            yield from _list_commands(part, f"{path} {name}")


def list_settings() -> dict[str, str]:
    """Fields of the user's settings, dotted, with their descriptions."""
    found = getattr(_import_if_there(SETTINGS_MODULE), SETTINGS_CLASS, None)
    return dict(_list_fields(found, "")) if isinstance(found, type) and issubclass(found, BaseModel) else {}


def _list_fields(model: type[BaseModel], path: str) -> Iterator[tuple[str, str]]:
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _list_fields(inner, f"{path}{name}.")
        else:
            yield f"{path}{name}", field.description or ""


def list_make_targets(root: Path) -> dict[str, str]:
    """Targets that `make help` shows, with its words."""
    text = (root / "Makefile").read_text(encoding="utf-8")
    return {found["name"]: found["words"] for found in TARGET_HELP.finditer(text)}
