"""Command lines for tests: ordinary ones and nasty ones, as data.

Purpose: the two sets, read once, with what the default policy says of each.
Invariant: a set holds what people and agents write, not what the policy happens to allow.
Must never: decide.
"""

import json
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Nasty:
    """A command line that hides something; `text` is its shell text, if it is one."""

    name: str
    argv: tuple[str, ...]
    text: str | None


@cache
def ordinary() -> tuple[str, ...]:
    """The ordinary command lines, as typed."""
    lines = (HERE / "ordinary.txt").read_text(encoding="utf-8").splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))


@cache
def nasty() -> tuple[Nasty, ...]:
    """The nasty command lines."""
    cases = tomllib.loads((HERE / "nasty.toml").read_text(encoding="utf-8"))["case"]
    return tuple(
        Nasty(case["id"], tuple(case.get("argv", ("bash", "-c", case.get("text")))), case.get("text")) for case in cases
    )


@cache
def more() -> tuple[tuple[str, ...], ...]:
    """Argument vectors that try one thing each of how a command line is taken apart."""
    return tuple(map(tuple, json.loads((HERE / "more.json").read_text(encoding="utf-8"))))
